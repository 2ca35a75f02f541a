"""Where does the prediction for Gaussian inputs hold, and where does it not?

The same problem is learned from inputs of other laws with unit variance: light and heavy tails, sparse, elliptic,
correlated, and a real table. Every law is held against the Gaussian prediction, and against Gaussian inputs of the same
size. What should matter in high dimension is whether |x|^2/d concentrates and whether the covariance is the identity;
independent entries of any law with enough moments are then as good as Gaussian for a theta_* that spreads over all
coordinates.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.finite import inputs as laws
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.foundation.verdict import judge, widening
from bulkedge.learnability.lowest import lowest
from bulkedge.phenomena import _training

REFERENCE = "gaussian"
_TABLE, _MOST_ROWS, _MOST_COLUMNS = "digits", 1797, 61


def training(*, inputs: str, dimension: int, delta: float, steps: int, seed: int, **learner: Any) -> dict[str, float]:
    """Train once; the lowest Hessian eigenpair at t = 0, and whether and when the feature was found."""
    run = laws.train(_training.problem(**learner), inputs, round(delta * dimension), dimension, steps, seed)
    at = _training.first_above(run.cosine)
    return {
        "lowest": run.lowest,
        "lowest_overlap2": run.overlap2,
        "learned": float(math.isfinite(at)),
        "learned_at": at,
        "radius_spread": run.radius_spread,
    }


def theory(*, dimension: int, delta: float, steps: int, **learner: Any) -> dict[str, float]:
    """What Gaussian inputs should do: the lowest eigenvalue and its overlap at t = 0, and the probability to learn.

    clear_overlap2: the outlier's, where it stands clear of the bulk; nearer, a finite matrix smears the transition.
    """
    expected = lowest(be.spectrum(_training.problem(**learner), delta, 0), dimension)
    clear = expected.outlier if expected else None
    return {
        "expected_lowest": expected.value if expected else math.nan,
        "expected_lowest_stderr": expected.stderr if expected else math.nan,
        "lowest_drift": expected.drift if expected else math.nan,
        "clear_overlap2": clear.overlap2 if clear else math.nan,
        "clear_overlap2_stderr": clear.overlap2_stderr if clear else math.nan,
        "overlap2_drift": 4.0 / dimension,
        **_training.predicted(delta=delta, dimension=dimension, steps=steps, **learner),
    }


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Trainings on every law, as far as a table has rows and columns, and the Gaussian prediction."""
    learner = {name: knobs[name] for name in ("target", "activation", "loss", "step_size")}
    learner["steps"] = knobs["steps"]
    for name in knobs["inputs"]:
        laws.read(name)
    axes = {"inputs": knobs["inputs"], "dimension": knobs["dimension"], "delta": knobs["delta"]}
    return [
        *[u for u in grid("training", axes, range(knobs["seeds"]), **learner) if _there(**u.parameters)],
        *grid("theory", {"dimension": knobs["dimension"], "delta": knobs["delta"]}, **learner),
    ]


def _there(inputs: str, dimension: int, delta: float, **_: Any) -> bool:
    return inputs != _TABLE or (dimension <= _MOST_COLUMNS and round(delta * dimension) <= _MOST_ROWS)


_PAIRS: tuple[tuple[str, str, str | None, float | None, str], ...] = (
    ("lowest", "expected_lowest", "lowest_drift", None, "lowest eigenvalue"),
    ("lowest_overlap2", "clear_overlap2", "overlap2_drift", 1.0, "its overlap"),
    ("learned", "learning_probability", None, 1.0, "fraction that learns"),
)


def conclude(table: Any) -> list[str]:
    """For every law, at the largest dimension it has: against the Gaussian prediction, and against Gaussian inputs."""
    lines = []
    for name in (str(x) for x in table["inputs"].values):
        there = [d for d in table["dimension"].values if int(table["learned_runs"].sel(inputs=name, dimension=d).sum())]
        if not there:
            lines.append(f"{name}: not measured.")
            continue
        at = table.sel(dimension=there[-1])
        words = ", ".join(f"{pair[-1]} {_word(at, name, *pair[:-1])}" for pair in _PAIRS)
        spread = float(at["radius_spread"].sel(inputs=name).mean())
        line = f"{name} at d = {there[-1]}, |x|^2/d spread by {spread:.2g}: against the Gaussian prediction, {words}"
        if name != REFERENCE and REFERENCE in table["inputs"].values:
            gaps = ", ".join(f"{pair[-1]} {_gap(at, name, pair[0])}" for pair in _PAIRS)
            line += f"; largest difference from Gaussian inputs of that size: {gaps}"
        lines.append(f"{line}.")
    return lines


