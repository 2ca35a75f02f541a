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
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.roots import bracketed
from bulkedge.spectra.matrix_law import MatrixLaw


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


@dataclass(frozen=True)
class _Look:
    """What one pass over the samples says at alpha: the residual, how steep it is, and the potential.

    gap: I + z alpha - delta E[T] with the z of least residual, size: of it, relative. second: Y -> delta E[T Y T] in
    the basis of the law. potential: E log det(I + B) - log det(alpha)/delta, whose minimum at fixed trace is alpha.
    """

    alpha: np.ndarray
    root: np.ndarray
    z: float
    gap: np.ndarray
    size: float
    second: np.ndarray
    potential: float


class Branch:
    """Solutions left of the bulk: minima of the potential at fixed t, by Newton steps from the nearest ones known.

    Feasible alpha are those with alpha^{-1} > -G/delta for every G, so that their inverses are a convex set which also
    holds what is scaled down: between two known solutions there is always a place to start from.
    """

    def __init__(self, law: MatrixLaw, delta: float, hint: np.ndarray | None = None) -> None:
        """hint: alpha near the edge at another delta, where a search may begin."""
        self.law, self.delta, self.hint = law, delta, hint
        self.first = 0.25 / (law.size * (1.0 + 1.0 / math.sqrt(delta)) ** 2)
        self.known: list[Point] = []

    def at(self, t: float) -> Point:
        """The solution with tr alpha = m t; `_Outside` if there is none within reach."""
        same = next((q for q in self.known if q.t == t), None)
        if same is not None:
            return same
        for alpha in self._starts(t):
            try:
                point = self._minimum(t, alpha)
            except _Outside:
                continue
            self.known.append(point)
            return point
        raise _Outside("no solution within reach")

    def _starts(self, t: float) -> Iterator[np.ndarray]:
        m = self.law.m
        below = max((q for q in self.known if q.t < t), key=lambda q: q.t, default=None)
        above = min((q for q in self.known if q.t > t), key=lambda q: q.t, default=None)
        if t < 0.1 * self.first:
            yield t * np.eye(m)
        near = min((q for q in (below, above) if q), key=lambda q: abs(math.log(q.t / t)), default=None)
        if near is not None:
            move = np.eye(m) + (t - near.t) * near.slope
            if np.linalg.eigvalsh(move)[0] > 0.1:
                yield _of_trace(near.root @ move @ near.root, t)
        if below is not None and above is not None:
            yield _between(below.alpha, above.alpha, t)
        elif near is not None:
            yield near.alpha * (t / near.t)
        elif self.hint is not None:
            yield _of_trace(self.hint, t)
        yield t * np.eye(m)

    def _look(self, t: float, alpha: np.ndarray) -> _Look:
        law, delta = self.law, self.delta
        root, logs = _square_root(alpha)
        mean, second, inside = _averages(law, delta, root)
        off = delta * law.invariant(mean) - np.eye(law.m)
        z = float(np.sum(off * alpha) / np.sum(alpha * alpha))
        gap = z * alpha - off
        size = float(np.abs(gap).max()) / (1.0 + abs(z) * t)
        return _Look(alpha, root, z, gap, size, second, inside - logs / delta)

    def _minimum(self, t: float, alpha: np.ndarray) -> Point:
        basis, m = self.law.basis, self.law.m
        here = self._look(t, alpha)
        for _ in range(60):
            if here.size < 1e-10:
                # Rounding decides when to stop: one more step, kept if it helps.
                there = self._stepped(t, here)
                here = there if there is not None and there.size < here.size else here
                slope, z_slope = _bordered(basis, here.second, here.alpha, np.zeros((m, m)), m)
                values, vectors = np.linalg.eigh(here.second)
                mode = np.einsum("c,cij->ij", vectors[:, -1], basis)
                return Point(t, here.z, here.alpha, here.root, slope, z_slope, float(values[-1]), mode)
            there = self._stepped(t, here)
            if there is None:
                break
            here = there
        raise _Outside("no minimum within reach")

    def _stepped(self, t: float, here: _Look) -> _Look | None:
        """After a Newton step, shortened until it is feasible and the potential, or the residual, falls."""
        step, _ = _bordered(self.law.basis, here.second, here.alpha, here.gap, 0.0)
        falls = float(np.sum(here.gap * step)) / self.delta
        values = np.linalg.eigvalsh(step)
        damp = min(1.0, 0.7 / max(-float(values[0]), 0.5 * float(values[-1]), 1e-300))
        for _ in range(30):
            try:
                there = self._look(t, _of_trace(here.root @ (np.eye(self.law.m) + damp * step) @ here.root, t))
            except _Outside:
                there = None
            if there is not None:
                lower = falls > 0 and there.potential < here.potential - 1e-4 * damp * falls
                if lower or there.size < 0.9 * here.size:
                    return there
            if here.size < 1e-10:
                return None
            damp *= 0.5
        return None


