"""Which latent directions descent sees at once, which only later, and which are not there (theory 1.1)."""

from __future__ import annotations

from typing import Any

from bulkedge.foundation.limits import Subspaces
from bulkedge.learnability.admissible import Progress, described, read
from bulkedge.models.directions import directions


def subspaces(target: Any, latent_dim: int | None = None, *, progress: Progress | None = None) -> Subspaces:
    """Easy, hard and inert directions of a target, and the order in which the easy ones reveal each other.

    target: an expression in z (or z1, z2, ...) and noise e, a callable (z, e) -> y, or a `Problem`; latent_dim where it
    cannot be read off.

    >>> import bulkedge as be
    >>> be.subspaces("z1 + z2^2").hard
    [[0.0, 1.0]]
    """
    link = read(target, latent_dim)
    if progress:
        progress("directions", 0, 1)
    found = directions(link)
    return Subspaces(
        easy=found.easy.T.tolist(),
        hard=found.hard.T.tolist(),
        inert=found.inert.T.tolist(),
        stages=[stage.T.tolist() for stage in found.stages],
        certificate=found.certificate,
        problem=described(link),
    )
