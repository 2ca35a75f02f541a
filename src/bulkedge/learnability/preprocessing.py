"""The best functions T of the label for a spectral method D = (1/n) sum_i T(y_i) x_i x_i^T (theory 02, 2a).

With m(y) = E[(s.u)^2 | y] and u the unit vector that maximises E[(m - 1)^2] = 1/delta_c,
    T* = 1 - 1/m   maximises the overlap of the top eigenvector at every delta > delta_c, its outlier is at 1/delta;
    T*_delta = sqrt(delta_c) T*/(sqrt(delta) - (sqrt(delta) - sqrt(delta_c)) T*) = (m - 1)/(m - 1 + sqrt(delta/delta_c))
is bounded, sees the target from delta_c on as well, and has less overlap far above. Sources: Mondelli and Montanari
(2018) for T*_delta; Luo, Alghamdi and Lu (2019) for T*; Kovacevic, Zhang and Mondelli (2025) for several directions.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bulkedge.foundation.checks import positive
from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian.cloud import jackknife
from bulkedge.gaussian.conditional import explained, levels
from bulkedge.gaussian.posterior import Posterior, posterior
from bulkedge.models import latent
from bulkedge.models.directions import directions
from bulkedge.models.target import Target, target

_INFINITE = 1e5
_BATCH = 4096
_BINS = 600


@dataclass(frozen=True)
class Preprocessing:
    """T as a function of labels: `T(y)`.

    delta: of T*_delta, None for T*. least: where m is below it, T* is taken to be 1 - 1/least, so that it has a bound.
    delta_c: from where its matrix has an outlier, with the error `delta_c_stderr` (zero by quadrature). direction: u,
    (k,). exact: False where m is interpolated.
    """

    link: Target
    delta: float | None
    delta_c: float
    delta_c_stderr: float
    direction: tuple[float, ...]
    exact: bool
    least: float = 0.0

    def __call__(self, y: Any) -> np.ndarray:
        labels = np.asarray(y, float)
        return self.of(second_moments(self.link, labels.ravel())).reshape(labels.shape)

    def of(self, second: np.ndarray) -> np.ndarray:
        """T from the conditional moments E[s s^T | y], (n, k, k)."""
        u = np.asarray(self.direction)
        m = np.einsum("nab,a,b->n", second, u, u)
        if self.delta is None:
            with np.errstate(divide="ignore"):
                return 1.0 - 1.0 / np.maximum(m, self.least)
        return (m - 1.0) / (m - 1.0 + math.sqrt(self.delta / self.delta_c))


def preprocessing(given: Any, delta: float | None = None, latent_dim: int | None = None) -> Preprocessing:
    """T* (delta=None), which has the largest overlap at every delta, or the bounded T*_delta.

    Of the hard directions of the target if it has any, else of all.
    """
    link = target(given, latent_dim)
    delta_c, stderr, u = best_direction(link)
    if delta_c is None:
        raise BadInput("target", "has no spectral threshold: no second-order statistic of (y, z) sees its directions")
    if delta is not None and positive("delta", delta) <= delta_c:
        raise BadInput("delta", f"must be above {delta_c:.6g}, where the best spectral method begins to see the target")
    exact = conditional(link) is not None
    return Preprocessing(link, None if delta is None else float(delta), delta_c, stderr, tuple(u.tolist()), exact)


@functools.lru_cache(maxsize=64)
def best_direction(link: Target) -> tuple[float | None, float, np.ndarray]:
    """(delta_c, its standard error, u): 1/delta_c = max over unit u of E[(E[(s.u)^2 - 1 | y])^2]; None if infinite."""
    classes = directions(link)
    basis = classes.hard if classes.hard.shape[1] else classes.easy
    r = basis.shape[1]
    nodes = latent.nodes(link)
    s = nodes.z @ basis
    i, j = np.triu_indices(r)
    energy = explained(nodes.y, s[:, :, i] * s[:, :, j] - (i == j), nodes.p).fine
    twice = np.where(i == j, 1.0, 2.0)

    def quadratic(a: np.ndarray) -> np.ndarray:
        return twice * a[i] * a[j]

    def cost(a: np.ndarray) -> float:
        q = quadratic(a / np.linalg.norm(a))
        return -float(q @ energy[0] @ q)

    # Symmetric candidates are kept unless something else is clearly better.
    pairs = list(itertools.combinations(np.eye(r), 2))
    plain = [*np.eye(r), *((a + b) / math.sqrt(2.0) for a, b in pairs), *((a - b) / math.sqrt(2.0) for a, b in pairs)]
    least = min(map(cost, plain))
    best = next(a for a in plain if cost(a) <= least * (1.0 - 1e-3))
    starts = [best, *np.random.default_rng(0).standard_normal((4 * (r - 1), r))]
    polished = min((minimize(cost, a).x for a in starts if r > 1), key=cost, default=best)
    if cost(polished) < cost(best) * (1.0 + 1e-3):
        best = polished / np.linalg.norm(polished)
    u = basis @ best
    u = u * np.sign(u[np.argmax(np.round(np.abs(u), 9))])
    q = quadratic(best)
    rate, stderr = jackknife(np.einsum("rab,a,b->r", energy, q, q))
    if r == 1 and link.latent_dim == 1 and not link.noisy and (found := _by_quadrature(link)) is not None:
        rate, stderr = found, 0.0
    if rate < max(1.0 / _INFINITE, 4.0 * float(stderr)):
        return None, 0.0, u
    return 1.0 / float(rate), float(stderr / rate**2), u


def _by_quadrature(link: Target) -> float | None:
    """The same for one noiseless direction: nodes of z with the exact conditional moment of their labels."""
    nodes = latent.nodes(link)
    used = nodes.p[-1] > 0
    m = second_moments(link, nodes.y[-1][used])[:, 0, 0]
    return float(np.sum(nodes.p[-1][used] * (m - 1.0) ** 2))


def second_moments(link: Target, y: np.ndarray) -> np.ndarray:
    """E[s s^T | y] at labels (n,), shape (n, k, k): exact for one or two directions, else interpolated."""
    law = conditional(link)
    k = link.latent_dim
    distinct, index = np.unique(y, return_inverse=True)
    if law is None:
        return _interpolated(link, distinct)[index]
    out = np.empty((distinct.size, k, k))
    for part in (slice(a, a + _BATCH) for a in range(0, distinct.size, _BATCH)):
        out[part] = law.given(distinct[part]).moments(np.zeros(k), np.eye(k)).second
    return out[index]


def conditional(link: Target) -> Posterior | None:
    """The exact conditional law of z given y, None where it is not computed."""
    try:
        return posterior(link)
    except BadInput:
        return None


def _interpolated(link: Target, y: np.ndarray) -> np.ndarray:
    """From bins of quasi-random nodes: their own at an atom, linear in y between the bins' centres elsewhere."""
    atoms, at_atoms, centres, moments = _binned(link)
    k = link.latent_dim
    out = np.empty((y.size, k, k))
    for a, b in np.ndindex(k, k):
        if centres.size:
            out[:, a, b] = np.interp(y, centres, moments[:, a, b])
    if atoms.size:
        near = np.argmin(np.abs(y[:, None] - atoms), axis=1)
        hit = np.abs(atoms[near] - y) <= 1e-6 * (1.0 + np.abs(y))
        if not centres.size and not hit.all():
            raise BadInput("y", f"holds {int((~hit).sum())} labels that this target never gives")
        out[hit] = at_atoms[near[hit]]
    return out


