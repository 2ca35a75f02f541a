"""Prediction against measurement for any problem that can be written down: what `bulkedge.compare` does, but stored.

The knobs are the arguments of `Problem`, `Network` and `compare`; every network is a run of its own, kept, resumed and
spread over machines, and several delta and dimensions make one plan. For a problem in Python, `knobs(problem)` is what
to give to `bulkedge.run("compare", ...)`.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability.lowest import lowest
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.phenomena import _comparison

_PROBLEM = (
    "target",
    "activation",
    "loss",
    "step_size",
    "width",
    "second_layer",
    "bias",
    "latent_dim",
    "momentum",
    "weight_decay",
    "batch",
)


def knobs(problem: Problem) -> dict[str, Any]:
    """The knobs of a problem made of names and expressions."""
    found = problem.to_dict()
    return {**found.pop("network"), **found}


def _problem(given: Mapping[str, Any]) -> Problem:
    """The problem of the parameters of a unit, which are taken out of it."""
    return _built(*(tuple(v) if isinstance(v := given[name], list) else v for name in _PROBLEM))


@functools.lru_cache(maxsize=16)
def _built(*values: Any) -> Problem:
    given = dict(zip(_PROBLEM, values, strict=True))
    layer = {name: v[0] if len(v := given.pop(name)) == 1 else v for name in ("second_layer", "bias")}
    network = be.Network(given.pop("activation"), given.pop("width"), **layer)
    return Problem(network=network, **given)


def dynamics(*, delta: float, steps: int, paths: int, replicas: int, **problem: Any) -> dict[str, Any]:
    """The limit of high dimension. growth: v(t)/|theta|^2, d times the squared cosine that noise has grown."""
    task = _problem(problem)
    run = be.trajectory(task, delta, steps, numerics=be.Numerics(paths=paths, replicas=replicas))
    found: dict[str, Any] = {"limit_growth": _comparison.grown(run, 1), "time": run.time.astype(float)}
    for name, shape in _shapes(task).items():
        found[f"limit_{name}"] = _shaped(getattr(run, name), (steps + 1, *shape))
        found[f"limit_{name}_stderr"] = _shaped(run.stderr.get(name), (steps + 1, *shape))
    return found


def spectrum(
    *, delta: float, dimension: int, time: int, hessian: str, paths: int, replicas: int, **problem: Any
) -> dict[str, Any]:
    """The lowest eigenvalue of every block to expect at this dimension, and the overlap2 of a clear outlier."""
    numerics = be.Numerics(paths=paths, replicas=replicas)
    found = be.spectrum(_problem(problem), delta, time, hessian=hessian, numerics=numerics)
    expected = [lowest(block, dimension) for block in found.blocks or [found]]
    clear = [e.outlier if e else None for e in expected]
    return {
        "expected_lowest": [e.value if e else np.nan for e in expected],
        "expected_lowest_stderr": [e.stderr if e else np.nan for e in expected],
        "lowest_drift": [e.drift if e else np.nan for e in expected],
        "expected_overlap2": [o.overlap2 if o else np.nan for o in clear],
        "expected_overlap2_stderr": [o.overlap2_stderr if o else np.nan for o in clear],
    }


def training(
    *, delta: float, dimension: int, steps: int, spectrum_times: Sequence[int], hessian: str, seed: int, **problem: Any
) -> dict[str, Any]:
    """One network trained."""
    task = _problem(problem)
    run = be.simulate(
        task, delta, dimension, steps, 1, seed, spectrum_times=spectrum_times, eigenpairs=1, hessian=hessian
    )
    found: dict[str, Any] = {"time": run.time.astype(float), "success": float(run.success[0])}
    for name, shape in _shapes(task).items():
        found[name] = _shaped(getattr(run, name), (steps + 1, *shape))
    blocks = task.m if hessian == "block" else 1
    for name, seen in (("lowest_eigenvalue", run.eigenvalues), ("overlap2", run.overlap2)):
        found[name] = np.full((steps + 1, blocks), np.nan)
        for t in spectrum_times:
            found[name][t] = np.reshape(seen[t], (blocks, -1))[:, 0]
    return found


def _shapes(problem: Problem) -> dict[str, tuple[int, ...]]:
    """The axes of every curve beside time."""
    m, k, r = problem.m, problem.k, max(1, directions(problem.link).hard.shape[1])
    return {
        "train_loss": (),
        "test_loss": (),
        "norm2": (m,),
        "overlap": (m, k),
        "hidden_variance": (m * r, m * r),
    }


def _shaped(value: Any, shape: tuple[int, ...]) -> np.ndarray:
    """NaN where nothing is hard, and so nothing hidden."""
    return np.full(shape, np.nan) if value is None else np.reshape(value, shape)


_CURVES = (
    ("train_loss", ()),
    ("test_loss", ()),
    ("norm2", ("neuron",)),
    ("overlap", ("neuron", "direction")),
    ("hidden_variance", ("row", "column")),
)


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Limits first, then all networks of a seed."""
    problem = {name: knobs[name] for name in _PROBLEM}
    _check(_problem(problem), knobs["spectrum_times"], knobs["steps"])
    delta, sizes = {"delta": knobs["delta"]}, {"delta": knobs["delta"], "dimension": knobs["dimension"]}
    times, hessian = knobs["spectrum_times"], {"hessian": knobs["hessian"]}
    steps = {"steps": knobs["steps"]}
    numerics = {"paths": knobs["paths"], "replicas": knobs["replicas"]}
    return [
        *grid("dynamics", delta, **steps, **numerics, **problem),
        *grid("spectrum", {**sizes, "time": times}, **hessian, **numerics, **problem),
        *grid("training", sizes, range(knobs["seeds"]), spectrum_times=times, **steps, **hessian, **problem),
    ]


