"""How does the loss move the threshold, for a fixed target?

The loss enters the Hessian weight a^2 l'' sigma'^2 + a l' sigma''. A slope that is bounded (Huber, pseudo-Huber,
logistic) makes the weight bounded below, and so gives a sharp threshold on phase retrieval, where squared loss has none
(theory 1.9). The efficiency delta_alg/delta says how much of the best spectral method each loss keeps (theory 1.4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability.floor import bounded_below
from bulkedge.models import functions
from bulkedge.phenomena import _onset, _training

SIGNS = "2*(abs(z) > 0.6744897501960817) - 1"
"""Labels -1 and +1, equally likely: the target that every loss can have, logistic included."""
PACE = {"quad": 0.1}
"""Step size of an activation in units of the others': z^2 with squared loss diverges at theirs."""


def _learner(activation: str, loss: str, step_size: float) -> dict[str, Any]:
    return {"activation": activation, "loss": loss, "step_size": step_size * PACE.get(activation, 1.0)}


def fits(target: str, loss: str) -> bool:
    """Whether the loss can have the target's labels: logistic needs -1 and +1."""
    try:
        _training.problem(target, "gelu", loss, 0.5)
    except BadInput as error:
        if error.argument == "loss" and functions.loss(loss).name == "logistic":
            return False
        raise
    return True


def training(
    *,
    target: str,
    activation: str,
    loss: str,
    step_size: float,
    deltas: Sequence[float],
    dimension: int,
    steps: int,
    seed: int,
) -> dict[str, Any]:
    """One network tried at every delta."""
    learner = _learner(activation, loss, step_size)
    return _onset.tried(deltas=deltas, dimension=dimension, steps=steps, seed=seed, target=target, **learner)


def threshold(*, target: str, activation: str, loss: str, time: int, step_size: float, paths: int) -> dict[str, float]:
    """delta*(t), the efficiency there, and whether the weight is bounded below (else delta*(t) belongs to `paths`)."""
    task = _training.problem(target, **_learner(activation, loss, step_size))
    found = be.threshold(task, time, numerics=be.Numerics(paths=paths, replicas=4))
    there = found.delta is not None
    return {
        "threshold": found.delta if there else math.nan,
        "threshold_stderr": found.stderr if there else math.nan,
        "best": math.nan if found.delta_alg is None else found.delta_alg,
        "bounded": float(bounded_below(task, 0)),
    }


