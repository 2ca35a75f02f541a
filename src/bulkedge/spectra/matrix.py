"""The whole md x md Hessian at finite width m: H = (1/n) sum_i G_i (x) x_i x_i^T with m x m weights G_i (theory 1.6).

Its Stieltjes transform is the trace of an m x m matrix alpha(z),
    alpha = (-z I + E[M])^{-1},   M = G (I + alpha G/delta)^{-1}.
For real z left of the bulk alpha is positive definite; with P = alpha^{1/2}, B = P G P/delta and T = B (I + B)^{-1},
    I + z alpha = delta E[T],   P M P = delta T,
and every I + B is positive definite. The bulk starts where the map Y -> delta E[T Y T] reaches spectral radius 1. The
branch is followed in t = tr alpha/m, which increases up to the edge and beyond, so that the edge is an ordinary root:
z(t) has its maximum there. At m = 1 this is `bulk`; outliers are in `matrix_outliers`. Source: derived for this project
from the linearisation of the matrix Dyson equation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.roots import bracketed
from bulkedge.spectra.law import numbers

_CHUNK = 1 << 17  # numbers held at once


@dataclass(frozen=True, eq=False)
class MatrixLaw:
    """Nodes of (G, s): g (n, m, m) symmetric weights, s (n, r) hidden coordinates, p (n,) probabilities or None."""

    g: np.ndarray
    s: np.ndarray
    p: np.ndarray | None = None

    @classmethod
    def of(cls, weights: Any, s: Any = None) -> MatrixLaw:
        """The empirical law of a user's own weights (n, m, m) and coordinates (n,) or (n, r)."""
        g = numbers("weights", weights)
        if g.ndim != 3 or g.shape[1] != g.shape[2] or len(g) < 2:
            raise BadInput("weights", f"must have shape (n, m, m) with n at least 2, not {g.shape}")
        if np.abs(g - g.transpose(0, 2, 1)).max() > 1e-9 * np.abs(g).max():
            raise BadInput("weights", "must be symmetric matrices")
        if not np.any(g):
            raise BadInput("weights", "are all zero")
        given = np.zeros((len(g), 0)) if s is None else numbers("s", s)
        c = given[:, None] if given.ndim == 1 else given
        if c.ndim != 2 or len(c) != len(g):
            raise BadInput("s", f"must have one row per weight ({len(g)}), not shape {given.shape}")
        return cls(g, c)

    @property
    def m(self) -> int:
        return self.g.shape[1]

    @property
    def r(self) -> int:
        return self.s.shape[1]

    @cached_property
    def size(self) -> float:
        """A bound on |G|: the largest Frobenius norm."""
        return float(np.sqrt(np.einsum("nij,nij->n", self.g, self.g).max()))

    @cached_property
    def mirrored(self) -> MatrixLaw:
        """The law of -G: its left edge is minus the right edge of G's."""
        return MatrixLaw(-self.g, self.s, self.p)

    def chunks(self) -> list[tuple[slice, np.ndarray]]:
        """Slices of the samples with their probabilities."""
        n, step = len(self.g), max(64, _CHUNK // self.m**2)
        p = np.full(n, 1.0 / n) if self.p is None else self.p
        return [(slice(i, i + step), p[i : i + step]) for i in range(0, n, step)]

    def represented(self, nodes: int) -> MatrixLaw:
        """At most `nodes` equally likely samples, without s: every so many in the order of their trace."""
        if len(self.g) <= nodes:
            return MatrixLaw(self.g, self.s[:, :0], self.p)
        order = np.argsort(np.trace(self.g, axis1=1, axis2=2))
        p = np.full(len(order), 1.0 / len(order)) if self.p is None else self.p[order]
        at = np.searchsorted(np.cumsum(p), (np.arange(nodes) + 0.5) / nodes * p.sum())
        return MatrixLaw(self.g[order[np.minimum(at, len(order) - 1)]], np.zeros((nodes, 0)))


@dataclass(frozen=True)
class MatrixEdge:
    """The left edge of the bulk: its value, tr alpha/(m delta) and alpha (m, m) there.

    thin: the branch ended before spectral radius 1. share: part of the instability that the single largest node makes.
    """

    value: float
    beta: float
    alpha: np.ndarray
    thin: bool
    share: float


@dataclass(frozen=True)
class Point:
    """A solution (alpha, z) at t = tr alpha/m with the derivatives in t; radius: of Y -> delta E[T Y T]."""

    t: float
    z: float
    alpha: np.ndarray
    root: np.ndarray
    slope: np.ndarray  # d(P^{-1} alpha P^{-1})/dt, that is P^{-1} alpha' P^{-1}
    z_slope: float
    radius: float
    mode: np.ndarray


class _Outside(ArithmeticError):
    """Not (or no longer) on the branch where every I + B is positive definite."""


class Branch:
    """Solutions left of the bulk, found by Newton steps from the nearest one known."""

    def __init__(self, law: MatrixLaw, delta: float) -> None:
        self.law, self.delta = law, delta
        self.first = 0.25 / (law.size * (1.0 + 1.0 / math.sqrt(delta)) ** 2)
        self.known: list[Point] = []

    def at(self, t: float) -> Point:
        """The solution with tr alpha = m t; `_Outside` if there is none within reach."""
        near = min(self.known, key=lambda q: abs(math.log(q.t / t)), default=None)
        if near is not None and near.t == t:
            return near
        if near is None or t < 0.1 * self.first:
            alpha, z = t * np.eye(self.law.m), -1.0 / t
        else:
            move = np.eye(self.law.m) + (t - near.t) * near.slope
            if np.linalg.eigvalsh(move)[0] < 0.1:
                move = np.eye(self.law.m)
            alpha = near.root @ move @ near.root
            alpha *= self.law.m * t / np.trace(alpha)
            z = near.z
        point = self._newton(t, alpha, z)
        self.known.append(point)
        return point

    def _newton(self, t: float, alpha: np.ndarray, z: float) -> Point:
        m = self.law.m
        last, previous = math.inf, None
        for _ in range(16):
            try:
                root = _square_root(alpha)
                mean, second = moments(self.law, self.delta, root)
            except _Outside:
                # The step was too long: half of it, as often as needed.
                if previous is None or np.abs(alpha - previous[0]).max() < 1e-12 * np.abs(alpha).max():
                    raise
                alpha, z = 0.5 * (alpha + previous[0]), 0.5 * (z + previous[1])
                continue
            gap = np.eye(m) + z * alpha - self.delta * mean
            size = float(np.abs(gap).max()) / (1.0 + abs(z) * t)
            if size < 1e-12 or (size < 1e-10 and size > 0.5 * last):
                slope, z_slope = _bordered(second, alpha, np.zeros((m, m)), m)
                values, vectors = np.linalg.eigh(second)
                return Point(t, z, alpha, root, slope, z_slope, float(values[-1]), vectors[:, -1].reshape(m, m))
            last, previous = size, (alpha, z)
            step, z_step = _bordered(second, alpha, gap, 0.0)
            values = np.linalg.eigvalsh(step)
            damp = min(1.0, 0.7 / max(-float(values[0]), 0.5 * float(values[-1]), 1e-300))
            alpha = root @ (np.eye(m) + damp * step) @ root
            alpha = 0.5 * (alpha + alpha.T) * (m * t / np.trace(alpha))
            z += damp * z_step
        raise _Outside("no convergence")


def _square_root(alpha: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(alpha)
    if values[0] <= 0:
        raise _Outside("alpha is not positive definite")
    return (vectors * np.sqrt(values)) @ vectors.T


def _bordered(second: np.ndarray, alpha: np.ndarray, gap: np.ndarray, trace: float) -> tuple[np.ndarray, float]:
    """Y and dz with Y - delta E[T Y T] - dz alpha = gap and tr(alpha Y) = trace.

    Least squares of least norm: where several neurons reach the edge together the system is singular but consistent,
    and nothing may drift along its null space.
    """
    m = alpha.shape[0]
    scale = float(np.abs(alpha).max())
    a = alpha.ravel() / scale
    system = np.block([[np.eye(m * m) - second, -a[:, None]], [a[None, :], np.zeros((1, 1))]])
    solution = np.linalg.lstsq(system, np.append(gap.ravel(), trace / scale), rcond=1e-6)[0]
    step = solution[:-1].reshape(m, m)
    return 0.5 * (step + step.T), float(solution[-1]) / scale


def resolved(law: MatrixLaw, delta: float, root: np.ndarray, part: slice) -> np.ndarray:
    """T = B (I + B)^{-1} of some samples, shape (m, m, c); `_Outside` unless every I + B is positive definite.

    All samples are inverted at once by sweeping the pivots in turn; the pivots of a positive definite matrix, and of no
    other, are positive.
    """
    m = law.m
    g = law.g[part]
    half = (g.reshape(-1, m) @ root).reshape(-1, m, m).transpose(0, 2, 1).reshape(-1, m) @ (root / delta)
    b = half.reshape(-1, m, m).transpose(1, 2, 0).copy()
    for k in range(m):
        b[k, k] += 1.0
    for k in range(m):
        pivot = b[k, k].copy()
        if not np.all(pivot > 0.0):
            raise _Outside("a weight left the branch")
        row = b[k] / pivot
        column = b[:, k].copy()
        b -= column[:, None] * row
        b[k] = row
        b[:, k] = row
        b[k, k] = -1.0 / pivot
    for k in range(m):
        b[k, k] += 1.0  # the sweeps leave -(I + B)^{-1}, and T = I - (I + B)^{-1}
    return b


def moments(law: MatrixLaw, delta: float, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[T], shape (m, m), and the matrix of Y -> delta E[T Y T], shape (m^2, m^2), symmetric."""
    m = law.m
    mean, gram = np.zeros(m * m), np.zeros((m * m, m * m))
    for part, p in law.chunks():
        t = resolved(law, delta, root, part).reshape(m * m, -1)
        weighted = t * p
        mean += weighted.sum(axis=1)
        gram += weighted @ t.T
    second = gram.reshape(m, m, m, m).transpose(0, 3, 1, 2).reshape(m * m, m * m)
    return mean.reshape(m, m), delta * 0.5 * (second + second.T)


def branch_and_edge(law: MatrixLaw, delta: float) -> tuple[Branch, MatrixEdge]:
    """The branch left of the bulk, followed up to the edge."""
    branch = Branch(law, delta)
    point, factor = branch.at(branch.first), 3.0
    while point.radius < 1.0:
        if point.t > 1e9 * branch.first and abs(point.z) < 1e-8 * law.size:
            # G >= 0 and zero modes: alpha grows without bound as z rises to the atom at zero.
            return branch, MatrixEdge(0.0, math.inf, point.alpha, False, 0.0)
        if factor < 1.0 + 1e-9:
            return branch, _edge(law, delta, point, thin=True)
        try:
            following = branch.at(point.t * factor)
        except _Outside:
            factor **= 0.4
            continue
        if following.radius >= 1.0:
            low, high = math.log(point.t), math.log(following.t)
            u = bracketed(lambda u: math.log(branch.at(math.exp(u)).radius), low, high, xtol=1e-10)
            return branch, _edge(law, delta, branch.at(math.exp(u)), thin=False)
        point = following
    raise AssertionError("the branch starts with a small radius")  # pragma: no cover


def _edge(law: MatrixLaw, delta: float, point: Point, *, thin: bool) -> MatrixEdge:
    most, total = 0.0, 0.0
    for part, p in law.chunks():
        t = resolved(law, delta, point.root, part)
        moved = np.einsum("jk,klc->jlc", point.mode, t)
        weight = p * np.einsum("ijc,jlc,il->c", t, moved, point.mode)
        most, total = max(most, float(np.abs(weight).max())), total + float(np.abs(weight).sum())
    return MatrixEdge(point.z, point.t / delta, point.alpha, thin, most / total if total > 0 else 0.0)


def left_edge(law: MatrixLaw, delta: float) -> MatrixEdge:
    """The left edge of the bulk of the md x md matrix."""
    return branch_and_edge(law, delta)[1]


def right_edge(law: MatrixLaw, delta: float) -> MatrixEdge:
    """The right edge, as the left edge of -H with its sign changed (alpha and beta are those of -H)."""
    edge = left_edge(law.mirrored, delta)
    return MatrixEdge(-edge.value, edge.beta, edge.alpha, edge.thin, edge.share)


def solve_real(law: MatrixLaw, delta: float, z: float) -> np.ndarray:
    """The positive definite alpha(z), shape (m, m), for real z left of the bulk."""
    branch, edge = branch_and_edge(law, delta)
    if not z < edge.value:
        raise BadInput("z", f"must lie below the bulk, which starts at {edge.value:.6g}; here it is {z:.6g}")
    end = max(q.t for q in branch.known) if math.isinf(edge.beta) else edge.beta * delta
    low = min(0.5 / max(abs(z), 1e-300), 0.5 * branch.first)
    u = bracketed(lambda u: branch.at(math.exp(u)).z - z, math.log(low), math.log(end), xtol=1e-15)
    return branch.at(math.exp(u)).alpha
