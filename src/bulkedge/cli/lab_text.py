"""The laboratory's answers as text for a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bulkedge.cli.lab_progress import duration
from bulkedge.cli.text import table
from bulkedge.show.numbers import MISSING, plain, uncertain

WIDTH = 100
MOST_ROWS = 40


def phenomena(found: Sequence[Mapping[str, Any]]) -> str:
    """Names and questions."""
    if not found:
        return "there are no phenomena here"
    width = max(len(p["name"]) for p in found)
    wrap = {"width": WIDTH, "subsequent_indent": " " * (width + 4)}
    return "\n".join(textwrap.fill(f"  {p['name']:<{width}}  {p['question']}", **wrap) for p in found)


def phenomenon(found: Mapping[str, Any]) -> str:
    """One phenomenon with its knobs."""
    rows = [(k["name"], _value(k["quick"]), _value(k["full"]), k["help"]) for k in found["knobs"]]
    widths = [max(len(row[i]) for row in [*rows, ("knob", "quick", "full")]) for i in range(3)]
    indent = 2 + sum(w + 2 for w in widths)
    lines = [
        textwrap.fill(
            "  " + "".join(f"{cell:<{w}}  " for cell, w in zip(row[:3], widths, strict=True)) + row[3],
            max(WIDTH, indent + 40),
            subsequent_indent=" " * indent,
        )
        for row in [("knob", "quick", "full", ""), *rows]
    ]
    units = ", ".join(f"{count} at {size}" for size, count in found["units"].items())
    return "\n".join([f"{found['name']}: {found['question']}", f"  {found['equation']}", *lines, f"  units: {units}"])


def outcome(found: Any) -> str:
    """Verdict, sentences and the judged points."""
    changed = ", ".join(f"{name} = {_value(value)}" for name, value in found.settings.items())
    parts = [f"{found.phenomenon}: {found.question}", textwrap.fill(f"({found.size}: {changed})", WIDTH)]
    parts.append(_rows(found.rows) if found.rows else _quantities(found.dataset))
    if found.verdict is not None:
        parts.append(f"verdict: {found.verdict}")
    parts += [f"  {sentence}" for sentence in found.sentences]
    parts.append(f"  {found.done} of {found.total} units in {found.store}, {duration(found.seconds)} of work")
    parts += [f"failed: {f['unit']}: {first_line(f['error'])}" for f in found.failures[:MOST_ROWS]]
    parts += [f"warning: {w}" for w in found.warnings]
    return "\n".join(parts if found.status.ok else [*parts, found.status.sentence])


def status(found: Mapping[str, Any]) -> str:
    """What a store holds."""
    lines = [f"{found['store']}: {found['runs']} runs, {duration(found['seconds'])} of work"]
    if found["plans"]:
        rows = [
            (
                p["phenomenon"],
                p["size"],
                MISSING if p["done"] is None else f"{p['done']} of {p['total']}",
                MISSING if p["failed"] is None else str(p["failed"]),
                p["note"] or ", ".join(f"{k}={_value(v)}" for k, v in p["changed"].items()),
            )
            for p in found["plans"]
        ]
        lines.append(table(("phenomenon", "size", "done", "failed", "knobs"), rows))
    for failure in found["failures"][:MOST_ROWS]:
        where = ", ".join(f"{k} = {_value(v)}" for k, v in (failure["parameters"] or {}).items())
        lines.append(f"failed: {failure['phenomenon']}, {failure['part']} ({where}): {first_line(failure['error'])}")
    return "\n".join(lines)


def first_line(error: Any) -> str:
    """Of what a unit failed with."""
    return (str(error).splitlines() or [""])[0][:200]


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Every judged point; where they are many, all that disagree and an even choice of the others."""
    chosen = list(rows)
    if len(chosen) > MOST_ROWS:
        even = set(np.linspace(0, len(rows) - 1, MOST_ROWS).round().astype(int).tolist())
        chosen = [row for i, row in enumerate(rows) if i in even or row["verdict"] == "disagrees"][: 2 * MOST_ROWS]
    axes = list(dict.fromkeys(axis for row in chosen for axis in row["point"]))
    body = [
        (
            row["quantity"],
            *(_value(row["point"].get(axis, MISSING)) for axis in axes),
            uncertain(row["predicted"], row["predicted_stderr"]),
            uncertain(row["measured"], row["measured_stderr"]),
            row["verdict"],
        )
        for row in chosen
    ]
    found = table(("", *axes, "predicted", "measured", "verdict"), body)
    return found if len(chosen) == len(rows) else f"{found}\n  ({len(rows) - len(chosen)} more rows with --json)"


def _quantities(dataset: Any) -> str:
    """Of a phenomenon that judges nothing: every quantity, at as many points as fit."""
    lines = []
    for name in (n for n in dataset.data_vars if f"{n}_stderr" in dataset):
        values, errors = (np.ravel(dataset[f"{name}{end}"].values) for end in ("", "_stderr"))
        here = np.flatnonzero(np.isfinite(values))
        shown = (
            here[np.unique(np.linspace(0, len(here) - 1, min(len(here), 8)).round().astype(int))] if len(here) else []
        )
        numbers = ", ".join(uncertain(values[i], errors[i]) for i in shown) or MISSING
        lines.append((str(name), numbers, "..." if len(here) > len(shown) else ""))
    return table(("", "", ""), lines) if lines else ""


def _value(value: Any) -> str:
    if value is None or value == [] or value == ():
        return "none"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_value, value))
    return plain(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else str(value)
