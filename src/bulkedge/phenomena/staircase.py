"""Each direction lifts the next one out of the dark, or none does: a staircase target, and one without a stair."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid

_SIGMAS = 4.0
_SMALL = 0.01
"""A predicted overlap below this, or four of its errors, counts as none."""


@functools.lru_cache(maxsize=32)
def _problem(target: str, activation: str, bias: float, second_layer: float, loss: str, step_size: float) -> be.Problem:
    return be.Problem(target, be.Network(activation, bias=bias, second_layer=second_layer), loss, step_size)


def _by_direction(values: Any, k: int) -> np.ndarray:
    """Curves (time, 1, k), or (time,) for one direction, to (k, time)."""
    return np.reshape(np.asarray(values, float), (-1, k)).T


def order(*, target: str) -> dict[str, Any]:
    """Of each direction: the stage at which fresh-sample descent can see it, and the Hermite degree it then needs.

    And delta_alg of what only second-order statistics see once the easy directions are known (NaN if there is none).
    """
    stages = be.exponents(target).evidence["leap"]
    k = be.Problem(target).k
    stage, degree = np.full(k, np.nan), np.full(k, np.nan)
    for number, entry in enumerate(stages, start=1):
        if entry["degree"] is None:
            continue
        share = np.sum(np.square(entry["directions"]), axis=0)
        new = np.isnan(stage) & (share > 0.5)
        stage[new], degree[new] = number, entry["degree"]
    found = be.delta_alg(target).delta
    return {
        "stage": stage,
        "degree": degree,
        "later": math.nan if found is None else found,
        "direction": np.arange(1.0, k + 1),
    }


def theory(*, target: str, delta: float, steps: int, paths: int, dimension: int, **learner: Any) -> dict[str, Any]:
    """Overlaps along descent in the limit. overlap_drift: what a finite dimension may add."""
    task = _problem(target, **learner)
    found = be.trajectory(task, delta, steps, numerics=be.Numerics(paths=paths, replicas=4))
    return {
        "expected_overlap": _by_direction(found.overlap, task.k),
        "expected_overlap_stderr": _by_direction(found.stderr["overlap"], task.k),
        "overlap_drift": 4.0 / dimension,
        "direction": np.arange(1.0, task.k + 1),
        "time": np.asarray(found.time, float),
    }


def training(*, target: str, delta: float, dimension: int, steps: int, seed: int, **learner: Any) -> dict[str, Any]:
    """Overlaps of one trained network with every direction."""
    task = _problem(target, **learner)
    run = be.simulate(task, delta, dimension, steps, seeds=1, seed=seed)
    return {
        "overlap": _by_direction(run.overlap, task.k),
        "direction": np.arange(1.0, task.k + 1),
        "time": np.asarray(run.time, float),
    }


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """The order and the limit of every target; networks trained on it."""
    learner = {name: knobs[name] for name in ("activation", "bias", "second_layer", "loss", "step_size")}
    targets = {"target": knobs["target"]}
    work = {"delta": knobs["delta"], "steps": knobs["steps"], "dimension": knobs["dimension"], **learner}
    return [
        *grid("order", targets),
        *grid("theory", targets, paths=knobs["paths"], **work),
        *grid("training", targets, range(knobs["seeds"]), **work),
    ]


def _first(values: np.ndarray, errors: np.ndarray, time: np.ndarray, least: float = 0.0) -> str:
    """The first step at which a curve leaves zero by four standard errors, and by `least`."""
    hit = np.flatnonzero((np.abs(values) > _SIGMAS * np.nan_to_num(errors)) & (np.abs(values) > least))
    return f"step {time[hit[0]]:g}" if hit.size else "never"


def conclude(table: Any) -> list[str]:
    """When each direction becomes visible: as the staircase says, in the limit, and measured."""
    lines, time = [], table["time"].values
    for target in table["target"].values:
        at = table.sel(target=target)
        said = []
        for number in table["direction"].values:
            one = at.sel(direction=number)
            if not np.isfinite(one["stage"]):
                continue
            limit = _first(one["expected_overlap"].values, one["expected_overlap_stderr"].values, time, _SMALL)
            seen = _first(one["overlap"].values, one["overlap_stderr"].values, time)
            words = f"z{number:g} at stage {float(one['stage']):g} (degree {float(one['degree']):g})"
            said.append(f"{words}: predicted from {limit}, measured from {seen}")
        text = f"{target}: " + "; ".join(said) + "."
        if np.isfinite(at["later"]):
            text += f" What stays dark needs second-order methods and delta = {float(at['later']):.4g}."
        lines.append(text)
    return lines


PHENOMENON = Phenomenon(
    name="staircase",
    question="Which directions become visible after which, and what happens where a stair is missing?",
    citations=("abbe-2023", "celentano-cheng-montanari-2021", "montanari-wang-2026", "troiani-2025"),
    equation="overlaps along descent on z1 + z1 z2 + z1 z2 z3, and on z1 + z1 z2 z3",
    knobs=(
        Knob("target", "texts", ("z1 + z1*z2 + z1*z2*z3", "z1 + z1*z2*z3"), "with the stairs, and without one"),
        Knob("activation", "text", "erf", "of the neuron"),
        Knob("bias", "number", -0.7, "of the neuron; without one an odd activation sees odd degrees alone"),
        Knob("second_layer", "number", 2.0, "weight of the neuron's output"),
        Knob("loss", "text", "squared", "loss"),
        Knob("step_size", "positive", 0.5, "eta"),
        Knob("delta", "positive", 20.0, "samples per dimension"),
        Knob("steps", "integer", 16, "of training", full=40, low=1),
        Knob("dimension", "integer", 600, "dimension", full=4000, low=10),
        Knob("paths", "integer", 16384, "of the limit", full=65536, low=64),
        Knob("seeds", "integer", 16, "networks trained", full=32, low=2),
    ),
    parts=(
        Part(
            "order",
            "predicted",
            order,
            axes=("target",),
            quantities=(
                Quantity("stage", dims=("direction",), label="stage"),
                Quantity("degree", dims=("direction",)),
                Quantity("later"),
            ),
        ),
        Part(
            "theory",
            "predicted",
            theory,
            axes=("target",),
            quantities=(Quantity("expected_overlap", dims=("direction", "time")), Quantity("overlap_drift")),
        ),
        Part(
            "training",
            "measured",
            training,
            axes=("target",),
            quantities=(Quantity("overlap", dims=("direction", "time"), label="overlap"),),
        ),
    ),
    plan=plan,
    judged=(
        Judged(
            "overlap",
            "expected_overlap",
            scale=0.5,
            drift=lambda table: table["overlap_drift"],
            name="overlaps along training",
        ),
    ),
    panels=(
        Panel(
            "",
            (
                Mark("line", "expected_overlap", x="time", by="direction"),
                Mark("points", "overlap", x="time", by="direction"),
            ),
            xlabel="step $t$",
            ylabel=r"overlap $\theta^\top\theta_{*,i}$",
            each="target",
        ),
    ),
    conclude=conclude,
)
