"""Outliers of the whole md x md Hessian (theory 1.6), along hidden directions and along all that training has seen.

In the notation of `matrix`, the block of H - z in the span of directions along which a sample has coordinates c (q,),
after the rest has been eliminated, is P^{-1} S P^{-1} with
    S = I + delta E[T (x) (c c^T - I)] + delta E[T (x) c f^T] (E[(I - T) (x) f f^T])^{-1} E[T (x) f c^T],
where f are the gradient factors already used (see `revealed`, which this is at m = 1); without f and with c = s, the
hidden coordinates, it is the determinant of theory 1.6. A Schur complement decreases in z, so that each of the mq
eigenvalues of S crosses zero once at most. With kernel vector K (m, q), |P K| = 1, and
    y = T K c - (I - T) L f,   L = (E[(I - T) (x) f f^T])^{-1} E[T (x) f c^T] K,   alpha' = d alpha/dz,
    overlap2 = 1/(1 + delta E[y^T P^{-1} alpha' P^{-1} y]).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bulkedge.foundation.roots import bracketed
from bulkedge.spectra.matrix import MatrixEdge, Point, branch_and_edge, resolved
from bulkedge.spectra.matrix_law import MatrixLaw


@dataclass(frozen=True)
class MatrixSpike:
    """An eigenvalue outside the bulk. direction: (m, q), unit, of its eigenvector within the span of the coordinates.

    overlap2: the share of the eigenvector in that span, summed over the m blocks.
    """

    value: float
    overlap2: float
    direction: np.ndarray


def below(law: MatrixLaw, delta: float, f: np.ndarray | None = None) -> list[MatrixSpike]:
    """All outliers left of the bulk along the coordinates law.s, lowest first.

    f: (n, K) orthonormal gradient factors already used, E[f f^T] = I; None for hidden directions, which decouple.
    """
    used = np.zeros((len(law.g), 0)) if f is None else f
    if law.r == 0:
        return []
    branch, edge = branch_and_edge(law, delta)
    if math.isinf(edge.beta):
        return []  # G >= 0 and zero modes: nothing is below zero
    high = edge.beta * delta

    def eigenvalues(t: float) -> np.ndarray:
        return np.linalg.eigvalsh(_schur(law, used, delta, branch.at(t).root)[0])

    count = int(np.count_nonzero(eigenvalues(high) < 0.0))
    low = branch.first
    while count and eigenvalues(low)[0] <= 0.0:
        low *= 0.25
    found: list[MatrixSpike] = []
    point = branch.at(low)
    for i in range(count):
        # A multiple root is one point, so that its directions come out independent.
        if not found or abs(eigenvalues(point.t)[i]) > 1e-8:
            logs = math.log(low), math.log(high)
            u = bracketed(lambda u, i=i: float(eigenvalues(math.exp(u))[i]), *logs, xtol=1e-12)
            point = branch.at(math.exp(u))
        found.append(_spike(law, used, delta, point, i))
    return found


def above(law: MatrixLaw, delta: float, f: np.ndarray | None = None) -> list[MatrixSpike]:
    """All outliers right of the bulk, highest first."""
    return [MatrixSpike(-s.value, s.overlap2, s.direction) for s in below(law.mirrored, delta, f)]


def margin(law: MatrixLaw, delta: float, near: MatrixEdge | None = None) -> tuple[float, MatrixEdge]:
    """The least eigenvalue of S at the edge, or at z = 0 if that comes first: a negative hidden outlier exists iff it
    is negative. And the edge, from which the search at the next delta may begin (`near`).
    """
    branch, edge = branch_and_edge(law, delta, near)
    if law.r == 0 or math.isinf(edge.beta):
        return 1.0, edge
    end = edge.beta * delta
    if edge.value > 0.0:
        low = branch.first
        while branch.at(low).z >= 0.0:
            low *= 0.25
        end = math.exp(bracketed(lambda u: branch.at(math.exp(u)).z, math.log(low), math.log(end), xtol=1e-12))
    none = np.zeros((len(law.g), 0))
    return float(np.linalg.eigvalsh(_schur(law, none, delta, branch.at(end).root)[0])[0]), edge


def _schur(law: MatrixLaw, f: np.ndarray, delta: float, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """S (mq, mq), and what takes K to L, (mK, mq); indices run neuron by neuron."""
    m, q, used = law.m, law.r, f.shape[1]
    direct, crossed, inverse = np.zeros((m * m, q * q)), np.zeros((m * m, q * used)), np.zeros((m * m, used * used))
    for part, p in law.chunks():
        c, g = law.s[part], f[part]
        t = resolved(law, delta, root, part).reshape(m * m, -1) * p
        direct += t @ (c[:, :, None] * c[:, None, :] - np.eye(q)).reshape(-1, q * q)
        if used:
            rest = (np.eye(m).reshape(m * m, 1) * p) - t
            crossed += t @ (c[:, :, None] * g[:, None, :]).reshape(-1, q * used)
            inverse += rest @ (g[:, :, None] * g[:, None, :]).reshape(-1, used * used)

    def blocks(flat: np.ndarray, a: int, b: int) -> np.ndarray:
        return flat.reshape(m, m, a, b).transpose(0, 2, 1, 3).reshape(m * a, m * b)

    if not used:
        direct = law.invariant(direct.reshape(m, m, q * q)).reshape(m * m, q * q)
    schur = np.eye(m * q) + delta * blocks(direct, q, q)
    mixing = np.zeros((m * used, m * q))
    if used:
        cross = blocks(crossed, q, used)
        mixing = np.linalg.solve(blocks(inverse, used, used), cross.T)
        schur += delta * cross @ mixing
    return 0.5 * (schur + schur.T), mixing


def _spike(law: MatrixLaw, f: np.ndarray, delta: float, point: Point, i: int) -> MatrixSpike:
    m, q = law.m, law.r
    schur, mixing = _schur(law, f, delta, point.root)
    flat = np.linalg.eigh(schur)[1][:, i]
    scale = float(np.linalg.norm(point.root @ flat.reshape(m, q)))
    flat = flat / scale
    kernel, pulled = flat.reshape(m, q), (mixing @ flat).reshape(m, f.shape[1])
    push = 0.0
    for part, p in law.chunks():
        t = resolved(law, delta, point.root, part)
        along, used = kernel @ law.s[part].T, pulled @ f[part].T
        y = np.einsum("ijc,jc->ic", t, along + used) - used
        push += float(p @ np.einsum("ic,ij,jc->c", y, point.slope, y))
    # slope/z_slope = P^{-1} alpha' P^{-1}
    room = max(point.z_slope, 0.0)
    return MatrixSpike(point.z, room / (room + delta * push), point.root @ kernel)
