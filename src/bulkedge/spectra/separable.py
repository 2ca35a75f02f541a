"""H = (1/n) sum_i G_i x_i x_i^T for inputs x ~ N(0, Sigma): two coupled equations for bulk, edges and outliers.

With a(z) = tr Sigma (H - z)^{-1}/d = delta beta and kappa = E[G/(1 + beta G)], the resolvent is close to
(kappa Sigma - z)^{-1}, so that delta beta = E_tau[tau/(kappa tau - z)], tau an eigenvalue of Sigma drawn by its mass.
In T = beta G/(1 + beta G) and u = tau/(delta beta (kappa tau - z)) this is
    u = tau/(k tau + Y),   k = delta E[T],   E_tau[u] = 1,   z = -Y/(delta beta):
Sigma enters through one function Y(k) alone, decreasing, with Y(1) = 0 (and Y = 1 - k for Sigma = I). Moreover
    dz/dbeta = (1 - delta E[T^2] E[u^2]) / (delta beta^2 E[u^2/tau]).
Left of the spectrum 1 + beta G > 0, u > 0 and dz/dbeta > 0, and no other point has all three: the map
beta -> E_tau[tau/(kappa tau - z)]/delta takes the upper half plane into itself and has one fixed point there, to which
such a point continues. So the left edge is the only zero of 1 - delta E[T^2] E[u^2], found by bisection of its sign.

Outliers along directions Sigma^{-1/2} phi_a, on whose whitened coordinates c_a = phi_a . Sigma^{-1/2} x G depends: the
resolvent is that of kappa Sigma + Sigma^{1/2} phi E[(T/beta)(c c^T - I)] phi^T Sigma^{1/2}, and with the spectral
measure rho of phi and L = E_rho[u] (the identity for Sigma = I) an outlier is where an eigenvalue of
    I + delta L^{1/2} E[T (c c^T - I)] L^{1/2}
vanishes. E[G x x^T/(1 + beta G)] - z decreases in z as a quadratic form: each eigenvalue vanishes once at most, and is
bracketed. Source: derived for this project; Sigma = I is `bulk` and `outliers`, G >= 0 the separable model of Paul and
Silverstein (2009).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bulkedge.foundation.roots import bracketed
from bulkedge.spectra import bulk
from bulkedge.spectra.bulk import Edge
from bulkedge.spectra.law import WeightLaw

_NEWTON = 200


@dataclass(frozen=True, eq=False)
class Population:
    """Eigenvalues tau (p,) > 0 of Sigma with masses (p,); measure (p, q, q) of the whitened revealed directions."""

    tau: np.ndarray
    mass: np.ndarray
    measure: np.ndarray

    def mean(self, values: np.ndarray) -> float:
        """E_tau."""
        return float(values @ self.mass)

    def along(self, values: np.ndarray) -> np.ndarray:
        """E_rho, shape (q, q)."""
        return np.einsum("p,pab->ab", values, self.measure)


@dataclass(frozen=True, eq=False)
class Point:
    """A point of the map beta -> z. t: T at every node of G. u: (p,). residual: |E_tau[u] - 1|, with u > 0 the
    certificate of the branch.
    """

    beta: float
    z: float
    t: np.ndarray
    u: np.ndarray
    residual: float


def response(population: Population, k: float) -> tuple[float, np.ndarray, float]:
    """(Y, u, residual): the solution of E_tau[tau/(k tau + Y)] = 1 with all terms positive.

    1/E_tau[..] is a harmonic mean, concave and increasing in Y: Newton's method from below rises to the root without
    passing it. No single term may exceed 1, which is where it starts.
    """
    tau, w = population.tau, population.mass * population.tau
    pole = float(k * tau.min() if k > 0 else k * tau.max())
    # Distances from the nearest pole, so that none of them is a small difference of large numbers.
    far = k * tau - pole
    near = float(np.max(w - far))
    for _ in range(_NEWTON):
        v = 1.0 / (far + near)
        total = float(w @ v)
        step = (total - 1.0) * total / float(w @ (v * v))
        if not step > 1e-16 * near:
            break
        near += step
    u = tau / (far + near)
    return near - pole, u, abs(population.mean(u) - 1.0)


def at(law: WeightLaw, population: Population, delta: float, beta: float) -> Point:
    """The spectral value at beta, and what decides it."""
    t = bulk.transform(law, beta)
    y, u, residual = response(population, delta * float(law.mean(t)))
    return Point(beta, -y / (delta * beta), t, u, residual)


def edge_excess(law: WeightLaw, population: Population, delta: float, chart: float) -> float:
    """log(delta E[T^2] E[u^2]) in the chart of `bulk`: negative left of the spectrum, zero at the edge."""
    p = at(law, population, delta, bulk.beta_of(law, chart))
    return math.log(min(max(delta * float(law.mean(p.t * p.t)) * population.mean(p.u * p.u), 1e-300), 1e300))


def left_edge(law: WeightLaw, population: Population, delta: float) -> Edge:
    """The left edge of the bulk (zero where it touches an atom at zero from above)."""
    if law.low >= 0 and delta * (1.0 - law.mass_at_zero) <= 1.0:
        return Edge(0.0, math.inf, False, 0.0)
    far = edge_excess(law, population, delta, bulk.FAR) <= 0.0
    chart = bulk.FAR if far else bracketed(lambda c: edge_excess(law, population, delta, c), -bulk.FAR, bulk.FAR)
    point = at(law, population, delta, bulk.beta_of(law, chart))
    part = point.t**2 if law.p is None else point.t**2 * law.p
    share = float(part.max() / part.sum()) if np.any(part) else 0.0
    return Edge(point.z, point.beta, far and math.isfinite(bulk.reach(law)), share)


def right_edge(law: WeightLaw, population: Population, delta: float) -> Edge:
    """As the left edge of -H with its sign changed."""
    edge = left_edge(law.mirrored, population, delta)
    return Edge(-edge.value, edge.beta, edge.thin, edge.share)


def edge_scale(law: WeightLaw, population: Population, delta: float, edge: Edge) -> float | None:
    """The scale gamma of Tracy-Widom fluctuations: gamma^3 = |d^2 z/dm^2|/2 at the edge, m = tr (H - z)^{-1}/d.

    gamma^3 = (delta E[T^2]^2 E[u^3] - E[T^3] E[u^2]) / (beta^3 delta^4 E[T^2]^2 E[u^2/tau]^3). None without a soft
    edge.
    """
    if edge.thin or not math.isfinite(edge.beta) or delta * (1.0 - law.mass_at_zero) <= 1.0:
        return None
    p, mean = at(law, population, delta, edge.beta), population.mean
    t2, t3 = float(law.mean(p.t**2)), float(law.mean(p.t**3))
    bend = delta * t2 * t2 * mean(p.u**3) - t3 * mean(p.u**2)
    return float(np.cbrt(bend / (edge.beta**3 * delta**4 * t2 * t2 * mean(p.u**2 / population.tau) ** 3)))


@dataclass(frozen=True, eq=False)
class SeparableSpike:
    """An outlier. overlap2: squared projection of its unit eigenvector on the span of the revealed directions in the
    space of the inputs. overlaps: (q,), its parts along them (made orthonormal symmetrically where they are not).
    residual: of its equation.
    """

    value: float
    overlap2: float
    overlaps: np.ndarray
    beta: float
    residual: float


def signal(law: WeightLaw, population: Population, delta: float, point: Point) -> np.ndarray:
    """Eigenvalues of I + delta L^{1/2} E[T (c c^T - I)] L^{1/2}, ascending."""
    root = _root(population.along(point.u))
    return np.linalg.eigvalsh(np.eye(law.r) + delta * root @ law.tensor(point.t) @ root)


def margins(
    law: WeightLaw, population: Population, delta: float, edge: Edge | None = None, *, negative: bool
) -> np.ndarray:
    """The eigenvalues of `signal` at the end of the search: outlier i exists iff its margin is negative.

    negative: the search ends where z reaches zero. There u = 1: whether the whole spectrum is positive does not depend
    on Sigma, by Sylvester's law of inertia.
    """
    edge = left_edge(law, population, delta) if edge is None else edge
    if math.isinf(edge.beta):
        return np.ones(law.r)  # G >= 0 and an atom at zero: nothing is below zero
    end = edge.beta
    if negative and edge.value > 0.0:
        low = math.log(min(_scale(law), end) * 1e-12)
        end = math.exp(
            bracketed(lambda v: delta * float(law.mean(bulk.transform(law, math.exp(v)))) - 1.0, low, math.log(end))
        )
    return signal(law, population, delta, at(law, population, delta, end))


def _scale(law: WeightLaw) -> float:
    return 1.0 / max(abs(law.low), abs(law.high))


def _root(matrix: np.ndarray) -> np.ndarray:
    if len(matrix) == 1:
        return np.sqrt(matrix)
    value, basis = np.linalg.eigh(matrix)
    return (basis * np.sqrt(value)) @ basis.T


def below(law: WeightLaw, population: Population, delta: float, edge: Edge | None = None) -> list[SeparableSpike]:
    """All outliers along the revealed directions left of the bulk, lowest first."""
    edge = left_edge(law, population, delta) if edge is None else edge
    if math.isinf(edge.beta):
        return []
    low, high = math.log(_scale(law) * 1e-12), math.log(edge.beta)

    def value(v: float, i: int) -> float:
        return float(signal(law, population, delta, at(law, population, delta, math.exp(v)))[i])

    found = []
    for i in np.flatnonzero(margins(law, population, delta, edge, negative=False) < 0).tolist():
        v = bracketed(lambda v, i=i: value(v, i), low, high)
        found.append(_spike(law, population, delta, math.exp(v), i))
    return found


def above(law: WeightLaw, population: Population, delta: float) -> list[SeparableSpike]:
    """The same right of the bulk, highest first."""
    return [
        SeparableSpike(-s.value, s.overlap2, s.overlaps, s.beta, s.residual)
        for s in below(law.mirrored, population, delta)
    ]


def _spike(law: WeightLaw, population: Population, delta: float, beta: float, i: int) -> SeparableSpike:
    """Residue of the resolvent: with Gamma = E[G x x^T/(1 + beta G)] - z and Gamma v = 0, the squared component of the
    eigenvector along any fixed a is (a.v)^2/(-v^T Gamma' v).

    v = (kappa Sigma - z)^{-1} Sigma^{1/2} phi L^{-1} h up to a factor, where h spans the kernel of
    L^{-1}/delta + E[T (c c^T - I)].
    """
    p, tau, mean, along = at(law, population, delta, beta), population.tau, population.mean, population.along
    root = _root(along(p.u))
    value, basis = np.linalg.eigh(np.eye(law.r) + delta * root @ law.tensor(p.t) @ root)
    g = np.linalg.solve(root, basis[:, i])
    h = root @ basis[:, i]
    t2 = float(law.mean(p.t * p.t))
    room = 1.0 - delta * t2 * mean(p.u * p.u)
    push = t2 * float(g @ along(p.u**2) @ g) + float(h @ law.tensor(p.t * p.t) @ h)
    size = room * float(g @ along(p.u**2 / tau) @ g) + delta * mean(p.u**2 / tau) * push
    # Components along the directions themselves, Sigma^{-1/2} phi, which have the Gram matrix E_rho[1/tau].
    parts = np.linalg.solve(_root(along(1.0 / tau)), along(p.u / tau) @ g)
    overlaps = parts**2 * max(room, 0.0) / size
    return SeparableSpike(p.z, float(overlaps.sum()), overlaps, beta, max(p.residual, abs(float(value[i]))))
