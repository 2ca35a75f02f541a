"""Quadrature for the standard Gaussian, split at given breakpoints.

Composite Gauss-Legendre on [-9, 9] (the mass beyond is 2e-19): panels end at every breakpoint, so that a kinked or
discontinuous integrand is integrated as the smooth pieces it is made of.
"""

from __future__ import annotations

import functools
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
    ends = np.unique(np.concatenate([[-RADIUS, RADIUS], inside]))
    panels = [np.linspace(a, b, 1 + max(1, int(np.ceil((b - a) / width)))) for a, b in zip(ends, ends[1:], strict=False)]
    a = np.concatenate([p[:-1] for p in panels])
    b = np.concatenate([p[1:] for p in panels])
    x, w = _legendre(order)
    z = (0.5 * (a + b)[:, None] + 0.5 * (b - a)[:, None] * x).ravel()
    p = ((0.5 * (b - a))[:, None] * w).ravel() * np.exp(-0.5 * z * z)
    return z, p / p.sum()


def split_nodes(f: Callable[[Any], Any], width: float = 1.0, order: int = 12) -> tuple[np.ndarray, np.ndarray]:
    """`nodes` split at the kinks and jumps of a traceable function of one variable."""
    return nodes(one_dimensional_splits(f), width, order)


def one_dimensional_splits(f: Callable[[Any], Any]) -> np.ndarray:
    """Kinks and jumps of f on [-9, 9]."""
    with jax.enable_x64(True):
        g = jax.jit(jax.vmap(breakpoints.switches(f, jnp.zeros(()))))
        return breakpoints.zeros(lambda x: np.asarray(g(jnp.asarray(x))).reshape(x.size, -1), -RADIUS, RADIUS)


def tensor_nodes(
    f: Callable[[Any], Any], dimension: int, width: float = 1.0, order: int = 12, limit: int = 20_000_000
) -> tuple[np.ndarray, np.ndarray] | None:
    """Nodes (n, dimension) and probabilities for f of a point in R^dimension; None if more than `limit`.

    Nested: the last coordinate is outermost. On each line parallel to the first axis the nodes are split where f is
    not smooth on that line; an outer coordinate is split where the switches depend on it alone.
    """
    with jax.enable_x64(True):
        example = jnp.zeros(dimension)
        switch = jax.jit(jax.vmap(breakpoints.switches(f, example)))

        def along(axis: int, base: np.ndarray) -> np.ndarray:
            """Zeros of the switches along `axis` through the point `base`."""

            def values(x: np.ndarray) -> np.ndarray:
                points = np.repeat(base[None, :], x.size, axis=0)
                points[:, axis] = x
                return np.asarray(switch(jnp.asarray(points))).reshape(x.size, -1)

            return breakpoints.zeros(values, -RADIUS, RADIUS)

        probes = np.random.default_rng(7).standard_normal((3, dimension))
        moving = np.asarray(switch(jnp.asarray(probes))).size > 0
        zeros = [[along(axis, p) for p in probes] if moving else [np.zeros(0)] for axis in range(dimension)]
        grids = [nodes(_common(found), width, order) for found in zeros[1:]]
        straight = all(_common([z]).size == _common(zeros[0]).size for z in zeros[0])
        first = nodes(_common(zeros[0]), width, order)
        lines = int(np.prod([g[0].size for g in grids], dtype=float))
        if lines * first[0].size > limit or (not straight and lines > _MOST_LINES):
            return None
        if straight:
            return _product([first, *grids])
        outer, weight = _product(grids)
        pieces, probabilities = [], []
        for point, mass in zip(outer, weight, strict=True):
            z, p = nodes(along(0, np.concatenate([[0.0], point])), width, order)
            pieces.append(np.concatenate([z[:, None], np.repeat(point[None], z.size, axis=0)], axis=1))
            probabilities.append(mass * p)
        return np.concatenate(pieces), np.concatenate(probabilities)


_MOST_LINES = 1000


def _product(grids: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The tensor product of one-dimensional rules."""
    points = np.stack([a.ravel() for a in np.meshgrid(*(g[0] for g in grids), indexing="ij")], axis=-1)
    return points, functools.reduce(np.multiply.outer, [g[1] for g in grids]).ravel()


def _common(found: list[np.ndarray]) -> np.ndarray:
    """Zeros that do not move with the other coordinates: they belong to this axis alone."""
    first, *rest = found
    return np.asarray([x for x in first if all(np.any(np.abs(r - x) < 1e-9) for r in rest)])
