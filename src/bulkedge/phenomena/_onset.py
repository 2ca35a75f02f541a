"""What phenomena about onsets share: a learner tried at every delta, and alternatives ranked by their distance."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bulkedge.finite.onset import Onset, onset, own_onset
from bulkedge.foundation.phenomenon import Quantity
from bulkedge.phenomena import _training

MEASURED = (
    Quantity("learned", over="fraction", dims=("delta",), label="fraction that learned"),
    Quantity("learned_at", over="median", dims=("delta",), label="learning time"),
    Quantity("onset", over="median", label="delta at which a run begins to learn"),
)
PREDICTED = _training.PREDICTED


def tried(*, deltas: Sequence[float], dimension: int, steps: int, seed: int, **learner: Any) -> dict[str, Any]:
    """Train at every delta, with the same start: where it learned, when, and from which delta on."""
    runs = [_training.trained(delta=d, dimension=dimension, steps=steps, seed=seed, **learner) for d in sorted(deltas)]
    learned = np.array([run["learned"] for run in runs])
    return {
        "learned": learned,
        "learned_at": np.array([run["learned_at"] for run in runs]),
        "onset": own_onset(sorted(deltas), learned) if len(runs) > 1 else math.nan,
        "delta": np.array(sorted(deltas)),
    }


def measured(at: Any) -> Onset:
    """Half of the runs learn, from a table over delta."""
    return onset(at["delta"].values, at["learned"].values, at["learned_runs"].values)


def predicted(at: Any) -> Onset:
    """Half of the runs learn, from a table of predicted probabilities over delta."""
    return onset(at["delta"].values, at["learning_probability"].values)


def known(found: Onset) -> float:
    """The onset where it lies inside what was tried, NaN otherwise."""
    return math.nan if found.bound else found.value


def distances(measured: Mapping[Any, float], alternatives: Mapping[str, Mapping[Any, float]]) -> list[str]:
    """A sentence for each alternative, best first: by how much it misses the measured onsets, at all points it has.

    The distance is the root mean square of log(alternative/measured), as a factor; the bias is the mean.
    """
    rows = []
    for name, values in alternatives.items():
        logs = np.array(
            [
                math.log(values[key] / seen)
                for key, seen in measured.items()
                if seen > 0 and key in values and math.isfinite(values[key]) and math.isfinite(seen)
            ]
        )
        missing = sum(math.isfinite(seen) for seen in measured.values()) - logs.size
        distance = math.sqrt(float(np.mean(logs**2))) if logs.size else math.inf
        rows.append((missing, distance, name, logs))
    lines = [
        f"Of {sum(map(math.isfinite, measured.values()))} measured onsets, as far as each alternative has a number:"
    ]
    for missing, distance, name, logs in sorted(rows, key=lambda row: row[:2]):
        if not logs.size:
            lines.append(f"{name}: names a delta at none of the {missing} measured onsets.")
            continue
        ratio = math.exp(float(np.mean(logs)))
        side = f"{ratio:.2f} times the measured onset on average"
        without = f", and no number at {missing}" if missing else ""
        lines.append(f"{name}: off by a factor {math.exp(distance):.2f} at {logs.size} of them ({side}){without}.")
    return lines
