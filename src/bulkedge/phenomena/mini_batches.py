"""Does the noise of mini-batches move the onset of learning?

At every step each sample takes part with probability b, and then has weight 1/b. The gradient's covariance grows by a
factor of order 1/b, and with it both the kicks that hidden directions get and the noise in which their signal drowns.
The theory of learning times carries the same coins (theory 1.5, 1.7), and has no other change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Unit, grid
from bulkedge.phenomena import _onset, _training


def training(*, batch: float, dimension: int, deltas: Sequence[float], steps: int, seed: int, **learner: Any) -> Any:
    """One network tried at every delta."""
    return _onset.tried(deltas=deltas, dimension=dimension, steps=steps, seed=seed, batch=batch, **learner)


def theory(*, batch: float, dimension: int, delta: float, steps: int, **learner: Any) -> dict[str, float]:
    """The probability to learn, and the learning time (theory 1.7)."""
    return _training.predicted(delta=delta, dimension=dimension, steps=steps, batch=batch, **learner)


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """Trainings and their prediction at every batch probability."""
    learner = {name: knobs[name] for name in ("target", "activation", "loss", "step_size")}
    axes = {"batch": knobs["batch"], "dimension": knobs["dimension"]}
    steps = knobs["steps"]
    return [
        *grid("training", axes, range(knobs["seeds"]), deltas=list(knobs["delta"]), steps=steps, **learner),
        *grid("theory", {**axes, "delta": knobs["delta"]}, steps=steps, **learner),
    ]


def conclude(table: Any) -> list[str]:
    """Onsets at every batch probability, measured and predicted, and what they are relative to full batch."""
    lines = []
    for d in table["dimension"].values:
        whole = None
        for b in table["batch"].values[::-1]:
            at = table.sel(batch=b, dimension=d)
            seen, said = _onset.measured(at), _onset.predicted(at)
            ratio = ""
            if whole is None:
                whole = seen
            elif not (seen.bound or whole.bound):
                error = (
                    seen.value
                    / whole.value
                    * ((seen.stderr / seen.value) ** 2 + (whole.stderr / whole.value) ** 2) ** 0.5
                )
                ratio = f", {seen.value / whole.value:.2f} ± {error:.1g} times that of the largest batch"
            lines.append(f"b = {b:g}, d = {d}: half of the runs learn at delta = {seen}{ratio}; predicted {said}.")
    return lines


PHENOMENON = Phenomenon(
    name="mini-batches",
    question="Does training on mini-batches move the number of samples from which the feature is found?",
    citations=("montanari-wang-2026", "celentano-cheng-montanari-2021"),
    equation="onset of learning against the probability that a sample takes part in a step",
    knobs=(
        Knob("target", "text", "2*(abs(z) > 0.6744897501960817)", "the link h"),
        Knob("activation", "text", "gelu", "of the neuron"),
        Knob("loss", "text", "squared", "loss"),
        Knob("step_size", "positive", 0.5, "eta"),
        Knob("batch", "positives", (0.1, 0.3, 1.0), "batch probability", full=(0.03, 0.1, 0.3, 0.6, 1.0), high=1.0),
        Knob(
            "delta",
            "positives",
            (4.0, 8.0, 12.0, 18.0, 27.0, 40.0),
            "samples per dimension",
            full=(4.0, 6.0, 8.0, 10.0, 13.0, 17.0, 22.0, 29.0, 38.0, 50.0),
        ),
        Knob("dimension", "integers", (200,), "dimensions", full=(200, 400, 800), low=10),
        Knob("steps", "integer", 120, "of training", full=300, low=1),
        Knob("seeds", "integer", 20, "runs at every point", full=60, low=1),
    ),
    parts=(
        Part("training", "measured", training, ("batch", "dimension"), _onset.MEASURED),
        Part("theory", "predicted", theory, ("batch", "dimension", "delta"), _onset.PREDICTED),
    ),
    plan=plan,
    judged=(Judged("learned", "learning_probability", scale=1.0, name="fraction of runs that learn"),),
    panels=(
        Panel(
            "",
            (
                Mark("line", "learning_probability", x="delta", by="batch"),
                Mark("points", "learned", x="delta", by="batch"),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel="fraction that learns",
            each="dimension",
            xscale="log",
            ylim=(-0.05, 1.05),
        ),
        Panel(
            "median learning time",
            (
                Mark("line", "learning_time", x="delta", by="batch"),
                Mark("points", "learned_at", x="delta", by="batch"),
            ),
            xlabel=r"samples per dimension $\delta$",
            ylabel="step",
            each="dimension",
            xscale="log",
            yscale="log",
        ),
        Panel(
            "onset",
            (Mark("points", "onset", x="batch", by="dimension"),),
            xlabel="batch probability $b$",
            ylabel=r"samples per dimension $\delta$",
            xscale="log",
        ),
    ),
    conclude=conclude,
)
