"""Outliers of H = (1/n) sum_i G_i x_i x_i^T along everything training has seen: easy directions, the network's weights.

G_i depends on the coordinates c_i of x_i along the *revealed* directions E = (e_1..e_q): the target's directions and
theta(0..t). Descent has also used X^T F(s), s < t, whose columns lie in the span of E. Given all that,
    X = C E^T + P Z (I - E E^T),   Z fresh and Gaussian,   P = I - projection on the columns f of F(0..t-1),
so that H in the basis (E, the rest) is a finite block coupled to (1/n) Z^T P D P Z, D = diag G. With
R = beta/(1 + beta D), the inverse of 1/beta + D, and R_P, the inverse of its restriction to the range of P,
    R_P = R - R f (f^T R f)^{-1} f^T R,
the Schur complement of the rest is C^T (D - D R_P D) C/n - z. In T = beta G/(1 + beta G), z = psi(beta), it is
    (1/beta) {I/delta + E[T (c c^T - I)] + E[T c f^T] (E[(1 - T) f f^T])^{-1} E[T f c^T]},
and outliers are its zeros in beta. The projection P changes no bulk: it only adds the last term. With unit kernel
vector w and y = T c - (1 - T) L^T f, L = (E[(1 - T) f f^T])^{-1} E[T f c^T], the eigenvector's component along e_a is
squared w_a^2 (1 - delta E[T^2])/(1 - delta E[T^2] + delta E[(w.y)^2]). Without f this is `outliers`, with c in place of
s; c need not have identity covariance, nor need it be Gaussian. Source: derived for this project, by conditioning as in
Celentano, Cheng and Montanari (2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bulkedge.foundation.checks import positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.roots import bracketed
from bulkedge.spectra import bulk
from bulkedge.spectra.law import WeightLaw, numbers

_DEPENDENT = 1e-10  # a direction whose squared distance from the earlier ones is a smaller share of it is not new


@dataclass(frozen=True)
class RevealedSpike:
    """An eigenvalue outside the bulk.

    side: "below" or "above" the bulk. kernel: (q,), unit direction of its eigenvector within the revealed span.
    overlaps: (q,), squared components of the eigenvector along each revealed direction.
    """

    value: float
    side: str
    kernel: np.ndarray
    overlaps: np.ndarray
    beta: float

    def along(self, direction: Any) -> float:
        """Squared component of the eigenvector along another direction, given by its coordinates (q,)."""
        u = np.asarray(direction, float)
        return float(self.overlaps.sum() * (self.kernel @ u) ** 2 / (u @ u))


def revealed_outliers(g: Any, c: Any, f: Any = None, delta: float = 1.0, p: Any = None) -> list[RevealedSpike]:
    """All outliers with a component in the revealed span, lowest first, from both sides of the bulk.

    Args:
        g: (n,) weights.
        c: (n, q) coordinates of the same samples along orthonormal revealed directions (see `coordinates`).
        f: (n, K) gradient factors F(0..t-1) already used, in any basis of their span; None at t = 0.
        delta: samples per dimension.
        p: (n,) probabilities of the samples, None for equal ones.
    """
    law = WeightLaw.of(g, c)
    delta = positive("delta", delta)
    if p is not None:
        mass = numbers("p", p)
        if mass.shape != law.g.shape or np.any(mass < 0) or not math.isclose(mass.sum(), 1.0, rel_tol=1e-6):
            raise BadInput("p", f"must be {law.g.size} probabilities that sum to one")
        law = WeightLaw(law.g, law.s, mass)
    given = np.zeros((law.g.size, 0)) if f is None else numbers("f", f)
    factors = given[:, None] if given.ndim == 1 else given
    if factors.ndim != 2 or len(factors) != law.g.size:
        raise BadInput("f", f"must have one row per weight ({law.g.size}), not shape {given.shape}")
    factors = _independent(law, factors)
    lower = _below(law, factors, delta)
    upper = _below(law.mirrored, factors, delta)
    above = [RevealedSpike(-s.value, "above", s.kernel, s.overlaps, s.beta) for s in reversed(upper)]
    return lower + above


def coordinates(preactivations: Any, gram: Any) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates along orthonormal directions made from given ones, in their order (Gram and Schmidt).

    Args:
        preactivations: (n, p), the samples' products with p directions u_1..u_p.
        gram: (p, p), the products u_i . u_j; directions that depend on earlier ones are dropped.

    Returns:
        c (n, q), and (p, q) the given directions in the new basis: u_i = sum_a out[i, a] e_a.
    """
    v, k = numbers("preactivations", preactivations), numbers("gram", gram)
    if v.ndim != 2 or k.shape != (v.shape[1], v.shape[1]):
        raise BadInput("gram", f"must be square and fit the preactivations, not shapes {k.shape} and {v.shape}")
    inside = np.zeros((len(k), 0))
    c = np.zeros((len(v), 0))
    for j in range(len(k)):
        left = k[j, j] - float(inside[j] @ inside[j])
        if left <= _DEPENDENT * k[j, j]:
            continue
        size = math.sqrt(left)
        column = (k[:, j] - inside @ inside[j]) / size
        column[:j] = 0.0
        c = np.column_stack([c, (v[:, j] - c @ inside[j]) / size])
        inside = np.column_stack([inside, column])
    return c, inside