def _of_trace(alpha: np.ndarray, t: float) -> np.ndarray:
    return 0.5 * (alpha + alpha.T) * (len(alpha) * t / np.trace(alpha))


def _between(one: np.ndarray, other: np.ndarray, t: float) -> np.ndarray:
    """The inverse of a mean of two inverses, with trace m t between those of the two."""
    ends = np.linalg.inv(one), np.linalg.inv(other)

    def mixed(share: float) -> np.ndarray:
        return np.linalg.inv((1.0 - share) * ends[0] + share * ends[1])

    share = bracketed(lambda x: float(np.trace(mixed(x))) / (len(one) * t) - 1.0, 0.0, 1.0, xtol=1e-12)
    return _of_trace(mixed(share), t)


def _square_root(alpha: np.ndarray) -> tuple[np.ndarray, float]:
    """The positive square root, and log det alpha."""
    values, vectors = np.linalg.eigh(alpha)
    if values[0] <= 0:
        raise _Outside("alpha is not positive definite")
    return (vectors * np.sqrt(values)) @ vectors.T, float(np.log(values).sum())


def _bordered(
    basis: np.ndarray, second: np.ndarray, alpha: np.ndarray, gap: np.ndarray, trace: float
) -> tuple[np.ndarray, float]:
    """Y and dz with Y - delta E[T Y T] - dz alpha = gap and tr(alpha Y) = trace, in a basis (c, m, m) of such Y.

    Least squares of least norm: where several neurons reach the edge together the system is singular but consistent,
    and nothing may drift along its null space.
    """
    scale = float(np.abs(alpha).max())
    a, b = (np.einsum("cij,ij->c", basis, x) for x in (alpha / scale, gap))
    system = np.block([[np.eye(len(a)) - second, -a[:, None]], [a[None, :], np.zeros((1, 1))]])
    solution = np.linalg.lstsq(system, np.append(b, trace / scale), rcond=1e-6)[0]
    return np.einsum("c,cij->ij", solution[:-1], basis), float(solution[-1]) / scale


def resolved(law: MatrixLaw, delta: float, root: np.ndarray, part: slice) -> np.ndarray:
    """T = B (I + B)^{-1} of some samples, shape (m, m, c); `_Outside` unless every I + B is positive definite."""
    return _swept(law, delta, root, part)[0]