def _check(problem: Problem, times: Sequence[int], steps: int) -> None:
    """What is wrong is said before anything runs."""
    if times and max(times) > steps:
        raise BadInput("spectrum_times", f"must not be later than the last of {steps} steps")
    if times and problem.network.kink is not None:
        name = problem.network.sigma.name
        raise BadInput("spectrum_times", f"must be none: the slope of {name} jumps, and its Hessian has no limit")


def _allowed(name: str) -> Any:
    """The finite-size difference of a curve; NaN where the overlap is no longer small."""

    def drift(table: Any) -> Any:
        grown = table["limit_growth"] / table["dimension"]
        allowed = _comparison.drift(grown, table["dimension"], table[f"limit_{name}"])
        if name == "overlap":
            seen = np.abs(table["limit_overlap"]).max("time") > _comparison.visible(table["dimension"])
            allowed = allowed.where(seen)
        if name == "hidden_variance":
            allowed = allowed.where(table["hidden_variance_runs"] >= _comparison.MANY)
        return allowed.where(grown < _comparison.LEARNED)

    return drift


def _scale(name: str) -> Any:
    """The size of a curve is that of its largest value."""
    return lambda table: np.abs(table[f"limit_{name}"]).max("time")


def conclude(table: Any) -> list[str]:
    """What became of the runs."""
    if "success" not in table:
        return []
    lines = []
    for delta in table["delta"].values:
        for d in table["dimension"].values:
            at = table.sel(delta=delta, dimension=d)
            count, runs = float(at["success"]) * int(at["success_runs"]), int(at["success_runs"])
            if runs:
                lines.append(f"delta = {delta:g}, d = {d}: {count:.0f} of {runs} networks end with the features found.")
    return lines


def _panel(measured: str, predicted: str, ylabel: str, first: str = "") -> Panel:
    """A curve at each delta, with a colour for each dimension; first: the axis of which only the first is shown."""
    where = {first: 0} if first else None
    by = None if predicted.startswith("limit") else "dimension"
    return Panel(
        "",
        (
            Mark("line", predicted, x="time", by=by, where=where),
            Mark("points", measured, x="time", by="dimension", where=where),
        ),
        xlabel="step $t$",
        ylabel=ylabel,
        each="delta",
    )