def _independent(law: WeightLaw, f: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the columns of f in the inner product E[f f^T]."""
    size = np.sqrt(np.maximum([float(law.mean(column * column)) for column in f.T], 1e-300))
    f = f / size
    values, vectors = np.linalg.eigh(_second(law, f, f))
    keep = values > _DEPENDENT * max(float(values.max(initial=0.0)), 1e-300)
    return f @ (vectors[:, keep] / np.sqrt(values[keep]))


def _second(law: WeightLaw, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """E[a b^T] for a (n, i), b (n, j)."""
    return a.T @ b / law.g.size if law.p is None else (a.T * law.p) @ b


def _schur(law: WeightLaw, f: np.ndarray, delta: float, beta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Schur complement times beta, shape (q, q), T at every node, and L, shape (K, q)."""
    t = bulk.transform(law, beta)
    matrix = np.eye(law.r) / delta + law.tensor(t)
    cross = _second(law, f * t[:, None], law.s)
    mixing = np.linalg.solve(_second(law, f * (1.0 - t)[:, None], f), cross)
    matrix += cross.T @ mixing
    return 0.5 * (matrix + matrix.T), t, mixing


def _below(law: WeightLaw, f: np.ndarray, delta: float) -> list[RevealedSpike]:
    edge = bulk.left_edge(law, delta)
    if math.isinf(edge.beta):
        return []  # G >= 0 and an atom at zero: nothing is below zero
    low, high = math.log(1e-12 / max(abs(law.low), abs(law.high))), math.log(edge.beta)

    def eigenvalue(u: float, i: int) -> float:
        return float(np.linalg.eigvalsh(_schur(law, f, delta, math.exp(u))[0])[i])

    found = []
    for i in np.flatnonzero(np.linalg.eigvalsh(_schur(law, f, delta, edge.beta)[0]) < 0).tolist():
        beta = math.exp(bracketed(lambda u, i=i: eigenvalue(u, i), low, high))
        matrix, t, mixing = _schur(law, f, delta, beta)
        w = np.linalg.eigh(matrix)[1][:, i]
        pulled = t * (law.s @ w) - (1.0 - t) * (f @ (mixing @ w))
        room = max(1.0 - delta * float(law.mean(t * t)), 0.0)
        share = room / (room + delta * float(law.mean(pulled * pulled)))
        found.append(RevealedSpike(bulk.psi(law, delta, beta), "below", w, share * w * w, beta))
    return found
