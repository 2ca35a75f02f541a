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
- Symmetries of h (`symmetries`) come first: E[z_perp | y, z_known] is fixed by each of them that fixes z_known, so a
  mirrored direction is hard outright, and (1, 1)/sqrt 2 comes out exactly.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian import hermite, signals
from bulkedge.models import latent
from bulkedge.models.symmetries import involutions, signed_permutations
from bulkedge.models.target import Target

_FEWER, _MORE = 14, 16
_DOUBT = 4.0
_NEAR = 1e-6


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
    """The three classes of latent directions of a link that depends on z."""
    if latent.active(link).shape[1] == 0:
        raise BadInput("target", "does not depend on z: there is nothing to learn")
    return _classified(link, symmetries(link))


@functools.lru_cache(maxsize=256)
def symmetries(link: Target) -> tuple[np.ndarray, ...]:
    """Orthogonal maps that leave the label alone: signed permutations, and involutions of the hard directions.

    The latter are searched for where the former do not pin down these directions and the axes among them.
    """
    plain = signed_permutations(link)
    found = _classified(link, plain)
    settled = found.certificate["stages"][-1]["resolution"] == 0.0
    first = found.stages[0] if found.stages else np.zeros((link.latent_dim, 0))
    # What the first stage does not show may seem to be shown by later ones only because its directions are inexact.
    later = complement(first, latent.active(link))
    if later.shape[1] == 0 or (settled and later.shape == found.hard.shape and _axes_known(plain, found.hard)):
        return plain
    return plain + involutions(link, later)


def _axes_known(group: tuple[np.ndarray, ...], basis: np.ndarray) -> bool:
    """Whether all symmetric matrices on span(basis) that the group leaves alone have the same eigenvectors."""
    r = basis.shape[1]
    if r == 1:
        return True
    allowed = hermite.invariant(_turns(group, np.zeros((len(basis), 0)), basis), 2)
    value, vector = np.linalg.eigh(allowed)
    matrices = []
    for column in vector[:, value > 0.5].T:
        m = np.zeros((r, r))
        for c, alpha in zip(column, hermite.multi_indices(r, 2), strict=True):
            i, j = np.flatnonzero(alpha)[[0, -1]]
            m[i, j] = m[j, i] = c if i == j else c / np.sqrt(2.0)
        matrices.append(m)
    return all(np.allclose(a @ b, b @ a, atol=1e-9) for a, b in itertools.combinations(matrices, 2))


def _turns(group: tuple[np.ndarray, ...], known: np.ndarray, rest: np.ndarray) -> list[np.ndarray]:
    """What the maps that fix every known direction do to span(rest)."""
    turns = [rest.T @ g @ rest for g in group if np.allclose(g @ known, known, atol=_NEAR)]
    return [t for t in turns if np.allclose(t @ t.T, np.eye(len(t)), atol=_NEAR)]


def _classified(link: Target, group: tuple[np.ndarray, ...]) -> Directions:
    k = link.latent_dim
    active = latent.active(link)
    evidence: list[dict[str, float]] = []
    easy = np.zeros((k, 0))
    stages: list[np.ndarray] = []
    blur = 0.0
    while easy.shape[1] < active.shape[1]:
        new, found = visible(link, easy, active, group, blur)
        evidence.append(found)
        if new.shape[1]:
            blur = max(blur, found["resolution"] / found["signal"])
        if new.shape[1] == 0:
            break
        stages.append(new)
        easy = np.concatenate([easy, new], axis=1)
    hard, inert = complement(easy, active), complement(active, np.eye(k))
    certificate: dict[str, Any] = {"symmetries": len(group), "stages": evidence}
    return Directions(tidy(easy), tidy(hard), tidy(inert), tuple(tidy(s) for s in stages), certificate)


def visible(
    link: Target, known: np.ndarray, active: np.ndarray, group: tuple[np.ndarray, ...], blur: float = 0.0
) -> tuple[np.ndarray, dict[str, float]]:
    """The directions (k, n) of E[z_perp | y, z_known], beyond the known (k, e), and the evidence.

    blur: squared error of the known directions, relative; a signal of that size may be theirs.
    """
    rest = complement(known, active)
    found = signal(link, known, rest, 1, group, blur=blur)
    evidence = {
        "signal": found.energy,
        "stderr": found.stderr,
        "resolution": found.resolution,
        "largest_unseen": found.unseen,
    }
    return rest @ found.directions, evidence


def signal(
    link: Target,
    known: np.ndarray,
    rest: np.ndarray,
    degree: int,
    group: tuple[np.ndarray, ...],
    *,
    linear: bool = False,
    blur: float = 0.0,
) -> signals.Signal:
    """What degree-d Hermite polynomials of z_rest say of (y, z_known); linear: of E[y | z] alone.

    What the symmetries in `group` forbid is left out, so that it is zero exactly. More nodes are taken where something
    stands out of the noise without being beyond doubt.
    """
    turns = _turns(group, known, rest)
    projection = hermite.invariant(turns, degree) if len(turns) > 1 else None
    if projection is not None and not np.any(projection):
        return signals.Signal(0.0, 0.0, 0.0, np.zeros((rest.shape[1], 0)), 0.0)
    make = signals.linear_tests if linear else signals.any_tests
    found = None
    for log2 in (_FEWER, _MORE):
        nodes = latent.nodes(link, log2)
        found = signals.signal(
            nodes.z @ rest, make(nodes.y, nodes.z @ known, nodes.p), nodes.p, degree, projection, blur
        )
        if found.unseen <= max(_DOUBT * found.stderr, signals.FLOOR, blur) or len(nodes.p) == 2:
            break
    assert found is not None
    return found


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
    return np.where(np.abs(out) < 1e-12, 0.0, out)  # and no -0.0
