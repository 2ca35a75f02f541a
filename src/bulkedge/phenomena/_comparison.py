"""Prediction against measurement for one problem: curves of descent, and lowest Hessian eigenvalues."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bulkedge.finite import simulate
from bulkedge.foundation.answers import Comparison, Simulation, Spectrum, Trajectory
from bulkedge.foundation.checks import instance
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.status import Status
from bulkedge.foundation.verdict import UNDECIDED, Verdict, judge, overall, widening
from bulkedge.learnability import spectrum, trajectory
from bulkedge.learnability.lowest import lowest
from bulkedge.models.problem import Problem

Progress = Callable[[str, int, int], None]
LEARNED = 0.02
"""Times are judged while v(t)/(d |theta|^2), the squared cosine a run has by then, is below this."""
MANY = 50
"""Runs from which a variance over runs is worth judging."""


def compare(
    problem: Problem,
    delta: float | None = None,
    dimension: int = 1000,
    steps: int = 20,
    seeds: int = 5,
    seed: int = 0,
    spectrum_times: Any = (),
    eigenpairs: int = 4,
    data: str = "auto",
    hessian: str = "block",
    samples: int | None = None,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> Comparison:
    """Predict, train real networks, and judge: losses, norms, overlaps, and the lowest eigenvalue with its overlap2.

    Differences are counted in standard errors. That of a few runs is itself uncertain: it is widened by the ratio of
    Student's quantile to four. Known finite-size effects are allowed for: the overlap v(t)/d a run has already grown,
    which moves losses and norms by as much, and at the edge the Tracy-Widom shift 1.2065 gamma d^(-2/3).
    """
    instance("numerics", numerics, Numerics)
    if seeds == 1:
        raise BadInput("seeds", "must be at least 2: one run has no standard error to compare with")
    measured = simulate(
        problem, delta, dimension, steps, seeds, seed, data, spectrum_times, eigenpairs, hessian, samples, progress
    )
    ratio = measured.delta  # that of a whole number of samples
    predicted = trajectory(problem, ratio, steps, numerics=numerics, progress=progress)
    times = spectrum_times if isinstance(spectrum_times, Iterable) else [spectrum_times]
    spectra = [
        spectrum(problem, ratio, int(t), hessian=hessian, numerics=numerics, progress=progress)
        for t in sorted(set(times))
    ]
    widen = float(widening(seeds))
    rows = [*_curves(problem, predicted, measured, widen), *_eigenvalues(problem, spectra, measured, widen)]
    verdicts = _judged(rows)
    word = overall([v.verdict for v in verdicts.values()])
    sentence = " ".join(v.sentence for v in verdicts.values() if v.verdict == word) or "Nothing could be compared."
    stops = [a.diverged_at for a in (predicted, measured, *spectra) if a.diverged_at is not None]
    worst = next((a.status for a in (predicted, measured, *spectra) if not a.status.ok), Status.CONVERGED)
    return Comparison(
        delta=ratio,
        dimension=dimension,
        verdict=word,
        sentence=sentence,
        rows=[{name: v for name, v in row.items() if not name.startswith("_")} for row in rows],
        verdicts=verdicts,
        trajectory=predicted,
        simulation=measured,
        spectra=spectra,
        status=Status.DIVERGED if stops else worst,
        diverged_at=min(stops, default=None),
        warnings=list(
            dict.fromkeys([*predicted.warnings, *measured.warnings, *(w for s in spectra for w in s.warnings)])
        ),
        problem=problem.to_dict(),
    )


def _row(
    quantity: str,
    time: float,
    predicted: tuple[float, float],
    measured: tuple[float, float],
    allowed: float,
    widen: float,
    scale: float | None = None,
) -> dict[str, Any]:
    return {
        "quantity": quantity,
        "time": float(time),
        "predicted": predicted[0],
        "predicted_stderr": predicted[1],
        "measured": measured[0],
        "measured_stderr": measured[1],
        "drift": allowed,
        "verdict": UNDECIDED,
        "_widen": widen,
        "_scale": abs(predicted[0]) if scale is None else scale,
    }


def drift(grown: Any, dimension: Any, value: Any) -> Any:
    """What a finite dimension changes in a curve: the overlap noise has grown, and 1/d."""
    return (2.0 * grown + 2.0 / dimension) * np.abs(value)


def visible(dimension: Any) -> Any:
    """The least overlap worth judging: a smaller one is the noise of one run, and judged as hidden variance."""
    return 4.0 / np.sqrt(dimension)


def grown(predicted: Trajectory, dimension: int) -> np.ndarray:
    """The largest squared cosine along hard directions that the noise of a finite dimension has grown by each time."""
    if predicted.hidden_variance is None:
        return np.zeros(len(predicted.time))
    v = predicted.hidden_variance.reshape(len(predicted.time), -1)
    size = round(math.sqrt(v.shape[1]))
    diagonal = v[:, :: size + 1]
    norm2 = predicted.norm2.reshape(len(predicted.time), -1)
    per_neuron = diagonal.reshape(len(v), norm2.shape[1], -1).sum(axis=2)
    return np.max(per_neuron / (dimension * np.maximum(norm2, 1e-300)), axis=1)


def _curves(problem: Problem, predicted: Trajectory, measured: Simulation, widen: float) -> list[dict[str, Any]]:
    d = measured.dimension
    noise = grown(predicted, d)
    live = np.flatnonzero(np.isfinite(noise) & (noise < LEARNED) & np.isfinite(measured.train_loss))
    rows: list[dict[str, Any]] = []
    names = ["train_loss", "test_loss", "norm2", "overlap"]
    if len(measured.seeds) >= MANY:
        names.append("hidden_variance")
    for name in names:
        p, q = getattr(predicted, name), getattr(measured, name)
        if p is None or q is None:
            continue
        steps = len(predicted.time)
        p, sp, q, sq = (
            np.asarray(v, float).reshape(steps, -1) for v in (p, predicted.stderr[name], q, measured.stderr[name])
        )
        entries = [i for i in range(p.shape[1]) if name != "overlap" or np.nanmax(np.abs(p[:, i])) > visible(d)]
        labels = _labels(name, np.shape(getattr(predicted, name))[1:])
        for i in entries:
            scale = np.nanmax(np.abs(p[:, i]))
            rows.extend(
                _row(
                    labels[i],
                    float(predicted.time[t]),
                    (float(p[t, i]), float(sp[t, i])),
                    (float(q[t, i]), float(sq[t, i])),
                    float(drift(noise[t], d, p[t, i])),
                    widen,
                    float(scale),
                )
                for t in live
            )
    return rows


def _labels(name: str, shape: tuple[int, ...]) -> list[str]:
    if not shape:
        return [name]
    return [f"{name}[{', '.join(map(str, index))}]" for index in np.ndindex(*shape)]


def _eigenvalues(problem: Problem, spectra: list[Spectrum], measured: Simulation, widen: float) -> list[dict[str, Any]]:
    rows = []
    for limit in spectra:
        key = int(limit.time or 0)
        blocks = limit.blocks or [limit]
        many = limit.blocks is not None
        for j, block in enumerate(blocks):
            tag = f"[{j}]" if many else ""

            def seen(name: str, j: int = j, many: bool = many, key: int = key) -> tuple[float, float]:
                value, error = getattr(measured, name)[key], measured.stderr[name][key]
                value, error = (value[j], error[j]) if many else (value, error)
                return float(np.ravel(value)[0]), float(np.ravel(error)[0])

            rows.extend(_lowest(block, measured.dimension, seen, tag, widen))
    return rows


def _lowest(
    block: Spectrum, d: int, seen: Callable[[str], tuple[float, float]], tag: str, widen: float
) -> list[dict[str, Any]]:
    """The lowest eigenvalue, and its overlap2 where it is an outlier clear of the bulk."""
    expected = lowest(block, d)
    if expected is None:
        return []
    time, value = float(block.time or 0), (expected.value, expected.stderr)
    rows = [_row(f"lowest_eigenvalue{tag}", time, value, seen("eigenvalues"), expected.drift, widen)]
    if expected.outlier is not None:
        part = (expected.outlier.overlap2, expected.outlier.overlap2_stderr)
        rows.append(_row(f"overlap2{tag}", time, part, seen("overlap2"), 4.0 / d, widen, 1.0))
    return rows


def _readable(quantity: str) -> str:
    """Such as 'norm2 of neuron 1'; neurons and directions counted from 1."""
    base, _, index = quantity.replace("_", " ").partition("[")
    names = ("neuron", "direction")
    parts = [f"{name} {int(i) + 1}" for name, i in zip(names, index.rstrip("]").split(", "), strict=False) if i]
    return f"{base} of {', '.join(parts)}" if parts else base


def _judged(rows: list[dict[str, Any]]) -> dict[str, Verdict]:
    """The verdict of each quantity over its times; each row gets its own."""
    verdicts: dict[str, Verdict] = {}
    for name in dict.fromkeys(row["quantity"] for row in rows):
        part = [row for row in rows if row["quantity"] == name]

        def column(key: str, part: list[dict[str, Any]] = part) -> np.ndarray:
            return np.array([row[key] for row in part], float)

        verdict = judge(
            column("predicted"),
            column("predicted_stderr"),
            column("measured"),
            column("measured_stderr") * column("_widen"),
            scale=column("_scale"),
            drift=column("drift"),
            name=_readable(name),
        )
        for row, word in zip(part, verdict.points, strict=True):
            row["verdict"] = word
        verdicts[name] = verdict
    return verdicts
