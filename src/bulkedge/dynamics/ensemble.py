"""The samples of a DMFT, and the passes over them that a step needs.

What is kept of every sample are its coordinates x along right directions and f along left ones (see `dmft`), as rows.
A step passes over x twice and over f once, or three times more where a gradient has something new. These products of a
few rows with a vector are bound by memory, and BLAS does them best: rows are NumPy arrays on a CPU, JAX arrays
elsewhere. What depends on the activation and the loss is compiled by JAX.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.models import functions
from bulkedge.models.problem import Problem, pointwise

_ROOM = 64
"""Rows there is room for at first; memory is not used before it is written to."""
_FEW = 3
"""Vectors up to which that many products with the rows are faster than one of two matrices."""


@dataclass(frozen=True, eq=False)
class Look:
    """Averages over the samples at one step, and the gradients F(t) themselves, (m, N).

    size: E|V|^2/m. second: E[F F^T]. mix: E[F f_u], (m, K). slope: E[F X_u], (m, q).
    """

    train: float
    test: float
    size: float
    second: np.ndarray
    mix: np.ndarray
    slope: np.ndarray
    gradients: Any

    @property
    def power(self) -> float:
        """E|F|^2/m."""
        return float(np.trace(self.second)) / len(self.second)


@dataclass(frozen=True, eq=False)
class Born:
    """The left directions that were new in F(t), at most m. mix: what is to be added to E[F f_u], (m, K).

    along: E[F f_v] and slope: E[F X_v] of the new ones, (m, kept).
    """

    mix: np.ndarray
    along: np.ndarray
    slope: np.ndarray

    @property
    def kept(self) -> int:
        """How many there are."""
        return self.along.shape[1]


class Ensemble:
    """N samples of the effective process of a problem.

    Args:
        problem: what is learned.
        z: latent coordinates (k, N).
        y: labels (N,).
        spare: standard Gaussians (m, N) for fresh pre-activations.
        start: coordinates along theta(0), standard Gaussians (m, N).
        dtype: in which samples are kept. Averages over them are float64.
    """

    def __init__(
        self, problem: Problem, z: np.ndarray, y: np.ndarray, spare: np.ndarray, start: np.ndarray, dtype: type
    ) -> None:
        self._m, self._k, self._n, self._dtype = problem.m, problem.k, y.size, dtype
        self._on: Any = np if jax.default_backend() == "cpu" else jnp
        self._see = _seen(problem.network.sigma, problem.loss_function)
        self._y = jnp.asarray(y, dtype)
        self._layer = tuple(jnp.asarray(v, dtype) for v in (*problem.layer, problem.step_size))
        self._spare = self._on.asarray(spare, dtype)
        self._x, self._f = (_Rows(self._on, self._n, dtype) for _ in range(2))
        self._x.append(np.concatenate([z, start]))

    @property
    def count(self) -> int:
        """How many left directions there are."""
        return len(self._f.all)

    def look(self, c: np.ndarray, root: np.ndarray, coin: np.ndarray | None) -> Look:
        """At coordinates c (m, q) of theta(t); root (m, m): of the Gram matrix of theta(t) without its overlaps."""
        x, f = self._x.all, self._f.all
        v = c.astype(self._dtype) @ x
        fresh = c[:, : self._k].astype(self._dtype) @ x[: self._k] + root.astype(self._dtype) @ self._spare
        g, train, test = (self._on.asarray(part) for part in self._see(v, fresh, self._y, *self._layer))
        if coin is not None:
            g = g * self._on.asarray(coin, self._dtype)
        return Look(
            train=float(train.mean(dtype=float)),
            test=float(test.mean(dtype=float)),
            size=float(np.trace(self._mean(v, v))) / self._m,
            second=self._mean(g, g),
            mix=self._mean(g, f),
            slope=self._mean(g, x),
            gradients=g,
        )

    def extend(self, seen: Look, xi: np.ndarray, tolerance: float, memory: float) -> Born:
        """Take up what is new in the gradients: left directions f_v, and right ones X_v = xi_v - memory f_v.

        xi: fresh standard Gaussians (m, N). In the limit they are orthogonal to every f so far; among N samples they
        are made so. New is what is above `tolerance` relative to E|F|^2.
        """
        m, f = self._m, self._f.all
        new = seen.gradients - seen.mix.astype(self._dtype) @ f
        left = self._on.concatenate([new, self._on.asarray(xi, self._dtype)])
        # A second time: what one pass leaves of the old f grows from step to step by the inverse of what is new.
        along = self._mean(left, f)
        left -= along.astype(self._dtype) @ f
        gram = self._mean(left, left)
        value, vector = np.linalg.eigh(gram[:m, :m])
        value, vector = value[::-1], vector[:, ::-1]
        kept = np.flatnonzero(value > tolerance**2 * seen.power)
        turn = vector[:, kept].T / np.sqrt(value[kept])[:, None]
        # The rows f_v, and X_v = xi_v - sum_w E[xi_v f_w] f_w - memory f_v, as combinations of what is left.
        to_f = np.pad(turn, [(0, 0), (0, m)])
        to_x = -((gram[m:, :m] @ turn.T)[kept] + memory * np.eye(kept.size)) @ to_f
        to_x[np.arange(kept.size), m + kept] += 1.0
        for rows, combination in ((self._f, to_f), (self._x, to_x)):
            rows.append(combination.astype(self._dtype) @ left)
        # What F is made of besides what is left is orthogonal to it.
        return Born(along[:m], gram[:m] @ to_f.T, gram[:m] @ to_x.T)

    def _mean(self, g: Any, rows: Any) -> np.ndarray:
        """The averages over samples of g times every row, (g, rows)."""
        if len(g) > _FEW:
            return np.asarray(g @ rows.T, float) / self._n
        return np.stack([np.asarray(rows @ one, float) for one in g]) / self._n

    def coordinates(self, count: int, part: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Rows x (q, ..) and f (count, ..) of some samples, with the first `count` left directions."""
        first = len(self._x.all) - self.count
        x, f = self._x.all[: first + count, part], self._f.all[:count, part]
        return np.array(x, float), np.array(f, float)

    def combined(self, c: np.ndarray) -> np.ndarray:
        """V = c x of every sample, (m, N), for coordinates c (m, q)."""
        return np.asarray(c.astype(self._dtype) @ self._x.all[: c.shape[1]], float)


