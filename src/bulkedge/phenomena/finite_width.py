"""How many neurons are many? The threshold of the whole Hessian at every width, and its limit for a wide network.

The paper's limit of many neurons looks at one neuron's block and drops a term of order 1/m; finite m it lists as open.
The whole md x md matrix has m x m weights (theory 1.6), whose threshold and outliers are computed here for each m. Real
networks are small enough to see all their outliers at once: what is compared is the squared overlap of each of the
lowest eigenvectors with the feature, summed over its m blocks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability.whole import hidden_below
from bulkedge.learnability.wide import wide_threshold

LAYERS = {"positive": (1.0,), "mixed": (1.0, -1.0)}
"""Second layers, repeated along the neurons."""
_SHOWN = 4
_CLEAR = 1.0
"""An outlier counts as clear of the bulk when it lies this many |edge| d^(-2/3) below it."""


def problem(target: str, activation: str, loss: str, second: str, width: int) -> be.Problem:
    """A network of that width whose second layer has those signs."""
    return be.Problem(target, be.Network(activation, second_layer=np.resize(LAYERS[second], width)), loss)


def threshold(*, second: str, width: int, paths: int, **task: str) -> dict[str, Any]:
    """delta* at t = 0 of the whole Hessian, and of single blocks: their mean, since all that have one are alike."""
    network, numerics = problem(second=second, width=width, **task), be.Numerics(paths=paths, replicas=8)
    whole = be.threshold(network, hessian="full", numerics=numerics)
    block = be.threshold(network, numerics=numerics)
    each = np.array([low for low in block.neurons or [block.delta] if low is not None], float)
    # The least of them, which `threshold` reports, is lower the more there are: each has an error of its own.
    spread = each.std(ddof=1) / np.sqrt(each.size) if each.size > 1 else block.stderr
    return {
        "whole": np.nan if whole.delta is None else whole.delta,
        "whole_stderr": np.nan if whole.delta is None else whole.stderr,
        "block": each.mean() if each.size else np.nan,
        "block_stderr": spread if each.size else np.nan,
    }


def limit(*, second: str, **task: str) -> dict[str, Any]:
    """delta* at t = 0 of infinitely many neurons with such second layers."""
    found = wide_threshold(problem(second=second, width=len(LAYERS[second]), **task))
    return {"wide": np.nan if found is None else found}


def outliers(*, second: str, width: int, delta: float, paths: int, **task: str) -> dict[str, Any]:
    """Hidden outliers below the bulk, lowest first: values, overlaps (zero where there is none), the edge."""
    numerics = be.Numerics(paths=paths, replicas=8)
    found, edge, _ = hidden_below(problem(second=second, width=width, **task), delta, 0, numerics)
    value, (overlap2, error) = np.full(_SHOWN, np.nan), np.zeros((2, _SHOWN))
    for i, one in enumerate(found[:_SHOWN]):
        value[i], overlap2[i], error[i] = one.value, one.overlap2, one.overlap2_stderr
    return {
        "outlier": value,
        "edge": edge,
        "expected_overlap2": overlap2,
        "expected_overlap2_stderr": error,
        "place": np.arange(1.0, _SHOWN + 1.0),
    }


def drift(table: Any) -> Any:
    """4/d where an outlier is clear of the bulk, by |edge| d^(-2/3); nearer, a finite matrix smears the transition."""
    d = table["dimension"]
    clear = table["edge"] - table["outlier"] > _CLEAR * abs(table["edge"]) * d ** (-2.0 / 3.0)
    return (4.0 / d).where(clear)


def measured(*, second: str, width: int, delta: float, dimension: int, seed: int, **task: str) -> dict[str, Any]:
    """The lowest eigenpairs of the whole Hessian of one network at the start."""
    run = be.simulate(
        problem(second=second, width=width, **task),
        delta,
        dimension,
        0,
        seeds=1,
        seed=seed,
        spectrum_times=(0,),
        eigenpairs=_SHOWN,
        hessian="full",
    )
    return {"lowest": run.eigenvalues[0], "overlap2": run.overlap2[0], "place": np.arange(1.0, _SHOWN + 1.0)}


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Limits and thresholds; then eigenvectors, predicted and measured, at every (delta, dimension)."""
    task = {name: knobs[name] for name in ("target", "activation", "loss")}
    units = grid("limit", {"second": knobs["second"]}, **task)
    for second in knobs["second"]:
        widths = [m for m in knobs["width"] if m % len(LAYERS[second]) == 0]
        axes = {"second": (second,), "width": widths}
        limits = axes | {"delta": knobs["delta"]}
        units += grid("threshold", axes, paths=knobs["paths"], **task)
        units += grid("outliers", limits, paths=knobs["paths"], **task)
        units += grid("hessian", limits | {"dimension": knobs["dimension"]}, range(knobs["seeds"]), **task)
    return units


