"""How likely is it that descent finds the feature, and how does that depend on the number of samples?"""

from __future__ import annotations

from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.finite.onset import onset
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.phenomena import _training

_WINDOWS = 3


def threshold(*, time: int, paths: int, **learner: Any) -> dict[str, Any]:
    """delta*(t), and the windows of delta that have an outlier (an open end is NaN)."""
    found = be.threshold(_training.problem(**learner), time, numerics=be.Numerics(paths=paths, replicas=4))
    ends = [[np.nan if end is None else end for end in window] for window in found.windows[:_WINDOWS]]
    low, high = np.array(ends + [[np.nan, np.nan]] * (_WINDOWS - len(ends)), float).T
    exists = found.delta is not None
    return {
        "threshold": found.delta if exists else np.nan,
        "threshold_stderr": found.stderr if exists else np.nan,
        "window_start": low,
        "window_end": high,
    }


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Predictions at every (delta, dimension), trainings there, thresholds at every time."""
    learner = {name: knobs[name] for name in ("target", "activation", "step_size")}
    axes = {"loss": knobs["loss"], "dimension": knobs["dimension"], "delta": knobs["delta"]}
    times = {"loss": knobs["loss"], "time": knobs["time"]}
    return [
        *grid("threshold", times, paths=knobs["paths"], **learner),
        *grid("training", axes, range(knobs["seeds"]), steps=knobs["steps"], **learner),
        *grid("theory", axes, steps=knobs["steps"], **learner),
    ]


def derive(table: Any) -> dict[str, Any]:
    """Delta at which half of the runs learn, measured and predicted, for every loss and dimension."""
    shape = (table.sizes["loss"], table.sizes["dimension"])
    seen, said = np.full((3, *shape), np.nan), np.full((3, *shape), np.nan)
    for place in np.ndindex(*shape):
        at = table.isel(loss=place[0], dimension=place[1])
        deltas, runs = at["delta"].values, at["learned_runs"].values
        found = onset(deltas, at["learned"].values, runs)
        seen[:, *place] = np.nan if found.bound else found.value, found.stderr, np.sum(runs)
        p, error = at["learning_probability"].values, at["learning_probability_stderr"].values
        middle, *ends = (onset(deltas, np.clip(p + shift * error, 0.0, 1.0)) for shift in (0.0, 1.0, -1.0))
        spread = 0.5 * abs(ends[0].value - ends[1].value)
        said[:, *place] = np.nan if middle.bound else middle.value, spread, np.sum(at["learning_probability_runs"])
    dims = ("loss", "dimension")
    return {"onset": (dims, *seen), "expected_onset": (dims, *said)}


def conclude(table: Any) -> list[str]:
    """Where half of the runs learn, measured and predicted; where the outlier exists."""
    lines = []
    for loss in table["loss"].values:
        for d in table["dimension"].values:
            at = table.sel(loss=loss, dimension=d)
            seen = onset(at["delta"].values, at["learned"].values, at["learned_runs"].values)
            said = onset(at["delta"].values, at["learning_probability"].values)
            lines.append(f"{loss}, d = {d}: half of the runs learn at delta = {seen}; predicted {said}.")
        for time in table["time"].values:
            at = table.sel(loss=loss, time=time)
            ends = zip(at["window_start"].values, at["window_end"].values, strict=True)
            spans = [f"from {a:.3g} on" if np.isnan(b) else f"from {a:.3g} to {b:.3g}" for a, b in ends if a == a]
            lines.append(f"{loss}, t = {time:g}: {'an outlier ' + ' and '.join(spans) if spans else 'no outlier'}.")
    return lines


PHENOMENON = Phenomenon(
    name="phase-diagram",
    question="How many samples per dimension does descent need to find the feature, at a finite dimension?",
    citations=("montanari-wang-2026", "celentano-cheng-montanari-2021"),
    equation="success of one GeLU neuron on phase retrieval against delta, with the threshold of the Hessian's outlier",
    knobs=(
        Knob("target", "text", "z**2", "the link h"),
        Knob("activation", "text", "gelu", "of the neuron"),
        Knob("loss", "texts", ("squared", "pseudo-huber"), "losses"),
        Knob("step_size", "positive", 0.5, "eta"),
        Knob(
            "delta",
            "positives",
            (3.0, 4.5, 6.0, 8.0, 10.0, 13.0, 18.0),
            "samples per dimension",
            full=(2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 10.0, 12.0, 14.0, 17.0, 20.0),
        ),
        Knob("dimension", "integers", (150, 300), "dimensions", full=(200, 400, 800, 1600), low=10),
        Knob("steps", "integer", 150, "of training", full=400, low=1),
        Knob("time", "integers", (0, 2, 5, 10), "steps at which the threshold is computed", low=0),
        Knob("paths", "integer", 16384, "of a threshold", full=65536, low=64),
        Knob("seeds", "integer", 100, "runs at every point", low=1),
    ),
    parts=(
        Part(
            "threshold",
            "predicted",
            threshold,
            axes=("loss", "time"),
            quantities=(
                Quantity("threshold", label=r"threshold $\delta_*(t)$"),
                Quantity("window_start", dims=("window",)),
                Quantity("window_end", dims=("window",)),
            ),
        ),
        Part("training", "measured", _training.trained, ("loss", "dimension", "delta"), _training.MEASURED),
        Part("theory", "predicted", _training.predicted, ("loss", "dimension", "delta"), _training.PREDICTED),
    ),
    plan=plan,
    judged=(
        Judged("learned", "learning_probability", scale=1.0, name="fraction of runs that learn"),
        Judged("onset", "expected_onset", name="delta at which half of the runs learn"),
    ),
    derive=derive,
    panels=(
        Panel(
            "",
            (
                Mark("rule", "threshold", label=r"$\delta_*(t)$ at several $t$", dash=2, colour=7),
                Mark("line", "learning_probability", x="delta", by="dimension"),
                Mark("points", "learned", x="delta", by="dimension"),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel="fraction that learns",
            each="loss",
            xscale="log",
            ylim=(-0.05, 1.05),
        ),
        Panel(
            "threshold",
            (
                Mark("line", "threshold", x="time"),
                Mark("line", "window_end", x="time", where={"window": 0}, dash=1, label="outlier gone above"),
            ),
            xlabel="step $t$",
            ylabel=r"$\delta_*(t)$",
            each="loss",
            ylim=(0.0, None),
        ),
    ),
    conclude=conclude,
)
