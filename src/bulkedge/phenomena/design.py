"""Does a network designed for the least threshold really learn with less data?

The design minimises the threshold at t = 0 over a family; default and winner are then trained at the same delta, with
first steps of the same length. Two families are asked: one in which the curvature of the activation varies, and one in
which only the scale of the output and the bias do. The threshold is about the first step alone, so that success is what
counts; theory 1.7 predicts that of both networks.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.phenomena import _design, _training

FAMILIES = {
    "curvature": {"over": {"c": (0.0, 1.0)}, "activation_family": "ACTIVATION + c*v^2"},
    "scale": {"over": {"second_layer": (0.05, 10.0), "bias": (-3.0, 3.0)}},
}
"""What varies in each; ACTIVATION stands for that of the default network."""
DEFAULT, WINNER = "default", "winner"


@functools.lru_cache(maxsize=32)
def designed(
    family: str, target: str, activation: str, loss: str, step_size: float
) -> tuple[Any, be.Problem, be.Problem]:
    """The design, the default and the winner with its matched step size."""
    default = be.Problem(target, be.Network(activation), loss, step_size)
    asked: dict[str, Any] = dict(FAMILIES[family])
    if "activation_family" in asked:
        asked["activation_family"] = asked["activation_family"].replace("ACTIVATION", f"{activation}(v)")
    found, winner = _design.searched(default, **asked)
    return found, default, winner


def _network(network: str, family: str, **task: Any) -> be.Problem:
    return designed(family, **task)[1 if network == DEFAULT else 2]


def design(*, family: str, **task: Any) -> dict[str, Any]:
    """Thresholds of default and winner, and the best possible."""
    found, _, _ = designed(family, **task)
    return {
        "before": found.before["delta"] if found.before["delta"] is not None else np.nan,
        "after": found.after["delta"],
        "best": found.delta_alg if found.delta_alg is not None else np.nan,
    }


def predicted(*, network: str, family: str, delta: float, dimension: int, steps: int, **task: Any) -> dict[str, float]:
    """The probability to learn within `steps`."""
    value, error = _design.success(_network(network, family, **task), delta, dimension, steps, 0)
    return {"chance": value, "chance_stderr": error}


def trained(
    *, network: str, family: str, delta: float, dimension: int, steps: int, seed: int, **task: Any
) -> dict[str, float]:
    """Train once."""
    problem = _network(network, family, **task)
    run = be.simulate(problem, delta, dimension, steps, seeds=1, seed=seed)
    return {"learned": float(np.isfinite(_training.first_above(_training.cosines(run.seeds[0], problem))))}


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Designs, then success of default and winner at every delta, predicted and measured."""
    task = {name: knobs[name] for name in ("target", "activation", "loss", "step_size")}
    axes = {"family": knobs["family"], "network": (DEFAULT, WINNER), "delta": knobs["delta"]}
    run = {"dimension": knobs["dimension"], "steps": knobs["steps"]}
    return [
        *grid("design", {"family": knobs["family"]}, **task),
        *grid("theory", axes, **run, **task),
        *grid("training", axes, range(knobs["seeds"]), **run, **task),
    ]


def conclude(table: Any) -> list[str]:
    """What the design did to the threshold, and what to success."""
    lines = []
    for family in table["family"].values:
        at = table.sel(family=family)
        if not np.isfinite(at["after"]):
            continue
        gain = at["learned"].sel(network=WINNER) - at["learned"].sel(network=DEFAULT)
        said = at["chance"].sel(network=WINNER) - at["chance"].sel(network=DEFAULT)
        if not np.any(np.isfinite(gain.values)):
            continue
        i = int(np.nanargmax(np.abs(gain.values)))
        lines.append(
            f"{family}: the threshold falls from {float(at['before']):.3g} to {float(at['after']):.3g} (best possible "
            f"{float(at['best']):.3g}); at delta = {float(at['delta'][i]):g} the fraction that learns changes by "
            f"{float(gain[i]):+.2f} (predicted {float(said[i]):+.2f})."
        )
    return lines


_AXES = ("family", "network", "delta")
PHENOMENON = Phenomenon(
    name="design",
    question="Does a network designed for the least threshold really learn with less data?",
    citations=("montanari-wang-2026", "mondelli-montanari-2018"),
    equation="threshold minimised by implicit differentiation; efficiency delta_alg/delta_NN (theory 1.4)",
    knobs=(
        Knob("family", "texts", ("curvature", "scale"), "what the design may choose", choices=tuple(FAMILIES)),
        Knob("target", "text", "z**2", "the link h"),
        Knob("activation", "text", "gelu", "of the default neuron"),
        Knob("loss", "text", "pseudo-huber", "loss"),
        Knob("step_size", "positive", 0.5, "eta of the default; the winner's first step is as long"),
        Knob(
            "delta",
            "positives",
            (2.0, 3.5, 5.0, 8.0),
            "samples per dimension",
            full=(1.5, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0),
        ),
        Knob("dimension", "integer", 200, "of the training", full=800, low=10),
        Knob("steps", "integer", 100, "of training", full=200, low=1),
        Knob("seeds", "integer", 120, "networks at every point", full=200, low=1),
    ),
    parts=(
        Part(
            "design",
            "predicted",
            design,
            axes=("family",),
            quantities=(
                Quantity("before", label="threshold of the default"),
                Quantity("after", label="threshold of the winner"),
                Quantity("best", label="algorithmic threshold"),
            ),
        ),
        Part("theory", "predicted", predicted, _AXES, (Quantity("chance", label="probability to learn"),), version=2),
        Part(
            "training",
            "measured",
            trained,
            _AXES,
            (Quantity("learned", over="fraction", label="fraction that learned"),),
        ),
    ),
    plan=plan,
    judged=(Judged("learned", "chance", scale=1.0, name="fraction of runs that learn"),),
    panels=(
        Panel(
            "",
            (
                Mark("line", "chance", x="delta", by="network", label="predicted"),
                Mark("points", "learned", x="delta", by="network"),
                Mark("rule", "before", label="threshold of the default", dash=2, colour=1),
                Mark("rule", "after", label="threshold of the winner", dash=1, colour=2),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel="fraction that learns",
            each="family",
            xscale="log",
            ylim=(-0.05, 1.05),
        ),
    ),
    conclude=conclude,
)
