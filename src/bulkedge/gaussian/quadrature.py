"""Quadrature for the standard Gaussian, split at given breakpoints.

Composite Gauss-Legendre on [-9, 9] (the mass beyond is 2e-19): panels end at every breakpoint, so that a kinked or
discontinuous integrand is integrated as the smooth pieces it is made of.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.gaussian import breakpoints

RADIUS = 9.0


@functools.cache
def _legendre(order: int) -> tuple[np.ndarray, np.ndarray]:
    x, w = np.polynomial.legendre.leggauss(order)
    return x, w


def nodes(splits: Any = (), width: float = 1.0, order: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and probabilities of N(0, 1), panels no wider than `width`, ends at the `splits`."""
    inside = [float(s) for s in np.asarray(splits, float).ravel() if -RADIUS < s < RADIUS]
    z, p = on_panels([-RADIUS, RADIUS, *inside], width, order)
    return z, p / p.sum()


def on_panels(ends: Any, width: float = 1.0, order: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and Gaussian masses between the least and the largest of `ends`, with panels ending at all of them."""
    marks = np.unique(np.asarray(ends, float))
    panels = [np.linspace(a, b, 1 + max(1, int(np.ceil((b - a) / width)))) for a, b in itertools.pairwise(marks)]
    a = np.concatenate([p[:-1] for p in panels])
    b = np.concatenate([p[1:] for p in panels])
    x, w = _legendre(order)
    z = (0.5 * (a + b)[:, None] + 0.5 * (b - a)[:, None] * x).ravel()
    return z, ((0.5 * (b - a))[:, None] * w).ravel() * np.exp(-0.5 * z * z) / np.sqrt(2.0 * np.pi)


def split_nodes(f: Callable[[Any], Any], width: float = 1.0, order: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """`nodes` split at the kinks and jumps of a traceable function of one variable."""
    return nodes(one_dimensional_splits(f), width, order)


def one_dimensional_splits(f: Callable[[Any], Any]) -> np.ndarray:
    """Kinks and jumps of f on [-9, 9]."""
    return breakpoints.zeros_along(compiled_switches(lambda x: f(x[0]), 1), 0, np.zeros((1, 1)), RADIUS)[0]


def splits_on_lines(f: Callable[[Any], Any], points: np.ndarray) -> list[np.ndarray]:
    """Kinks and jumps on [-9, 9] of f of a point, on the line parallel to the first axis through each of `points`."""
    return breakpoints.zeros_along(compiled_switches(f, points.shape[1]), 0, points, RADIUS)


@functools.lru_cache(maxsize=64)
def compiled_switches(f: Callable[[Any], Any], dimension: int) -> breakpoints.Switches:
    """The switches of f of a point, for many points (n, dimension) at once, in float64."""
    with jax.enable_x64(True):
        switch = jax.jit(jax.vmap(breakpoints.switches(f, jnp.zeros(dimension))))

    def values(points: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(switch(jnp.asarray(points, jnp.float64)), float).reshape(len(points), -1)

    return values


def tensor_nodes(
    f: Callable[[Any], Any], dimension: int, width: float = 1.0, order: int = 12, limit: int = 20_000_000
) -> tuple[np.ndarray, np.ndarray] | None:
    """Nodes (n, dimension) and probabilities for f of a point in R^dimension; None if more than `limit`.

    Nested: the last coordinate is outermost. On each line parallel to the first axis the nodes are split where f is
    not smooth on that line; an outer coordinate is split where the switches depend on it alone, and, in two dimensions,
    where the inner splits appear, vanish or cross (with panels that shrink towards the square root found there).
    """
    switch = compiled_switches(f, dimension)

    def inner(outer: np.ndarray) -> list[np.ndarray]:
        """Zeros of the switches on the lines parallel to the first axis at the outer coordinates (L, dimension - 1)."""
        return breakpoints.zeros_along(switch, 0, np.pad(outer, ((0, 0), (1, 0))), RADIUS)

    probes = np.random.default_rng(7).standard_normal((3, dimension))
    zeros = [breakpoints.zeros_along(switch, axis, probes, RADIUS) for axis in range(dimension)]
    straight = all(common([z]).size == common(zeros[0]).size for z in zeros[0])
    splits = [common(found) for found in zeros]
    if not straight and dimension == 2:
        splits[1] = np.concatenate([splits[1], folds(lambda x: inner(x[:, None]))])
    first, *grids = [nodes(found, width, order) for found in splits]
    lines = int(np.prod([g[0].size for g in grids], dtype=float))
    if lines * first[0].size > limit or (not straight and lines > _MOST_LINES):
        return None
    if straight:
        return _product([first, *grids])
    outer, weight = _product(grids)
    pieces, probabilities = [], []
    for point, mass, found in zip(outer, weight, inner(outer), strict=True):
        z, p = nodes(found, width, order)
        pieces.append(np.concatenate([z[:, None], np.repeat(point[None], z.size, axis=0)], axis=1))
        probabilities.append(mass * p)
    return np.concatenate(pieces), np.concatenate(probabilities)


_MOST_LINES = 3000


def folds(inner: Callable[[np.ndarray], list[np.ndarray]]) -> np.ndarray:
    """Splits of the outer coordinate where the inner zeros change in number or cross.

    Two zeros that meet and vanish do so like a square root: around such a point splits come at geometric distances.
    """

    def count(x: np.ndarray) -> np.ndarray:
        return np.array([z.size for z in inner(x)])

    def gap(x: np.ndarray) -> np.ndarray:
        return np.array([np.min(np.diff(z), initial=4.0 * RADIUS) for z in inner(x)])

    x = np.linspace(-RADIUS, RADIUS, 193) + 0.0123
    number = count(x)
    i = np.flatnonzero(np.diff(number))
    low, high, number = x[i], x[i + 1], number[i]
    for _ in range(30 if i.size else 0):
        middle = 0.5 * (low + high)
        left = count(middle) == number
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    ladder = np.concatenate([[0.0], 0.25 ** np.arange(1, 13)])
    folds = (0.5 * (low + high))[:, None] + np.concatenate([ladder, -ladder])
    g = gap(x)
    i = np.flatnonzero((g[1:-1] < g[:-2]) & (g[1:-1] <= g[2:]))
    crossing = breakpoints.lowest(gap, x[i], x[i + 2], steps=32)
    crossing = crossing[gap(crossing) < 1e-6] if i.size else crossing
    return np.concatenate([folds.ravel(), crossing])


def _product(grids: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The tensor product of one-dimensional rules."""
    points = np.stack([a.ravel() for a in np.meshgrid(*(g[0] for g in grids), indexing="ij")], axis=-1)
    return points, functools.reduce(np.multiply.outer, [g[1] for g in grids]).ravel()


def common(found: list[np.ndarray]) -> np.ndarray:
    """Zeros that do not move with the other coordinates: they belong to this axis alone."""
    first, *rest = found
    return np.asarray([x for x in first if all(np.any(np.abs(r - x) < 1e-9) for r in rest)])