PHENOMENON = Phenomenon(
    name="compare",
    question="Do the losses, norms, overlaps and lowest Hessian eigenvalues of a problem follow theory?",
    citations=("montanari-wang-2026", "celentano-cheng-montanari-2021", "lu-2020", "silverstein-choi-1995"),
    equation="dynamical mean-field theory of the descent, and the Hessian's edge and outliers along it",
    knobs=(
        Knob("target", "text", "2*(abs(z) > 0.6744897501960817)", "the link h, an expression or a name"),
        Knob("activation", "text", "gelu", "of the neurons"),
        Knob("loss", "text", "squared", "loss, an expression in y and f or a name"),
        Knob("step_size", "positive", 0.5, "eta"),
        Knob("width", "integer", 1, "neurons", low=1),
        Knob("second_layer", "numbers", (1.0,), "a, one for all neurons or one each", repeats=True),
        Knob("bias", "numbers", (0.0,), "b, one for all neurons or one each", repeats=True),
        Knob("latent_dim", "integer", None, "directions, where the target does not say", low=1, optional=True),
        Knob("momentum", "number", 0.0, "of the heavy ball", low=0.0),
        Knob("weight_decay", "number", 0.0, "lambda", low=0.0),
        Knob("batch", "number", 1.0, "probability that a sample takes part in a step"),
        Knob("delta", "positives", (10.0,), "samples per dimension", full=(5.0, 10.0, 20.0)),
        Knob("dimension", "integers", (400, 800), "dimensions", full=(500, 1000, 2000), low=2),
        Knob("steps", "integer", 10, "of training", full=20, low=0),
        Knob("spectrum_times", "integers", (0, 5), "steps at which the lowest eigenvalue is measured", optional=True),
        Knob("hessian", "text", "block", "of each neuron, or of all", choices=("block", "full")),
        Knob("seeds", "integer", 8, "networks trained", full=20, low=1),
        Knob("paths", "integer", 32768, "of the limit", full=131072, low=64),
        Knob("replicas", "integer", 4, "of the limit", full=8, low=2),
    ),
    parts=(
        Part(
            "dynamics",
            "predicted",
            dynamics,
            axes=("delta",),
            quantities=(
                *(Quantity(f"limit_{name}", dims=("time", *dims)) for name, dims in _CURVES),
                Quantity("limit_growth", dims=("time",)),
            ),
        ),
        Part(
            "spectrum",
            "predicted",
            spectrum,
            axes=("delta", "dimension", "time"),
            quantities=tuple(
                Quantity(name, dims=("block",)) for name in ("expected_lowest", "lowest_drift", "expected_overlap2")
            ),
        ),
        Part(
            "training",
            "measured",
            training,
            axes=("delta", "dimension"),
            quantities=(
                *(Quantity(name, dims=("time", *dims)) for name, dims in _CURVES),
                Quantity("lowest_eigenvalue", dims=("time", "block")),
                Quantity("overlap2", dims=("time", "block")),
                Quantity("success", over="fraction"),
            ),
        ),
    ),
    plan=plan,
    judged=(
        *(
            Judged(name, f"limit_{name}", scale=_scale(name), drift=_allowed(name), name=name.replace("_", " "))
            for name, _ in _CURVES
        ),
        Judged(
            "lowest_eigenvalue",
            "expected_lowest",
            drift=lambda table: table["lowest_drift"],
            name="lowest eigenvalue",
        ),
        Judged(
            "overlap2",
            "expected_overlap2",
            scale=1.0,
            drift=lambda table: 4.0 / table["dimension"],
            name="overlap of its eigenvector",
        ),
    ),
    panels=(
        _panel("train_loss", "limit_train_loss", "training loss"),
        _panel("test_loss", "limit_test_loss", "loss on new data"),
        _panel("norm2", "limit_norm2", r"$|\theta|^2$", first="neuron"),
        _panel("lowest_eigenvalue", "expected_lowest", "lowest eigenvalue", first="block"),
        _panel("overlap2", "expected_overlap2", "overlap of its eigenvector", first="block"),
    ),
    conclude=conclude,
)