def conclude(table: Any) -> list[str]:
    """How far from the wide limit each width is."""
    lines = []
    for second in table["second"].values:
        wide = float(table["wide"].sel(second=second))
        at = table["whole"].sel(second=second)
        seen = [(m, float(at.sel(width=m))) for m in table["width"].values if np.isfinite(at.sel(width=m))]
        if seen and np.isfinite(wide):
            each = ", ".join(f"{x / wide - 1:+.1%} at m = {m}" for m, x in seen)
            lines.append(f"{second} second layer: delta* = {wide:.4g} for a wide network; the whole Hessian: {each}.")
    return lines


_LIMIT = {"x": "delta", "by": "width", "where": {"place": 1.0}}
_SEEN = {"x": "delta", "by": "width", "where": {"dimension": 1e9, "place": 1.0}}
PHENOMENON = Phenomenon(
    name="finite-width",
    question="How does the threshold of the whole Hessian depend on the number of neurons, and when are they many?",
    citations=("montanari-wang-2026", "celentano-cheng-montanari-2021"),
    equation="outliers of the md x md Hessian at finite m (open in the paper), and the blocks of a wide network",
    knobs=(
        Knob("target", "text", "2*tanh(z**2)", "the link h"),
        Knob("activation", "text", "gelu", "of the neurons"),
        Knob("loss", "text", "pseudo-huber", "loss"),
        Knob("second", "texts", ("positive", "mixed"), "signs of the second layer", choices=tuple(LAYERS)),
        Knob("width", "integers", (1, 2, 4, 8, 16), "numbers of neurons", low=1, high=64),
        Knob(
            "delta", "positives", (1.5, 4.0, 8.0, 16.0), "samples per dimension", full=(1.5, 3.0, 4.5, 6.0, 9.0, 16.0)
        ),
        Knob("dimension", "integers", (100, 200), "dimensions", full=(200, 400, 800), low=10),
        Knob("paths", "integer", 8192, "of a prediction, at most", full=65536, low=64),
        Knob("seeds", "integer", 6, "networks at every point", full=20, low=1),
    ),
    parts=(
        Part("limit", "predicted", limit, axes=("second",), quantities=(Quantity("wide", label="many neurons"),)),
        Part(
            "threshold",
            "predicted",
            threshold,
            axes=("second", "width"),
            quantities=(Quantity("whole", label="whole Hessian"), Quantity("block", label="one block")),
        ),
        Part(
            "outliers",
            "predicted",
            outliers,
            axes=("second", "width", "delta"),
            quantities=(
                Quantity("outlier", dims=("place",)),
                Quantity("edge"),
                Quantity("expected_overlap2", dims=("place",)),
            ),
        ),
        Part(
            "hessian",
            "measured",
            measured,
            axes=("second", "width", "delta", "dimension"),
            quantities=(Quantity("lowest", dims=("place",)), Quantity("overlap2", dims=("place",))),
        ),
    ),
    plan=plan,
    judged=(
        Judged(
            "overlap2",
            "expected_overlap2",
            scale=1.0,
            drift=drift,
            name="overlap of the lowest eigenvectors",
        ),
    ),
    panels=(
        Panel(
            "threshold at the start",
            (
                Mark("line", "whole", x="width", by="second", label="whole Hessian"),
                Mark("line", "block", x="width", by="second", label="one block", dash=1),
                Mark("level", "wide", by="second", label="many neurons", dash=2),
            ),
            xlabel="neurons $m$",
            ylabel=r"$\delta_*(0)$",
            xscale="log",
        ),
        Panel(
            "",
            (
                Mark("line", "expected_overlap2", **_LIMIT),
                Mark("points", "overlap2", **_SEEN),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel="squared overlap",
            each="second",
            xscale="log",
            ylim=(0.0, 1.0),
        ),
    ),
    conclude=conclude,
)