def theory(
    *, target: str, activation: str, loss: str, step_size: float, dimension: int, delta: float, steps: int
) -> dict[str, float]:
    """The probability to learn, and the learning time (theory 1.7)."""
    learner = _learner(activation, loss, step_size)
    return _training.predicted(delta=delta, dimension=dimension, steps=steps, target=target, **learner)


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Thresholds and trainings of every activation; learning times of those in `theory`."""
    units: list[Unit] = []
    paths, steps, fixed = knobs["paths"], knobs["steps"], {"step_size": knobs["step_size"]}
    for target in knobs["target"]:
        what = {
            "target": [target],
            "activation": knobs["activation"],
            "loss": [loss for loss in knobs["loss"] if fits(target, loss)],
        }
        sized = {**what, "dimension": knobs["dimension"]}
        told = {**sized, "activation": [a for a in what["activation"] if a in knobs["theory"]], "delta": knobs["delta"]}
        units += grid("threshold", {**what, "time": knobs["time"]}, paths=paths, **fixed)
        units += grid("training", sized, range(knobs["seeds"]), deltas=list(knobs["delta"]), steps=steps, **fixed)
        units += grid("theory", told, steps=steps, **fixed)
    return sorted(units, key=lambda unit: -1 if unit.seed is None else unit.seed)


def conclude(table: Any) -> list[str]:
    """Thresholds and onsets of every loss, and whether the thresholds order the losses as the onsets do."""
    lines = []
    for target in table["target"].values:
        for activation in table["activation"].values:
            at = table.sel(target=target, activation=activation)
            losses = [str(x) for x in at["loss"].values if int(at["threshold_runs"].sel(loss=x).max()) > 0]
            lines += [f"{activation}, {loss} on {target}: {_one(at.sel(loss=loss))}" for loss in losses]
            lines += _order(at, losses, f"{activation} on {target}")
    return lines


def _one(at: Any) -> str:
    words = [
        f"{float(at['threshold'].sel(time=t)):.5g} at t = {t}"
        if math.isfinite(float(at["threshold"].sel(time=t)))
        else f"none at t = {t}"
        for t in at["time"].values
        if int(at["threshold_runs"].sel(time=t)) > 0
    ]
    best = float(np.nanmax(at["best"].values)) if np.any(np.isfinite(at["best"].values)) else math.nan
    note = "" if np.nanmin(at["bounded"].values) > 0.5 else ", all of which belong to the count of paths"
    seen = ", ".join(f"{_onset.measured(at.sel(dimension=d))} (d = {d})" for d in at["dimension"].values)
    return f"threshold {', '.join(words)}{note}; delta_alg {best:.4g}; half of the runs learn from {seen}."


def _order(at: Any, losses: Sequence[str], name: str) -> list[str]:
    """Pairs of losses that threshold and onset put in the same order, at the largest dimension."""
    d = at["dimension"].values[-1]
    seen = {x: _onset.known(_onset.measured(at.sel(loss=x, dimension=d))) for x in losses}
    lines = []
    for t in at["time"].values:
        said = {x: float(at["threshold"].sel(loss=x, time=t)) for x in losses}
        pairs = [
            (a, b)
            for i, a in enumerate(losses)
            for b in losses[:i]
            if all(math.isfinite(v) for v in (seen[a], seen[b], said[a], said[b]))
        ]
        if pairs:
            right = sum((seen[a] - seen[b]) * (said[a] - said[b]) > 0 for a, b in pairs)
            lines.append(
                f"{name}: thresholds at t = {t} put {right} of {len(pairs)} pairs of losses in the measured order."
            )
    return lines


_DELTA = r"samples per dimension $\delta$"


def _learning(target: str) -> Panel:
    """Fractions that learn, for every activation, at one target and the largest dimension."""
    where = {"target": target, "dimension": 1e9}
    return Panel(
        "",
        (
            Mark("points", "learned", x="delta", by="loss", where=where),
            Mark("line", "learning_probability", x="delta", by="loss", where=where),
        ),
        xlabel=_DELTA,
        ylabel="fraction that learns",
        each="activation",
        xscale="log",
        ylim=(-0.05, 1.05),
    )


def _along(target: str) -> Panel:
    """Thresholds in time against delta_alg, for every activation, at one target."""
    return Panel(
        "",
        (
            Mark("line", "threshold", x="time", by="loss", label="threshold", where={"target": target}),
            Mark("level", "best", label=r"$\delta_{\rm alg}$", dash=2, where={"target": target}),
        ),
        xlabel="step $t$",
        ylabel=_DELTA,
        each="activation",
        yscale="log",
    )


PHENOMENON = Phenomenon(
    name="losses",
    question="How does the loss move the threshold, and the number of samples from which networks learn?",
    citations=("montanari-wang-2026", "celentano-cheng-montanari-2021"),
    equation="threshold of the Hessian's outlier, with the weight's dependence on the loss",
    knobs=(
        Knob("target", "texts", ("z**2", SIGNS), "links; logistic takes part where the labels are -1 and +1"),
        Knob("activation", "texts", ("gelu", "quad"), "of the neuron"),
        Knob("loss", "texts", ("squared", "huber", "pseudo-huber", "logistic"), "losses"),
        Knob("step_size", "positive", 0.5, "eta (a tenth of it for quad)"),
        Knob(
            "delta",
            "positives",
            (1.5, 3.0, 6.0, 12.0, 24.0),
            "samples per dimension",
            full=(0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0, 22.0, 32.0),
        ),
        Knob("dimension", "integers", (200,), "dimensions", full=(200, 400, 800), low=10),
        Knob("steps", "integer", 150, "of training", full=600, low=1),
        Knob("time", "integers", (0, 5), "steps at which the threshold is computed", full=(0, 2, 5, 10), low=0),
        Knob("paths", "integer", 8192, "of a threshold", full=32768, low=256),
        Knob("theory", "texts", ("gelu",), "activations whose learning times are predicted"),
        Knob("seeds", "integer", 10, "runs at every point", full=40, low=1),
    ),
    parts=(
        Part("training", "measured", training, ("target", "activation", "loss", "dimension"), _onset.MEASURED),
        Part(
            "threshold",
            "predicted",
            threshold,
            ("target", "activation", "loss", "time"),
            (
                Quantity("threshold", label=r"threshold $\delta_*(t)$"),
                Quantity("best", label=r"$\delta_{\rm alg}$"),
                Quantity("bounded"),
            ),
        ),
        Part("theory", "predicted", theory, ("target", "activation", "loss", "dimension", "delta"), _onset.PREDICTED),
    ),
    plan=plan,
    judged=(Judged("learned", "learning_probability", scale=1.0, name="fraction of runs that learn"),),
    panels=(
        _learning("z**2"),
        _along("z**2"),
        _learning(SIGNS),
        _along(SIGNS),
    ),
    conclude=conclude,
)
