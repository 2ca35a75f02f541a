"""Information and generative exponents and their leaps, and the number of samples each implies (theory 2c).

Sources: Ben Arous, Gheissari and Jagannath (2021); Abbe, Boix-Adsera and Misiakiewicz (2023); Damian, Pillaud-Vivien,
Lee and Bruna (2024); Damian, Lee and Bruna (2025); Dandi et al. (2024).
"""

from __future__ import annotations

from typing import Any

from bulkedge.foundation.limits import Exponents
from bulkedge.learnability.admissible import Progress, described, read
from bulkedge.learnability.hermite_stages import Step, of_the_mean, steps
from bulkedge.models import latent
from bulkedge.models.target import Target


def exponents(target: Any, latent_dim: int | None = None, *, progress: Progress | None = None) -> Exponents:
    """Information exponent, generative exponent, and the largest leap of either staircase.

    target: an expression in z (or z1, z2, ...) and noise e, a callable (z, e) -> y, or a `Problem`; latent_dim where it
    cannot be read off.

    >>> import bulkedge as be
    >>> found = be.exponents("he3(z)")
    >>> found.information, found.generative
    (3, 1)
    """
    link = read(target, latent_dim)
    stairs: dict[str, list[Step]] = {}
    for i, name in enumerate(("leap", "generative_leap")):
        if progress:
            progress("staircases", i, 2)
        stairs[name] = list(steps(link, linear=name == "leap"))
    values: dict[str, int | None] = {}
    reasons: dict[str, str] = {}
    for first, leap in (("information", "leap"), ("generative", "generative_leap")):
        stages, lost = stairs[leap], _lost(link) if leap == "leap" else ""
        values[first] = stages[0].degree if stages else None
        degrees = [s.degree for s in stages if s.degree is not None]
        whole = len(degrees) == len(stages) > 0 and not lost
        values[leap] = max(degrees) if whole else None
        for name in (first, leap):
            if values[name] is None:
                reasons[name] = lost if lost and (name == leap or not stages) else _unseen(stages[-1], leap == "leap")
    return Exponents(
        information=values["information"],
        generative=values["generative"],
        leap=values["leap"],
        generative_leap=values["generative_leap"],
        reasons=reasons,
        samples={
            "online": _online(values["leap"], reasons.get("leap", "")),
            "reused": _reused(values["generative_leap"], reasons.get("generative_leap", "")),
            "best": _best(values["generative_leap"], reasons.get("generative_leap", "")),
        },
        evidence={name: [_shown(s) for s in stages] for name, stages in stairs.items()},
        problem=described(link),
    )


def _lost(link: Target) -> str:
    """Why the mean of the label can never show all directions of the label; empty if it may."""
    mean = latent.active(of_the_mean(link)).shape[1]
    whole = latent.active(link).shape[1]
    if mean == whole:
        return ""
    if mean == 0:
        return "infinite: E[y | z] is constant"
    return f"infinite: E[y | z] depends on {mean} of the {whole} directions only"


def _unseen(last: Step, linear: bool) -> str:
    what = "E[y h(z) | known]" if linear else "E[h(z) | y, known]"
    finest = max(e["resolution"] for e in last.energies)
    return (
        f"above {last.highest} or infinite: {what} vanishes for all Hermite degrees looked at (to within {finest:.1g})"
    )


def _shown(step: Step) -> dict[str, Any]:
    return {
        "degree": step.degree,
        "directions": step.directions.T.tolist(),
        "degrees": step.energies,
        "method": step.method,
    }


# --- samples ---

_LINEAR, _LOG = "n of order d", "n of order d log d"


def _online(leap: int | None, reason: str) -> str:
    who = "Descent on fresh samples, one pass"
    if leap is None:
        return f"{who}: no power of d is known to be enough; the leap is {reason.partition(':')[0]}."
    rate = {1: _LINEAR, 2: _LOG}.get(leap, f"n of order d^{leap - 1}, up to logarithms")
    return f"{who}: {rate} (leap {leap})."


def _reused(leap: int | None, reason: str) -> str:
    who = "Descent that uses its samples again"
    if leap is None:
        return f"{who}: no power of d is known to be enough; the generative leap is {reason.partition(':')[0]}."
    rate = "n of order d, up to logarithms" if leap <= 2 else f"n of order d^{leap - 1}, up to logarithms"
    return f"{who}: {rate} (generative leap {leap}; it acts as if the label had been transformed)."


def _best(leap: int | None, reason: str) -> str:
    who = "Best efficient algorithm known"
    if leap is None:
        return f"{who}: no power of d is known to be enough; the generative leap is {reason.partition(':')[0]}."
    power = {1: "d", 2: "d", 4: "d^2"}.get(leap, f"d^{leap / 2:g}")
    return f"{who}: n of order {power}, and low-degree methods need as many (generative leap {leap})."
