"""The bulk of H = (1/n) sum_i G_i x_i x_i^T: its edges, atom and density (theory 1.3).

With beta = alpha/delta and T = beta G/(1 + beta G), the inverse of the Stieltjes transform is
    psi(beta) = -1/(delta beta) + E[G/(1 + beta G)],   0 < beta < A = 1/max(-inf G, 0),
    d psi/d beta = (1 - delta E[T^2]) / (delta beta^2),
and E[T^2] increases with beta: psi has one maximum, the left edge, where delta E[T^2] = 1. Source: Montanari and
Wang (2026), after Silverstein and Choi (1995).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.roots import bracketed
from bulkedge.foundation.status import Status
from bulkedge.spectra.law import WeightLaw

FAR = 34.0  # |log x| beyond which beta = A x/(1 + x) is numerically 0 or A


@dataclass(frozen=True)
class Edge:
    """The left edge of the bulk: its value, where psi attains it, and what it rests on.

    thin: psi still rises at A (the law of G thins out at its infimum): the edge is then taken at A, and finite
    matrices approach it slowly. share: part of E[T^2] that comes from the single largest node.
    """

    value: float
    beta: float
    thin: bool
    share: float


def transform(law: WeightLaw, beta: float) -> np.ndarray:
    """T = beta G/(1 + beta G) at every node."""
    bg = beta * law.g
    with np.errstate(divide="ignore"):
        return bg / (1.0 + bg)


def psi(law: WeightLaw, delta: float, beta: float) -> float:
    """The spectral value z at which alpha(z) = delta beta."""
    return (float(law.mean(transform(law, beta))) - 1.0 / delta) / beta


def reach(law: WeightLaw) -> float:
    """A/delta: the end of the interval of beta, infinite if G is never negative."""
    return 1.0 / -law.low if law.low < 0 else math.inf


def beta_of(law: WeightLaw, u: float) -> float:
    """A chart of (0, A): beta = A x/(1 + x) with x = e^u, or x over the scale of G if A is infinite."""
    end = reach(law)
    if math.isinf(end):
        return math.exp(u) / max(law.high, 1e-300)
    return end / (1.0 + math.exp(-u))


def edge_excess(law: WeightLaw, u: float, delta: float) -> float:
    """log(delta E[T^2]): increasing in u, zero at the edge."""
    t = transform(law, beta_of(law, u))
    return math.log(min(max(delta * float(law.mean(t * t)), 1e-300), 1e300))


def left_edge(law: WeightLaw, delta: float) -> Edge:
    """The left edge of the bulk (zero where the bulk touches an atom at zero from above)."""
    if law.low >= 0 and delta * (1.0 - law.mass_at_zero) <= 1.0:
        # psi rises to 0 as beta goes to infinity: an atom at zero is the lowest of the spectrum.
        return Edge(0.0, math.inf, False, 0.0)
    if edge_excess(law, FAR, delta) <= 0.0:
        beta = beta_of(law, FAR)
        return Edge(psi(law, delta, beta), beta, math.isfinite(reach(law)), _largest_share(law, beta))
    beta = beta_of(law, bracketed(lambda u: edge_excess(law, u, delta), -FAR, FAR))
    return Edge(psi(law, delta, beta), beta, False, _largest_share(law, beta))


def edge_scale(law: WeightLaw, delta: float, edge: Edge) -> float | None:
    """The scale gamma of Tracy-Widom fluctuations: without outlier the lowest of d eigenvalues is near
    edge + 1.2065 gamma d^(-2/3).

    gamma^3 = |psi''|/2 in alpha at the edge, or E[T^2 (1 - T)]/(delta^2 beta^3); None where there is no soft edge.
    """
    if edge.thin or not math.isfinite(edge.beta) or delta * (1.0 - law.mass_at_zero) <= 1.0:
        return None
    t = transform(law, edge.beta)
    return float(np.cbrt(float(law.mean(t * t * (1.0 - t))) / (delta**2 * edge.beta**3)))


def _largest_share(law: WeightLaw, beta: float) -> float:
    t = transform(law, beta)
    part = t * t if law.p is None else t * t * law.p
    total = float(part.sum())
    return float(part.max()) / total if total > 0 else 0.0


def right_edge(law: WeightLaw, delta: float) -> Edge:
    """The right edge, as the left edge of -H with its sign changed (beta is that of -H)."""
    edge = left_edge(law.mirrored, delta)
    return Edge(-edge.value, edge.beta, edge.thin, edge.share)


def atom(law: WeightLaw, delta: float) -> float:
    """The mass of the spectrum at zero: the rank of H is at most n P(G != 0)."""
    return max(0.0, 1.0 - delta * (1.0 - law.mass_at_zero))


@dataclass(frozen=True)
class Stieltjes:
    """Certified solutions alpha(z): `certified` marks where Im alpha > 0 solves the equation to `residual`."""

    alpha: np.ndarray
    certified: np.ndarray
    residual: np.ndarray

    @property
    def status(self) -> Status:
        return Status.CONVERGED if bool(np.all(self.certified)) else Status.NOT_CONVERGED


def stieltjes(law: WeightLaw, delta: float, z: np.ndarray, tolerance: float = 1e-10) -> Stieltjes:
    """alpha(z) = int mu(dx)/(x - z) for Im z > 0, the solution of z + 1/alpha = E[G/(1 + alpha G/delta)].

    In the upper half plane the solution with Im alpha > 0 is unique, so that a small residual there *is* the
    certificate of the branch. It is reached by continuation: start high above the axis, where the fixed point
    alpha <- 1/(E[G/(1 + alpha G/delta)] - z) contracts strongly, come down geometrically with Newton steps, and
    return to the fixed point (a self-map of the half plane, hence convergent) wherever a Newton step leaves it.
    """
    z = np.atleast_1d(np.asarray(z, np.complex128))
    real, imag = np.real(z), np.imag(z)
    if np.any(imag <= 0):
        raise BadInput("z", "must lie above the real axis")
    scale = max(abs(law.low), abs(law.high)) * (1.0 + 1.0 / math.sqrt(delta)) ** 2 + np.abs(z)
    height = np.maximum(imag, 4.0 * scale)
    alpha = -1.0 / (real + 1j * height)
    for _ in range(30):
        alpha = _fixed_point(law, delta, real + 1j * height, alpha)
    while True:
        alpha, residual = _settle(law, delta, real + 1j * height, alpha, tolerance)
        if np.all(height <= imag):
            break
        height = np.maximum(imag, height / 8.0)
    # The residual moves z by |residual/alpha|: as long as it stays above the axis, alpha is the transform there.
    certified = (residual <= tolerance) & (np.imag(alpha) > 0) & (residual < 0.5 * imag * np.abs(alpha))
    return Stieltjes(alpha, certified, residual)


def _chunks(law: WeightLaw, alpha: np.ndarray) -> list[slice]:
    step = max(1, 4_000_000 // law.g.size)
    return [slice(i, i + step) for i in range(0, alpha.size, step)]


def _kernel(law: WeightLaw, delta: float, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[G/(1 + alpha G/delta)] and its derivative in alpha."""
    value, slope = np.empty_like(alpha), np.empty_like(alpha)
    for part in _chunks(law, alpha):
        m = law.g / (1.0 + alpha[part, None] * (law.g / delta))
        value[part] = law.mean(m)
        slope[part] = -law.mean(m * m) / delta
    return value, slope


