"""Which latent directions are easy, hard or inert (theory 1.1; Montanari and Wang 2026).

A subspace U is hard if E[P_U z | y, P_U^perp z] = 0: first-order methods see nothing of it. The easy subspace is what
the *staircase* reaches: start with the directions of E[z | y]; while directions are known, add those of
E[z_perp | y, z_known]; what is never reached is the maximal hard subspace, and of it the inert part, on which y does
not depend at all, is split off.

How each is decided, and how sure one can be:
- inert: the common null space of the gradients of h and of the normals of the surfaces across which h jumps, by
  automatic differentiation at random points (`latent.active`).
- easy: the directions of E[z_perp F(y, z_known)] over many test functions F (`gaussian.signals`): plain integrals,
  with an error from independent replicas of the nodes. Hard directions give zero for every F, so a false alarm needs a
  fluctuation of many standard errors; a signal that explains less than `resolution` of the variance would be missed.
- The signed permutations of the coordinates that leave h unchanged are found first: E[z_perp | y, z_known] is fixed by
  each of them that fixes z_known, so a mirrored direction is hard outright and (1, 1)/sqrt 2 comes out exactly.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from bulkedge.gaussian import signals
from bulkedge.models import latent
from bulkedge.models.target import Target

_PROBES = 256
_FEWER, _MORE = 14, 16
_DOUBT = 4.0
_ALL_PERMUTATIONS = 4


@dataclass(frozen=True, eq=False)
class Directions:
    """Orthonormal bases, one column a direction: easy (k, e), hard (k, r), inert (k, i).

    stages: the easy directions in the order the staircase reaches them. certificate: for each stage the explained
    variance `signal`, its `stderr` under no signal, the `resolution`, and the `largest_unseen` variance of a direction
    that was not taken; and the number of symmetries used.
    """

    easy: np.ndarray
    hard: np.ndarray
    inert: np.ndarray
    stages: tuple[np.ndarray, ...]
    certificate: dict[str, Any]

    @property
    def kinds(self) -> str:
        """Such as '1 easy, 1 hard'."""
        counts = ((self.easy, "easy"), (self.hard, "hard"), (self.inert, "inert"))
        return ", ".join(f"{basis.shape[1]} {name}" for basis, name in counts if basis.shape[1])


@functools.lru_cache(maxsize=256)
def directions(link: Target) -> Directions:
    """The three classes of latent directions of a link."""
    k = link.latent_dim
    active = latent.active(link)
    group = symmetries(link)
    evidence: list[dict[str, float]] = []
    easy = np.zeros((k, 0))
    stages: list[np.ndarray] = []
    while easy.shape[1] < active.shape[1]:
        new, found = visible(link, easy, active, group)
        evidence.append(found)
        if new.shape[1] == 0:
            break
        stages.append(new)
        easy = np.concatenate([easy, new], axis=1)
    hard, inert = complement(easy, active), complement(active, np.eye(k))
    certificate: dict[str, Any] = {"symmetries": len(group), "stages": evidence}
    return Directions(tidy(easy), tidy(hard), tidy(inert), tuple(tidy(s) for s in stages), certificate)


def visible(
    link: Target, known: np.ndarray, active: np.ndarray, group: list[np.ndarray]
) -> tuple[np.ndarray, dict[str, float]]:
    """The directions (k, n) of E[z_perp | y, z_known], beyond the known (k, e), and the evidence."""
    rest = _fixed([g for g in group if np.allclose(g @ known, known, atol=1e-6)], complement(known, active))
    if rest.shape[1] == 0:
        return rest, {"signal": 0.0, "stderr": 0.0, "resolution": 0.0, "largest_unseen": 0.0}
    found = signal(link, known, rest, 1)
    evidence = {
        "signal": found.energy,
        "stderr": found.stderr,
        "resolution": found.resolution,
        "largest_unseen": found.unseen,
    }
    return rest @ found.directions, evidence


def signal(link: Target, known: np.ndarray, rest: np.ndarray, degree: int, *, linear: bool = False) -> signals.Signal:
    """What degree-d Hermite polynomials of z_rest say of (y, z_known); linear: of E[y | z] alone.

    More nodes are taken where something stands out of the noise without being beyond doubt.
    """
    make = signals.linear_tests if linear else signals.any_tests
    found = None
    for log2 in (_FEWER, _MORE):
        nodes = latent.nodes(link, log2)
        found = signals.signal(nodes.z @ rest, make(nodes.y, nodes.z @ known, nodes.p), nodes.p, degree)
        if found.unseen <= max(_DOUBT * found.stderr, signals.FLOOR) or len(nodes.p) == 2:
            break
    assert found is not None
    return found


@functools.lru_cache(maxsize=256)
def symmetries(link: Target) -> list[np.ndarray]:
    """The signed permutations g with h(g z, e) = h(z, e), or h(g z, -e) = h(z, e), at every probe.

    All of them for k <= 4; beyond, mirrors, exchanges of two coordinates and their products only.
    """
    k = link.latent_dim
    rng = np.random.default_rng(20260201)
    z, e = rng.standard_normal((_PROBES, k)), rng.standard_normal(_PROBES)
    y = latent.evaluate(link, z, e)
    scale = 1e-9 * (1.0 + np.abs(y))
    identity = tuple(range(k))
    orders = [
        order
        for order in (itertools.permutations(identity) if k <= _ALL_PERMUTATIONS else _exchanges(k))
        if k <= _ALL_PERMUTATIONS or sum(i != j for i, j in enumerate(order)) <= 2
    ]
    found = []
    for order in orders:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=k)))
        moved = signs[:, None, :] * z[None][:, :, order]
        same = np.zeros(len(signs), bool)
        for flip in (1.0, -1.0) if link.noisy else (1.0,):
            labels = latent.evaluate(link, moved, np.broadcast_to(flip * e, moved.shape[:2]))
            same |= np.all(np.abs(labels - y) <= scale, axis=1)
        for sign in signs[same]:
            g = np.zeros((k, k))
            g[np.arange(k), order] = sign
            found.append(g)
    return found


def _exchanges(k: int) -> list[tuple[int, ...]]:
    found = [tuple(range(k))]
    for i, j in itertools.combinations(range(k), 2):
        order = list(range(k))
        order[i], order[j] = j, i
        found.append(tuple(order))
    return found


def _fixed(group: list[np.ndarray], outer: np.ndarray) -> np.ndarray:
    """Basis of the vectors of span(outer) that every g leaves alone."""
    if not group or outer.shape[1] == 0:
        return outer
    moved = np.concatenate([g @ outer - outer for g in group])
    _, s, vt = np.linalg.svd(moved, full_matrices=True)
    s = np.concatenate([s, np.zeros(len(vt) - len(s))])
    return outer @ vt[s < 1e-6].T


def complement(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Basis of the part of span(outer) orthogonal to span(inner)."""
    left = outer - inner @ (inner.T @ outer)
    u, s, _ = np.linalg.svd(left, full_matrices=False)
    return u[:, s > 0.5]


def tidy(basis: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the same span, along coordinate axes where it can be, largest entries positive."""
    if basis.shape[1] == 0:
        return basis
    left = basis @ basis.T
    columns = []
    for _ in range(basis.shape[1]):
        # The axis that lies most within what is left; ties go to the first.
        i = int(np.argmax(np.round(np.diag(left), 9)))
        v = left[:, i] / np.linalg.norm(left[:, i])
        columns.append(v * np.sign(v[np.argmax(np.round(np.abs(v), 9))]))
        left = left - np.outer(v, v) @ left
        left = 0.5 * (left + left.T)
    out = np.stack(columns, axis=1)
    return np.where(np.abs(out) < 1e-12, 0.0, out)
