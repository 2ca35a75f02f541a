"""One page about one comparison: self-contained HTML, readable in light and dark, no script, everything escaped."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import bulkedge
from bulkedge.foundation.answers import Comparison, Spectrum, Threshold
from bulkedge.foundation.citations import cite
from bulkedge.show import comparison as figures
from bulkedge.show import draw, frame
from bulkedge.show.formats import writable
from bulkedge.show.numbers import (
    MISSING,
    fewer_rows,
    plain,
    problem_line,
    quantity_name,
    time_name,
    uncertain,
    verdict_line,
)

_PACKAGES = ("jax", "numpy", "scipy", "matplotlib")


def write(
    comparison: Comparison, path: Any, *, thresholds: Threshold | Sequence[Threshold] = (), command: str | None = None
) -> Path:
    """Write the page. command: what a reader can type to get it again."""
    writable(path, formats=("html",))
    target = Path(path)
    target.write_text(page(comparison, thresholds=thresholds, command=command), encoding="utf-8")
    return target


def page(
    comparison: Comparison, *, thresholds: Threshold | Sequence[Threshold] = (), command: str | None = None
) -> str:
    """The page as a string."""
    found = [thresholds] if isinstance(thresholds, Threshold) else list(thresholds)
    question = f"Does training find the features of {comparison.problem.get('target', 'this target')}?"
    papers = [*comparison.citations, *(key for t in found for key in t.citations)]
    body = [
        f"<h1>{frame.text(question)}</h1>",
        f'<p class="answer">{frame.text(answer(comparison, found))}</p>',
        f'<p class="soft">{frame.text(problem_line(comparison.problem))}; samples per dimension δ = '
        f"{frame.text(plain(comparison.delta))}, dimension d = {comparison.dimension}, "
        f"{len(comparison.simulation.seeds)} networks trained.</p>",
        f'<p class="verdict {frame.text(comparison.verdict)}"><b>{frame.text(comparison.verdict)}.</b> '
        f"<span>{frame.text(verdict_line(comparison.verdicts) or comparison.sentence)}.</span></p>",
        _warnings([comparison, *found]),
        *_figures(comparison, found),
        "<h2>Prediction and measurement</h2>",
        *_rows_tables(comparison.rows),
        _verdict_list(comparison.verdicts),
        "<h2>How this page was made</h2>",
        f"<pre>{frame.text(command)}</pre>" if command else "",
        f'<p class="soft">{frame.text(versions())}. The networks were trained in '
        f"{frame.text(plain(comparison.simulation.seconds, 3))} s on "
        f"{frame.text(comparison.simulation.data)} data.</p>",
        "<details><summary>What the prediction rests on (BibTeX)</summary>"
        f"<pre>{frame.text(cite(*papers))}</pre></details>",
    ]
    return frame.document(question, body)


def answer(comparison: Comparison, thresholds: Sequence[Threshold] = ()) -> str:
    """The answer in a sentence or two: the threshold if it is known, then what training does at this delta."""
    return " ".join([*(_threshold_sentence(t) for t in thresholds[:1]), *_outlier_sentences(comparison.spectra)])


def _threshold_sentence(t: Threshold) -> str:
    where = f"at t = {time_name(t.time)}"
    if t.delta is None:
        why = "" if t.reason == "none" else f": {t.absence}"
        return f"No number of samples per dimension gives the Hessian a downhill direction along them {where}{why}."
    windows = [f"from {plain(a)} on" if b is None else f"between {plain(a)} and {plain(b)}" for a, b in t.windows] or [
        f"from {plain(t.delta)} on"
    ]
    span = " and ".join(windows)
    return f"The Hessian has a downhill direction along the features {span} samples per dimension {where}."


def _outlier_sentences(spectra: Sequence[Spectrum]) -> list[str]:
    held = [s for s in spectra if s.time is not None]
    there = [time_name(s.time) for s in held if _has_hidden(s)]
    gone = [time_name(s.time) for s in held if not _has_hidden(s)]
    if not held:
        return []
    delta = plain(held[0].delta)
    if not gone:
        return [f"With {delta}, that direction is there at t = {', '.join(there)}."]
    if not there:
        return [f"With {delta}, there is no such direction at t = {', '.join(gone)}."]
    return [f"With {delta}, that direction is there at t = {', '.join(there)} and not at t = {', '.join(gone)}."]


def _has_hidden(spectrum: Spectrum) -> bool:
    blocks = spectrum.blocks or [spectrum]
    return any(o.kind == "hidden" and o.value < min(0.0, b.edge) for b in blocks for o in b.outliers)


def versions() -> str:
    """What ran: this package, Python and the packages the numbers come from."""
    packages = ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)
    return f"bulkedge {bulkedge.__version__}, Python {platform.python_version()}, {packages}"


def _figures(comparison: Comparison, thresholds: Sequence[Threshold]) -> list[str]:
    parts = []
    if thresholds:
        parts.append(
            frame.picture(
                draw(list(thresholds)),
                "Where in δ the Hessian has a negative outlier along the features (shaded), the threshold, and the "
                "least δ at which any efficient method is known to work (dashed).",
                "Threshold in samples per dimension",
                width="34rem",
            )
        )
    parts.append(
        frame.picture(
            figures.comparisons([comparison], part="curves"),
            "Training: exact theory as lines (band: one standard error of its sampling), networks really trained as "
            "points (bars: one standard error over seeds; thin lines: single runs).",
            "Losses, norm and overlap over training, theory against trained networks",
        )
    )
    if comparison.spectra:
        parts.append(
            frame.picture(
                figures.comparisons([comparison], part="spectra"),
                "Spectrum of the Hessian: the bulk and its edges, predicted outliers as stems whose height is the "
                "squared overlap of the eigenvector (right axis), and the lowest measured eigenpairs as circles.",
                "Spectra of the Hessian, predicted and measured",
            )
        )
    return parts


def _rows_tables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows that matter, and all of them for who wants to see."""
    some = fewer_rows(rows)
    if len(some) == len(rows):
        return [_rows_table(rows)]
    every = f"<details><summary>All {len(rows)} rows</summary>{_rows_table(rows)}</details>"
    return [_rows_table(some), every]


def _rows_table(rows: Iterable[Mapping[str, Any]]) -> str:
    head = "".join(f"<th>{name}</th>" for name in ("quantity", "t", "predicted", "measured", "verdict"))
    body = []
    for row in rows:
        cells = [
            frame.text(quantity_name(row["quantity"])),
            frame.text(time_name(row.get("time"))),
            frame.text(uncertain(row.get("predicted"), row.get("predicted_stderr"))),
            frame.text(uncertain(row.get("measured"), row.get("measured_stderr"))),
        ]
        verdict = frame.text(row.get("verdict") or MISSING)
        columns = "".join(f"<td>{c}</td>" for c in cells)
        body.append(f'<tr>{columns}<td class="{verdict}">{verdict}</td></tr>')
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'


def _verdict_list(verdicts: Mapping[str, Any]) -> str:
    sentences = [v["sentence"] for v in verdicts.values() if "sentence" in v.keys()]  # noqa: SIM118 (also a Record)
    return "<ul>" + "".join(f"<li>{frame.text(s)}</li>" for s in sentences) + "</ul>" if sentences else ""


def _warnings(results: Sequence[Any]) -> str:
    said = dict.fromkeys(
        [w for r in results for w in r.warnings] + [r.status.sentence for r in results if not r.status.ok]
    )
    return "<ul>" + "".join(f"<li>{frame.text(w)}</li>" for w in said) + "</ul>" if said else ""
