"""Answers as text for a terminal: plain lines and aligned columns, which survive a pipe."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from bulkedge.cli.target_text import BODIES
from bulkedge.foundation.answers import (
    Comparison,
    Design,
    LearningTime,
    Sensitivity,
    Simulation,
    Spectrum,
    Threshold,
    Trajectory,
)
from bulkedge.foundation.result import Result
from bulkedge.show.numbers import MISSING, fewer_rows, plain, problem_line, quantity_name, time_name, uncertain

MOST_ROWS = 12
MOST_NEURONS = 2


def text(answer: Result) -> str:
    """Everything a reader needs of an answer: the problem, the numbers, the warnings, the status."""
    parts = [problem_line(answer.get("problem") or {}), _BODIES[type(answer).__name__](answer)]
    parts += [f"warning: {w}" for w in answer.warnings]
    if answer.get("diverged_at") is not None:
        parts.append(f"diverged at step {answer['diverged_at']}")
    parts.append(answer.status.sentence)
    return "\n".join(p for p in parts if p)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns aligned to the right, the first to the left."""
    lines = [list(head), *(list(r) for r in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  "
        + "  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    ).replace(" \n", "\n")


def _pairs(entries: Sequence[tuple[str, str] | None]) -> str:
    shown = [e for e in entries if e is not None]
    width = max(len(name) for name, _ in shown)
    return "\n".join(f"  {name:<{width}}  {value}" for name, value in shown)


def _threshold(r: Threshold) -> str:
    title = f"threshold at t = {time_name(r.time)}"
    found = uncertain(r.delta, r.stderr, 6) if r.delta is not None else f"none: {r.absence}"
    windows = ", ".join(f"{plain(a)} to {'∞' if b is None else plain(b)}" for a, b in r.windows) or "nowhere"
    entries = [
        ("samples per dimension", found),
        ("outlier exists for delta", windows),
        ("left edge there", plain(r.edge)) if r.edge is not None else None,
        ("algorithmic threshold", plain(r.delta_alg)) if r.delta_alg is not None else None,
        ("efficiency", plain(r.efficiency, 4)) if r.efficiency is not None else None,
        ("of each neuron", ", ".join(plain(d) for d in r.neurons)) if r.neurons else None,
        ("method", r.method) if r.method else None,
        ("residual", plain(r.residual, 2)) if r.residual is not None else None,
    ]
    drift = [(plain(count, 9), uncertain(value, error)) for count, value, error in r.dependence]
    shown = [table(("samples of the law", "threshold"), drift)] if drift else []
    return "\n".join([title, _pairs(entries), *shown])


def _spectrum(r: Spectrum) -> str:
    blocks = r.blocks or [r]
    where = f"delta = {plain(r.delta)}" + (f", t = {time_name(r.time)}" if r.time is not None else "")
    parts = [f"spectrum of the {r.hessian} Hessian at {where}"]
    for block in blocks:
        if len(blocks) > 1:
            parts.append(f"neuron {block.neuron + 1}")
        parts.append(
            _pairs(
                [
                    (
                        "bulk",
                        f"{uncertain(block.edge, block.edge_stderr)} to "
                        f"{uncertain(block.right_edge, block.right_edge_stderr)}",
                    ),
                    ("atom at zero", plain(block.atom)) if block.atom else None,
                    ("outliers", "none") if not block.outliers else None,
                ]
            )
        )
        if block.outliers:
            rows = [
                (
                    f"{o.kind} outlier",
                    uncertain(o.value, o.stderr),
                    uncertain(o.overlap2, o.overlap2_stderr),
                    f"{o.probability:.3f}",
                )
                for o in block.outliers
            ]
            parts.append(table(("", "value", "overlap2", "P(exists)"), rows))
    return "\n".join(parts)


def _curves(r: Trajectory | Simulation) -> str:
    time = np.asarray(r.time, float)
    rows = np.unique(np.linspace(0, len(time) - 1, min(len(time), MOST_ROWS)).round().astype(int))
    columns = [_column(r, name) for name in ("train_loss", "test_loss")]
    columns += [c for name in ("norm2", "cosine", "hidden_variance") for c in _columns(r, name)]
    head = ["step", *(name for name, _, _ in columns)]
    body = [[plain(time[t]), *(uncertain(v[t], e[t], 4) for _, v, e in columns)] for t in rows]
    return table(head, body)


def _column(r: Trajectory | Simulation, name: str) -> tuple[str, np.ndarray, np.ndarray]:
    values = np.asarray(r[name], float)
    return quantity_name(name), values, _errors(r, name, values)


def _columns(r: Trajectory | Simulation, name: str) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """The columns of a per-neuron field: each neuron if they are few, else the mean or the largest."""
    if r[name] is None:
        return []
    values = np.asarray(r[name], float)
    errors = _errors(r, name, values)
    title = quantity_name(name)
    if values.ndim == 1:
        return [(title, values, errors)]
    if name == "hidden_variance":
        values, errors = (np.diagonal(a, axis1=1, axis2=2) for a in (values, errors))
    values, errors = values.reshape(len(values), -1), errors.reshape(len(values), -1)
    if values.shape[1] <= MOST_NEURONS:
        return [(f"{title} {j + 1}", values[:, j], errors[:, j]) for j in range(values.shape[1])]
    unknown = np.full(len(values), np.nan)
    if name == "cosine":
        return [("largest |cosine|", np.max(np.abs(values), axis=1), unknown)]
    return [(f"mean {title}", np.mean(values, axis=1), unknown)]


def _errors(r: Trajectory | Simulation, name: str, values: np.ndarray) -> np.ndarray:
    known = r.stderr.get(name)
    return np.full(values.shape, np.nan) if known is None else np.broadcast_to(np.asarray(known, float), values.shape)


def _trajectory(r: Trajectory) -> str:
    return f"training in high dimension at delta = {plain(r.delta)}\n{_curves(r)}"


def _simulation(r: Simulation) -> str:
    learnt = f"{sum(r.success)} of {len(r.success)} networks found the features"
    title = (
        f"{len(r.seeds)} networks trained at delta = {plain(r.delta)}, dimension {r.dimension}, {r.samples} samples "
        f"({r.data} data, {plain(r.seconds, 3)} s)"
    )
    return "\n".join([title, _curves(r), f"  {learnt}", *_eigenpairs(r)])


def _eigenpairs(r: Simulation) -> list[str]:
    lines = []
    for time, values in r.eigenvalues.items():
        entries, overlaps = np.asarray(values, float), np.asarray(r.overlap2.get(time, np.nan), float)
        for j, (x, o) in enumerate(
            zip(np.atleast_2d(entries), np.atleast_2d(np.broadcast_to(overlaps, entries.shape)), strict=True)
        ):
            who = f", neuron {j + 1}" if entries.ndim > 1 else ""
            pairs = ", ".join(f"{plain(a, 4)} ({plain(b, 2)})" for a, b in zip(x, o, strict=True))
            lines.append(f"  lowest eigenvalues (overlap2) at t = {time}{who}: {pairs}")
    return lines


def _learning_time(r: LearningTime) -> str:
    errors = r.stderr.get("quartiles") or [None] * 3
    slow, median, fast = (_time(q, e, r.steps) for q, e in zip(r.quartiles, errors, strict=True))
    entries = [
        ("median", median if r.time is not None else f"{MISSING} (more than half never learn)"),
        ("quartiles", f"{fast} (fast) to {slow} (slow)"),
        (
            f"probability in {r.steps} steps",
            uncertain(r.success_probability, r.stderr.get("success_probability"), 3),
        ),
    ]
    return f"steps until a feature is found at delta = {plain(r.delta)}, dimension {r.dimension}\n{_pairs(entries)}"


def _time(time: float | None, stderr: float | None, steps: int) -> str:
    """A step with its standard error in steps, such as 33 ± 1."""
    if time is None:
        return f"more than {steps}"
    known = stderr is not None and 0.05 <= stderr < float("inf")
    return f"{plain(time, 4)} ± {stderr:.1g}" if known else plain(time, 4)


def _comparison(r: Comparison) -> str:
    shown = fewer_rows(r.rows)
    rows = [
        (
            quantity_name(row["quantity"]),
            time_name(row.get("time")),
            uncertain(row.get("predicted"), row.get("predicted_stderr")),
            uncertain(row.get("measured"), row.get("measured_stderr")),
            str(row.get("verdict") or MISSING),
        )
        for row in shown
    ]
    parts = [
        f"prediction and measurement at delta = {plain(r.delta)}, dimension {r.dimension}",
        table(("", "t", "predicted", "measured", "verdict"), rows),
    ]
    if len(shown) < len(r.rows):
        parts.append(f"  ({len(r.rows) - len(shown)} more rows with --json)")
    parts += [f"verdict: {r.verdict}", *(f"  {v['sentence']}" for v in r.verdicts.values())]
    return "\n".join(parts if r.verdicts else [*parts, f"  {r.sentence}"])


def _design(r: Design) -> str:
    shown = {
        "samples per dimension": ("delta", 6),
        "efficiency": ("efficiency", 4),
        "left edge there": ("edge", 5),
    }
    rows = [
        (name, *(plain(side.get(field), digits) for side in (r.before, r.after)))
        for name, (field, digits) in shown.items()
    ]
    entries = [
        *((name, _values(value)) for name, value in r.parameters.items()),
        ("algorithmic threshold", plain(r.delta_alg)) if r.delta_alg is not None else None,
        ("steadiness", plain(r.steadiness, 4)) if r.steadiness is not None else None,
        ("shape", plain(r.shape, 4)) if r.shape is not None else None,
    ]
    parts = ["design at t = 0", table(("", "default", "winner"), rows), _pairs(entries)]
    if r.verified is not None:
        found = r.verified
        rows = [
            (
                side,
                *(uncertain(found[kind][key], found[f"{kind}_stderr"][key], 3) for kind in ("predicted", "measured")),
            )
            for side, key in (("default", "before"), ("winner", "after"), ("gain", "gain"))
        ]
        parts += [table(("success", "predicted", "measured"), rows), f"verdict: {found['verdict']}"]
        parts += textwrap.wrap(found["sentence"], 100, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(parts)


def _values(value: Any) -> str:
    return ", ".join(plain(v, 6) for v in np.ravel(value))


def _sensitivity(r: Sensitivity) -> str:
    title = f"sensitivity of the threshold at t = {time_name(r.time)}"
    entries = [
        ("samples per dimension", uncertain(r.delta, r.stderr_delta, 6) if r.delta is not None else "none"),
        ("method", r.method),
    ]
    rows = []
    for name, slopes in r.gradient.items():
        several = np.size(slopes) > 1
        columns = (np.ravel(slopes), np.ravel(r.stderr.get(name, np.nan)), np.ravel(r.values.get(name, np.nan)))
        for j, (slope, error, at) in enumerate(zip(*np.broadcast_arrays(*columns), strict=True)):
            rows.append((f"{name} {j + 1}" if several else name, plain(at, 6), uncertain(slope, error)))
    return "\n".join(
        [title, _pairs(entries), table(("choice", "at", "d delta"), rows)] if rows else [title, _pairs(entries)]
    )


_BODIES: dict[str, Any] = BODIES | {
    "Threshold": _threshold,
    "Spectrum": _spectrum,
    "Trajectory": _trajectory,
    "Simulation": _simulation,
    "LearningTime": _learning_time,
    "Comparison": _comparison,
    "Design": _design,
    "Sensitivity": _sensitivity,
}
