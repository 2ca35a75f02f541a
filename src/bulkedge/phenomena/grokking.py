"""Grokking: the loss on new data falls long after that on the training data. When, and how does it grow with d?

Two parts. The curves: one neuron on phase retrieval, from the start to the end of learning at several delta; the limit
of high dimension over the early steps, in which nothing is learned, and the predicted learning time. The scaling: with
a loss whose Hessian weights are bounded the theory is sharp, and the time should grow as log d.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.phenomena import _training

TASKS = {
    "pseudo-huber": ("z**2", "pseudo-huber"),
    "logistic": ("2*(abs(z) > 0.6744897501960817) - 1", "logistic"),
}
"""{name: (target, loss)} with Hessian weights that are bounded."""
_RATIO = 1.18
"""Of one late time shown to the one before."""
_LEARNED = 0.02
"""The limit of high dimension holds while v(t)/(d |theta|^2), the squared cosine a run has by then, is below this."""


def followed(steps: int) -> np.ndarray:
    """Times to show: all early ones, then evenly in log t."""
    later = (10 * _RATIO ** np.arange(80)).round().astype(int)
    return np.array(sorted(t for t in {*range(10), *later.tolist(), steps} if t <= steps))


def curves(*, delta: float, dimension: int, steps: int, seed: int, **learner: Any) -> dict[str, Any]:
    """Train once, and follow the losses."""
    task = _training.problem(**learner)
    run = be.simulate(task, delta, dimension, steps, seeds=1, seed=seed)
    cosines, at = _training.cosines(run.seeds[0], task), followed(steps)
    return {
        "train_loss": run.train_loss[at],
        "test_loss": run.test_loss[at],
        "feature": cosines[at],
        "found": float(run.success[0]),
        "found_at": _training.first_above(cosines),
        "time": at.astype(float),
    }


def early(*, delta: float, dimension: int, early: int, paths: int, replicas: int, **learner: Any) -> dict[str, Any]:
    """The limit of high dimension.

    early_drift: of the losses, relative: what the overlap changes that noise grows at this d, and 1/d; NaN from when
    that overlap is no longer small.
    """
    task = _training.problem(**learner)
    run = be.trajectory(task, delta, early, numerics=be.Numerics(paths=paths, replicas=replicas))
    if run.hidden_variance is None:
        raise ValueError("the target has no hard direction")
    at = followed(early)
    grown = (run.hidden_variance / (dimension * run.norm2))[at]
    return {
        "early_train": run.train_loss[at],
        "early_train_stderr": run.stderr["train_loss"][at],
        "early_test": run.test_loss[at],
        "early_test_stderr": run.stderr["test_loss"][at],
        "early_drift": np.where(grown < _LEARNED, 2.0 * grown + 2.0 / dimension, np.nan),
        "time": at.astype(float),
    }


def expected(**parameters: Any) -> dict[str, float]:
    """The learning time of theory 1.7, and the probability to learn in time."""
    found = _training.predicted(**parameters)
    return {f"expected_{name}": value for name, value in found.items()}


def reached(*, task: str, dimension: int, steps: int, delta: float, seed: int, **learner: Any) -> dict[str, float]:
    """The time at which a run finds the feature; NaN within no more than `steps`."""
    target, loss = TASKS[task]
    problem = _training.problem(target=target, loss=loss, **learner)
    run = be.simulate(problem, delta, dimension, steps, seeds=1, seed=seed)
    return {"reached_at": _training.first_above(_training.cosines(run.seeds[0], problem))}


def reaching(*, task: str, **parameters: Any) -> dict[str, float]:
    """The median of that time."""
    target, loss = TASKS[task]
    found = _training.predicted(target=target, loss=loss, **parameters)
    return {"reaching_time": found["learning_time"], "reaching_time_stderr": found["learning_time_stderr"]}


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Predictions, then one run of everything after the other."""
    learner = {name: knobs[name] for name in ("activation", "step_size")}
    first = {**learner, "target": knobs["target"], "loss": knobs["loss"], "dimension": knobs["dimension"]}
    second = {**learner, "delta": knobs["scaling_delta"], "steps": knobs["scaling_steps"]}
    delta = {"delta": knobs["delta"]}
    sizes = {"task": knobs["task"], "dimension": knobs["scaling_dimension"]}
    numerics = {name: knobs[name] for name in ("early", "paths", "replicas")}
    return [
        *grid("early", delta, **numerics, **first),
        *grid("theory", delta, steps=knobs["steps"], **first),
        *grid("scaling-theory", sizes, **second),
        *grid("curves", delta, range(knobs["seeds"]), steps=knobs["steps"], **first),
        *grid("scaling", sizes, range(knobs["scaling_seeds"]), **second),
    ]


def conclude(table: Any) -> list[str]:
    """Whether the loss on new data waits, at each delta; and how the time grows, for each task."""
    lines = []
    if "train_loss" in table and "delta" in table["train_loss"].dims:
        lines = [line for delta in table["delta"].values if (line := _waiting(table.sel(delta=delta)))]
    for task in table["task"].values if "reached_at_slope" in table else ():
        at = table.sel(task=task)
        seen, said = (f"{float(at[f'{n}_slope']):.2g} ± {float(at[f'{n}_slope_stderr']):.1g}" for n in _TIMES)
        lines.append(f"{task}: the learning time grows by {seen} steps for every factor e in d; predicted {said}.")
    return lines


_TIMES = ("reached_at", "reaching_time")


