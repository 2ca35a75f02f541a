"""Level sets {x : h(x) = y} of a function of one or two variables, as weighted points.

For continuous f, the integral of f over the label's fibre is
    int f(x) delta(h(x) - y) dx = sum_j f(x_j)/|h'(x_j)|                                       (one variable),
    = sum_{a=1,2} int du sum_j f(x_j) psi_a(x_j)/|d_a h(x_j)|   (two; lines parallel to axis a, co-area formula),
with the partition of unity psi_a = (d_a h)^4/((d_1 h)^4 + (d_2 h)^4), which leaves each piece of the curve to the lines
that cross it steeply: the integrand vanishes where a line only touches the curve. Lines are denser near zero, where
products of coordinates have saddles. Where h is constant on an interval (an atom of y) the fibre is the interval.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.gaussian import breakpoints
from bulkedge.gaussian.quadrature import RADIUS, on_panels

Function = Callable[[np.ndarray], np.ndarray]
"""Points (n, dimension) to numbers (n,) or slopes (n, dimension), in float64."""

_ATOM = 1e-9
"""Labels this close (relatively) to the value of a constant piece belong to it."""
_BLOCK = 1 << 15
_GRID = 1025


@dataclass(frozen=True, eq=False)
class Fibres:
    """Weighted points of the level sets of `labels` labels: row (C,) sorted, points (C, dimension), weight (C,)."""

    labels: int
    row: np.ndarray
    points: np.ndarray
    weight: np.ndarray

    @classmethod
    def gathered(cls, labels: int, parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> Fibres:
        """One set of fibres from pieces of (row, points, weight)."""
        row, points, weight = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(row, kind="stable")
        return cls(labels, row[order], points[order], weight[order])


class Smooth:
    """h of a point with its gradient and its kinks, compiled for many points at once."""

    def __init__(self, h: Callable[[Any], Any], dimension: int) -> None:
        self.dimension = dimension
        with jax.enable_x64(True):
            self._value = jax.jit(jax.vmap(h))
            self._both = jax.jit(jax.vmap(jax.value_and_grad(h)))
            self._switch = jax.jit(jax.vmap(breakpoints.switches(h, jnp.zeros(dimension))))

    def value(self, x: np.ndarray) -> np.ndarray:
        """Numbers (n,)."""
        return self._blocks(self._value, x)[0]

    def both(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numbers (n,) and gradients (n, dimension)."""
        value, slope = self._blocks(self._both, x)
        return value, slope

    def slope(self, x: np.ndarray) -> np.ndarray:
        """Gradients (n, dimension)."""
        return self.both(x)[1]

    def switches(self, x: np.ndarray) -> np.ndarray:
        """Values (n, number of switches)."""
        return self._blocks(self._switch, x)[0].reshape(len(x), -1)

    def splits(self) -> np.ndarray:
        """Kinks and jumps of a function of one variable."""
        return breakpoints.zeros_along(self.switches, 0, np.zeros((1, 1)), RADIUS)[0]

    def _blocks(self, function: Callable[[Any], Any], x: np.ndarray) -> list[np.ndarray]:
        """All outputs of the function, in blocks of one of two sizes: each function is compiled at most twice."""
        n, size = len(x), 256 if len(x) <= 256 else _BLOCK
        padded = np.concatenate([x, np.ones((-n % size if n else size, self.dimension))])
        with jax.enable_x64(True):
            parts = [jax.tree.leaves(function(jnp.asarray(padded[i : i + size]))) for i in range(0, len(padded), size)]
        return [np.concatenate([np.asarray(v) for v in part])[:n] for part in zip(*parts, strict=True)]


