"""The verdict on a phenomenon's results: point by point, or on the limit a known finite-size law leads to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from bulkedge.foundation.phenomenon import MEASURED, Judged, Phenomenon
from bulkedge.foundation.verdict import Verdict, judge, overall, widening

_ENDS = {False: ("limit", "drift"), True: ("slope", "offset")}
"""What is judged and what else a law with a power, and one with a logarithm, leads to."""


@dataclass(frozen=True)
class Judgement:
    """word: the overall verdict, None where nothing is judged. rows: every judged point. sentences: for people."""

    word: str | None
    verdicts: dict[str, Verdict]
    rows: list[dict[str, Any]]
    sentences: list[str]


def conclude(phenomenon: Phenomenon, dataset: xr.Dataset) -> Judgement:
    """The verdict on each judged quantity and over all of them."""
    verdicts: dict[str, Verdict] = {}
    rows: list[dict[str, Any]] = []
    for pair in phenomenon.judged:
        if pair.measured in dataset and pair.predicted in dataset:
            verdict, table, abstained = _verdict(phenomenon, pair, dataset)
            if table or not abstained:
                verdicts[_name(pair)] = verdict
                rows += [{"quantity": _name(pair), **row} for row in table]
    word = overall([v.verdict for v in verdicts.values()]) if phenomenon.judged else None
    sentences = [v.sentence for v in verdicts.values()]
    if phenomenon.conclude is not None:
        sentences += phenomenon.conclude(dataset)
    return Judgement(word, verdicts, rows, sentences)


def with_limits(phenomenon: Phenomenon, dataset: xr.Dataset) -> xr.Dataset:
    """The dataset with what the phenomenon derives from it, and what the laws of judged quantities lead to.

    The limit as NAME_limit and c as NAME_drift; or the slope, of the prediction as well, as NAME_slope and NAME_offset.
    """
    derived = phenomenon.derive(dataset) if phenomenon.derive else {}
    for name, (dims, *columns) in derived.items():
        for end, values in zip(("", "_stderr", "_runs"), columns, strict=True):
            dataset[f"{name}{end}"] = (dims, values)
    for pair in phenomenon.judged:
        if pair.law is None:
            continue
        axis, law = pair.law
        for name in (pair.measured, pair.predicted) if law == "log" else (pair.measured,):
            if name in dataset and f"{name}_{_ENDS[law == 'log'][0]}" not in dataset:
                dataset = dataset.assign(_fits(phenomenon, dataset, name, axis, law))
    return dataset


def _name(pair: Judged) -> str:
    return pair.name or f"{pair.measured.replace('_', ' ')} against {pair.predicted.replace('_', ' ')}"


def _verdict(phenomenon: Phenomenon, pair: Judged, dataset: xr.Dataset) -> tuple[Verdict, list[dict[str, Any]], bool]:
    """The verdict, a row for each point that has both a prediction and a measurement, and whether some have no row.

    These are points with runs of both, of which the prediction does not speak.
    """
    there = dataset
    for axis, wanted in (pair.where or {}).items():
        there = there.sel({axis: wanted})
    measured, predicted = pair.measured, pair.predicted
    if pair.law is not None:
        measured = f"{measured}_{'slope' if pair.law[1] == 'log' else 'limit'}"
        predicted = f"{predicted}_slope" if pair.law[1] == "log" else predicted
    names = [f"{name}{end}" for name in (predicted, measured) for end in ("", "_stderr", "_runs")]
    columns = {name: there[name] for name in names}
    columns["drift"] = xr.DataArray(_value(pair.drift or 0.0, there))
    columns["scale"] = abs(there[predicted]) if pair.scale is None else xr.DataArray(_value(pair.scale, there))
    wide = xr.broadcast(*columns.values())
    p, sp, p_runs, q, sq, q_runs, drift, scale = (np.ravel(column.values) for column in wide)
    both = (p_runs > 0) & (q_runs > 0)
    seen = np.flatnonzero(both & ~np.isnan(p) & ~np.isnan(drift))
    if pair.law is None:
        sq = _widened(phenomenon, pair.measured, sq, q_runs)
    verdict = judge(p[seen], sp[seen], q[seen], sq[seen], scale=scale[seen], drift=drift[seen], name=_name(pair))
    rows = []
    for i, word in zip(seen, verdict.points, strict=True):
        place = np.unravel_index(i, wide[0].shape)
        point = {str(d): wide[0][d].values[n].item() for d, n in zip(wide[0].dims, place, strict=True)}
        numbers = (p[i], sp[i], q[i], sq[i])
        entries = zip(("predicted", "predicted_stderr", "measured", "measured_stderr"), numbers, strict=True)
        rows.append({"point": point, **{name: float(x) for name, x in entries}, "verdict": word})
    return verdict, rows, int(both.sum()) > len(seen)


def _value(given: Any, dataset: xr.Dataset) -> Any:
    return given(dataset) if callable(given) else given


def _widened(phenomenon: Phenomenon, name: str, errors: np.ndarray, runs: np.ndarray) -> np.ndarray:
    """Standard errors of few runs, which are themselves uncertain. One that a single run brought with it stays."""
    seeds = {q.name: q.over for p in phenomenon.parts if p.role == MEASURED for q in p.quantities}
    if seeds.get(name) not in ("mean", "median"):
        return errors
    return errors * np.where((runs < 2) & np.isfinite(errors), 1.0, widening(runs))


def _fits(phenomenon: Phenomenon, dataset: xr.Dataset, name: str, axis: str, law: float | str) -> dict[str, Any]:
    """Least squares of value = a + b x at every other point, weighted by the errors; x = axis^(-p) or log(axis).

    The errors grow by sqrt(chi^2 / degrees of freedom) where the law does not hold. Two sizes at least.
    """
    value = dataset[name]
    others = [d for d in value.dims if d != axis]
    value = value.transpose(*others, axis)
    error, runs = (dataset[f"{name}{end}"].transpose(*others, axis).values for end in ("_stderr", "_runs"))
    error = _widened(phenomenon, name, error, runs)
    sizes = np.asarray(dataset[axis].values, float)
    x = np.log(sizes) if isinstance(law, str) else sizes**-law
    shape = value.shape[:-1]
    judged, other = _ENDS[isinstance(law, str)]
    first, second = (other, judged) if isinstance(law, str) else (judged, other)
    ends = (first, f"{first}_stderr", second, f"{second}_stderr")
    found = {f"{name}_{end}": np.full(shape, np.nan) for end in ends}
    counts = np.zeros(shape, int)
    for place in np.ndindex(*shape):
        y, s = value.values[place], error[place]
        usable = np.isfinite(y) & np.isfinite(s) & (s > 0)
        if np.sum(usable) < 2:
            continue
        fitted = _line(x[usable], y[usable], s[usable])
        for target, number in zip(found.values(), fitted, strict=True):
            target[place] = number
        counts[place] = np.sum(runs[place])
    return {key: (others, array) for key, array in found.items()} | {f"{name}_{judged}_runs": (others, counts)}


def _line(x: np.ndarray, y: np.ndarray, s: np.ndarray) -> tuple[float, float, float, float]:
    """Intercept, its error, slope, its error."""
    design = np.stack([np.ones_like(x), x], axis=1) / s[:, None]
    covariance = np.linalg.inv(design.T @ design)
    best = covariance @ (design.T @ (y / s))
    chi2 = float(np.sum((y / s - design @ best) ** 2))
    inflate = max(1.0, np.sqrt(chi2 / (len(x) - 2))) if len(x) > 2 else 1.0
    errors = np.sqrt(np.diag(covariance)) * inflate
    return float(best[0]), float(errors[0]), float(best[1]), float(errors[1])