def _fixed_point(law: WeightLaw, delta: float, z: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    return 1.0 / (_kernel(law, delta, alpha)[0] - z)


def _settle(
    law: WeightLaw, delta: float, z: np.ndarray, alpha: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Solve at z from a nearby alpha; the residual is |alpha (E[..] - z) - 1|."""
    alpha = alpha.copy()
    residual = np.full(alpha.shape, np.inf)
    todo = np.arange(alpha.size)
    for attempt in range(400):
        a, x = alpha[todo], z[todo]
        value, slope = _kernel(law, delta, a)
        gap = a * (value - x) - 1.0
        residual[todo] = np.abs(gap)
        ready = residual[todo] <= 0.01 * tolerance
        newton = a - gap / (value - x + a * slope)
        plain = 1.0 / (value - x)
        # A Newton step that leaves the half plane, or moves far, is replaced by the averaged fixed point.
        good = (newton.imag > 0) & (np.abs(newton - a) < 0.5 * np.abs(a)) & np.isfinite(newton)
        good &= attempt % 8 != 7
        alpha[todo] = np.where(ready, a, np.where(good, newton, 0.5 * (a + plain)))
        todo = todo[~ready]
        if todo.size == 0:
            break
    return alpha, residual


def density(
    law: WeightLaw, delta: float, points: int = 400, nodes: int = 1000
) -> tuple[np.ndarray, np.ndarray, Status, float]:
    """(x, mu(x)) of the absolutely continuous part, the status, and what its integral misses of 1 - atom.

    With w = -1/beta = a + ib, the inverse transform z = w (1/delta - E[G/(G - w)]) is real on the curve b(a) where
    E[G^2/((G - a)^2 + b^2)] = 1/delta (and b = 0 where the left side is smaller at b = 0: a gap of the spectrum), x
    increases with a along it, and mu(x) = delta b/(pi (a^2 + b^2)). No branch has to be chosen, and no piece of the
    bulk can be missed: each holds an atom of G. The pieces are found first; in each, points crowd at the ends, where
    the density is like a square root, and intervals are halved until the trapezoidal rule is exact to about 1e-4: there
    are about `points` of them, or more where the bulk has many pieces or long tails. The law of G is compressed into
    about `nodes` bins that keep mass and mean. Source: after Silverstein and Choi (1995); the chart as in Biane's work
    on free convolutions.
    """
    small = compress(law, nodes)
    pieces = _pieces(small, delta)
    t = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, max(points // len(pieces), 5)))
    a = np.stack([low + (high - low) * t for low, high in pieces])
    # The density vanishes at the ends; where it is unbounded (w = 0) a vanishing value stands in, or the nearest one.
    tiny = 1e-10 * max(abs(law.low), abs(law.high))
    end = (t == 0.0) | (t == 1.0)
    a = np.where(np.abs(a) < tiny, np.where(end, 0.0, tiny), a)
    a, x, y, gap = _curve(small, delta, a.ravel())
    y[np.tile(end, len(pieces))] = 0.0
    todo = np.flatnonzero(np.arange(1, a.size) % t.size)  # intervals inside a piece
    for _ in range(40):
        _, xm, ym, gm = _curve(small, delta, 0.5 * (a[todo] + a[todo + 1]))
        whole = (y[todo] + y[todo + 1]) * (x[todo + 1] - x[todo])
        halves = (y[todo] + ym) * (xm - x[todo]) + (ym + y[todo + 1]) * (x[todo + 1] - xm)
        coarse = np.abs(halves - whole) > 1e-4 / points
        todo, xm, ym, gm = todo[coarse], xm[coarse], ym[coarse], gm[coarse]
        if todo.size == 0:
            break
        am = 0.5 * (a[todo] + a[todo + 1])
        a, x, y, gap = (np.insert(v, todo + 1, m) for v, m in ((a, am), (x, xm), (y, ym), (gap, gm)))
        left = todo + np.arange(todo.size)
        todo = np.sort(np.concatenate([left, left + 1]))
    missing = 1.0 - atom(law, delta) - float(np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)))
    # Pieces around atoms of next to no mass are narrower than rounding: what counts is the mass that is not certain.
    doubt = np.where(np.maximum(gap[1:], gap[:-1]) < 1e-8, 0.0, 0.5 * (y[1:] + y[:-1]) * np.diff(x))
    sound = float(np.sum(np.abs(doubt))) < 1e-6 and bool(np.all(np.diff(x) >= -1e-9 * np.ptp(x)))
    return x, y, Status.CONVERGED if sound else Status.NOT_CONVERGED, missing


def _curve(law: WeightLaw, delta: float, a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """(a, x, mu(x), residual) on the curve over real a."""
    b2, gap = _height2(law, delta, a)
    w = a + 1j * np.sqrt(b2)
    x = np.empty(a.size)
    for part in _chunks(law, w):
        x[part] = (w[part] * (1.0 / delta - law.mean(law.g / (law.g - w[part, None])))).real
    return a, x, delta * w.imag / (np.pi * np.maximum(np.abs(w) ** 2, 1e-300)), gap


def _excess(law: WeightLaw, delta: float, a: np.ndarray) -> np.ndarray:
    """The excess delta E[G^2/(G - a)^2] - 1 for real a: positive inside the spectrum."""
    out = np.empty(a.size)
    with np.errstate(divide="ignore"):
        for part in _chunks(law, a):
            out[part] = delta * law.mean((law.g / (law.g - a[part, None])) ** 2) - 1.0
    return out


def _pieces(law: WeightLaw, delta: float) -> list[tuple[float, float]]:
    """The intervals of a over which the spectrum has mass, in order.

    Between neighbouring atoms of G (and beyond the last) the excess is convex: its minimum tells if there is a gap.
    """
    weight = law.g * law.g * (np.full(law.g.size, 1.0 / law.g.size) if law.p is None else law.p)
    g, label = np.unique(law.g, return_inverse=True)
    root = np.cbrt(np.bincount(label, weight))[g != 0.0]
    g = g[g != 0.0]
    far = (abs(law.low) + abs(law.high)) * (2.0 + 2.0 * np.sqrt(delta))
    # The two neighbours alone give at least (sum of cube roots)^3/distance^2: this rules out most gaps.
    wide = delta * (root[1:] + root[:-1]) ** 3 < np.diff(g) ** 2
    lower, upper = g[:-1][wide], g[1:][wide]
    bottom = _least(law, lower, upper)
    gaps = _excess(law, delta, bottom) < 0.0
    lower, upper, bottom = lower[gaps], upper[gaps], bottom[gaps]
    starts = _boundary(law, delta, np.concatenate([[-far], bottom]), np.concatenate([g[:1], upper]))
    ends = _boundary(law, delta, np.concatenate([bottom, [far]]), np.concatenate([lower, g[-1:]]))
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _least(law: WeightLaw, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The minima of the convex excess between low and high: by bisection of its slope's sign."""
    for _ in range(50 if low.size else 0):
        middle = 0.5 * (low + high)
        slope = np.empty(middle.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            for part in _chunks(law, middle):
                slope[part] = law.mean(law.g**2 / (law.g - middle[part, None]) ** 3)
        low, high = np.where(slope > 0, low, middle), np.where(slope > 0, middle, high)
    return 0.5 * (low + high)


def _boundary(law: WeightLaw, delta: float, outside: np.ndarray, inside: np.ndarray) -> np.ndarray:
    """Where the excess changes its sign between a point in a gap and one in the spectrum."""
    for _ in range(60):
        middle = 0.5 * (outside + inside)
        within = _excess(law, delta, middle) > 0.0
        outside, inside = np.where(within, outside, middle), np.where(within, middle, inside)
    return inside


def _height2(law: WeightLaw, delta: float, a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """b^2 on the curve, and the relative residual.

    1/E[G^2/((G - a)^2 + q)] is an increasing concave function of q (a harmonic mean): Newton's method from below rises
    to the root without passing it. It starts from what the best single atom gives.
    """
    floor = 1e-40 * max(law.low**2, law.high**2)
    weight = law.g**2 * (1.0 / law.g.size if law.p is None else law.p)
    q = np.empty(a.size)
    for part in _chunks(law, a):
        q[part] = np.max(delta * weight - (law.g - a[part, None]) ** 2, axis=-1)
    q = np.maximum(q, floor)
    value = np.ones(a.size)
    for _ in range(100):
        value, slope = np.empty(a.size), np.empty(a.size)
        for part in _chunks(law, a):
            inverse = 1.0 / ((law.g - a[part, None]) ** 2 + q[part, None])
            value[part] = law.mean(law.g**2 * inverse)
            slope[part] = law.mean(law.g**2 * inverse**2)
        step = (delta - 1.0 / value) * value**2 / slope
        q = np.maximum(q + step, floor)
        if np.all(np.abs(delta * value - 1.0) < 1e-11):
            break
    return q, np.abs(delta * value - 1.0)


def compress(law: WeightLaw, nodes: int) -> WeightLaw:
    """The law of G alone, in about `nodes` bins that keep mass and mean."""
    if law.g.size <= nodes:
        return WeightLaw(law.g, law.s[:, :0], law.p)
    order = np.argsort(law.g)
    g = law.g[order]
    p = np.full(g.size, 1.0 / g.size) if law.p is None else law.p[order]
    # Bins of equal mass in the middle and of equal width in the tails, where edges are decided.
    level = np.cumsum(p) / p.sum()
    spread = (g - g[0]) / max(g[-1] - g[0], 1e-300)
    label = np.floor((0.5 * level + 0.5 * spread) * (nodes - 1)).astype(int)
    label = np.where(g == 0.0, nodes, label)
    mass = np.bincount(label, p, nodes + 1)
    first = np.bincount(label, p * g, nodes + 1)
    keep = mass > 0
    return WeightLaw(first[keep] / mass[keep], np.zeros((int(keep.sum()), 0)), mass[keep] / mass.sum())
