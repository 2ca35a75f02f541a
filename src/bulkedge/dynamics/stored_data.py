"""A training set held in memory, and the three passes over it: risk, gradient, Hessian product.

Samples x_i ~ N(0, I_d), labels y_i = h(Theta_*^T x_i, e_i) with Theta_* the first k coordinate axes: by rotation
invariance of x and of theta(0) that is exact in law. X is kept as blocks of rows that fit in cache,
(blocks, rows, d) in float32; each pass is one scan over blocks that uses a block twice while it is there, so that
gradient and Hessian
product read X from memory once. Under jit on a CPU `r @ X` is many times faster than `X.T @ r`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.foundation import memory
from bulkedge.gaussian.streams import fill_normal, stream
from bulkedge.models.functions import ScalarFunction
from bulkedge.models.problem import Problem, pointwise

_BLOCK_BYTES = 1 << 23
DATA, NOISE, MASK, START = range(4)
"""What a random stream of a run is for."""


class StoredData:
    """n samples in d dimensions for a problem.

    Args:
        problem: what is to be learned.
        x: blocks of samples (blocks, rows, d), float32; rows after the first n are zero.
        labels: (n,).
        key: of the mini-batches' random streams: a seed, then anything that tells runs apart.
    """

    kind = "stored"

    def __init__(self, problem: Problem, x: np.ndarray, labels: np.ndarray, key: tuple[int, ...] = (0,)) -> None:
        # Padding has weight 0, and a label at which the loss is finite.
        y = np.full(x.shape[:2], labels[0], np.float32)
        y.reshape(-1)[: labels.size] = labels
        real = np.zeros(x.shape[:2], np.float32)
        real.reshape(-1)[: labels.size] = 1.0
        self.problem, self.n, self.d, self._key = problem, labels.size, x.shape[2], key
        self._x, self._y, self._real = jax.device_put(x), jnp.asarray(y), jnp.asarray(real)
        self._layer = tuple(jnp.asarray(v, jnp.float32) for v in problem.layer)
        self._passes = _passes(problem.network.sigma, problem.loss_function)

    @classmethod
    def drawn(cls, problem: Problem, n: int, d: int, key: tuple[int, ...]) -> StoredData:
        """A Gaussian training set, a function of `key`."""
        memory.require("data", cls.bytes_needed(problem, n, d), f"storing {n} samples in {d} dimensions")
        x, flat = _empty(n, d)
        fill_normal(flat, key[0], *key[1:], DATA)
        noise = stream(*key, NOISE).standard_normal(n) if problem.link.noisy else np.zeros(n)
        return cls(problem, x, problem.labels(flat[:, : problem.k], noise), key)

    @classmethod
    def of(cls, problem: Problem, samples: np.ndarray, labels: np.ndarray) -> StoredData:
        """A training set of one's own: samples (n, d), labels (n,)."""
        x, flat = _empty(*samples.shape)
        flat[...] = samples
        return cls(problem, x, labels)

    def matrix(self) -> np.ndarray:
        """X as one array (n, d), copied: for small problems."""
        return np.array(self._x).reshape(-1, self.d)[: self.n]

    @property
    def labels(self) -> np.ndarray:
        """The labels (n,), float32."""
        return np.asarray(self._y).reshape(-1)[: self.n]

    @staticmethod
    def bytes_needed(problem: Problem, n: int, d: int) -> float:
        """Bytes for X, the labels, and the weights of one Hessian."""
        return 4.0 * n * d + 4.0 * n * (8 + 2 * problem.m)

    def gradient(self, theta: np.ndarray, step: int) -> tuple[np.ndarray, float]:
        """The gradient (m, d) of the mean loss over the samples of this step, and the mean loss over all.

        Each sample takes part independently with probability `problem.batch` and then has weight 1/batch.
        """
        weight = self._real
        if self.problem.batch < 1:
            taken = stream(*self._key, MASK, step).random(self._real.shape, np.float32) < self.problem.batch
            weight = self._real * taken / np.float32(self.problem.batch)
        slope, risk = self._passes.gradient(self._x, self._y, self._real, weight, _narrow(theta), *self._layer)
        return np.asarray(slope, float) / self.n, float(np.sum(np.asarray(risk, float))) / self.n

    def risk(self, theta: np.ndarray) -> float:
        """The mean loss over all samples."""
        risk = self._passes.risk(self._x, self._y, self._real, _narrow(theta), *self._layer)
        return float(np.sum(np.asarray(risk, float))) / self.n

    @contextlib.contextmanager
    def curvature(self, theta: np.ndarray, neuron: int | None, tag: int = 0) -> Iterator[Callable[..., np.ndarray]]:
        """Products with m Hess Risk at theta: u (d,) with one neuron's block, u (m d,) with the whole if None.

        Block j is (1/n) sum_i g_ij x_i x_i^T with the weights of theory 1.2. `tag` matters to lazy data only.
        """
        weights = self._passes.full if neuron is None else self._passes.block
        g = weights(self._x, self._y, self._real, _narrow(theta), *self._layer)
        if neuron is not None:
            g = g[:, neuron][:, None, None]
        p = g.shape[1]

        def product(u: np.ndarray) -> np.ndarray:
            out = _product(self._x, g, _narrow(u.reshape(p, self.d)))
            return np.asarray(out, float).reshape(-1) / self.n

        yield product