def _swept(law: MatrixLaw, delta: float, root: np.ndarray, part: slice) -> tuple[np.ndarray, np.ndarray]:
    """T, and log det(I + B), of some samples.

    All samples are inverted at once by sweeping the pivots in turn; the pivots of a positive definite matrix, and of no
    other, are positive.
    """
    m = law.m
    g = law.g[part]
    half = (g.reshape(-1, m) @ root).reshape(-1, m, m).transpose(0, 2, 1).reshape(-1, m) @ (root / delta)
    b = half.reshape(-1, m, m).transpose(1, 2, 0).copy()
    determinant = np.ones(b.shape[2])
    for k in range(m):
        b[k, k] += 1.0
    for k in range(m):
        pivot = b[k, k].copy()
        if not np.all(pivot > 0.0):
            raise _Outside("a weight left the branch")
        determinant *= pivot
        row = b[k] / pivot
        column = b[:, k].copy()
        b -= column[:, None] * row
        b[k] = row
        b[:, k] = row
        b[k, k] = -1.0 / pivot
    for k in range(m):
        b[k, k] += 1.0  # the sweeps leave -(I + B)^{-1}, and T = I - (I + B)^{-1}
    return b, np.log(determinant)


def _averages(law: MatrixLaw, delta: float, root: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """E[T], shape (m, m), the matrix of Y -> delta E[T Y T] in the basis of the law, and E log det(I + B)."""
    m = law.m
    mean, gram, logs = np.zeros(m * m), np.zeros((m * m, m * m)), 0.0
    for part, p in law.chunks():
        t, log = _swept(law, delta, root, part)
        weighted = t.reshape(m * m, -1) * p
        mean += weighted.sum(axis=1)
        gram += weighted @ t.reshape(m * m, -1).T
        logs += float(log @ p)
    pairs = gram.reshape(m, m, m, m).transpose(0, 3, 1, 2).reshape(m * m, m * m)
    flat = law.basis.reshape(-1, m * m)
    second = delta * (flat @ pairs @ flat.T)
    return mean.reshape(m, m), 0.5 * (second + second.T), logs


def branch_and_edge(law: MatrixLaw, delta: float, near: MatrixEdge | None = None) -> tuple[Branch, MatrixEdge]:
    """The branch left of the bulk, followed up to the edge. near: the edge at another delta, to begin from."""
    known = near is not None and math.isfinite(near.beta)
    branch = Branch(law, delta, near.alpha if near is not None and known else None)
    point, factor = None, 3.0
    if near is not None and known:
        try:
            point, factor = branch.at(near.beta * delta), 1.2
        except _Outside:
            branch.hint = None
    if point is None:
        point = branch.at(branch.first)
    following = None
    while point.radius >= 1.0:
        point, following = branch.at(0.8 * point.t), point
    while following is None:
        if point.t > 1e9 * branch.first and abs(point.z) < 1e-8 * law.size:
            # G >= 0 and zero modes: alpha grows without bound as z rises to the atom at zero.
            return branch, MatrixEdge(0.0, math.inf, point.alpha, False, 0.0)
        if factor < 1.0 + 1e-9:
            return branch, _edge(law, delta, point, thin=True)
        try:
            further = branch.at(point.t * factor)
        except _Outside:
            factor **= 0.4
            continue
        if further.radius >= 1.0:
            following = further
        else:
            point, factor = further, min(3.0, factor**1.5)
    low, high = math.log(point.t), math.log(following.t)
    try:
        u = bracketed(lambda u: math.log(branch.at(math.exp(u)).radius), low, high, xtol=1e-10)
        return branch, _edge(law, delta, branch.at(math.exp(u)), thin=False)
    except _Outside:
        return branch, _edge(law, delta, _from_below(branch, point, high - low), thin=False)


def _from_below(branch: Branch, point: Point, reach: float) -> Point:
    """The edge as the end of what can be reached from the left: z changes there only to second order.

    Where several neurons come to the edge almost together, what lies a little beyond it is no minimum, and a solution
    found far beyond it is of another branch.
    """
    branch.known = [q for q in branch.known if q.radius < 1.0]
    step = reach
    while step > 1e-9 and point.radius < 1.0 - 1e-9:
        try:
            further = branch.at(point.t * math.exp(step))
        except _Outside:
            step *= 0.3
            continue
        if further.radius < 1.0:
            point = further
        else:
            branch.known.remove(further)
            step *= 0.5
    return point


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