def pieces(h: Smooth) -> tuple[list[tuple[float, float]], list[tuple[float, float, float]]]:
    """Intervals of [-9, 9] where h of one variable is strictly monotone; those (a, b, value) where it is constant."""
    marks = np.unique(np.concatenate([[-RADIUS, RADIUS], h.splits()]))
    curved: list[tuple[float, float]] = []
    flat: list[tuple[float, float, float]] = []
    for a, b in itertools.pairwise(marks.tolist()):
        if b - a < 1e-7:
            continue
        inside = h.value(np.linspace(a, b, 11)[1:-1, None])
        if np.ptp(inside) <= 1e-12 * (1.0 + np.max(np.abs(inside))):
            flat.append((a, b, float(inside[4])))
        else:
            curved.extend(_monotone(h, a, b))
    return curved, flat


def _monotone(h: Smooth, a: float, b: float) -> list[tuple[float, float]]:
    """[a, b], on which h is smooth, cut where its slope changes sign."""
    x = np.linspace(a, b, _GRID)[1:-1]
    v = h.slope(x[:, None])[:, 0]
    turn = np.flatnonzero(v[:-1] * v[1:] < 0)
    low, high, sign = x[turn].copy(), x[turn + 1].copy(), np.sign(v[turn])
    for _ in range(54 if turn.size else 0):
        middle = 0.5 * (low + high)
        left = np.sign(h.slope(middle[:, None])[:, 0]) == sign
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    exact = x[1:-1][(v[1:-1] == 0.0) & (v[:-2] * v[2:] < 0)]
    cuts = np.concatenate([[a], np.sort(np.concatenate([0.5 * (low + high), exact])), [b]])
    return [(float(c), float(d)) for c, d in itertools.pairwise(cuts) if d - c > 1e-9]


