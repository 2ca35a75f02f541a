"""What does the spectrum of the Hessian look like along training, below and above the threshold?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.finite.whole_spectrum import whole_spectrum
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability.lowest import lowest
from bulkedge.phenomena import _training

_BINS = 60


def histogram(
    *, delta: float, time: int, dimension: int, low: float, high: float, seed: int, **learner: Any
) -> dict[str, Any]:
    """The density of all eigenvalues at one time, over the range where all of them can be seen."""
    found = whole_spectrum(_training.problem(**learner), delta, dimension, [time], seed=seed)
    counts, edges = np.histogram(found.eigenvalues[0], _BINS, (low, high))
    return {"frequency": counts / (dimension * (edges[1] - edges[0])), "eigenvalue": 0.5 * (edges[1:] + edges[:-1])}


def limit(*, delta: float, time: int, dimension: int, paths: int, **learner: Any) -> dict[str, Any]:
    """The limiting density, its edge, the hidden outlier (NaN without one), and the lowest eigenvalue to expect.

    clear_overlap2: the outlier's, where it stands clear of the bulk; nearer, a finite matrix smears the transition.
    """
    numerics = be.Numerics(paths=paths, replicas=4)
    found = be.spectrum(_training.problem(**learner), delta, time, numerics=numerics)
    hidden = next((o for o in found.outliers if o.kind == "hidden" and o.probability > 0.5), None)
    expected = lowest(found, dimension)
    clear = expected.outlier if expected else None
    return {
        "density": found.density["y"],
        "abscissa": found.density["x"],
        "edge": found.edge,
        "edge_stderr": found.edge_stderr,
        "outlier": hidden.value if hidden else np.nan,
        "outlier_stderr": hidden.stderr if hidden else np.nan,
        "expected_lowest": expected.value if expected else np.nan,
        "expected_lowest_stderr": expected.stderr if expected else np.nan,
        "lowest_drift": expected.drift if expected else np.nan,
        "expected_overlap2": hidden.overlap2 if hidden else 0.0,
        "expected_overlap2_stderr": hidden.overlap2_stderr if hidden else 0.0,
        "clear_overlap2": clear.overlap2 if clear else np.nan,
        "clear_overlap2_stderr": clear.overlap2_stderr if clear else np.nan,
        "overlap2_drift": 4.0 / dimension,
    }


def tracks(*, delta: float, dimension: int, times: Sequence[int], seed: int, **learner: Any) -> dict[str, Any]:
    """The lowest eigenvalue along training, and the squared projection of its eigenvector on the feature."""
    at = sorted(times)
    run = be.simulate(_training.problem(**learner), delta, dimension, at[-1], 1, seed, spectrum_times=at, eigenpairs=1)
    return {
        "lowest": np.array([run.eigenvalues[t][0] for t in at]),
        "lowest_overlap2": np.array([run.overlap2[t][0] for t in at]),
        "time": np.array(at, float),
    }


def conclude(table: Any) -> list[str]:
    """At which of the times seen there is an outlier, for each delta."""
    lines = []
    for delta in table["delta"].values:
        there = table["outlier"].sel(delta=delta)
        times = [f"{t:g}" for t in table["time"].values[np.isfinite(there.values)]]
        lines.append(
            f"delta = {delta:g}: a hidden outlier at t = {', '.join(times)}."
            if times
            else f"delta = {delta:g}: no hidden outlier at any time seen."
        )
    return lines


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Limits at all times; histograms at some; tracks along all."""
    learner = {name: knobs[name] for name in ("target", "activation", "loss", "step_size")}
    delta, size = {"delta": knobs["delta"]}, {"dimension": knobs["dimension"]}
    times = sorted({*knobs["time"], *knobs["histogram_time"]})
    low, high = knobs["low"], knobs["high"]
    shown = {**delta, "time": knobs["histogram_time"]}
    return [
        *grid("limit", {**delta, "time": times}, paths=knobs["paths"], **size, **learner),
        *grid("histogram", shown, range(knobs["histograms"]), low=low, high=high, **size, **learner),
        *grid("tracks", delta, range(knobs["seeds"]), times=knobs["time"], **size, **learner),
    ]