@functools.lru_cache(maxsize=16)
def _binned(link: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Atoms (A,) with E[s s^T | y] there (A, k, k); centres (B,) of bins, narrower in the tails, and theirs."""
    nodes = latent.nodes(link)
    k = link.latent_dim
    level, values = levels(nodes.y)
    level, y, p, s = level.ravel(), nodes.y.ravel(), nodes.p.ravel(), nodes.z.reshape(-1, k)

    def means(label: np.ndarray, chosen: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        weight = p[chosen]
        mass = np.bincount(label, weight, count)
        centre = np.bincount(label, weight * y[chosen], count)
        second = np.empty((count, k, k))
        for a, b in np.ndindex(k, k):
            second[:, a, b] = np.bincount(label, weight * s[chosen, a] * s[chosen, b], count)
        used = mass > 0
        return centre[used] / mass[used], second[used] / mass[used, None, None]

    on, off = np.flatnonzero(level >= 0), np.flatnonzero(level < 0)
    at_atoms = means(level[on], on, values.size)[1] if on.size else np.zeros((0, k, k))
    if not off.size:
        return values, at_atoms, np.zeros(0), np.zeros((0, k, k))
    off = off[np.argsort(y[off], kind="stable")]
    rank = np.cumsum(p[off]) / p[off].sum()
    # Half of the bins by mass, half by the order of the points, which crowd in the tails.
    label = np.floor((0.5 * rank + 0.5 * np.arange(off.size) / off.size) * (_BINS - 1)).astype(int)
    return values, at_atoms, *means(label, off, _BINS)
