"""Numbers as text: a value with its standard error, times, and a problem in one line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MISSING = "–"
ROUNDOFF = 1e-9
"""A relative error smaller than this is arithmetic, not statistics."""
_NAMES = {
    "train_loss": "training loss",
    "test_loss": "test loss",
    "norm2": "squared norm",
    "overlap2": "squared overlap",
    "hidden_variance": "hidden variance",
}


def plain(value: Any, digits: int = 5) -> str:
    """A number to some significant digits; a dash where there is none."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    return f"{float(value):.{digits}g}"


def uncertain(value: Any, stderr: Any = None, digits: int = 5) -> str:
    """A value with the standard error of its last two digits: 0.8040(12). Plain where no error is known."""
    if value is None or not math.isfinite(float(value)):
        return plain(value)
    if stderr is None or not float(stderr) > ROUNDOFF * abs(float(value)) or math.isinf(float(stderr)):
        return plain(value, digits)
    x, s = float(value), float(stderr)
    places = 1 - math.floor(math.log10(s))
    if round(s * 10.0**places) >= 100:  # 0.0997 rounds to 0.10, which has its two digits one place earlier
        places -= 1
    if not 1e-4 <= max(abs(x), s) < 1e6 or not 0 < places <= 12:
        return f"{x:.{digits - 1}g} ± {s:.2g}"
    error = round(s * 10.0**places)
    return f"{x:.{places}f}({error})" if s < 1 else f"{x:.{places}f}({s:.{places}f})"


def time_name(time: Any) -> str:
    """A time for people: 5, or ∞."""
    if time is None:
        return MISSING
    t = float(time)
    return "∞" if math.isinf(t) else f"{t:g}"


def problem_line(problem: Mapping[str, Any]) -> str:
    """A problem in one line, from `Problem.to_dict()`; empty where nothing is known."""
    if not problem:
        return ""
    if "network" not in problem:
        k = problem.get("latent_dim", 1)
        return f"target {problem.get('target')}" + (f", {k} directions" if k > 1 else "")
    network = problem["network"]
    width = network.get("width", 1)
    neurons = "one neuron" if width == 1 else f"{width} neurons"
    parts = [
        f"target {problem.get('target')}",
        f"{neurons} ({network.get('activation')})",
        f"{problem.get('loss')} loss",
        f"step size {plain(problem.get('step_size'))}",
    ]
    parts += [f"{k.replace('_', ' ')} {plain(problem[k])}" for k in ("momentum", "weight_decay") if problem.get(k)]
    if problem.get("batch", 1.0) != 1.0:
        parts.append(f"batch {plain(problem['batch'])}")
    return ", ".join(parts)


def quantity_name(name: Any) -> str:
    """A field's name for people; norm2[0] is the squared norm of neuron 1."""
    base, _, rest = str(name).partition("[")
    title = _NAMES.get(base, base.replace("_", " "))
    places = [int(i) + 1 for i in rest.rstrip("]").split(",") if i.strip().isdigit()]
    if base == "hidden_variance":
        return f"{title} {', '.join(map(str, places))}".rstrip()
    words = [f"{word} {place}" for word, place in zip(("neuron", "direction"), places, strict=False)]
    return ", ".join([title, *words])


def fewer_rows(rows: Sequence[Mapping[str, Any]], most: int = 5) -> list[Mapping[str, Any]]:
    """At most some rows of each quantity, spread evenly, and every row that does not agree."""
    chosen: list[Mapping[str, Any]] = []
    for name in dict.fromkeys(row["quantity"] for row in rows):
        mine = [row for row in rows if row["quantity"] == name]
        count = min(most, len(mine))
        kept = {round(i * (len(mine) - 1) / max(count - 1, 1)) for i in range(count)}
        chosen += [row for i, row in enumerate(mine) if i in kept or row.get("verdict") == "disagrees"]
    return chosen


def verdict_line(verdicts: Mapping[str, Any]) -> str:
    """Which quantities agree and which do not: "agrees: training loss, test loss; undecided: overlap"."""
    groups: dict[str, list[str]] = {}
    for name, verdict in verdicts.items():
        groups.setdefault(verdict["verdict"], []).append(quantity_name(name))
    return "; ".join(f"{word}: {', '.join(names)}" for word, names in groups.items())
