"""What a label says of one latent variable s, exactly: the law of s given y, for a function y = h(s) or h(s) + noise.

Noiseless: s given y lives on the preimages of y, one in each interval where h is monotone, with weights phi/|h'|, or on
the whole interval where h is constant. With Gaussian noise y = g(s) + sigma(s) e it has a smooth density.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import elementwise

from bulkedge.gaussian import breakpoints, quadrature

Function = Callable[[np.ndarray], np.ndarray]
_GRID = 4096
_END = 1e-15
_REACH = 7.5
_MOST_PANELS = 500
_MOST_LABELS = 20_000.0


@dataclass(frozen=True, eq=False)
class Posterior:
    """p: (n,) probabilities of nodes of y. s: (n, m) or (m,) places, w: (n, m) their probabilities given y."""

    p: np.ndarray
    s: np.ndarray
    w: np.ndarray

    def mean(self, phi: Function) -> np.ndarray:
        """E[phi(s) | y] at the nodes of y."""
        return np.sum(self.w * phi(self.s), axis=1)

    def explained(self, phi: Function) -> float:
        """E[E[phi(s) | y]^2]."""
        return float(np.sum(self.p * self.mean(phi) ** 2))


class Line:
    """h(s, c, e) of one unknown s, with known coordinates c and noise e, compiled for many s at once."""

    def __init__(self, h: Callable[[Any, Any, Any], Any], known: int) -> None:
        with jax.enable_x64(True):
            zero = jnp.zeros(())
            switch = breakpoints.switches(h, zero, jnp.zeros(known), zero)
            self._value = jax.jit(jax.vmap(h, (0, None, None)))
            self._slope = jax.jit(jax.vmap(jax.grad(h), (0, None, None)))
            self._switches = jax.jit(jax.vmap(switch, (0, None, None)))

    def value(self, c: np.ndarray, e: float = 0.0) -> Function:
        return _padded(self._value, c, e)

    def slope(self, c: np.ndarray, e: float = 0.0) -> Function:
        return _padded(self._slope, c, e)

    def splits(self, c: np.ndarray, e: float = 0.0) -> np.ndarray:
        """Kinks and jumps along s."""
        switch = _padded(self._switches, c, e)
        return breakpoints.zeros_along(
            lambda x: switch(x[:, 0]).reshape(len(x), -1), 0, np.zeros((1, 1)), quadrature.RADIUS
        )[0]


def _padded(compiled: Any, c: np.ndarray, e: float) -> Function:
    """Calls in few sizes, since each is compiled once."""

    def call(s: np.ndarray) -> np.ndarray:
        x = np.zeros(max(64, 1 << (s.size - 1).bit_length()))
        x[: s.size] = s.ravel()
        with jax.enable_x64(True):
            out = np.asarray(compiled(x, np.asarray(c, float), np.asarray(e, float)))[: s.size]
        return out.reshape(*s.shape, *out.shape[1:])

    return call


def noiseless(line: Line, c: np.ndarray, width: float) -> list[Posterior]:
    """The law of s given y = h(s, c): one entry for each atom, one for all else."""
    h, slope = line.value(c), line.slope(c)
    pieces = monotone_pieces(slope, line.splits(c))
    flat = [float(np.ptp(h(np.linspace(a, b, 9)[1:-1]))) < 1e-12 for a, b in pieces]
    found = _atoms(h, [piece for piece, constant in zip(pieces, flat, strict=True) if constant], width)
    curves = np.array([piece for piece, constant in zip(pieces, flat, strict=True) if not constant]).reshape(-1, 2)
    if len(curves) == 0:
        return found
    # One-sided at jumps, and still at the bottom of a fold at zero.
    ends = curves + np.array([1.0, -1.0]) * (_END + 4.0 * _END * np.abs(curves))
    levels = h(ends)
    # The number of preimages changes at the levels where pieces end: nodes are split there.
    marks = _preimages(h, ends, levels, _apart(levels.ravel(), 1e-11))
    rules = []
    for piece, mark in zip(curves, marks.T, strict=True):
        inside = _apart(mark[np.isfinite(mark)], 1e-9)
        inside = inside[(inside > piece[0] + 1e-9) & (inside < piece[1] - 1e-9)]
        rules.append(quadrature.on_panels(np.concatenate([piece, inside]), width))
    own = np.repeat(np.arange(len(curves)), [z.size for z, _ in rules])
    z, p = (np.concatenate([rule[i] for rule in rules]) for i in (0, 1))
    own, z, p = own[p > 1e-18], z[p > 1e-18], p[p > 1e-18]
    s = _preimages(h, ends, levels, h(z))
    s[np.arange(z.size), own] = z
    hit = np.isfinite(s)
    s = np.where(hit, s, 0.0)
    w = np.where(hit, _phi(s) / np.maximum(np.abs(slope(s)), 1e-300), 0.0)
    found.append(Posterior(p, s, w / w.sum(axis=1, keepdims=True)))
    return found


def _apart(values: np.ndarray, tolerance: float) -> np.ndarray:
    """Sorted, without those that are the same but for rounding."""
    values = np.unique(values)
    return values[np.diff(values, prepend=-np.inf) > tolerance * (1.0 + np.abs(values))]


def _atoms(h: Function, pieces: list[tuple[float, float]], width: float) -> list[Posterior]:
    nodes: dict[float, list[tuple[np.ndarray, np.ndarray]]] = {}
    for a, b in pieces:
        level = round(float(h(np.array([0.5 * (a + b)]))[0]), 10)
        nodes.setdefault(level, []).append(quadrature.on_panels([a, b], width))
    found = []
    for parts in nodes.values():
        s, p = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
        if p.sum() > 0:
            found.append(Posterior(p.sum()[None], s, (p / p.sum())[None]))
    return found


def monotone_pieces(slope: Function, splits: np.ndarray) -> list[tuple[float, float]]:
    """Intervals of [-9, 9] on which h is smooth and monotone."""
    marks = np.unique(np.concatenate([[-quadrature.RADIUS, quadrature.RADIUS], splits]))
    count = [max(33, int(_GRID * (b - a) / (2.0 * quadrature.RADIUS))) for a, b in itertools.pairwise(marks)]
    grids = [np.linspace(a, b, n)[1:-1] for (a, b), n in zip(itertools.pairwise(marks), count, strict=True)]
    slopes = np.split(slope(np.concatenate(grids)), np.cumsum([g.size for g in grids])[:-1])
    low, high, exact = [], [], []
    for x, v in zip(grids, slopes, strict=True):
        turn = np.flatnonzero(v[:-1] * v[1:] < 0)
        low.append(x[turn])
        high.append(x[turn + 1])
        exact.append(x[1:-1][(v[1:-1] == 0.0) & (v[:-2] * v[2:] < 0)])
    turns = _roots(slope, np.concatenate(low), np.concatenate(high), np.zeros(sum(map(len, low))))
    cuts = np.unique(np.concatenate([marks, turns, *exact]))
    return [(float(a), float(b)) for a, b in itertools.pairwise(cuts) if b - a > 1e-7]


def _preimages(h: Function, ends: np.ndarray, levels: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n, m): the s in each monotone piece with h(s) = y; nan where y is not between the levels of its ends."""
    low, high = levels.min(axis=1), levels.max(axis=1)
    node, piece = np.nonzero((y[:, None] > low) & (y[:, None] < high))
    out = np.full((y.size, len(ends)), np.nan)
    out[node, piece] = _roots(h, ends[piece, 0], ends[piece, 1], y[node])
    return out


