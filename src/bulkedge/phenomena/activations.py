"""Which activation finds the feature with the fewest samples, and which of the computed thresholds says so?

The seed quotes an onset of about 6 (GeLU) and 3.6 (Quad) for phase retrieval without its conventions. Where the target
is unbounded a threshold is a number only together with the count of samples it is computed from (theory 1.9), and
everywhere it depends on the step t at which the Hessian is looked at. So this is a map: thresholds of the limit at
several steps, step sizes and sample counts; the transition of exactly n = delta d samples; the learning-time theory;
and the delta from which networks of dimension d learn. All alternatives are ranked by their distance from the last.

The loss scale is no knob of its own: c l(y, f) with step size eta is l with step size c eta, and the threshold at t = 0
does not change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability.finite_size import finite_threshold
from bulkedge.learnability.floor import never_negative
from bulkedge.learnability.thresholds import dependence_on_samples
from bulkedge.phenomena import _onset, _training

PACE = {"quad": 0.1}
"""Step size of an activation in units of the others': z^2 on an unbounded target diverges at theirs."""
QUOTED = {"gelu": 6.0, "quad": 3.6}
"""Onsets on phase retrieval the seed reports from figures of the paper, which say neither step size nor dimension."""
BOUNDED = "2*(abs(z) > 0.6744897501960817)"


def _learner(activation: str, step_size: float, step: float = 1.0) -> dict[str, Any]:
    pace = step_size * step * PACE.get(activation, 1.0)
    return {"activation": activation, "loss": "squared", "step_size": pace}


def training(
    *, target: str, activation: str, step_size: float, deltas: Sequence[float], dimension: int, steps: int, seed: int
) -> dict[str, Any]:
    """One network tried at every delta."""
    learner = _learner(activation, step_size)
    return _onset.tried(deltas=deltas, dimension=dimension, steps=steps, seed=seed, target=target, **learner)


def limit(*, target: str, activation: str, step: float, time: int, step_size: float, paths: int) -> dict[str, Any]:
    """The threshold at `time`, of the limit or, where there is none, of `paths` samples; and where its window ends."""
    task = _training.problem(target, **_learner(activation, step_size, step))
    found = be.threshold(task, time, numerics=be.Numerics(paths=paths, replicas=4))
    there = found.delta is not None
    end = found.windows[0][1] if found.windows else None
    return {
        "limit": found.delta if there else math.nan,
        "limit_stderr": found.stderr if there else math.nan,
        "window_end": math.nan if end is None else end,
        "never_negative": float(never_negative(task, 0)),
    }


def counted(*, target: str, activation: str, step_size: float) -> dict[str, Any]:
    """The threshold at t = 0 from so many samples of the law of the weights."""
    rows = dependence_on_samples(_training.problem(target, **_learner(activation, step_size)), 0, be.Numerics())
    samples, values, errors = (np.array([math.nan if x is None else x for x in c]) for c in zip(*rows, strict=True))
    return {"counted": values, "counted_stderr": errors, "samples": samples}


def transition(
    *, target: str, activation: str, step_size: float, dimension: int, time: int, draws: int
) -> dict[str, float]:
    """The median over training sets of the least delta at which n = delta d samples have an outlier at `time`."""
    task = _training.problem(target, **_learner(activation, step_size))
    if never_negative(task, 0):
        return {"transition": math.nan, "transition_stderr": math.nan}
    found = finite_threshold(task, dimension, time, draws=draws, numerics=be.Numerics(paths=1024))
    if found.delta is None:
        return {"transition": math.nan, "transition_stderr": math.nan}
    # Half the interval of order statistics that holds the median with a probability of 68 percent.
    ordered = np.sort(np.where(np.isnan(found.draws), np.inf, found.draws))
    reach = 0.5 * math.sqrt(draws)
    low, high = (ordered[int(np.clip(round(0.5 * (draws - 1) + side * reach), 0, draws - 1))] for side in (-1.0, 1.0))
    return {"transition": found.delta, "transition_stderr": 0.5 * float(high - low) if high < np.inf else math.nan}


