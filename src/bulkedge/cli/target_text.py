"""Answers about the target alone, as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from bulkedge.foundation.limits import DeltaAlg, DeltaIT, Exponents, Subspaces
from bulkedge.show.numbers import MISSING, plain, uncertain

_EVERY = 1e-6
_WIDTH = 108


def direction(vector: Sequence[float]) -> str:
    """A direction in terms of coordinates: z1, or 0.707 z1 - 0.707 z2."""
    terms = [(x, f"z{i + 1}") for i, x in enumerate(vector) if abs(x) > _EVERY]
    if len(terms) == 1 and abs(abs(terms[0][0]) - 1.0) < _EVERY:
        return terms[0][1] if len(vector) > 1 else "z"
    text = " ".join(f"{'-' if x < 0 else '+'} {abs(x):.4g} {name}" for x, name in terms)
    return text[2:] if text.startswith("+") else text.replace("- ", "-", 1)


def span(vectors: Sequence[Sequence[float]]) -> str:
    """Directions one after the other."""
    return ", ".join(map(direction, vectors)) or "none"


def pairs(entries: Sequence[tuple[str, str]]) -> str:
    """Names and values, the values aligned, long ones on several lines."""
    width = max(len(name) for name, _ in entries)
    gap = " " * (width + 4)
    return "\n".join(textwrap.fill(value, _WIDTH, initial_indent=f"  {name:<{width}}  ", subsequent_indent=gap)
                     for name, value in entries)  # fmt: skip


def _subspaces(r: Subspaces) -> str:
    entries = [("easy", span(r.easy)), ("hard", span(r.hard))]
    if r.inert:
        entries.append(("inert", f"{span(r.inert)} (the labels do not depend on it)"))
    entries += [(f"stage {i}", span(stage)) for i, stage in enumerate(r.stages, 1)]
    last = r.certificate["stages"][-1]
    if r.hard and last["resolution"] == 0.0:
        entries.append(("hard because", "a symmetry of the target fixes the label and turns the direction round"))
    elif r.hard:
        signal = uncertain(last["signal"], last["stderr"])
        seen = f"{last['resolution']:.2g} would be seen"
        entries.append(("hard because", f"it explains {signal} of the variance, where {seen}"))
    return "\n".join(["directions of the target", pairs(entries)])


def _delta_alg(r: DeltaAlg) -> str:
    entries = [
        ("samples per dimension", uncertain(r.delta, r.stderr, 7) if r.delta is not None else f"none: {r.reason}"),
        ("best spectral matrix", plain(r.rank_one, 7)),
    ]
    for i, ((delta, vectors), error) in enumerate(zip(r.stages, r.stderrs, strict=True), 1):
        at = "at once" if delta == 0 else "never at a finite ratio"
        if delta:
            at = f"above {uncertain(delta, error, 7)}"
        entries.append((f"stage {i}", f"{span(vectors)}: {at}"))
    entries += [("condition", r.condition), ("method", r.method)]
    return "\n".join(["weak recovery by the best efficient algorithm", pairs(entries)])


def _delta_it(r: DeltaIT) -> str:
    found = uncertain(r.delta, r.stderr, 7) if r.delta is not None else f"none: {r.reason}"
    entries = [("samples per dimension", found)]
    entries += [(name, f"{plain(r[name], 7)} ({r.kinds[name].partition(': ')[2]})") for name in ("lower", "upper")
                if r[name] is not None and r.directions]  # fmt: skip
    if r.delta is not None:
        entries.append(("squared overlap there", "starts from 0" if r.overlap == 0.0 else f"jumps to {r.overlap:.4g}"))
    if r.directions:
        entries += [("directions", span(r.directions)), ("delta_alg", plain(r.delta_alg, 7))]
    return "\n".join(["weak recovery by anybody", pairs(entries)])


def _exponents(r: Exponents) -> str:
    names = ("information", "leap", "generative", "generative_leap")
    entries = [
        (name.replace("_", " "), str(r[name]) if r[name] is not None else f"{MISSING} ({r.reasons[name]})")
        for name in names
    ]
    parts = ["exponents", pairs(entries)]
    for name, title in (("leap", "stages of E[y | z]"), ("generative_leap", "stages of any function of the label")):
        parts.append(f"  {title}")
        for stage in r.evidence[name]:
            last = stage["degrees"][-1]
            if stage["degree"] is None:
                parts.append(f"    nothing up to degree {last['degree']}: {span(stage['directions'])}")
            else:
                seen = f"{last['energy']:.3g} explained, {last['resolution']:.1g} would be seen"
                parts.append(f"    degree {stage['degree']}: {span(stage['directions'])} ({seen})")
    sentences = [textwrap.fill(s, _WIDTH, initial_indent="  ", subsequent_indent="    ") for s in r.samples.values()]
    return "\n".join([*parts, *sentences])


BODIES: dict[str, Any] = {
    "Subspaces": _subspaces,
    "DeltaAlg": _delta_alg,
    "DeltaIT": _delta_it,
    "Exponents": _exponents,
}
