"""How much of functions phi(z) the label y = h(z) explains: E[E[phi_a | y] E[phi_b | y]], for any h, by regression.

Nothing is known of the density of y: the nodes z carry (y, phi), and phi is regressed on y. Values of y that carry mass
(atoms) are levels of their own; elsewhere y is replaced by its normal score x (a monotone function of y whose law is
N(0, 1), in which conditional moments grow like polynomials), and phi is fitted by a polynomial in x on each interval of
a tree, halved wherever that explains more than the noise. A fit explains too much by its own fluctuations; the
jackknife over replicas of the nodes takes that out and gives the standard error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bulkedge.gaussian.cloud import jackknife

ORDER = 4
_FEWEST, _MOST = 1 << 14, 1 << 16
"""Bins of the normal score; one for sixteen nodes, between these bounds."""
_DEPTH = 24
_SIGMAS = 4.0
_GAIN = 1e-9


@dataclass(frozen=True, eq=False)
class Explained:
    """Matrices of E[E[phi_a | y] E[phi_b | y]] from all replicas and from all but one, each (R + 1, C, C).

    coarse: the same with polynomials of half the order on intervals twice as long, for the error of the fit.
    """

    fine: np.ndarray
    coarse: np.ndarray

    def __add__(self, other: Explained) -> Explained:
        return Explained(self.fine + other.fine, self.coarse + other.coarse)

    def __mul__(self, factor: float) -> Explained:
        return Explained(self.fine * factor, self.coarse * factor)


def explained(y: np.ndarray, phi: np.ndarray, p: np.ndarray) -> Explained:
    """y, p: (R, N) labels and probabilities of the nodes in each replica. phi: (R, N, C)."""
    level, atoms = levels(y)
    found = [_by_level(level, phi, p, atoms.size)]
    smooth = level < 0
    if np.any(smooth):
        found.append(_fitted(*_compressed(y, phi, np.where(smooth, p, 0.0))))
    return found[0] if len(found) == 1 else found[0] + found[1]


def levels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Number 0.. of the atom each label sits on, -1 elsewhere, in the shape of y; and the atoms' values."""
    flat = y.ravel()
    order = np.argsort(flat, kind="stable")
    ordered = flat[order]
    new = np.concatenate([[True], np.diff(ordered) > 1e-11 * (1.0 + np.abs(ordered[1:]))])
    run = np.cumsum(new) - 1
    size = np.bincount(run)
    heavy = size >= max(16, flat.size // 20_000)
    number = np.where(heavy, np.cumsum(heavy) - 1, -1)
    out = np.empty(flat.size, np.int64)
    out[order] = number[run]
    return out.reshape(y.shape), ordered[new][heavy]


def _by_level(level: np.ndarray, phi: np.ndarray, p: np.ndarray, count: int) -> Explained:
    """Atoms: conditional means are plain ratios."""
    replicas, components = len(level), phi.shape[2]
    if count == 0:
        nothing = np.zeros((replicas + 1, components, components))
        return Explained(nothing, nothing)
    mass = np.zeros((count, replicas))
    sums = np.zeros((count, replicas, components))
    for r in range(replicas):
        on = level[r] >= 0
        mass[:, r] = np.bincount(level[r][on], p[r][on], count)
        for c in range(components):
            sums[:, r, c] = np.bincount(level[r][on], (p[r] * phi[r, :, c])[on], count)
    m, s = _but_one(mass), _but_one(sums)
    energy = np.einsum("lra,lrb->rab", s / np.maximum(m, 1e-300)[:, :, None], s)
    return Explained(energy, energy)


def _but_one(sums: np.ndarray) -> np.ndarray:
    """(B, R, ...) sums in each replica to means over all replicas and over all but one: (B, R + 1, ...)."""
    total, r = sums.sum(axis=1, keepdims=True), sums.shape[1]
    return np.concatenate([total / r, (total - sums) / (r - 1)], axis=1)


def _compressed(y: np.ndarray, phi: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fine bins of the normal score: their mean score x (B,), mass (B, R) and sums of phi (B, R, C)."""
    replicas, components = len(y), phi.shape[2]
    keep = p.ravel() > 0
    order = np.argsort(y.ravel()[keep], kind="stable")
    weight = p.ravel()[keep][order]
    rank = (np.cumsum(weight) - 0.5 * weight) / weight.sum()
    score = ndtri(np.clip(rank, 1e-300, 1.0 - 1e-16))
    count = int(np.clip(order.size // 16, _FEWEST, _MOST))
    # Half of the bins by mass, half by score: enough of them in the tails.
    place = 0.5 * rank + 0.5 * (score - score[0]) / max(score[-1] - score[0], 1e-300)
    bins = np.empty(order.size, np.int64)
    bins[order] = np.minimum((place * count).astype(np.int64), count - 1)
    replica = np.broadcast_to(np.arange(replicas)[:, None], y.shape).ravel()[keep]
    key, mass = bins * replicas + replica, p.ravel()[keep]

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(key, mass * values, count * replicas).reshape(count, replicas)

    x = np.bincount(bins[order], weight * score, count)
    m = total(np.ones(key.size))
    s = np.stack([total(phi[:, :, c].ravel()[keep]) for c in range(components)], axis=2)
    used = m.sum(axis=1) > 0
    return x[used] / m[used].sum(axis=1), m[used], s[used]


def _fitted(x: np.ndarray, mass: np.ndarray, sums: np.ndarray) -> Explained:
    replicas = mass.shape[1]

    def fit(a: int, b: int, order: int = ORDER) -> np.ndarray:
        """Explained energies (R + 1, C, C) of one polynomial on the bins a..b."""
        low, high = x[a], x[b - 1]
        t = (2.0 * x[a:b] - low - high) / max(high - low, 1e-300)
        basis = np.polynomial.legendre.legvander(t, min(order, max(0, (b - a) // 4 - 1)))
        gram = np.einsum("bi,br,bj->rij", basis, mass[a:b], basis, optimize=True)
        moment = np.tensordot(basis, sums[a:b], (0, 0)).transpose(1, 0, 2)
        gram, moment = _but_one(gram[None])[0], _but_one(moment[None])[0]
        return moment.transpose(0, 2, 1) @ np.linalg.pinv(gram, rcond=1e-11, hermitian=True) @ moment

    leaves: list[tuple[int, int, np.ndarray]] = []
    refused: list[np.ndarray] = []

    def grow(a: int, b: int, energy: np.ndarray, depth: int) -> None:
        middle = a + int(np.searchsorted(x[a:b], 0.5 * (x[a] + x[b - 1])))
        if middle <= a or middle >= b or depth == 0:
            leaves.append((a, b, energy))
            return
        left, right = fit(a, middle), fit(middle, b)
        gain, error = jackknife(np.trace(left + right - energy, axis1=1, axis2=2))
        # The first halvings are made in any case: a symmetric signal may not show in them.
        # The smallest intervals stay whole, as those around a jump do: what they miss is counted as error.
        if b - a < 8 or (depth < _DEPTH - 3 and gain < max(_GAIN, _SIGMAS * error)):
            leaves.append((a, b, energy))
            refused.append(left + right - energy)
            return
        grow(a, middle, left, depth - 1)
        grow(middle, b, right, depth - 1)

    grow(0, x.size, fit(0, x.size), _DEPTH)
    fine = np.sum([energy for _, _, energy in leaves], axis=0)
    # What more halvings would explain, each too little to be told from noise, counts as error too.
    coarse = np.sum([fit(a, b, ORDER // 2) for a, b, _ in leaves], axis=0) - np.sum(refused, axis=0)
    assert fine.shape[0] == replicas + 1
    return Explained(fine, coarse)
