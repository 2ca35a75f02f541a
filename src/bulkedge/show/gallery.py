"""One page with everything in a store: each phenomenon's question, verdict, figure and numbers."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bulkedge import lab
from bulkedge.foundation.citations import cite
from bulkedge.show import frame
from bulkedge.show.formats import writable
from bulkedge.show.numbers import MISSING, plain, uncertain
from bulkedge.show.page import versions
from bulkedge.show.phenomena import outcomes

MOST_ROWS = 200


def write(store: Any, path: Any) -> Path:
    """Write the page; returns its path."""
    writable(path, "out", ("html",))
    target = Path(path)
    target.write_text(page(store), encoding="utf-8")
    return target


def page(store: Any) -> str:
    """The page as a string."""
    found = lab.status(store)
    entries = [(plan, _outcome(store, plan)) for plan in found["plans"] if plan["done"]]
    entries.sort(key=lambda entry: entry[0]["phenomenon"])
    outcomes_found = [outcome for _, outcome in entries]
    body = [
        "<h1>Phenomena: predicted, measured, judged</h1>",
        f'<p class="soft">{found["runs"]} runs in {frame.text(found["store"])}, {_hours(found["seconds"])} of work. '
        f"{frame.text(versions())}.</p>",
        _contents(outcomes_found) if entries else "<p>Nothing is stored yet.</p>",
        *(part for number, (plan, outcome) in enumerate(entries) for part in _section(number, plan, outcome)),
        _aside([plan for plan in found["plans"] if plan["done"] is None]),
        _sources(outcomes_found),
    ]
    return frame.document("Phenomena: predicted, measured, judged", body)


def _outcome(store: Any, plan: Mapping[str, Any]) -> Any:
    return lab.gather(plan["phenomenon"], size=plan["size"], store=store, **plan["settings"])


def _contents(found: Sequence[Any]) -> str:
    rows = []
    for number, outcome in enumerate(found):
        word = outcome.verdict or MISSING
        rows.append(
            f'<tr><td><a href="#p{number}">{frame.text(outcome.phenomenon)}</a> '
            f'<span class="soft">({frame.text(outcome.size)})</span></td>'
            f'<td class="{frame.text(word)}">{frame.text(word)}</td><td>{outcome.done} of {outcome.total}</td></tr>'
        )
    head = "<tr><th>phenomenon</th><th>verdict</th><th>units</th></tr>"
    return f'<div class="scroll"><table><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'


def _section(number: int, plan: Mapping[str, Any], outcome: Any) -> list[str]:
    command = shlex.join(["bulkedge", "run", outcome.phenomenon, *_knobs(plan)])
    if outcome.size != "quick":
        command += f" --size {outcome.size}"
    word = outcome.verdict
    sentences = "".join(f"<li>{frame.text(sentence)}</li>" for sentence in outcome.sentences)
    verdict = (
        f'<div class="verdict {frame.text(word)}"><b>{frame.text(word)}.</b> <ul>{sentences}</ul></div>'
        if word
        else f"<ul>{sentences}</ul>"
        if sentences
        else ""
    )
    said = [*outcome.warnings, *(f"{f['unit']} failed: {f['error'].splitlines()[0]}" for f in outcome.failures)]
    return [
        f'<h2 id="p{number}">{frame.text(outcome.phenomenon)}: {frame.text(outcome.question)}</h2>',
        verdict,
        "<ul>" + "".join(f"<li>{frame.text(line)}</li>" for line in said) + "</ul>" if said else "",
        _picture(outcome),
        _table(outcome.rows),
        f"<pre>{frame.text(command)}</pre>",
        f'<p class="soft">{frame.text(outcome.declaration().equation)}; {_hours(outcome.seconds)} of work.</p>',
    ]


def _picture(outcome: Any) -> str:
    if not outcome.declaration().panels:
        return ""
    try:
        figure = outcomes([outcome])
    except (
        ValueError
    ) as error:  # of a declaration and knobs that do not fit; the rest of the page does not depend on it
        return f"<p>The figure cannot be drawn: {frame.text(error)}.</p>"
    caption = "Lines and bands: theory with one standard error. Markers and bars: measurements with one standard error."
    return frame.picture(figure, caption, f"Figure of {outcome.phenomenon}")


def _knobs(plan: Mapping[str, Any]) -> list[str]:
    """The knobs that are not as the size has them, as they are typed."""
    typed = {n: ",".join(map(str, v)) if isinstance(v, (list, tuple)) else v for n, v in plan["changed"].items()}
    return [f"{name}={'none' if value in (None, '') else value}" for name, value in typed.items()]


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The judged points; behind a fold, since they may be many."""
    if not rows:
        return ""
    axes = list(dict.fromkeys(axis for row in rows for axis in row["point"]))
    head = "".join(f"<th>{frame.text(n)}</th>" for n in ("quantity", *axes, "predicted", "measured", "verdict"))
    body = []
    for row in rows[:MOST_ROWS]:
        cells = [row["quantity"], *(_coordinate(row["point"].get(axis)) for axis in axes)]
        cells += [uncertain(row[name], row[f"{name}_stderr"]) for name in ("predicted", "measured")]
        columns = "".join(f"<td>{frame.text(c)}</td>" for c in cells)
        word = frame.text(row["verdict"])
        body.append(f'<tr>{columns}<td class="{word}">{word}</td></tr>')
    return (
        f"<details><summary>{len(rows)} judged points</summary>"
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        "</details>"
    )


def _coordinate(value: Any) -> str:
    if value is None:
        return MISSING
    return value if isinstance(value, str) else plain(value)


def _aside(plans: Sequence[Mapping[str, Any]]) -> str:
    """Plans that cannot be shown, with the reason."""
    lines = "".join(f"<li>{frame.text(p['phenomenon'])}: {frame.text(p['note'])}</li>" for p in plans)
    return f"<h2>Not shown</h2><ul>{lines}</ul>" if lines else ""


def _sources(found: Sequence[Any]) -> str:
    keys = dict.fromkeys(key for outcome in found for key in outcome.references)
    if not keys:
        return ""
    return f"<details><summary>Sources (BibTeX)</summary><pre>{frame.text(cite(*keys))}</pre></details>"


def _hours(seconds: float) -> str:
    return (
        f"{seconds:.1f} s"
        if seconds < 90
        else f"{seconds / 60:.0f} min"
        if seconds < 5400
        else f"{seconds / 3600:.1f} h"
    )
