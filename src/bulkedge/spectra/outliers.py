"""Hidden outliers of H = (1/n) sum_i G_i x_i x_i^T, their eigenvectors' overlap, and when they appear (theory 1.3).

With T = beta G/(1 + beta G) and the hidden coordinates s, an eigenvalue z = psi(beta) leaves the bulk where an
eigenvalue of E[T (s s^T - I)] equals -1/delta; its eigenvalues decrease with beta on (0, beta_edge), so that each
root is bracketed. With unit kernel vector w the eigenvector xi has
    |Theta_H^T xi|^2 = (1 - delta E[T^2]) / (1 - delta E[T^2] + delta E[T^2 (w.s)^2]).
Source: Montanari and Wang (2026), the overlap's closed form derived from their residue formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from bulkedge.spectra import bulk
from bulkedge.spectra.law import WeightLaw


@dataclass(frozen=True)
class Spike:
    """A hidden outlier: eigenvalue, squared overlap of its eigenvector, its direction w in the hidden space."""

    value: float
    overlap2: float
    beta: float
    direction: np.ndarray


def signal(law: WeightLaw, beta: float) -> np.ndarray:
    """Eigenvalues of E[T (s s^T - I)], ascending."""
    if math.isinf(beta):
        return np.linalg.eigvalsh(law.tensor((law.g != 0).astype(float)))
    t = bulk.transform(law, beta)
    if law.r == 1:
        return np.atleast_1d(law.tensor(t)[0])
    return np.linalg.eigvalsh(law.tensor(t))


def margins(law: WeightLaw, delta: float, edge: bulk.Edge, *, negative: bool) -> np.ndarray:
    """1 + delta lambda_i(E[T(s s^T - I)]) at the end of the search: outlier i exists iff its margin is negative.

    negative: stop the search where z = psi(beta) reaches zero, so that only descent directions count.
    """
    return 1.0 + delta * signal(law, search_end(law, delta, edge, negative=negative))


def search_end(law: WeightLaw, delta: float, edge: bulk.Edge, *, negative: bool) -> float:
    """beta_max: the edge, or where psi crosses zero below it."""
    if not negative or edge.value <= 0.0:
        return edge.beta
    scale = 1.0 / max(abs(law.low), abs(law.high))
    high = edge.beta if math.isfinite(edge.beta) else scale * math.exp(40.0)
    low = min(scale, high) * 1e-12
    f = lambda v: bulk.psi(law, delta, math.exp(v))  # noqa: E731
    return math.exp(brentq(f, math.log(low), math.log(high), xtol=1e-13, rtol=1e-14))


def below(law: WeightLaw, delta: float, edge: bulk.Edge | None = None) -> list[Spike]:
    """All hidden outliers left of the bulk, lowest first."""
    edge = bulk.left_edge(law, delta) if edge is None else edge
    exists = margins(law, delta, edge, negative=False) < 0
    scale = 1.0 / max(abs(law.low), abs(law.high))
    high = edge.beta if math.isfinite(edge.beta) else scale * math.exp(40.0)
    found = []
    for i in np.flatnonzero(exists):
        f = lambda v, i=int(i): 1.0 + delta * signal(law, math.exp(v))[i]  # noqa: E731
        beta = math.exp(brentq(f, math.log(scale * 1e-12), math.log(high), xtol=1e-13, rtol=1e-14))
        found.append(_spike(law, delta, beta, int(i)))
    return found


def above(law: WeightLaw, delta: float) -> list[Spike]:
    """All hidden outliers right of the bulk, highest first."""
    return [Spike(-s.value, s.overlap2, s.beta, s.direction) for s in below(law.mirrored, delta)]


def _spike(law: WeightLaw, delta: float, beta: float, i: int) -> Spike:
    t = bulk.transform(law, beta)
    w = np.linalg.eigh(law.tensor(t))[1][:, i]
    room = 1.0 - delta * float(law.mean(t * t))
    push = delta * float(law.mean(t * t * (law.s @ w) ** 2))
    return Spike(bulk.psi(law, delta, beta), room / (room + push), beta, w)
