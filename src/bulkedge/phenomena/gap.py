"""What is possible, what an efficient algorithm does, and what descent does: their onsets on one axis."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.finite import data as training
from bulkedge.finite.amp import AMP
from bulkedge.finite.onset import Onset, onset
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability.algorithmic import hard_threshold
from bulkedge.models.directions import directions
from bulkedge.models.target import target as read
from bulkedge.phenomena import _training
from bulkedge.phenomena._message_passing import cosine2

_SUCCESS = 0.25
"""Squared cosine of a success: a cosine of one half, as for descent."""
_NEAR = 1.0
"""A transition of dimension d is smeared where |delta/delta_c - 1| is below this times d^(-1/3)."""


def limits(*, paths: int, **learner: Any) -> dict[str, float]:
    """Samples per dimension for anybody, for efficient algorithms, and for a Hessian outlier at initialisation."""
    task = _training.problem(**learner)
    information = be.delta_it(task.link).delta
    found = be.threshold(task, 0, numerics=be.Numerics(paths=paths, replicas=4))
    values = (information, hard_threshold(task.link)[0], found.delta)
    return dict(zip(("delta_it", "delta_alg", "delta_nn"), (math.nan if v is None else v for v in values), strict=True))


def algorithms(*, target: str, delta: float, dimension: int) -> dict[str, float]:
    """Squared overlap of the best spectral method, and of AMP from M = I/d, in the limit.

    sharp_...: the same where a finite dimension does not smear the transition, NaN near it. overlap_drift: its share
    that a finite dimension may add or take.
    """
    seen = be.spectral_method(target, delta, preprocess="best")
    evolution = be.state_evolution(target, delta, start=1.0 / dimension, iterations=1000)
    passing = float(np.trace(np.atleast_2d(evolution.fixed_point)) / len(np.atleast_2d(evolution.fixed_point)))
    near = seen.delta_c is not None and abs(delta / seen.delta_c - 1.0) < _NEAR * dimension ** (-1.0 / 3.0)
    spectral = seen.predicted_overlap2[0]
    return {
        "spectral_expected": spectral,
        "amp_expected": passing,
        "sharp_spectral": math.nan if near else spectral,
        "sharp_amp": math.nan if near else passing,
        "overlap_drift": 4.0 / dimension,
    }


def spectral(*, target: str, delta: float, dimension: int, seed: int) -> dict[str, float]:
    """The best spectral method on one training set."""
    found = be.spectral_method(target, delta, dimension, preprocess="best", seeds=1, seed=seed)
    return {"spectral_overlap2": found.overlap2[0], "spectral_success": float(found.overlap2[0] > _SUCCESS)}


def passing(*, target: str, delta: float, dimension: int, iterations: int, seed: int) -> dict[str, float]:
    """AMP from a random start on one training set."""
    link = read(target)
    x, y = training.stored(link, round(delta * dimension), dimension, (0, seed))
    machine = AMP(link, max_iter=iterations, tol=1e-4, random_state=seed).fit(x, y)
    overlap2 = cosine2(machine.components_, np.eye(link.latent_dim, dimension))
    return {"amp_overlap2": overlap2, "amp_success": float(overlap2 > _SUCCESS)}


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """The limits; algorithms at their deltas and descent at its own."""
    if directions(read(knobs["target"])).easy.shape[1]:
        raise BadInput("target", "has easy directions, which everybody finds at any delta > 0: take an even link")
    learner = {name: knobs[name] for name in ("target", "activation", "loss", "step_size")}
    target, seeds = {"target": knobs["target"]}, range(knobs["seeds"])
    few, many, size = {"delta": knobs["delta"]}, {"delta": knobs["training_delta"]}, {"dimension": knobs["dimension"]}
    units = [
        *grid("limits", {}, paths=knobs["paths"], **learner),
        *grid("algorithms", few, **target, **size),
        *grid("theory", many, steps=knobs["steps"], **size, **learner),
        *grid("spectral", few, seeds, **target, **size),
        *grid("passing", few, seeds, iterations=knobs["iterations"], **target, **size),
        *grid("training", many, seeds, steps=knobs["steps"], **size, **learner),
    ]
    return sorted(units, key=lambda unit: -1 if unit.seed is None else unit.seed)


def _where(table: Any, success: str) -> Onset:
    """Where half of the runs succeed."""
    return onset(table["delta"].values, table[success].values, table[f"{success}_runs"].values)


def _passes(table: Any, name: str) -> float:
    """Where an increasing prediction passes the overlap of a success, interpolated in log delta; NaN if nowhere."""
    delta, value = table["delta"].values, table[name].values
    here = np.isfinite(value)
    delta, value = np.log(delta[here]), np.maximum.accumulate(value[here])
    if not value.size or not value[0] < _SUCCESS <= value[-1]:
        return math.nan
    i = int(np.searchsorted(value, _SUCCESS))
    share = (_SUCCESS - value[i - 1]) / (value[i] - value[i - 1])
    return float(np.exp(delta[i - 1] + share * (delta[i] - delta[i - 1])))


def conclude(table: Any) -> list[str]:
    """Limits and onsets in one line each, and how far descent is from the best algorithm."""
    names = (
        ("delta_it", "weak recovery is possible from"),
        ("delta_alg", "efficient algorithms begin at"),
        ("delta_nn", "the Hessian of the network points to the feature from"),
    )
    limits = [f"{what} delta = {float(table[name]):.4g}" for name, what in names if np.isfinite(table[name])]
    said = ", ".join(limits)
    lines = [f"{said[0].upper()}{said[1:]}."] if limits else []
    found = {}
    for name, words, line in (
        ("spectral", "the best spectral method", "spectral_expected"),
        ("amp", "AMP", "amp_expected"),
    ):
        found[name] = _where(table, f"{name}_success")
        expected = _passes(table, line)
        said = f"; its limit passes cosine 1/2 at {expected:.3g}" if math.isfinite(expected) else ""
        lines.append(f"Half of the runs of {words} succeed at delta = {found[name]}{said}.")
    found["descent"] = _where(table, "learned")
    said = onset(table["delta"].values, table["learning_probability"].values)
    lines.append(f"Half of the runs of descent succeed at delta = {found['descent']}; predicted {said}.")
    if not found["descent"].bound and not found["amp"].bound:
        ratio = found["descent"].value / found["amp"].value
        lines.append(f"Descent needs {ratio:.1f} times the samples of AMP.")
    return lines


def _drift(table: Any) -> Any:
    return table["overlap_drift"]


_LIMITS = (
    Mark("rule", "delta_it", label=r"$\delta_{\rm IT}$", dash=3, colour=0),
    Mark("rule", "delta_alg", label=r"$\delta_{\rm alg}$", dash=1, colour=0),
    Mark("rule", "delta_nn", label=r"$\delta_{\rm NN}$ at $t = 0$", dash=2, colour=0),
)

PHENOMENON = Phenomenon(
    name="gap",
    question="How many samples does descent need beside the best efficient algorithm, and beside what is possible?",
    citations=("montanari-wang-2026", "mondelli-montanari-2018", "troiani-2025", "luo-alghamdi-lu-2019"),
    equation="delta_IT, delta_alg and delta_NN of one even link, beside the onset of spectral method, AMP and descent",
    knobs=(
        Knob("target", "text", "2*(abs(z) > 0.6744897501960817)", "the link h, with hard directions only"),
        Knob("activation", "text", "gelu", "of the neuron"),
        Knob("loss", "text", "squared", "of the neuron"),
        Knob("step_size", "positive", 0.5, "eta"),
        Knob(
            "delta",
            "positives",
            (0.6, 1.0, 1.4, 1.8, 2.2, 3.0, 4.5),
            "samples per dimension, for the algorithms",
            full=(0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.3, 2.6, 3.0, 3.5, 4.5, 6.0),
        ),
        Knob(
            "training_delta",
            "positives",
            (5.0, 8.0, 12.0, 16.0, 22.0, 32.0),
            "samples per dimension, for descent",
            full=(4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 17.0, 20.0, 24.0, 32.0),
        ),
        Knob("dimension", "integer", 300, "dimension", full=1000, low=10),
        Knob("steps", "integer", 150, "of descent", full=400, low=1),
        Knob("iterations", "integer", 80, "of AMP, at most", full=300, low=1),
        Knob("paths", "integer", 16384, "of the threshold", full=65536, low=64),
        Knob("seeds", "integer", 12, "runs at every point", full=40, low=1),
    ),
    parts=(
        Part(
            "limits",
            "predicted",
            limits,
            axes=(),
            quantities=(Quantity("delta_it"), Quantity("delta_alg"), Quantity("delta_nn")),
        ),
        Part(
            "algorithms",
            "predicted",
            algorithms,
            axes=("delta",),
            quantities=(
                Quantity("spectral_expected"),
                Quantity("amp_expected"),
                Quantity("sharp_spectral"),
                Quantity("sharp_amp"),
                Quantity("overlap_drift"),
            ),
        ),
        Part("theory", "predicted", _training.predicted, ("delta",), _training.PREDICTED),
        Part(
            "spectral",
            "measured",
            spectral,
            axes=("delta",),
            quantities=(
                Quantity("spectral_overlap2", label="spectral method"),
                Quantity("spectral_success", over="fraction", label="spectral method"),
            ),
        ),
        Part(
            "passing",
            "measured",
            passing,
            axes=("delta",),
            quantities=(
                Quantity("amp_overlap2", label="AMP"),
                Quantity("amp_success", over="fraction", label="AMP"),
            ),
        ),
        Part("training", "measured", _training.trained, ("delta",), _training.MEASURED),
    ),
    plan=plan,
    judged=(
        Judged("spectral_overlap2", "sharp_spectral", scale=1.0, drift=_drift, name="overlap, spectral method"),
        Judged("amp_overlap2", "sharp_amp", scale=1.0, drift=_drift, name="overlap, AMP"),
        Judged("learned", "learning_probability", scale=1.0, name="fraction of runs of descent that learn"),
    ),
    panels=(
        Panel(
            "squared overlap",
            (
                *_LIMITS,
                Mark("line", "spectral_expected", x="delta", label="spectral method, limit", colour=1),
                Mark("points", "spectral_overlap2", x="delta", label="spectral method", colour=1),
                Mark("line", "amp_expected", x="delta", label="AMP, limit", colour=3, dash=1),
                Mark("points", "amp_overlap2", x="delta", label="AMP", colour=3, dash=1),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel="squared overlap",
            xscale="log",
            ylim=(-0.05, 1.05),
        ),
        Panel(
            "fraction of runs that succeed",
            (
                *_LIMITS,
                Mark("points", "spectral_success", x="delta", label="spectral method", colour=1),
                Mark("points", "amp_success", x="delta", label="AMP", colour=3, dash=1),
                Mark("line", "learning_probability", x="delta", label="descent, predicted", colour=4, dash=2),
                Mark("points", "learned", x="delta", label="descent", colour=4, dash=2),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel="fraction that succeeds",
            xscale="log",
            ylim=(-0.05, 1.05),
        ),
    ),
    conclude=conclude,
)
