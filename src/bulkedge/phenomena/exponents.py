"""How do the samples that one pass of descent needs grow with the dimension? With the power the exponent says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bulkedge.finite.spherical_sgd import expected_samples, first_degree, quiet_step, recovery_times
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.learnability.exponents import exponents
from bulkedge.models.target import Target
from bulkedge.models.target import target as read


def _link(target: str) -> Target:
    return read(target, 1)


def _slope(dimension: Sequence[float], values: np.ndarray) -> float:
    """Of log values against log d."""
    return float(np.polyfit(np.log(dimension), np.log(values), 1)[0])


def law(*, target: str, dimension: Sequence[int], noise: float) -> dict[str, Any]:
    """Samples C d^max(1, p - 1), times log d for p = 2, p the information exponent; the slope over these dimensions.

    expected: along the mean path of small steps. slope_drift: twice what that path's own slope differs by, which is the
    finite-size correction that is known.
    """
    found = exponents(target)
    d, p = np.array(dimension, float), found.information
    link = _link(target)
    expected = np.array([expected_samples(link, n, quiet_step(link, n, noise)) for n in dimension])
    missing = {"power": np.nan, "law_slope": np.nan, "slope_drift": np.nan}
    if p is None:
        return {**missing, "expected": expected, "size": d, "generative": np.nan}
    growth = d ** max(1.0, p - 1.0) * (np.log(d) if p == 2 else 1.0)
    slope = _slope(dimension, growth)
    drift = 2.0 * abs(_slope(dimension, expected) - slope) if np.all(np.isfinite(expected)) else 0.0
    return {
        "power": max(1.0, p - 1.0),
        "law_slope": slope,
        "slope_drift": drift,
        "expected": expected,
        "size": d,
        "generative": np.nan if found.generative is None else max(1.0, found.generative / 2.0),
    }


def ladder(*, target: str, dimension: Sequence[int], noise: float, runs: int, most: int, seed: int) -> dict[str, Any]:
    """Median samples to the overlap 1/2 at every dimension, and the slope of a line through their logarithms."""
    link = _link(target)
    medians = []
    for d in dimension:
        times = recovery_times(link, d, quiet_step(link, d, noise), most, seed, runs, share=0.5 + 1.0 / runs)
        medians.append(float(np.median(np.nan_to_num(times, nan=np.inf))))
    samples = np.array(medians)
    if not np.all(np.isfinite(samples)):
        return {"samples": np.where(np.isfinite(samples), samples, np.nan), "slope": np.nan}
    return {"samples": samples, "slope": _slope(dimension, samples)}


def plan(knobs: dict[str, Any]) -> list[Unit]:
    """The law of every target, then measurements; where more than d log d samples are needed in lower dimensions."""
    units = []
    for target in knobs["target"]:
        steep = first_degree(_link(target)) > 2
        fixed = {"dimension": list(knobs["steep_dimension" if steep else "dimension"]), "noise": knobs["noise"]}
        work = {"runs": knobs["runs"], "most": knobs["most"]}
        units += grid("law", {"target": [target]}, **fixed)
        units += grid("ladder", {"target": [target]}, range(knobs["seeds"]), **fixed, **work)
    return sorted(units, key=lambda unit: -1 if unit.seed is None else unit.seed)


def conclude(table: Any) -> list[str]:
    """The power measured and predicted, and what is known to be possible."""
    lines = []
    for target in table["target"].values:
        at = table.sel(target=target)
        if not np.isfinite(at["slope"]) or not np.isfinite(at["power"]):
            continue
        best = f"; the best method known needs d^{float(at['generative']):g}" if np.isfinite(at["generative"]) else ""
        lines.append(
            f"{target}: samples grow like d^{float(at['slope']):.3f} ± {float(at['slope_stderr']):.2g}, "
            f"predicted d^{float(at['law_slope']):.3f} over these dimensions (power {float(at['power']):g}"
            f"{' and a logarithm' if float(at['law_slope']) > float(at['power']) + 1e-9 else ''}){best}."
        )
    return lines


PHENOMENON = Phenomenon(
    name="exponents",
    question="How do the samples that one pass of descent needs grow with the dimension?",
    citations=("ben-arous-2021", "damian-2024"),
    equation="d^max(1, p - 1) samples, d log d for p = 2, with p the information exponent of the link",
    knobs=(
        Knob("target", "texts", ("he1(z)", "he2(z)", "he3(z)"), "links of one direction; the student has the same one"),
        Knob(
            "dimension",
            "integers",
            (512, 1024, 2048, 4096),
            "dimensions, where at most d log d samples are needed",
            full=(512, 2048, 8192, 32768),
            low=3,
        ),
        Knob(
            "steep_dimension",
            "integers",
            (64, 128, 256),
            "dimensions, where more are needed",
            full=(64, 128, 256, 512, 1024),
            low=3,
        ),
        Knob("noise", "positive", 0.4, "step size: the share of the first drift that the noise of a step takes away"),
        Knob("runs", "integer", 96, "runs of which the median is taken", full=192, low=3),
        Knob("most", "integer", 20_000_000, "samples a run may use", full=2_000_000_000, low=1),
        Knob("seeds", "integer", 8, "repetitions of the whole ladder", full=16, low=1),
    ),
    parts=(
        Part(
            "law",
            "predicted",
            law,
            axes=("target",),
            quantities=(
                Quantity("power"),
                Quantity("law_slope", label="predicted slope"),
                Quantity("slope_drift"),
                Quantity("expected", dims=("step",), label="mean path of small steps"),
                Quantity("size", dims=("step",)),
                Quantity("generative"),
            ),
        ),
        Part(
            "ladder",
            "measured",
            ladder,
            axes=("target",),
            quantities=(
                Quantity("samples", dims=("step",), label="samples to recovery"),
                Quantity("slope", label="measured slope"),
            ),
        ),
    ),
    plan=plan,
    judged=(
        Judged("slope", "law_slope", drift=lambda table: table["slope_drift"], name="power of d in the samples needed"),
    ),
    panels=(
        Panel(
            "",
            (
                Mark("line", "expected", x="size", by="target", label="mean path of small steps"),
                Mark("points", "samples", x="size", by="target"),
            ),
            xlabel="dimension $d$",
            ylabel="samples to recovery",
            xscale="log",
            yscale="log",
        ),
    ),
    conclude=conclude,
)
