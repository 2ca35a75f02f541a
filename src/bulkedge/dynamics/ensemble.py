"""The samples of a DMFT, and the passes over them that a step needs.

What is kept of every sample are its coordinates x along right directions and f along left ones (see `dmft`). Rows for
new directions come in chunks that are never copied. Orthogonalisation is done on Gram matrices, so that a step passes
over x twice and over f once, or three times more where a gradient has something new.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.models import functions
from bulkedge.models.problem import Problem, pointwise

_ROOM = 8
"""Left directions there is room for at first, per neuron. Room grows by about half when it is used up: few sizes to
compile.
"""


class Samples(NamedTuple):
    """What a sample brings with it: latent z (k, N), label y (N,), and spare (m, N) for its fresh double."""

    z: Any
    y: Any
    spare: Any


class Layer(NamedTuple):
    """Second layer a (m,), biases b (m,) and the step size."""

    a: Any
    b: Any
    eta: Any


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
        dtype: in which samples are kept.
    """

    def __init__(
        self, problem: Problem, z: np.ndarray, y: np.ndarray, spare: np.ndarray, start: np.ndarray, dtype: type
    ) -> None:
        self._m, self._n, self._count, self._dtype = problem.m, y.size, 0, dtype
        self._passes = _passes(problem.network.sigma, problem.loss_function)
        self._layer = Layer(*(jnp.asarray(v, dtype) for v in (*problem.layer, problem.step_size)))
        self._samples = Samples(*(jnp.asarray(v, dtype) for v in (z, y, spare)))
        self._x = [jnp.concatenate([self._samples.z, jnp.asarray(start, dtype)])]
        self._f: list[Any] = []

    @property
    def count(self) -> int:
        """How many left directions there are."""
        return self._count

    @property
    def _first(self) -> int:
        """How many right directions there are at the start."""
        return self._x[0].shape[0]

    @property
    def _room(self) -> int:
        """How many left directions there is room for: those beyond the count are zero."""
        return sum(chunk.shape[0] for chunk in self._f)

    def look(self, c: np.ndarray, root: np.ndarray, coin: np.ndarray | None) -> Look:
        """At coordinates c (m, q) of theta(t); root (m, m): of the Gram matrix of theta(t) without its overlaps."""
        part = None if coin is None else coin.astype(self._dtype)
        g, sums = self._passes.look(self._padded(c), root, self._x, self._f, self._samples, part, self._layer)
        mean = {name: np.asarray(value) / self._n for name, value in sums.items()}
        scalars = {name: float(mean[name]) for name in ("train", "test", "size")}
        mix, slope = mean["mix"][:, : self._count], mean["slope"][:, : self._first + self._count]
        return Look(**scalars, second=mean["second"], mix=mix, slope=slope, gradients=g)

    def extend(self, seen: Look, xi: np.ndarray, tolerance: float, memory: float) -> Born:
        """Take up what is new in the gradients: left directions f_v, and right ones X_v = xi_v - memory f_v.

        xi: fresh standard Gaussians (m, N). In the limit they are orthogonal to every f so far; among N samples they
        are made so. New is what is above `tolerance` relative to E|F|^2.
        """
        m = self._m
        if self._count + m > self._room:
            more = _ROOM * m * max(1, self._room // (2 * _ROOM * m))
            for rows in (self._x, self._f):
                rows.append(jnp.zeros((more, self._n), self._dtype))
        mix = np.pad(seen.mix, [(0, 0), (0, self._room - self._count)])
        left, along = self._passes.begin(seen.gradients, xi.astype(self._dtype, copy=False), self._f, mix)
        along = np.asarray(along) / self._n
        # A second time: what one pass leaves of the old f grows from step to step by the inverse of what is new.
        left, gram = self._passes.settle(left, self._f, along)
        gram = np.asarray(gram) / self._n
        value, vector = np.linalg.eigh(gram[:m, :m])
        value, vector = value[::-1], vector[:, ::-1]
        new = np.flatnonzero(value > tolerance**2 * seen.power)
        turn = vector[:, new].T / np.sqrt(value[new])[:, None]
        # The rows f_v, and X_v = xi_v - sum_w E[xi_v f_w] f_w - memory f_v, as combinations of what is left.
        to_f = np.pad(turn, [(0, 0), (0, m)])
        to_x = -((gram[m:, :m] @ turn.T)[new] + memory * np.eye(new.size)) @ to_f
        to_x[np.arange(new.size), m + new] += 1.0
        self._write(left, to_f, to_x)
        # What F is made of besides what is left is orthogonal to it.
        return Born(along[:m, : self._count - new.size], gram[:m] @ to_f.T, gram[:m] @ to_x.T)

    def _write(self, left: Any, to_f: np.ndarray, to_x: np.ndarray) -> None:
        """Put new rows behind those that are there."""
        kept = len(to_f)
        weights = np.zeros((2, self._m, 2 * self._m))
        weights[:, :kept] = to_f, to_x
        rows = self._passes.combine(left, weights)
        ends = np.cumsum([chunk.shape[0] for chunk in self._f])
        for v in range(kept):
            at = int(np.searchsorted(ends, self._count, side="right"))
            row = self._count - int(ends[at]) + self._f[at].shape[0]
            self._f[at], self._x[at + 1] = self._passes.put(self._f[at], self._x[at + 1], rows, v, row)
            self._count += 1

    def coordinates(self, count: int, part: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Rows x (q, ..) and f (count, ..) of some samples, with the first `count` left directions."""

        def some(chunks: list[Any], number: int) -> np.ndarray:
            rows = [np.asarray(chunk)[:, part] for chunk in chunks]
            return np.concatenate([np.empty((0, rows[0].shape[1]) if rows else (0, 0)), *rows])[:number]

        x = some(self._x, self._first + count)
        return x, some(self._f, count).reshape(count, x.shape[1])

    def combined(self, c: np.ndarray) -> np.ndarray:
        """V = c x of every sample, (m, N), for coordinates c (m, q)."""
        return np.asarray(self._passes.combined(self._padded(c), self._x), float)

    def _padded(self, c: np.ndarray) -> np.ndarray:
        """With zeros for the directions there is room for."""
        return np.pad(c, [(0, 0), (0, self._first + self._room - c.shape[1])])


class _Passes(NamedTuple):
    """Jitted passes over the samples. What is not of every sample is a sum over them, in float64."""

    look: Callable[..., tuple[Any, dict[str, Any]]]
    begin: Callable[..., tuple[Any, Any]]
    settle: Callable[..., tuple[Any, Any]]
    combine: Callable[..., Any]
    combined: Callable[..., Any]
    put: Callable[..., tuple[Any, Any]]


@functools.lru_cache(maxsize=64)
def _passes(sigma: functions.ScalarFunction, loss: functions.ScalarFunction) -> _Passes:
    form = pointwise(sigma, loss)

    def inner(g: Any, rows: list[Any]) -> Any:
        """Sums over the samples of g times every row, (m, rows). One g at a time: faster here than a matrix product."""
        if not rows:
            return jnp.zeros((g.shape[0], 0))
        return jnp.stack([jnp.concatenate([some @ one for some in rows]) for one in g]).astype(float)

    def outer(c: Any, rows: list[Any], first: Any) -> Any:
        """`first` plus the combination c (m, rows) of the rows."""
        place = 0
        for some in rows:
            first = first + c[:, place : place + some.shape[0]].astype(some.dtype) @ some
            place += some.shape[0]
        return first

    def gram(rows: Any) -> Any:
        return inner(rows, [rows])

    def look(
        c: Any, root: Any, x: list[Any], f: list[Any], samples: Samples, coin: Any, layer: Layer
    ) -> tuple[Any, dict[str, Any]]:
        k, dtype = samples.z.shape[0], x[0].dtype
        v = outer(c, x, 0.0)
        fresh = c[:, :k].astype(dtype) @ samples.z + root.astype(dtype) @ samples.spare
        g = layer.eta * form.factor(v, samples.y, layer.a, layer.b)
        if coin is not None:
            g = g * coin
        # Sums as products with vectors, which use the whole width of a core; a plain sum goes one by one.
        one = jnp.ones(v.shape[1:], dtype)
        risks = [form.risk(u, samples.y, layer.a, layer.b) for u in (v, fresh)]
        train, test = (risk @ one for risk in jax.lax.optimization_barrier(risks))
        return g, {
            "train": train.astype(float),
            "test": test.astype(float),
            "size": jnp.trace(gram(v)) / v.shape[0],
            "second": gram(g),
            "mix": inner(g, f),
            "slope": inner(g, x),
        }

    def begin(g: Any, xi: Any, f: list[Any], mix: Any) -> tuple[Any, Any]:
        left = jnp.concatenate([outer(-mix, f, g), xi])
        return left, inner(left, f)

    def settle(left: Any, f: list[Any], along: Any) -> tuple[Any, Any]:
        left = outer(-along, f, left)
        return left, gram(left)

    def combine(left: Any, weights: Any) -> Any:
        return weights.astype(left.dtype) @ left

    def put(f: Any, x: Any, new: Any, v: Any, row: Any) -> tuple[Any, Any]:
        one, other = (jax.lax.dynamic_slice_in_dim(part, v, 1) for part in new)
        write = jax.lax.dynamic_update_slice_in_dim
        return write(f, one, row, 0), write(x, other, row, 0)

    def combined(c: Any, x: list[Any]) -> Any:
        return outer(c, x, 0.0)

    return _Passes(
        look=jax.jit(look),
        begin=jax.jit(begin),
        settle=jax.jit(settle),
        combine=jax.jit(combine),
        combined=jax.jit(combined),
        put=jax.jit(put, donate_argnums=(0, 1)),
    )