def _narrow(theta: np.ndarray) -> Any:
    return jnp.asarray(np.asarray(theta, np.float32))


def _empty(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """An array of blocks for n samples with its padding zeroed, and the view (n, d) of the samples.

    It lies on a cache line: JAX then adopts it on a CPU instead of copying it.
    """
    blocks = min(n, -(-n * d * 4 // _BLOCK_BYTES))
    rows = -(-n // blocks)
    shape = (-(-n // rows), rows, d)
    size = 4 * int(np.prod(shape))
    raw = np.empty(size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    x = raw[skip : skip + size].view(np.float32).reshape(shape)
    flat = x.reshape(-1, d)
    flat[n:] = 0.0
    return x, flat[:n]


class _Passes(NamedTuple):
    """Jitted scans over blocks x (B, d), y (B,), real (B,) for theta (m, d); see `_passes`."""

    gradient: Callable[..., Any]
    risk: Callable[..., Any]
    block: Callable[..., Any]
    full: Callable[..., Any]


@functools.lru_cache(maxsize=64)
def _passes(sigma: ScalarFunction, loss: ScalarFunction) -> _Passes:
    """The passes of an activation and a loss."""
    of = pointwise(sigma, loss)

    @jax.jit
    def gradient(x: Any, y: Any, real: Any, weight: Any, theta: Any, a: Any, b: Any) -> Any:
        """The gradient (m, d) times n, and the sum of the loss in each block."""

        def body(total: Any, part: Any) -> Any:
            x, y, real, weight = part
            v = _apply(theta, x)
            total = total + _collect(of.factor(v, y, a, b) * weight, x)
            return total, jnp.sum(of.risk(v, y, a, b) * real)

        return jax.lax.scan(body, jnp.zeros_like(theta), (x, y, real, weight))

    def each_block(f: Callable[..., Any]) -> Callable[..., Any]:
        @jax.jit
        def run(x: Any, y: Any, real: Any, theta: Any, a: Any, b: Any) -> Any:
            body = lambda _, part: (None, f(_apply(theta, part[0]), part[1], a, b, part[2]))  # noqa: E731
            return jax.lax.scan(body, None, (x, y, real))[1]

        return run

    return _Passes(
        gradient,
        each_block(lambda v, y, a, b, real: jnp.sum(of.risk(v, y, a, b) * real)),
        each_block(lambda v, y, a, b, real: of.block(v, y, a, b) * real),
        each_block(lambda v, y, a, b, real: of.full(v, y, a, b) * real),
    )


def _apply(theta: Any, x: Any) -> Any:
    """V = theta x^T, (p, B). One neuron as a matrix-vector product: XLA has a faster kernel for it."""
    if theta.shape[0] == 1:
        return jnp.dot(x, theta[0], precision="highest")[None]
    return jnp.dot(x, theta.T, precision="highest").T


def _collect(f: Any, x: Any) -> Any:
    """F x, (p, d)."""
    if f.shape[0] == 1:
        return jnp.dot(f[0], x, precision="highest")[None]
    return jnp.dot(f, x, precision="highest")


@jax.jit
def _product(x: Any, g: Any, u: Any) -> Any:
    """sum_i x_i (G_i (u x_i))^T for weights g (blocks, p, p, B) and u (p, d)."""

    def body(total: Any, part: Any) -> Any:
        x, g = part
        return total + _collect(jnp.sum(g * _apply(u, x)[None], axis=1), x), None

    return jax.lax.scan(body, jnp.zeros_like(u), (x, g))[0]