def on_line(h: Smooth, y: np.ndarray, width: float = 0.5) -> Fibres:
    """Fibres of the labels y (n,) under a function of one variable. width: of the panels on constant pieces."""
    curved, flat = pieces(h)
    parts = [(np.zeros(0, int), np.zeros((0, 1)), np.zeros(0))]

    def along(x: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = h.both(x[:, None])
        return value, slope[:, 0]

    taken = np.zeros(y.size, bool)
    for a, b, value in flat:
        hit = np.flatnonzero(np.abs(y - value) <= _ATOM * (1.0 + abs(value)))
        taken[hit] = True
        z, mass = on_panels([a, b], width)
        weight = mass * np.sqrt(2.0 * np.pi) * np.exp(0.5 * z * z)
        parts.append((np.repeat(hit, z.size), np.tile(z, hit.size)[:, None], np.tile(weight, hit.size)))
    for a, b in curved:
        inner = 1e-13 * (b - a)
        level = h.value(np.array([[a + inner], [b - inner]]))
        least, most = float(level.min()), float(level.max())
        room = 1e-12 * (1.0 + max(abs(least), abs(most)))
        hit = np.flatnonzero(~taken & (y >= least - room) & (y <= most + room))
        low, high = np.full(hit.size, a + inner), np.full(hit.size, b - inner)
        z = _solve(along, np.clip(y[hit], least, most), low, high, np.full(hit.size, level[1] > level[0]))
        steep = np.abs(h.slope(z[:, None])[:, 0])
        # At the very turning point the density of y is infinite: the fibre is that point, whatever its weight.
        parts.append((hit, z[:, None], 1.0 / np.maximum(steep, 1e-150)))
    return Fibres.gathered(y.size, parts)


def in_plane(h: Smooth, y: np.ndarray, spacing: float = 0.1, radius: float = 8.0) -> Fibres:
    """Fibres of the labels y (n,) under a function of two variables.

    spacing: largest distance of neighbouring lines; a tenth of what the functions to be integrated vary over.
    """
    order = np.argsort(y, kind="stable")
    lines, share = _lines(spacing, radius)
    grid = np.linspace(-radius, radius, _GRID) + 1e-7 * np.sin(np.arange(_GRID))
    parts = [(np.zeros(0, int), np.zeros((0, 2)), np.zeros(0))]
    for axis in (0, 1):
        parts.append(_crossings(h, axis, y[order], grid, lines, share))
        parts[-1] = (order[parts[-1][0]], *parts[-1][1:])
    return Fibres.gathered(y.size, parts)


def _lines(spacing: float, radius: float, least: float = 0.003) -> tuple[np.ndarray, np.ndarray]:
    """Outer coordinates with weights: the trapezoidal rule in x(u) with dx/du = 1/sqrt(u^2 + c^2) + 1.5."""
    dense = np.concatenate([-np.geomspace(radius, 1e-6, 4000), np.geomspace(1e-6, radius, 4000)])
    chart = np.arcsinh(dense / least) + 1.5 * dense
    step = 1.5 * spacing
    x = np.arange(chart[0] + 0.5 * step, chart[-1], step)
    u = np.interp(x, chart, dense)
    for _ in range(3):  # polish the interpolated inverse
        u -= (np.arcsinh(u / least) + 1.5 * u - x) / (1.0 / np.hypot(u, least) + 1.5)
    return u, step / (1.0 / np.hypot(u, least) + 1.5)


def _crossings(
    h: Smooth, axis: int, y: np.ndarray, grid: np.ndarray, lines: np.ndarray, share: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where the lines parallel to `axis` cross the level sets of the sorted y."""
    points = np.empty((lines.size, grid.size, 2))
    points[:, :, axis], points[:, :, 1 - axis] = grid, lines[:, None]
    v = h.value(points.reshape(-1, 2)).reshape(lines.size, grid.size)
    low, high = np.minimum(v[:, :-1], v[:, 1:]), np.maximum(v[:, :-1], v[:, 1:])
    first = np.searchsorted(y, low.ravel(), side="left")
    count = np.searchsorted(y, high.ravel(), side="left") - first
    cell = np.repeat(np.arange(count.size), count)
    row = np.arange(cell.size) - np.repeat(np.cumsum(count) - count, count) + first[cell]
    line, i = np.divmod(cell, grid.size - 1)
    rising = v[line, i + 1] > v[line, i]

    def at(t: np.ndarray, which: np.ndarray) -> np.ndarray:
        x = np.empty((t.size, 2))
        x[:, axis], x[:, 1 - axis] = t, lines[line[which]]
        return x

    def along(t: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        value, slope = h.both(at(t, which))
        return value, slope[:, axis]

    x = at(_solve(along, y[row], grid[i], grid[i + 1], rising, most=12), np.arange(row.size))
    value, slope = h.both(x)
    fourth = slope**4
    with np.errstate(divide="ignore", invalid="ignore"):
        weight = share[line] * np.abs(slope[:, axis]) ** 3 / fourth.sum(axis=1)
    # A jump of h is no crossing.
    scale = 1e-6 * (1.0 + np.abs(y[row])) + 1e-3 * np.abs(v[line, i + 1] - v[line, i])
    good = (np.abs(value - y[row]) <= scale) & np.isfinite(weight)
    return row[good], x[good], weight[good]


def _solve(
    function: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]],
    y: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    rising: np.ndarray,
    most: int = 60,
) -> np.ndarray:
    """Solutions of h = y in brackets on which h is monotone: Newton steps where they stay inside, else bisection.

    function: (x, which of the brackets they belong to) -> h and its slope. Solved ones are left alone.
    """
    x, low, high = 0.5 * (low + high), low.copy(), high.copy()
    todo = np.arange(y.size)
    for attempt in range(most):
        if todo.size == 0:
            break
        here, lower, upper = x[todo], low[todo], high[todo]
        value, slope = function(here, todo)
        below = (value < y[todo]) == rising[todo]
        lower, upper = np.where(below, here, lower), np.where(below, upper, here)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = (value - y[todo]) / slope
        guess = here - step
        inside = (guess >= lower) & (guess <= upper)
        if attempt % 4 == 3:  # where Newton's method creeps along one side, the bracket shrinks all the same
            inside &= np.abs(step) < 0.1 * (upper - lower) + 1e-14
        new = np.where(inside, guess, 0.5 * (lower + upper))
        x[todo], low[todo], high[todo] = new, lower, upper
        todo = todo[np.abs(new - here) > 1e-14 * (1.0 + np.abs(here))]
    return x