def _roots(f: Function, low: np.ndarray, high: np.ndarray, level: np.ndarray) -> np.ndarray:
    """X with f(x) = level in each bracket."""
    if low.size == 0:
        return low
    tolerances = {"xatol": 1e-15, "xrtol": 1e-15, "fatol": 0.0, "frtol": 0.0}
    found = cast(
        Any, elementwise.find_root(lambda x, v: f(x) - v, (low, high), args=(level,), tolerances=tolerances, maxiter=80)
    )
    return np.asarray(found.x)


def _phi(s: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * s * s) / np.sqrt(2.0 * np.pi)


def affine(line: Line, c: np.ndarray, width: float) -> Posterior | None:
    """Gaussian noise, y = g(s) + sigma(s) e: p(y | s) is known, and everything is a smooth integral over s and over y.

    None where sigma is so small that too many nodes would be needed, or where the density does not integrate to 1.
    """
    at, shifted = line.value(c, 0.0), line.value(c, 1.0)
    reach = np.linspace(-_REACH, _REACH, 4001)
    g = at(reach)
    sigma = np.abs(shifted(reach) - g)
    # Nodes of y as close as the least sigma asks for, over the whole range.
    if np.ptp(g) + 16.0 * float(sigma.max()) > _MOST_LABELS * float(sigma.min()):
        return None
    # Panels in s no wider than `width`, and on which g moves by no more than two or three sigma.
    slope = np.abs(np.gradient(g, reach)) / sigma
    need = np.concatenate([[0.0], np.cumsum(np.diff(reach) * (1.0 + 0.2 * 0.5 * (slope[1:] + slope[:-1])) / width)])
    if need[-1] > _MOST_PANELS:
        return None
    marks = np.interp(np.arange(1.0, need[-1]), need, reach)
    s, p = quadrature.on_panels(np.concatenate([[-_REACH, _REACH], marks, line.splits(c)]), 2.0 * _REACH)
    centre = at(s)
    spread = np.abs(shifted(s) - centre)
    # Panels in y between the places where p(y | s) is centred, and some sigma around them.
    steps = np.arange(-8.0, 8.1, 1.0)
    smallest = 0.5 * width * float(sigma.min())
    ends = smallest * np.unique(np.round((g[::40, None] + sigma[::40, None] * steps) / smallest))
    y, mass = _plain(ends, 4 if width > 0.5 else 6)
    w = np.empty((y.size, s.size))
    for rows in np.array_split(np.arange(y.size), max(1, y.size * s.size // 2_000_000)):
        w[rows] = np.exp(-0.5 * ((y[rows, None] - centre) / spread) ** 2)
    w *= p / (np.sqrt(2.0 * np.pi) * spread)
    density = w.sum(axis=1)
    if abs(float(mass @ density) - 1.0) > 1e-6:
        return None
    keep = mass * density > 1e-17
    return Posterior((mass * density)[keep], s, w[keep] / density[keep, None])


def _plain(ends: np.ndarray, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and lengths on the panels between consecutive ends."""
    x, w = np.polynomial.legendre.leggauss(order)
    half = 0.5 * np.diff(ends)
    return (ends[:-1, None] + half[:, None] * (1.0 + x)).ravel(), (half[:, None] * w).ravel()