def _panel(time: float) -> Panel:
    """The spectrum at the time nearest to `time`, for each delta."""
    where = {"time": time}
    return Panel(
        "",
        (
            Mark("histogram", "frequency", x="eigenvalue", by="delta", where=where, label="measured spectrum"),
            Mark("line", "density", x="abscissa_of_limit", by="delta", where=where),
            Mark("rule", "outlier", by="delta", label="hidden outlier", where=where, dash=1),
        ),
        xlabel="eigenvalue",
        ylabel="density",
        each="delta",
        ylim=(0.0, None),
    )


PHENOMENON = Phenomenon(
    name="spectroscopy",
    question="Does an eigenvalue leave the bulk of the Hessian, along training, below and above the threshold?",
    citations=("montanari-wang-2026", "silverstein-choi-1995"),
    equation="spectrum, edge and outlier of the Hessian along gradient descent",
    knobs=(
        Knob("target", "text", "2*(abs(z) > 0.6744897501960817)", "the link h"),
        Knob("activation", "text", "gelu", "of the neuron"),
        Knob("loss", "text", "squared", "loss"),
        Knob("step_size", "positive", 0.5, "eta"),
        Knob("delta", "positives", (3.0, 10.0, 30.0), "samples per dimension: below, above and far above"),
        Knob("time", "integers", (0, 1, 2, 3, 5, 7, 10), "steps followed", full=(0, 1, 2, 3, 5, 7, 10, 15, 20), low=0),
        Knob("histogram_time", "integers", (0, 10), "steps whose spectrum is shown in full", full=(0, 20), low=0),
        Knob("low", "number", -1.5, "left end of the histograms"),
        Knob("high", "number", 2.0, "right end of the histograms"),
        Knob("dimension", "integer", 600, "dimension", full=2000, low=10, high=5000),
        Knob("paths", "integer", 16384, "of the limit", full=65536, low=64),
        Knob("seeds", "integer", 6, "runs whose lowest eigenvalue is followed", full=10, low=1),
        Knob("histograms", "integer", 2, "runs whose whole spectrum is computed", full=4, low=1),
    ),
    parts=(
        Part(
            "limit",
            "predicted",
            limit,
            axes=("delta", "time"),
            quantities=(
                Quantity("density", dims=("abscissa",)),
                Quantity("edge"),
                Quantity("outlier"),
                Quantity("expected_lowest"),
                Quantity("lowest_drift"),
                Quantity("expected_overlap2"),
                Quantity("clear_overlap2"),
                Quantity("overlap2_drift"),
            ),
        ),
        Part("histogram", "measured", histogram, ("delta", "time"), (Quantity("frequency", dims=("eigenvalue",)),)),
        Part(
            "tracks",
            "measured",
            tracks,
            axes=("delta",),
            quantities=(
                Quantity("lowest", dims=("time",), label="lowest eigenvalue"),
                Quantity("lowest_overlap2", dims=("time",), label="overlap of its eigenvector"),
            ),
        ),
    ),
    plan=plan,
    judged=(
        Judged("lowest", "expected_lowest", drift=lambda table: table["lowest_drift"], name="lowest eigenvalue"),
        Judged(
            "lowest_overlap2",
            "clear_overlap2",
            scale=1.0,
            drift=lambda table: table["overlap2_drift"],
            name="overlap of its eigenvector",
        ),
    ),
    panels=(
        _panel(-1.0),
        _panel(1e9),
        Panel(
            "lowest eigenvalue",
            (
                Mark("line", "edge", x="time", by="delta", label="edge of the bulk", dash=2),
                Mark("line", "expected_lowest", x="time", by="delta"),
                Mark("points", "lowest", x="time", by="delta"),
            ),
            xlabel="step $t$",
            ylabel="eigenvalue",
        ),
        Panel(
            "overlap of its eigenvector",
            (
                Mark("line", "expected_overlap2", x="time", by="delta"),
                Mark("points", "lowest_overlap2", x="time", by="delta"),
            ),
            xlabel="step $t$",
            ylabel=r"$|\Theta_H^\top\xi|^2$",
            ylim=(0.0, 1.0),
        ),
    ),
    conclude=conclude,
)