class _Rows:
    """Rows of `n` numbers, to which more are appended."""

    def __init__(self, on: Any, n: int, dtype: type) -> None:
        self._on, self._count = on, 0
        self._store = on.empty((_ROOM, n), dtype) if on is np else on.empty((0, n), dtype)

    @property
    def all(self) -> Any:
        return self._store[: self._count]

    def append(self, rows: Any) -> None:
        before, self._count = self._count, self._count + len(rows)
        if self._on is not np:
            self._store = self._on.concatenate([self._store, self._on.asarray(rows, self._store.dtype)])
            return
        if self._count > len(self._store):
            grown = np.empty((2 * self._count, self._store.shape[1]), self._store.dtype)
            grown[:before] = self._store[:before]
            self._store = grown
        self._store[before : self._count] = rows


@functools.lru_cache(maxsize=64)
def _seen(sigma: functions.ScalarFunction, loss: functions.ScalarFunction) -> Callable[..., tuple[Any, Any, Any]]:
    """Of every sample: the gradient factors F (m, N), and the loss at V (m, N) and at fresh pre-activations."""
    form = pointwise(sigma, loss)

    @jax.jit
    def seen(v: Any, fresh: Any, y: Any, a: Any, b: Any, eta: Any) -> tuple[Any, Any, Any]:
        return eta * form.factor(v, y, a, b), form.risk(v, y, a, b), form.risk(fresh, y, a, b)

    return seen
