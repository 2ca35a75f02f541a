"""The staircase of Hermite degrees: at each stage the lowest degree that shows, and what it shows (theory 2c).

With s the unknown and c the known coordinates, degree d shows if
    E[h_alpha(s) | y, c] is not zero for some |alpha| = d       (any function of the label: generative exponents),
    E[y h_alpha(s) | c] is not zero for some |alpha| = d        (the label itself: information exponent and leap).
The directions of that tensor become known, and the next stage begins. Never is a degree missed by taking all directions
of the lowest one: what is visible given c stays visible, at the same or a lower degree, when more is known.

Each energy (the variance explained) comes with an error, and is zero if it is below `resolution`. One unknown and a
noise that leaves its law given y computable: exact integrals over y. The label itself, one latent variable: quadrature.
Otherwise many test functions on quasi-random nodes (`gaussian.signals`). Where a symmetry of the link forbids a degree
its energy is zero without an error.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bulkedge.gaussian.hermite import hermite
from bulkedge.gaussian.signals import Signal
from bulkedge.learnability.second_moments import noise_kind, of_one
from bulkedge.models import directions as classes
from bulkedge.models import latent
from bulkedge.models.target import Target

_HIGHEST = 10
_MOST_ENTRIES = 300
_LINE_FLOOR = 1e-9
"""Energy below which an exact integral counts as zero: as for delta_alg."""
_LINE_SIGMAS = 10.0


@dataclass(frozen=True, eq=False)
class Step:
    """One stage: the degree (None: none up to `highest` shows), the directions (k, n) it shows, and the energies.

    energies: [{"degree", "energy", "error", "resolution"}, ...] of all degrees looked at.
    """

    degree: int | None
    directions: np.ndarray
    energies: list[dict[str, Any]]
    method: str
    highest: int


def steps(link: Target, *, linear: bool) -> Iterator[Step]:
    """The stages one after the other; a stage without a degree is the last."""
    if linear:
        link = of_the_mean(link)
    active = latent.active(link)
    known = np.zeros((link.latent_dim, 0))
    blur = 0.0
    while known.shape[1] < active.shape[1]:
        step = _step(link, known, classes.tidy(classes.complement(known, active)), linear, blur)
        yield step
        if step.degree is None:
            return
        # A later signal as small as the squared error of these directions may be their own.
        blur = max(blur, step.energies[-1]["resolution"] / step.energies[-1]["energy"])
        known = np.concatenate([known, step.directions], axis=1)


def of_the_mean(link: Target) -> Target:
    """A link with the same E[y | z] that shows more of it: E[y | z] itself where the noise is y = g(z) + sigma(z) e,
    the mean over e and -e otherwise.
    """
    kind = noise_kind(link)
    if kind == "none":
        return link
    return replace(link, noisy=kind == "general", call=_mean(link.call, kind), key=("mean", link.key))


@functools.lru_cache(maxsize=128)
def _mean(call: Any, kind: str) -> Any:
    if kind == "affine":
        return lambda z, e: call(z, 0.0 * e)
    return lambda z, e: 0.5 * (call(z, e) + call(z, -e))


def _step(link: Target, known: np.ndarray, rest: np.ndarray, linear: bool, blur: float) -> Step:
    r = rest.shape[1]
    highest = max(d for d in range(1, _HIGHEST + 1) if d <= 2 or math.comb(r + d - 1, d) <= _MOST_ENTRIES)
    exact = _of_one(link, known, rest, highest, blur) if r == 1 and not linear else None
    group = classes.symmetries(link)
    energies = []
    for degree in range(1, highest + 1):
        if exact is not None:
            found = exact[degree - 1]
        else:
            found = classes.signal(link, known, rest, degree, group, linear=linear, blur=blur)
        energies.append(
            {
                "degree": degree,
                "energy": max(found.energy, 0.0),
                "error": found.stderr,
                "resolution": found.resolution,
            }
        )
        if found.directions.shape[1]:
            new = classes.tidy(rest @ found.directions)
            return Step(degree, new, energies, _method(link, exact is not None, linear), highest)
    return Step(None, rest, energies, _method(link, exact is not None, linear), highest)


def _method(link: Target, exact: bool, linear: bool) -> str:
    if exact:
        return "the law of z given y"
    one = latent.active(link).shape[1] + int(link.noisy) == 1
    return "quadrature" if linear and one else "test functions of the label" if not linear else "quasi-random nodes"


def _of_one(link: Target, known: np.ndarray, rest: np.ndarray, highest: int, blur: float) -> list[Signal] | None:
    """Energies of all degrees of one unknown; None where its law given y is not known exactly."""
    degrees = [functools.partial(_hermite_one, d) for d in range(1, highest + 1)]
    found = of_one(link, known, rest, degrees)
    if found is None:
        return None
    out = []
    for fine, coarse in zip(*found, strict=True):
        error = abs(float(fine - coarse))
        resolution = max(_LINE_SIGMAS * error, _LINE_FLOOR, blur)
        seen = np.ones((1, int(fine > resolution)))
        out.append(Signal(float(fine), error, resolution, seen, 0.0 if seen.size else float(fine)))
    return out


def _hermite_one(degree: int, s: np.ndarray) -> np.ndarray:
    return hermite(s[..., None], degree)[..., 0]
