"""When does the second hard direction appear, once the first is learned?

The weights of one neuron have a given overlap with direction 1. The Hessian on fresh data then has an outlier along
direction 2 above a threshold that depends on this overlap: what is learned explains noise away. At a finite dimension
that outlier shares its eigenvector with the one that direction 1 has, where the two lie close together; what is
compared is the squared overlap with direction 2 of everything below the bulk.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.finite.planted import planted_spectra
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability import later
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.law import pooled

_FIRST, _SECOND = [[1.0, 0.0]], np.array([[0.0], [1.0]])
_PAIRS = 6
_CLEAR = 4.0
"""An outlier counts as clear of the bulk when it lies this many widths of the edge below it."""


def problem(target: str, activation: str, loss: str) -> be.Problem:
    """One neuron; the target has two directions, both hard, also when the first is known."""
    return be.Problem(target, activation, loss)


def threshold(*, cosine: float, paths: int, **task: str) -> dict[str, float]:
    """delta* of direction 2 at this overlap with direction 1, and that of the best algorithm that knows direction 1."""
    found = be.later_threshold(problem(**task), _FIRST, cosine=cosine, numerics=be.Numerics(paths=paths, replicas=8))
    return {
        "second": np.nan if found.delta is None else found.delta,
        "second_stderr": np.nan if found.delta is None else found.stderr or 0.0,
        "algorithm": np.nan if found.delta_alg is None else found.delta_alg,
    }


def limit(*, cosine: float, delta: float, dimension: int, paths: int, **task: str) -> dict[str, float]:
    """The edge, and overlap2 of the outlier of direction 2 (0 without one; clear_: only if clear of the bulk)."""
    numerics, start = be.Numerics(paths=paths, replicas=4), np.array([[cosine, 0.0]])
    each = later.hidden_laws(later.planted(problem(**task), delta, 0, numerics, start, _SECOND), 0, _SECOND)
    law = pooled(each)
    edge = bulk.left_edge(law, delta)
    found = outliers.below(law, delta, edge)
    value, overlap2 = (found[0].value, found[0].overlap2) if found else (edge.value, 0.0)
    spread = [s[0].overlap2 if (s := outliers.below(one, delta)) else 0.0 for one in each]
    error = float(np.std(spread, ddof=1) / np.sqrt(len(spread)))
    width = (bulk.edge_scale(law, delta, edge) or np.inf) * dimension ** (-2.0 / 3.0)
    clear = edge.value - value > _CLEAR * width
    return {
        "edge": edge.value,
        "expected_overlap2": overlap2,
        "expected_overlap2_stderr": error,
        "clear_overlap2": overlap2 if clear else np.nan,
        "clear_overlap2_stderr": error if clear else np.nan,
    }


def measured(*, cosine: float, delta: float, dimension: int, paths: int, seed: int, **task: str) -> dict[str, float]:
    """The squared overlap with direction 2 of all eigenvectors below the bulk."""
    start = np.array([[cosine, 0.0]])
    edge = limit(cosine=cosine, delta=delta, dimension=dimension, paths=paths, **task)["edge"]
    ((values, parts),) = planted_spectra(problem(**task), start, delta, dimension, pairs=_PAIRS, seed=seed)
    return {"overlap2": float(np.sum(parts[1] ** 2 * (values < edge)))}


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Thresholds; then limits and matrices at every point, and limits between them."""
    task = {name: knobs[name] for name in ("target", "activation", "loss", "paths")}
    points = {"cosine": knobs["cosine"], "delta": knobs["delta"], "dimension": knobs["dimension"]}
    # Between the measured points the prediction is drawn at the largest dimension.
    ends = min(knobs["delta"]), max(knobs["delta"])
    between = sorted(set(np.round(np.geomspace(*ends, 9), 3).tolist()) - set(knobs["delta"]))
    return [
        *grid("threshold", {"cosine": knobs["cosine"]}, **task),
        *grid("limit", points, **task),
        *grid("limit", points | {"delta": between, "dimension": [max(knobs["dimension"])]}, **task),
        *grid("matrix", points, range(knobs["seeds"]), **task),
    ]


def conclude(table: Any) -> list[str]:
    """How the threshold falls with what is learned."""
    each = [f"{float(table['second'].sel(cosine=c)):.4g} at {c:g}" for c in table["cosine"].values]
    best = float(table["algorithm"].min())
    return [
        f"Direction 2 needs {', '.join(each)} samples per dimension by the overlap with direction 1; "
        f"the best algorithm that knows direction 1 needs {best:.4g}."
    ]


_AXES = ("cosine", "delta", "dimension")
_LARGE = {"dimension": 1e9}
PHENOMENON = Phenomenon(
    name="later",
    question="When does the second hard direction appear, once the first is learned?",
    citations=("montanari-wang-2026", "celentano-cheng-montanari-2021", "troiani-2025"),
    equation="hidden outliers for the law of (G, s) given an overlap with the first direction (docs/beyond.md)",
    knobs=(
        Knob("target", "text", "4*tanh(z1**2) + 2*tanh(z2**2)", "the link h, of two hard directions"),
        Knob("activation", "text", "gelu", "of the neuron"),
        Knob("loss", "text", "squared", "loss"),
        Knob("cosine", "numbers", (0.0, 0.5, 0.9), "overlaps with direction 1", full=(0.0, 0.3, 0.5, 0.7, 0.9)),
        Knob("delta", "positives", (6.0, 14.0, 30.0, 60.0), "samples per dimension"),
        Knob("dimension", "integers", (200, 400), "dimensions", full=(400, 800, 1600), low=20),
        Knob("paths", "integer", 16384, "of a prediction", full=65536, low=64),
        Knob("seeds", "integer", 8, "matrices at every point", full=16, low=1),
    ),
    parts=(
        Part("threshold", "predicted", threshold, ("cosine",), (Quantity("second"), Quantity("algorithm"))),
        Part(
            "limit",
            "predicted",
            limit,
            axes=_AXES,
            quantities=(Quantity("edge"), Quantity("expected_overlap2"), Quantity("clear_overlap2")),
        ),
        Part(
            "matrix",
            "measured",
            measured,
            axes=_AXES,
            quantities=(Quantity("overlap2", label="overlap with direction 2 below the bulk"),),
        ),
    ),
    plan=plan,
    judged=(
        Judged(
            "overlap2",
            "clear_overlap2",
            scale=1.0,
            drift=lambda table: 0.01 + 8.0 / table["dimension"],
            name="overlap with direction 2",
        ),
    ),
    panels=(
        Panel(
            "overlap with direction 2 below the bulk",
            (
                Mark("line", "expected_overlap2", x="delta", by="cosine", where=_LARGE),
                Mark("points", "overlap2", x="delta", by="cosine", where=_LARGE),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel=r"$(\theta_{*2}^\top\xi)^2$",
            xscale="log",
            ylim=(0.0, 1.0),
        ),
        Panel(
            "threshold of direction 2",
            (
                Mark("line", "second", x="cosine", label="this network"),
                Mark("line", "algorithm", x="cosine", label="best algorithm", dash=1),
            ),
            xlabel="overlap with direction 1",
            ylabel=r"$\delta$",
            yscale="log",
        ),
    ),
    conclude=conclude,
)
