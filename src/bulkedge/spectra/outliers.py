"""Hidden outliers of H = (1/n) sum_i G_i x_i x_i^T, their eigenvectors' overlap, and when they appear (theory 1.3).

With T = beta G/(1 + beta G) and the hidden coordinates s, an eigenvalue z = psi(beta) leaves the bulk where an
eigenvalue of E[T (s s^T - I)] equals -1/delta. Divided by beta, (I/delta + E[T (s s^T - I)])/beta = Phi - psi I
decreases on (0, beta_edge), so that each of its eigenvalues changes its sign once at most and every root is bracketed.
With unit kernel vector w the eigenvector xi has
    |Theta_H^T xi|^2 = (1 - delta E[T^2]) / (1 - delta E[T^2] + delta E[T^2 (w.s)^2]).
Source: Montanari and Wang (2026), the overlap's closed form derived from their residue formula.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bulkedge.foundation.roots import bracketed
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
    low = min(_scale(law), edge.beta) * 1e-12
    return math.exp(bracketed(lambda v: bulk.psi(law, delta, math.exp(v)), math.log(low), math.log(edge.beta)))


def _scale(law: WeightLaw) -> float:
    return 1.0 / max(abs(law.low), abs(law.high))


def below(law: WeightLaw, delta: float, edge: bulk.Edge | None = None) -> list[Spike]:
    """All hidden outliers left of the bulk, lowest first."""
    edge = bulk.left_edge(law, delta) if edge is None else edge
    if math.isinf(edge.beta):
        return []  # G >= 0 and an atom at zero: nothing is below zero
    low, high = math.log(_scale(law) * 1e-12), math.log(edge.beta)
    found = []
    for i in np.flatnonzero(margins(law, delta, edge, negative=False) < 0).tolist():
        beta = math.exp(bracketed(lambda v, i=i: 1.0 + delta * float(signal(law, math.exp(v))[i]), low, high))
        found.append(_spike(law, delta, beta, i))
    return found


def above(law: WeightLaw, delta: float) -> list[Spike]:
    """All hidden outliers right of the bulk, highest first."""
    return [Spike(-s.value, s.overlap2, s.beta, s.direction) for s in below(law.mirrored, delta)]


def _spike(law: WeightLaw, delta: float, beta: float, i: int) -> Spike:
    t = bulk.transform(law, beta)
    w = np.linalg.eigh(law.tensor(t))[1][:, i]
    room = 1.0 - delta * float(law.mean(t * t))
    push = delta * (float(w @ law.tensor(t * t) @ w) + float(law.mean(t * t)))
    return Spike(bulk.psi(law, delta, beta), room / (room + push), beta, w)
