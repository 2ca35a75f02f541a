"""A training set held in memory, and the three passes over it: risk, gradient, Hessian product.

Samples x_i ~ N(0, I_d), labels y_i = h(Theta_*^T x_i, e_i) with Theta_* the first k coordinate axes: by rotation
invariance of x and of theta(0) that is exact in law. X is kept in float32 as blocks of rows that fit in cache, and a
pass uses a block twice while it is there, so that gradient and Hessian product read X from memory once. The blocks are
separate arrays and the loop over them is unrolled: a scan would copy each block before it multiplies. Under jit on a
CPU `r @ X` is many times faster than `X.T @ r`. A product with a block this small runs on one core, so the groups are
shared out to two threads, each with a sum of its own.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.foundation import memory
from bulkedge.gaussian.streams import fill_normal, stream
from bulkedge.models.functions import ScalarFunction
from bulkedge.models.problem import Problem, pointwise

_BLOCK_BYTES = 1 << 20
"""A block is read twice; it should still be in the nearest cache that the cores have to themselves."""
_GROUP = 20
"""Blocks in one compiled call: enough to hide its overhead, few enough to compile quickly."""
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
        self._real = np.zeros(x.shape[:2], np.float32)
        self._real.reshape(-1)[: labels.size] = 1.0
        self.problem, self.n, self.d, self.labels, self._key = problem, labels.size, x.shape[2], labels, key
        self._groups = [
            Group([jax.device_put(block) for block in x[some]], jnp.asarray(y[some]), jnp.asarray(self._real[some]))
            for some in _some(len(x))
        ]
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
    def of(cls, problem: Problem, samples: np.ndarray, labels: np.ndarray, key: tuple[int, ...] = (0,)) -> StoredData:
        """A training set of one's own: samples (n, d), labels (n,). Overlaps are taken with its first k coordinates."""
        x, flat = _empty(*samples.shape)
        flat[...] = samples
        return cls(problem, x, labels, key)

    def matrix(self) -> np.ndarray:
        """X as one array (n, d), copied: for small problems."""
        return np.concatenate([block for group in self._groups for block in group.x])[: self.n]

    @staticmethod
    def bytes_needed(problem: Problem, n: int, d: int) -> float:
        """Bytes for X, the labels, and the weights of one Hessian."""
        return 4.0 * n * d + 4.0 * n * (8 + 2 * problem.m)

    def gradient(self, theta: np.ndarray, step: int) -> tuple[np.ndarray, float]:
        """The gradient (m, d) of the mean loss over the samples of this step, and the mean loss over all.

        Each sample takes part independently with probability `problem.batch` and then has weight 1/batch.
        """
        weights = [group.real for group in self._groups]
        if self.problem.batch < 1:
            taken = stream(*self._key, MASK, step).random(self._real.shape, np.float32) < self.problem.batch
            weight = self._real * taken / np.float32(self.problem.batch)
            weights = [jnp.asarray(weight[some]) for some in _some(len(weight))]
        small = _narrow(theta)

        def add(total: Any, group: int) -> tuple[Any, Any]:
            return self._passes.gradient(total, self._groups[group], weights[group], small, *self._layer)

        total, risk = _summed(add, len(self._groups), small)
        return total / self.n, self._mean(risk)

    def risk(self, theta: np.ndarray) -> float:
        """The mean loss over all samples."""
        small = _narrow(theta)
        return self._mean([self._passes.risk(group, small, *self._layer) for group in self._groups])

    def _mean(self, sums: list[Any]) -> float:
        """Of sums over blocks, in float64."""
        return float(sum(np.sum(np.asarray(part, float)) for part in sums)) / self.n

    @contextlib.contextmanager
    def curvature(self, theta: np.ndarray, neuron: int | None, tag: int = 0) -> Iterator[Callable[..., np.ndarray]]:
        """Products with m Hess Risk at theta: u (d,) with one neuron's block, u (m d,) with the whole if None.

        Block j is (1/n) sum_i g_ij x_i x_i^T with the weights of theory 1.2. `tag` matters to lazy data only.
        """
        small = _narrow(theta)
        one = 0 if neuron is None else neuron
        find = self._passes.full if neuron is None else self._passes.block
        weights = [find(group, one, small, *self._layer) for group in self._groups]
        p = self.problem.m if neuron is None else 1

        def product(u: np.ndarray) -> np.ndarray:
            v = _narrow(u.reshape(p, self.d))

            def add(total: Any, group: int) -> tuple[Any, None]:
                return _product(total, self._groups[group].x, weights[group], v), None

            return _summed(add, len(weights), v)[0].reshape(-1) / self.n

        yield product


class Group(NamedTuple):
    """Some blocks: x, a list of arrays (B, d), labels y (blocks, B), and real (blocks, B), 0 for padding, else 1."""

    x: list[Any]
    y: Any
    real: Any