def theory(
    *, target: str, activation: str, step_size: float, dimension: int, delta: float, steps: int
) -> dict[str, float]:
    """The probability to learn, and the learning time (theory 1.7)."""
    learner = _learner(activation, step_size)
    return _training.predicted(delta=delta, dimension=dimension, steps=steps, target=target, **learner)


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Limits and transitions, trainings, the theory of learning times, and other step sizes last."""
    deltas, fixed = knobs["delta"], {"step_size": knobs["step_size"]}
    what = {"target": knobs["target"], "activation": knobs["activation"]}
    sized = {**what, "dimension": knobs["dimension"]}
    told = {
        "target": knobs["target"],
        "activation": [a for a in knobs["activation"] if a in knobs["theory"]],
        "dimension": [max(knobs["dimension"])],
        "delta": deltas,
    }
    others = {**what, "activation": [a for a in knobs["activation"] if a in QUOTED], "step": knobs["step"]}
    paths, steps = knobs["paths"], knobs["steps"]
    return [
        *grid("samples", what, **fixed),
        *grid("limit", {**what, "step": [1.0], "time": knobs["time"]}, paths=paths, **fixed),
        *grid("training", sized, range(knobs["seeds"]), deltas=list(deltas), steps=steps, **fixed),
        *grid("transition", {**sized, "time": knobs["time"]}, draws=knobs["draws"], **fixed),
        *grid("theory", told, steps=steps, **fixed),
        *grid("limit", {**others, "time": [t for t in knobs["time"] if t > 0]}, paths=paths, **fixed),
    ]


def conclude(table: Any) -> list[str]:
    """What each activation does, and how far every alternative is from the measured onsets."""
    seen, lines = {}, []
    for target in table["target"].values:
        for activation in table["activation"].values:
            at = table.sel(target=target, activation=activation)
            found = {d: _onset.measured(at.sel(dimension=d)) for d in table["dimension"].values}
            seen.update({(target, activation, d): _onset.known(o) for d, o in found.items()})
            onsets = ", ".join(f"{o} at d = {d}" for d, o in found.items())
            lines.append(f"{activation} on {target}: half of the runs learn from delta = {onsets}. {_window(at)}")
    rivals = _alternatives(table, list(seen))
    lines += _onset.distances(seen, rivals)
    lines += _verdict_on_the_lead(seen, rivals)
    return lines + _steps(table)


def _window(at: Any) -> str:
    """What the Hessian has to say about one target and activation, in words."""
    base = at.sel(step=1.0)
    if np.any(base["never_negative"].values > 0.5):
        return (
            "Its Hessian weight l'' sigma'^2 is never negative, so there is no window at any time; what it learns, "
            "no negative eigenvalue announced. (Finite steps move samples across the kink, which the Hessian of a "
            "finite network does not see.)"
        )
    words = []
    for t in base["time"].values:
        value, end = (float(base[name].sel(time=t)) for name in ("limit", "window_end"))
        to = f" to {end:.3g}" if math.isfinite(end) else ""
        words.append(f"{'none' if math.isnan(value) else f'{value:.3g}{to}'} at t = {t}")
    return f"Thresholds: {', '.join(words)}."


def _alternatives(table: Any, keys: Sequence[tuple[Any, Any, Any]]) -> dict[str, dict[Any, float]]:
    """Everything that names a delta: {name: {(target, activation, dimension): delta}}."""
    found: dict[str, dict[Any, float]] = {}
    for target, activation, d in keys:
        at = table.sel(target=target, activation=activation)
        for n in table["samples"].values if "samples" in table else ():
            found.setdefault(f"t = 0 from {n:g} samples", {})[target, activation, d] = float(
                at["counted"].sel(samples=n)
            )
        for t in table["time"].values:
            limits, transitions = at["limit"].sel(step=1.0, time=t), at["transition"].sel(dimension=d, time=t)
            found.setdefault(f"threshold at t = {t}", {})[target, activation, d] = float(limits)
            found.setdefault(f"transition of n = delta d samples at t = {t}", {})[target, activation, d] = float(
                transitions
            )
        if "learning_probability" in table:
            told = _onset.known(_onset.predicted(at.sel(dimension=d)))
            found.setdefault("learning-time theory", {})[target, activation, d] = told
        if target == "z**2" and activation in QUOTED:
            found.setdefault("number quoted from the paper", {})[target, activation, d] = QUOTED[activation]
    return found


def _verdict_on_the_lead(seen: dict[Any, float], rivals: dict[str, dict[Any, float]]) -> list[str]:
    """Does n tied to delta d predict the onset better than any fixed count of samples or limit? At common points."""
    tied = {name: v for name, v in rivals.items() if name.startswith("transition")}
    free = {name: v for name, v in rivals.items() if name.startswith(("threshold", "t = 0"))}
    lines = []
    for target in dict.fromkeys(key[0] for key in seen):
        mine = {k: v for k, v in seen.items() if k[0] == target}
        best = {}
        for kind, group in (("tied", tied), ("free", free)):
            scores = {name: s for name, values in group.items() if math.isfinite(s := _score(mine, values))}
            if scores:
                best[kind] = min(scores.items(), key=lambda item: item[1])
        if len(best) == 2:
            (name, a), (other, b) = best["tied"], best["free"]
            word = (
                "predicts the onset better than" if a < 0.9 * b else "is no better than" if a > b else "does as well as"
            )
            lines.append(
                f"{target}: the best of the finite transitions ({name}, a factor {math.exp(a):.2f} off) {word} the "
                f"best number that does not know d ({other}, a factor {math.exp(b):.2f})."
            )
    return lines


def _score(seen: dict[Any, float], values: dict[Any, float]) -> float:
    """Root mean square of log(alternative/measured); infinite where the alternative misses half of the onsets."""
    pairs = [(values.get(k, math.nan), s) for k, s in seen.items() if math.isfinite(s)]
    logs = [math.log(v / s) for v, s in pairs if math.isfinite(v)]
    return math.sqrt(sum(x * x for x in logs) / len(logs)) if 2 * len(logs) > len(pairs) else math.inf


def _steps(table: Any) -> list[str]:
    """How the threshold at t > 0 moves with the step size (and so with the scale of the loss)."""
    lines = []
    for target in table["target"].values:
        for activation in (a for a in table["activation"].values if a in QUOTED):
            at = table["limit"].sel(target=target, activation=activation)
            rows = [
                f"{float(at.sel(step=s, time=t)):.3g} at t = {t}, step size x {s:g}"
                for t in table["time"].values
                for s in table["step"].values
                if t > 0 and math.isfinite(float(at.sel(step=s, time=t)))
            ]
            if len(rows) > 1:
                lines.append(f"{activation} on {target}, thresholds: {'; '.join(rows)}.")
    return lines


_DELTA = r"samples per dimension $\delta$"

PHENOMENON = Phenomenon(
    name="activations",
    question="Which activation finds the feature with the fewest samples, and which computed threshold predicts it?",
    citations=("montanari-wang-2026", "celentano-cheng-montanari-2021"),
    equation="onset of learning for GeLU (about 6) and Quad (about 3.6) on phase retrieval",
    knobs=(
        Knob("target", "texts", ("z**2", BOUNDED), "links: one unbounded, one bounded"),
        Knob(
            "activation",
            "texts",
            ("gelu", "quad", "swish", "softplus", "tanh(v - 1)", "relu"),
            "of the neuron; expressions in v may shift it",
        ),
        Knob("step_size", "positive", 0.5, "eta (a tenth of it for quad)"),
        Knob("step", "positives", (0.5, 1.0, 2.0), "step sizes of gelu and quad tried too, in units of step_size"),
        Knob(
            "delta",
            "positives",
            (2.0, 3.5, 6.0, 9.0, 14.0, 22.0, 34.0),
            "samples per dimension",
            full=(1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.5, 8.0, 10.0, 13.0, 17.0, 22.0, 30.0, 40.0),
        ),
        Knob("dimension", "integers", (100, 200), "dimensions", full=(100, 200, 400, 800), low=10),
        Knob("steps", "integer", 300, "of training", full=1000, low=1),
        Knob("time", "integers", (0, 5), "steps at which Hessians are looked at", full=(0, 2, 5, 10), low=0),
        Knob("paths", "integer", 8192, "samples of the laws behind the thresholds of the limit", full=32768, low=256),
        Knob("draws", "integer", 12, "training sets behind a finite transition", full=24, low=2),
        Knob(
            "theory",
            "texts",
            ("gelu",),
            "activations whose learning times are predicted, at the largest dimension",
            full=("gelu", "swish"),
        ),
        Knob("seeds", "integer", 10, "runs at every point", full=40, low=1),
    ),
    parts=(
        Part("training", "measured", training, ("target", "activation", "dimension"), _onset.MEASURED),
        Part(
            "limit",
            "predicted",
            limit,
            ("target", "activation", "step", "time"),
            (Quantity("limit"), Quantity("window_end"), Quantity("never_negative")),
        ),
        Part("samples", "predicted", counted, ("target", "activation"), (Quantity("counted", dims=("samples",)),)),
        Part(
            "transition",
            "predicted",
            transition,
            ("target", "activation", "dimension", "time"),
            (Quantity("transition"),),
        ),
        Part("theory", "predicted", theory, ("target", "activation", "dimension", "delta"), _onset.PREDICTED),
    ),
    plan=plan,
    judged=(Judged("learned", "learning_probability", scale=1.0, name="fraction of runs that learn"),),
    panels=(
        Panel(
            "",
            (
                Mark(
                    "line",
                    "learning_probability",
                    x="delta",
                    by="dimension",
                    label="learning-time theory",
                    where={"target": "z**2"},
                ),
                Mark("points", "learned", x="delta", by="dimension", where={"target": "z**2"}),
            ),
            xlabel=_DELTA,
            ylabel="fraction that learns",
            each="activation",
            xscale="log",
            ylim=(-0.05, 1.05),
        ),
        Panel(
            "onset",
            (
                Mark(
                    "line",
                    "transition",
                    x="dimension",
                    by="activation",
                    label=r"transition of $\delta d$ samples",
                    dash=1,
                    where={"time": 1e9},
                ),
                Mark("points", "onset", x="dimension", by="activation"),
            ),
            xlabel="dimension $d$",
            ylabel=_DELTA,
            each="target",
            xscale="log",
            yscale="log",
        ),
        Panel(
            "threshold at $t = 0$",
            (Mark("line", "counted", x="samples", by="activation", label="threshold", dash=2),),
            xlabel="samples behind the law",
            ylabel=_DELTA,
            each="target",
            xscale="log",
            yscale="log",
        ),
        Panel(
            "",
            (Mark("line", "limit", x="time", by="activation", label="threshold", dash=2, where={"step": 1.0}),),
            xlabel="step $t$",
            ylabel=_DELTA,
            each="target",
            yscale="log",
        ),
    ),
    conclude=conclude,
)
