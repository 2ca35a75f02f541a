"""Does it matter where in the spectrum of the inputs the feature lies?

Inputs have a covariance with two eigenvalues, 1 - spread and 1 + spread, each on half of the dimensions, and theta_*
lies in the upper half, in the lower one, or anywhere. The labels have the same law in all three cases. The paper's
inputs are isotropic; the prediction solves the two coupled equations of the separable model.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.finite.anisotropic import start_spectrum
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability.lowest import lowest

PLACES = {"upper": (0.0, 1.0), "lower": (1.0, 0.0), "anywhere": (1.0, 1.0)}
"""Spectral weights of theta_* in the two halves."""


def inputs(place: str, spread: float) -> be.Covariance:
    """The covariance, seen from theta_*."""
    return be.Covariance((1.0 - spread, 1.0 + spread), (0.5, 0.5), PLACES[place])


def problem(target: str, activation: str, loss: str) -> be.Problem:
    """One neuron."""
    return be.Problem(target, activation, loss)


def threshold(*, place: str, spread: float, **task: str) -> dict[str, float]:
    """delta* at the start, and the one for Sigma = I."""
    found = be.anisotropic_threshold(problem(**task), inputs(place, spread))
    values = {"threshold": found.delta, "isotropic": found.isotropic}
    return {name: np.nan if value is None else value for name, value in values.items()}


def limit(*, place: str, spread: float, delta: float, dimension: int, **task: str) -> dict[str, float]:
    """The lowest eigenvalue to expect, and overlap2 of the hidden outlier (clear_: if it stands clear of the bulk)."""
    few = be.Numerics(paths=1024, replicas=2)  # the hidden outlier comes from a quadrature, and no other is looked at
    found = be.anisotropic_spectrum(problem(**task), inputs(place, spread), delta, points=32, numerics=few)
    hidden = next((o for o in found.outliers if o.kind == "hidden" and o.value < found.edge), None)
    expected = lowest(found, dimension)
    clear = expected.outlier if expected else None
    return {
        "expected_lowest": expected.value if expected else np.nan,
        "lowest_drift": expected.drift if expected else np.nan,
        "expected_overlap2": hidden.overlap2 if hidden else 0.0,
        "clear_overlap2": clear.overlap2 if clear else np.nan,
    }


def measured(*, place: str, spread: float, delta: float, dimension: int, seed: int, **task: str) -> dict[str, float]:
    """The lowest eigenpair of the Hessian of one network at its start."""
    found = start_spectrum(problem(**task), inputs(place, spread), delta, dimension, seed)
    return {"lowest": float(found.values[0]), "overlap2": float(found.overlap2[0])}


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Thresholds; then limits and matrices at every point, and limits between them."""
    task = {name: knobs[name] for name in ("target", "activation", "loss")} | {"spread": knobs["spread"]}
    places = {"place": tuple(PLACES)}
    points = places | {"delta": knobs["delta"], "dimension": knobs["dimension"]}
    # Between the measured points the prediction is drawn at the largest dimension.
    ends = min(knobs["delta"]), max(knobs["delta"])
    between = sorted(set(np.round(np.geomspace(*ends, 9), 3).tolist()) - set(knobs["delta"]))
    return [
        *grid("threshold", places, **task),
        *grid("limit", points, **task),
        *grid("limit", points | {"delta": between, "dimension": [max(knobs["dimension"])]}, **task),
        *grid("matrix", points, range(knobs["seeds"]), **task),
    ]


def conclude(table: Any) -> list[str]:
    """The thresholds beside that of isotropic inputs."""
    flat = float(table["isotropic"].max())
    each = [f"{float(table['threshold'].sel(place=p)):.4g} ({p})" for p in table["place"].values]
    return [f"Samples per dimension needed at the start: {', '.join(each)}; {flat:.4g} for isotropic inputs."]


_AXES = ("place", "delta", "dimension")
_LARGE = {"dimension": 1e9}
PHENOMENON = Phenomenon(
    name="anisotropic",
    question="Does it matter for the threshold where in the spectrum of the inputs the feature lies?",
    citations=("montanari-wang-2026", "silverstein-choi-1995", "paul-silverstein-2009"),
    equation="edge and outliers of (1/n) Sigma^(1/2) Z^T D Z Sigma^(1/2) (docs/beyond.md; not in the paper)",
    knobs=(
        Knob("target", "text", "2*(abs(z) > 0.6744897501960817)", "the link h, of one direction"),
        Knob("activation", "text", "gelu", "of the neuron"),
        Knob("loss", "text", "squared", "loss"),
        Knob("spread", "positive", 0.5, "eigenvalues of Sigma are 1 - spread and 1 + spread; below 1"),
        Knob(
            "delta", "positives", (2.0, 5.0, 9.0, 16.0), "samples per dimension", full=(2.0, 3.5, 5.0, 7.0, 9.0, 16.0)
        ),
        Knob("dimension", "integers", (200, 400), "dimensions", full=(400, 800, 1600), low=20),
        Knob("seeds", "integer", 8, "matrices at every point", full=16, low=1),
    ),
    parts=(
        Part("threshold", "predicted", threshold, ("place",), (Quantity("threshold"), Quantity("isotropic"))),
        Part(
            "limit",
            "predicted",
            limit,
            axes=_AXES,
            quantities=(
                Quantity("expected_lowest"),
                Quantity("lowest_drift"),
                Quantity("expected_overlap2"),
                Quantity("clear_overlap2"),
            ),
        ),
        Part(
            "matrix",
            "measured",
            measured,
            axes=_AXES,
            quantities=(
                Quantity("lowest", label="lowest eigenvalue"),
                Quantity("overlap2", label="overlap of its eigenvector"),
            ),
        ),
    ),
    plan=plan,
    judged=(
        Judged("lowest", "expected_lowest", drift=lambda table: table["lowest_drift"], name="lowest eigenvalue"),
        Judged(
            "overlap2",
            "clear_overlap2",
            scale=1.0,
            drift=lambda table: 0.01 + 6.0 / table["dimension"],
            name="overlap of its eigenvector",
        ),
    ),
    panels=(
        Panel(
            "overlap of the lowest eigenvector with the feature",
            (
                Mark("line", "expected_overlap2", x="delta", by="place", where=_LARGE),
                Mark("points", "overlap2", x="delta", by="place", where=_LARGE),
                Mark("rule", "threshold", by="place", dash=1),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel=r"$(\theta_*^\top\xi)^2$",
            xscale="log",
            ylim=(0.0, 1.0),
        ),
        Panel(
            "lowest eigenvalue",
            (
                Mark("line", "expected_lowest", x="delta", by="place", where=_LARGE),
                Mark("points", "lowest", x="delta", by="place", where=_LARGE),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel="eigenvalue",
            xscale="log",
        ),
    ),
    conclude=conclude,
)