def _waiting(at: Any) -> str:
    """When the training loss has made half of its way down, when the test loss has, and how high that rose before."""
    train, test, time = (np.asarray(at[name].values, float) for name in ("train_loss", "test_loss", "time"))
    here = np.isfinite(train) & np.isfinite(test)
    if here.sum() < 2:
        return ""
    train, test, time = train[here], test[here], time[here]
    halves = [_half(time, loss) for loss in (train, test)]
    rise = f"new data: up by {100 * (test.max() / test[0] - 1):.0f} percent at t = {time[np.argmax(test)]:g}"
    end = f"{100 * (test[-1] / test[0] - 1):+.0f} percent at the end"
    said = [f"half of its fall by t = {t:g}" if math.isfinite(t) else "no fall" for t in halves]
    return f"delta = {float(at['delta']):g}: training loss {said[0]}; {rise}, {end}, {said[1]}."


def _half(time: np.ndarray, loss: np.ndarray) -> float:
    """The first time at which a loss is below the mean of where it began and where it ended; inf if it did not fall."""
    if not loss[-1] < loss[0]:
        return math.inf
    return float(time[np.argmax(loss < 0.5 * (loss[0] + loss[-1]))])


def _relative(name: str) -> Any:
    """The drift of a loss."""
    return lambda table: table["early_drift"] * np.abs(table[name])


PHENOMENON = Phenomenon(
    name="grokking",
    question="When does the loss on new data fall, so long after the training loss? Does that time grow as log d?",
    citations=("montanari-wang-2026", "celentano-cheng-montanari-2021"),
    equation="GeLU on phase retrieval, d = 5000, delta = 5, 10, 15, 17.5, 50; learning time of order log d",
    knobs=(
        Knob("target", "text", "z**2", "the link h of the curves"),
        Knob("activation", "text", "gelu", "of the neuron"),
        Knob("loss", "text", "squared", "of the curves"),
        Knob("step_size", "positive", 0.5, "eta"),
        Knob("delta", "positives", (5.0, 10.0, 15.0, 17.5, 50.0), "samples per dimension of the curves"),
        Knob("dimension", "integer", 600, "of the curves", full=5000, low=10),
        Knob("steps", "integer", 200, "of the curves", full=400, low=1),
        Knob("seeds", "integer", 12, "runs of each curve", full=12, low=1),
        Knob("early", "integer", 30, "steps of the limit of high dimension", low=0),
        Knob("paths", "integer", 65536, "of that limit", full=262144, low=64),
        Knob("replicas", "integer", 4, "of that limit", full=8, low=2),
        Knob("task", "texts", tuple(TASKS), "what the learning time is measured on", choices=tuple(TASKS)),
        Knob(
            "scaling_dimension",
            "integers",
            (200, 600, 1500, 4000),
            "dimensions of the learning time",
            full=(500, 1000, 2000, 5000, 10000, 20000, 50000),
            low=10,
        ),
        Knob("scaling_delta", "positive", 20.0, "samples per dimension of the learning time"),
        Knob("scaling_steps", "integer", 150, "of the learning time", full=200, low=1),
        Knob("scaling_seeds", "integer", 80, "runs at each of these dimensions", full=120, low=1),
    ),
    parts=(
        Part(
            "early",
            "predicted",
            early,
            axes=("delta",),
            quantities=(
                Quantity("early_train", dims=("time",)),
                Quantity("early_test", dims=("time",)),
                Quantity("early_drift", dims=("time",)),
            ),
        ),
        Part(
            "theory",
            "predicted",
            expected,
            axes=("delta",),
            quantities=(Quantity("expected_learning_probability"), Quantity("expected_learning_time")),
        ),
        Part("scaling-theory", "predicted", reaching, ("task", "dimension"), (Quantity("reaching_time"),)),
        Part(
            "curves",
            "measured",
            curves,
            axes=("delta",),
            quantities=(
                Quantity("train_loss", dims=("time",), label="loss on the training data"),
                Quantity("test_loss", dims=("time",), label="loss on new data"),
                Quantity("feature", dims=("time",), label="cosine with the feature"),
                Quantity("found", over="fraction"),
                Quantity("found_at", over="median"),
            ),
        ),
        Part("scaling", "measured", reached, ("task", "dimension"), (Quantity("reached_at", over="median"),)),
    ),
    plan=plan,
    judged=(
        Judged("train_loss", "early_train", drift=_relative("early_train"), name="early training loss"),
        Judged("test_loss", "early_test", drift=_relative("early_test"), name="early loss on new data"),
        Judged("found_at", "expected_learning_time", name="learning time along delta"),
        Judged("reached_at", "reaching_time", name="learning time along the dimension"),
        Judged("reached_at", "reaching_time", law=("dimension", "log"), name="growth of the learning time with log d"),
    ),
    panels=(
        Panel(
            "",
            (
                Mark("points", "train_loss", x="time", label="training data", colour=1),
                Mark("line", "early_train", x="time", label="limit of high dimension", colour=1),
                Mark("points", "test_loss", x="time", label="new data", colour=2, dash=1),
                Mark("line", "early_test", x="time", label="limit, new data", colour=2),
                Mark("rule", "expected_learning_time", label="predicted learning time", dash=1, colour=3),
            ),
            xlabel="step $t$",
            ylabel="loss",
            each="delta",
            xscale="log",
            xlim=(0.9, None),
        ),
        Panel(
            "learning time",
            (
                Mark("line", "reaching_time", x="dimension", by="task"),
                Mark("points", "reached_at", x="dimension", by="task", label="measured"),
            ),
            xlabel="dimension $d$",
            ylabel="median learning time",
            xscale="log",
            ylim=(0.0, None),
        ),
    ),
    conclude=conclude,
)