def _summed(add: Callable[[Any, int], tuple[Any, Any]], groups: int, like: Any) -> tuple[np.ndarray, list[Any]]:
    """The sum that add(total, group) -> (total, more) builds up from zeros, in float64, and `more` of every group."""
    nothing = _narrow(np.zeros(like.shape))

    def run(part: range) -> tuple[np.ndarray, list[Any]]:
        total, found = nothing, []
        for group in part:
            total, more = add(total, group)
            found.append(more)
        return np.asarray(total, float), found

    # The halves are the same on every machine, and so is the rounding of their sum.
    halves = [range(groups // 2), range(groups // 2, groups)]
    if groups == 1:
        return run(halves[1])
    (one, first), (other, last) = _THREADS.map(run, halves)
    return one + other, first + last


_THREADS = ThreadPoolExecutor(2, thread_name_prefix="bulkedge-data")


def _some(blocks: int) -> list[slice]:
    """The groups: as many in one half as in the other, and all of nearly one size."""
    size = -(-blocks // (2 * -(-blocks // (2 * _GROUP))))
    return [slice(i, i + size) for i in range(0, blocks, size)]


def _narrow(theta: np.ndarray) -> Any:
    return jnp.asarray(np.asarray(theta, np.float32))


def _empty(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """An array of blocks for n samples with its padding zeroed, and the view (n, d) of the samples.

    It lies on a cache line: JAX then adopts it on a CPU instead of copying it.
    """
    blocks = min(n, -(-n * d * 4 // _BLOCK_BYTES))
    # Sixteen rows are a whole number of cache lines, at which every block then begins.
    rows = -(-n // (16 * blocks)) * 16 if blocks > 1 else n
    shape = (-(-n // rows), rows, d)
    size = 4 * int(np.prod(shape))
    raw = np.empty(size + 64, np.uint8)
    skip = -raw.ctypes.data % 64
    x = raw[skip : skip + size].view(np.float32).reshape(shape)
    flat = x.reshape(-1, d)
    flat[n:] = 0.0
    return x, flat[:n]


class _Passes(NamedTuple):
    """Jitted passes over a group of blocks for theta (m, d); see `_passes`."""

    gradient: Callable[..., Any]
    risk: Callable[..., Any]
    block: Callable[..., Any]
    full: Callable[..., Any]


@functools.lru_cache(maxsize=64)
def _passes(sigma: ScalarFunction, loss: ScalarFunction) -> _Passes:
    """The passes of an activation and a loss."""
    of = pointwise(sigma, loss)

    def risks(v: list[Any], group: Group, a: Any, b: Any) -> Any:
        """The sum of the loss in each block. All blocks at once: what a pass does besides its products is little."""
        each = of.risk(jnp.concatenate(v, axis=1), group.y.reshape(-1), a, b)
        return jnp.sum(each.reshape(group.y.shape) * group.real, axis=1)

    @jax.jit
    def gradient(total: Any, group: Group, weights: Any, theta: Any, a: Any, b: Any) -> Any:
        """`total` plus the gradient (m, d) times n, and the sum of the loss in each block."""
        seen = []
        for x, y, weight in zip(group.x, group.y, weights, strict=True):
            seen.append(_apply(_after(theta, total), x))
            total = total + _collect(of.factor(seen[-1], y, a, b) * weight, x)
        return total, risks(seen, group, a, b)

    @jax.jit
    def risk(group: Group, theta: Any, a: Any, b: Any) -> Any:
        return risks([_apply(theta, x) for x in group.x], group, a, b)

    @jax.jit
    def block(group: Group, neuron: Any, theta: Any, a: Any, b: Any) -> Any:
        """Weights of one neuron's block, (1, 1, B) each."""
        parts = zip(*group, strict=True)
        return [(of.block(_apply(theta, x), y, a, b)[neuron] * real)[None, None] for x, y, real in parts]

    @jax.jit
    def full(group: Group, neuron: Any, theta: Any, a: Any, b: Any) -> Any:
        """Weights of the whole Hessian, (m, m, B) each."""
        return [of.full(_apply(theta, x), y, a, b) * real for x, y, real in zip(*group, strict=True)]

    return _Passes(gradient, risk, block, full)


def _after(theta: Any, total: Any) -> Any:
    """theta, available only when `total` is: else XLA multiplies by all blocks before it comes back to the first."""
    return theta + 0.0 * total


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
def _product(total: Any, x: list[Any], g: list[Any], u: Any) -> Any:
    """`total` + sum_i x_i (G_i (u x_i))^T for blocks x (B, d) with weights g (p, p, B), and u (p, d)."""
    for rows, weights in zip(x, g, strict=True):
        v = _apply(_after(u, total), rows)
        total = total + _collect(jnp.sum(weights * v[None], axis=1), rows)
    return total
