"""A training set that is never stored: the same three passes through a lazily revealed matrix (theory 1.8).

Pre-activations V = X theta and the factors F are formed block by block from coordinates, so that beside the two
buffers of `LazyGaussian` nothing of the size of the data exists but the labels.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.dynamics.stored_data import DATA, MASK, NOISE
from bulkedge.foundation import memory
from bulkedge.gaussian.lazy import Block, LazyGaussian
from bulkedge.gaussian.streams import BLOCK, stream
from bulkedge.models.functions import ScalarFunction
from bulkedge.models.problem import Problem, pointwise

PRODUCTS = 300
"""Hessian products there is room for at once: some three searches for four eigenpairs."""


class LazyData:
    """n samples in d dimensions for a problem, revealed as descent asks; everything is a function of `key`.

    Args:
        problem: what is to be learned.
        n, d: samples and dimension.
        key: seed, then anything that tells runs apart.
        steps: of descent there is room for.
        hessian: room for `PRODUCTS` products with "block"s or the "full" Hessian, or for none (None).
    """

    kind = "lazy"

    def __init__(
        self, problem: Problem, n: int, d: int, key: tuple[int, ...], steps: int, hessian: str | None = None
    ) -> None:
        what = f"{steps} steps over {n} lazily revealed samples in {d} dimensions"
        memory.require("data", self.bytes_needed(problem, n, d, steps, hessian), what)
        left, right = _vectors(problem, steps, hessian)
        self.problem, self.n, self.d, self._key = problem, n, d, key
        self._x = LazyGaussian(n, d, (*key, DATA), left=left, right=right, together=max(problem.m, problem.k))
        self._layer = tuple(jnp.asarray(v, jnp.float32) for v in problem.layer)
        self._pieces = _pieces(problem.network.sigma, problem.loss_function)
        self._y = self._labels()

    @staticmethod
    def bytes_needed(problem: Problem, n: int, d: int, steps: int, hessian: str | None = None) -> float:
        """Bytes of the buffers, the labels, the weights of one Hessian and a few vectors of parameters in float64."""
        left, right = _vectors(problem, steps, hessian)
        weights = {None: 0, "block": 1, "full": problem.m**2}[hessian]
        return LazyGaussian.bytes_needed(n, d, left, right) + 4.0 * n * (1 + weights) + 8.0 * d * 4 * problem.m

    def _labels(self) -> np.ndarray:
        k = self.problem.k

        def axes(block: Block, out: np.ndarray) -> None:
            out[:] = 0.0
            for i in range(block.start, min(block.stop, k)):
                out[i, i - block.start] = 1.0

        coordinates = self._x.right(axes, k)
        y = np.empty(self.n, np.float32)
        for number, block in enumerate(self._x.row_blocks()):
            z = self._x.right_image(coordinates, block).T
            noisy = self.problem.link.noisy
            e = stream(*self._key, NOISE, number).standard_normal(len(z)) if noisy else np.zeros(len(z))
            y[block] = self.problem.labels(z, e)
        return y

    def matrix(self) -> np.ndarray:
        """X as one array (n, d): reveals all of it, so for small problems with room for d vectors."""
        return np.stack([self._x.times(axis) for axis in np.eye(self.d)], axis=1)

    @property
    def labels(self) -> np.ndarray:
        """The labels (n,), float32."""
        return self._y

    def gradient(self, theta: np.ndarray, step: int) -> tuple[np.ndarray, float]:
        """As of `StoredData`; an array of NaN if the loss or a factor is not finite."""
        coordinates = self._x.right(theta)
        batch, total, finite = self.problem.batch, [0.0], [True]

        def write(block: Block, out: np.ndarray) -> None:
            v = self._x.right_image(coordinates, block)
            factor, risk = self._pieces.gradient(v, self._y[block], *self._layer)
            factor = np.asarray(factor)
            if batch < 1:
                taken = stream(*self._key, MASK, step, block.start // BLOCK).random(factor.shape[1], np.float32) < batch
                factor = factor * taken / np.float32(batch)
            total[0] += float(risk)
            finite[0] &= bool(np.isfinite(np.sum(factor)))
            # Zeros keep the known spans clean; the caller is told by the NaN below.
            out[...] = factor if finite[0] else 0.0

        found = self._x.left(write, self.problem.m)
        if not finite[0]:
            return np.full(theta.shape, np.nan), total[0] / self.n
        slope = self._x.left_image(found).astype(float)
        slope /= self.n
        return slope, total[0] / self.n

    def risk(self, theta: np.ndarray) -> float:
        """The mean loss over all samples."""
        coordinates = self._x.right(theta)
        total = 0.0
        for block in self._x.row_blocks():
            v = self._x.right_image(coordinates, block)
            total += float(self._pieces.risk(v, self._y[block], *self._layer))
        return total / self.n

    @contextlib.contextmanager
    def curvature(self, theta: np.ndarray, neuron: int | None, tag: int = 0) -> Iterator[Callable[..., np.ndarray]]:
        """As of `StoredData`. What the products reveal is forgotten afterwards; `tag` names their random stream."""
        coordinates = self._x.right(theta)
        p = self.problem.m if neuron is None else 1
        g = np.empty((p, p, self.n), np.float32)
        for block in self._x.row_blocks():
            v = self._x.right_image(coordinates, block)
            if neuron is None:
                g[:, :, block] = self._pieces.full(v, self._y[block], *self._layer)
            else:
                g[0, 0, block] = self._pieces.block(v, self._y[block], *self._layer)[neuron]

        def product(u: np.ndarray) -> np.ndarray:
            c = self._x.right(u.reshape(p, self.d))

            def write(block: Block, out: np.ndarray) -> None:
                np.sum(g[:, :, block] * self._x.right_image(c, block), axis=1, out=out)

            return self._x.left_image(self._x.left(write, p)).astype(float).reshape(-1) / self.n

        with self._x.branch(tag):
            yield product


def _vectors(problem: Problem, steps: int, hessian: str | None) -> tuple[int, int]:
    """Left and right vectors of a run: factors, and target directions with the weights at every time."""
    m = problem.m
    extra = {None: 0, "block": PRODUCTS, "full": m * PRODUCTS}[hessian]
    # Without a step no factor is asked for, but a matrix has room for one.
    return max(1, m * steps + extra), problem.k + m * (steps + 1) + extra


class _Pieces:
    """Jitted pointwise functions of a block: V (m, B), y (B,)."""

    def __init__(self, sigma: ScalarFunction, loss: ScalarFunction) -> None:
        of = pointwise(sigma, loss)
        self.block, self.full = of.block, of.full

        @jax.jit
        def gradient(v: Any, y: Any, a: Any, b: Any) -> Any:
            return of.factor(v, y, a, b), jnp.sum(of.risk(v, y, a, b))

        self.gradient = gradient
        self.risk = jax.jit(lambda v, y, a, b: jnp.sum(of.risk(v, y, a, b)))


@functools.lru_cache(maxsize=64)
def _pieces(sigma: ScalarFunction, loss: ScalarFunction) -> _Pieces:
    return _Pieces(sigma, loss)