def _word(at: Any, name: str, measured: str, predicted: str, drift: str | None, scale: float | None) -> str:
    """Agrees, disagrees or undecided, over all delta."""
    mine = at.sel(inputs=name)
    error, runs = mine[f"{measured}_stderr"].values, mine[f"{measured}_runs"].values
    keep = (runs > 0) & np.isfinite(mine[predicted].values)
    if not keep.any():
        return "not compared"
    if measured != "learned":
        error = error * widening(runs)
    verdict = judge(
        mine[predicted].values[keep],
        mine[f"{predicted}_stderr"].values[keep],
        mine[measured].values[keep],
        error[keep],
        drift=mine[drift].values[keep] if drift else 0.0,
        scale=scale,
    )
    return verdict.verdict


def _gap(at: Any, name: str, measured: str) -> str:
    """The largest difference between two measurements, in combined standard errors, and its size."""
    mine, other = at.sel(inputs=name), at.sel(inputs=REFERENCE)
    gap = (mine[measured] - other[measured]).values
    sigmas = np.abs(gap) / np.hypot(mine[f"{measured}_stderr"].values, other[f"{measured}_stderr"].values)
    if not np.any(np.isfinite(sigmas)):
        return "unknown"
    worst = int(np.nanargmax(sigmas))
    return f"{gap[worst]:+.2g} ({sigmas[worst]:.1f} standard errors)"


_DELTA = r"samples per dimension $\delta$"

PHENOMENON = Phenomenon(
    name="inputs",
    question="Where does the prediction for Gaussian inputs hold, and where not?",
    citations=("montanari-wang-2026",),
    equation="assumption of Gaussian samples x ~ N(0, I)",
    knobs=(
        Knob("target", "text", "2*(abs(z) > 0.6744897501960817)", "the link h"),
        Knob("activation", "text", "gelu", "of the neuron"),
        Knob("loss", "text", "squared", "loss"),
        Knob("step_size", "positive", 0.5, "eta"),
        Knob(
            "inputs",
            "texts",
            (
                REFERENCE,
                "rademacher",
                "student-3",
                "student-5",
                "sparse-0.1",
                "sparse-0.02",
                "elliptic-8",
                "correlated-0.5",
                "whitened",
                _TABLE,
            ),
            "laws of the samples; the number is that of degrees of freedom, the share of entries that are not zero, or "
            "the power of the spectrum",
        ),
        Knob(
            "delta",
            "positives",
            (6.0, 12.0, 24.0),
            "samples per dimension",
            full=(4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 36.0),
        ),
        Knob("dimension", "integers", (48, 200), "dimensions", full=(48, 200, 400, 800), low=10),
        Knob("steps", "integer", 100, "of training", full=300, low=1),
        Knob("seeds", "integer", 20, "runs at every point", full=60, low=1),
    ),
    parts=(
        Part(
            "training",
            "measured",
            training,
            ("inputs", "dimension", "delta"),
            (
                Quantity("lowest", label="lowest eigenvalue"),
                Quantity("lowest_overlap2", label="overlap of its eigenvector"),
                Quantity("learned", over="fraction", label="fraction that learned"),
                Quantity("learned_at", over="median", label="learning time"),
                Quantity("radius_spread", label="spread of |x|^2/d"),
            ),
        ),
        Part(
            "theory",
            "predicted",
            theory,
            ("dimension", "delta"),
            (
                Quantity("expected_lowest"),
                Quantity("lowest_drift"),
                Quantity("clear_overlap2"),
                Quantity("overlap2_drift"),
                *_training.PREDICTED,
            ),
        ),
    ),
    plan=plan,
    judged=(
        Judged(
            "lowest", "expected_lowest", drift=lambda table: table["lowest_drift"], name="lowest eigenvalue at t = 0"
        ),
        Judged(
            "lowest_overlap2",
            "clear_overlap2",
            scale=1.0,
            drift=lambda table: table["overlap2_drift"],
            name="overlap of its eigenvector",
        ),
        Judged("learned", "learning_probability", scale=1.0, name="fraction of runs that learn"),
    ),
    panels=(
        Panel(
            "",
            (
                Mark("line", "learning_probability", x="delta", by="dimension", label="Gaussian prediction"),
                Mark("points", "learned", x="delta", by="dimension"),
            ),
            xlabel=_DELTA,
            ylabel="fraction that learns",
            each="inputs",
            xscale="log",
            ylim=(-0.05, 1.05),
        ),
        Panel(
            "",
            (
                Mark("line", "expected_lowest", x="delta", by="dimension", label="Gaussian prediction"),
                Mark("points", "lowest", x="delta", by="dimension"),
            ),
            xlabel=_DELTA,
            ylabel="lowest eigenvalue",
            each="inputs",
            xscale="log",
        ),
    ),
    conclude=conclude,
)
