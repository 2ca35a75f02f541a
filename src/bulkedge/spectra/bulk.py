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
from scipy.optimize import brentq

from bulkedge.foundation.status import Status
from bulkedge.spectra.law import WeightLaw

_FAR = 34.0  # |log x| beyond which beta = A x/(1 + x) is numerically 0 or A


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
    if edge_excess(law, _FAR, delta) <= 0.0:
        beta = beta_of(law, _FAR)
        return Edge(psi(law, delta, beta), beta, True, _largest_share(law, beta))
    u = brentq(lambda u: edge_excess(law, u, delta), -_FAR, _FAR, xtol=1e-13, rtol=1e-14)
    beta = beta_of(law, float(u))
    return Edge(psi(law, delta, beta), beta, False, _largest_share(law, beta))


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
    z = np.atleast_1d(np.asarray(z, complex))
    scale = max(abs(law.low), abs(law.high)) * (1.0 + 1.0 / math.sqrt(delta)) ** 2 + np.abs(z)
    height = np.maximum(z.imag, 4.0 * scale)
    alpha = -1.0 / (z.real + 1j * height)
    for _ in range(30):
        alpha = _fixed_point(law, delta, z.real + 1j * height, alpha)
    residual = np.full(z.shape, np.inf)
    done = False
    while not done:
        done = bool(np.all(height <= z.imag))
        alpha, residual = _settle(law, delta, z.real + 1j * height, alpha, tolerance)
        height = np.maximum(z.imag, height / 8.0)
    certified = (residual <= tolerance) & (alpha.imag > 0)
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

    The law of G is compressed into at most `nodes` bins that keep mass and mean; points crowd at the edges, where
    the density is like a square root. Just above the axis, mu = Im alpha/pi.
    """
    small = _compress(law, nodes)
    low, high = left_edge(law, delta).value, right_edge(law, delta).value
    t = np.linspace(0.0, np.pi, points)
    x = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(t)
    width = (high - low) * 1e-7
    solution = stieltjes(small, delta, x + 1j * width)
    y = solution.alpha.imag / np.pi
    hole = atom(law, delta)
    if hole > 0:
        # The Lorentzian of the atom, of width `width`, is not part of the density.
        y = np.maximum(y - hole * width / (np.pi * (x * x + width * width)), 0.0)
    missing = 1.0 - hole - float(np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)))
    return x, y, solution.status, missing


def _compress(law: WeightLaw, nodes: int) -> WeightLaw:
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
