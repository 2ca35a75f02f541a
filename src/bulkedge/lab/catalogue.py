"""The phenomena and their knobs, for who wants to know what there is."""

from __future__ import annotations

from typing import Any

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import SIZES, Knob
from bulkedge.lab import plan as plans


def overview() -> list[dict[str, Any]]:
    """Name and question of every phenomenon; one that cannot be loaded says why in place of its question."""
    return [_brief(name) for name in plans.names()]


def _brief(name: str) -> dict[str, Any]:
    try:
        return {"name": name, "question": plans.locate(name).question}
    except BadInput as error:
        return {"name": name, "question": error.message}


def describe(name: str) -> dict[str, Any]:
    """A phenomenon with its knobs, their values at each size, and the number of units that makes."""
    found = plans.locate(name)
    return {
        "name": found.name,
        "question": found.question,
        "equation": found.equation,
        "citations": list(found.citations),
        "knobs": [_knob(k) for k in found.knobs],
        "units": {size: len(plans.make(found, size).tasks) for size in SIZES},
        "parts": [{"name": p.name, "role": p.role, "quantities": [q.name for q in p.quantities]} for p in found.parts],
    }


def _knob(knob: Knob) -> dict[str, Any]:
    values = {size: list(v) if isinstance(v := knob.at(size), tuple) else v for size in SIZES}
    return {"name": knob.name, "kind": knob.kind, **values, "help": knob.help, "choices": list(knob.choices)}
