"""Thresholds and learning times: where in delta, and when, the features are found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bulkedge.foundation.answers import LearningTime, Threshold
from bulkedge.show import style
from bulkedge.show.numbers import plain, time_name, uncertain

LEARNT = style.VERMILLION
ALGORITHMIC = style.GREEN


@style.styled
def thresholds(results: Sequence[Threshold]) -> style.Figure:
    """The windows of delta in which a feature's outlier exists; over time if there are several times."""
    return _one_threshold(results[0]) if len(results) == 1 else _over_time(results)


def _one_threshold(result: Threshold) -> style.Figure:
    figure = style.new_figure(style.COLUMN, 1.45)
    ax = figure.subplots()
    low, high = _delta_range([result])
    keys: dict[str, Any] = {}
    for a, b in result.windows:
        ax.axvspan(a or low, high if b is None else b, color=LEARNT, alpha=0.22, linewidth=0)
        keys["outlier exists"] = style.area_key(LEARNT)
    if result.delta is not None:
        ax.axvline(result.delta, color=LEARNT)
        if result.stderr:
            ax.axvspan(result.delta - result.stderr, result.delta + result.stderr, color=LEARNT, alpha=0.4, linewidth=0)
        keys[rf"$\delta_*={uncertain(result.delta, result.stderr)}$"] = style.line_key(LEARNT)
    else:
        ax.text(0.5, 0.5, f"no threshold: {result.absence}", transform=ax.transAxes, ha="center", va="center")
    if result.delta_alg is not None:
        ax.axvline(result.delta_alg, color=ALGORITHMIC, linestyle=style.DASHES[1])
        keys[rf"$\delta_\mathrm{{alg}}={plain(result.delta_alg)}$"] = style.line_key(ALGORITHMIC, style.DASHES[1])
    ax.set_xscale("log")
    ax.set_xlim(low, high)
    style.plain_log(ax.xaxis)
    ax.set_yticks([])
    ax.spines["left"].set_visible(False)
    ax.set_xlabel(rf"samples per dimension $\delta=n/d$ (at $t={time_name(result.time)}$)")
    style.legend(figure, keys, columns=3)
    return figure


def _over_time(results: Sequence[Threshold]) -> style.Figure:
    ordered = sorted(results, key=lambda r: float(r.time))
    finite = [float(r.time) for r in ordered if math.isfinite(float(r.time))]
    span = max(finite, default=1.0) - min(finite, default=0.0) or 1.0
    beyond = max(finite, default=0.0) + 0.15 * span
    place = [float(r.time) if math.isfinite(float(r.time)) else beyond for r in ordered]
    low, high = _delta_range(ordered)
    figure = style.new_figure(style.COLUMN, 2.4)
    ax = figure.subplots()
    keys: dict[str, Any] = {}
    for x, r in zip(place, ordered, strict=True):
        for a, b in r.windows:
            ax.vlines(x, a or low, high if b is None else b, color=LEARNT, alpha=0.22, linewidth=7)
            keys["outlier exists"] = style.area_key(LEARNT)
    known = [(x, r.delta, r.stderr or 0.0) for x, r in zip(place, ordered, strict=True) if r.delta is not None]
    if known:
        x, y, e = map(np.asarray, zip(*known, strict=True))
        ax.errorbar(x, y, yerr=e, color=LEARNT, fmt="o-", markersize=3, elinewidth=0.8)
        keys[r"$\delta_*(t)$"] = style.line_key(LEARNT)
    best = [(x, r.delta_alg) for x, r in zip(place, ordered, strict=True) if r.delta_alg is not None]
    if best:
        ax.plot(*zip(*best, strict=True), color=ALGORITHMIC, linestyle=style.DASHES[1], marker=".")
        keys[r"$\delta_\mathrm{alg}$"] = style.line_key(ALGORITHMIC, style.DASHES[1])
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    style.plain_log(ax.yaxis)
    ax.set_xlabel("step $t$")
    ax.set_ylabel(r"samples per dimension $\delta$")
    _time_ticks(ax, finite, beyond if len(finite) < len(ordered) else None)
    style.legend(figure, keys, columns=3)
    return figure


def _time_ticks(ax: Axes, finite: list[float], beyond: float | None) -> None:
    if len(finite) <= 8:
        ticks = sorted(set(finite))
    else:
        ticks = [t for t in MaxNLocator(6, integer=True).tick_values(min(finite), max(finite)) if t <= max(finite)]
    names = [f"{t:g}" for t in ticks]
    if beyond is not None:
        ticks, names = [*ticks, beyond], [*names, "∞"]
    ax.set_xticks(ticks, names)


def _delta_range(results: Sequence[Threshold]) -> tuple[float, float]:
    """An interval of delta that shows every number and lets an open window run out of the picture."""
    numbers = [v for r in results for v in (r.delta, r.delta_alg, *(x for w in r.windows for x in w)) if v]
    return (min(numbers) / 2, max(numbers) * 2.5) if numbers else (0.1, 100.0)


@style.styled
def learning_times(results: Sequence[LearningTime]) -> style.Figure:
    """Growth of the hidden variance with the quartiles of the learning time; over delta if there are several."""
    return _one_learning_time(results[0]) if len(results) == 1 else _learning_curve(results)


def _one_learning_time(result: LearningTime) -> style.Figure:
    figure = style.new_figure(style.COLUMN, 2.4)
    ax = figure.subplots()
    keys: dict[str, Any] = {}
    variance = np.asarray(result.hidden_variance, float)
    if variance.ndim == 3:
        variance = np.max(np.diagonal(variance, axis1=1, axis2=2), axis=1)
        name = "largest $v(t)$"
    else:
        name = "$v(t)$"
    time = np.arange(len(variance))
    ax.semilogy(time, variance, color=style.BLUE)
    keys[name] = style.line_key(style.BLUE)
    error = result.stderr.get("hidden_variance")
    if error is not None and np.ndim(error) == 1:
        e = np.nan_to_num(np.asarray(error, float))
        ax.fill_between(time, np.maximum(variance - e, variance / 10), variance + e, color=style.BLUE, alpha=0.25, lw=0)
    slow, median, fast = result.quartiles
    if fast is not None:
        ax.axvspan(fast, result.steps if slow is None else slow, color=LEARNT, alpha=0.18, linewidth=0)
        keys["middle half of runs"] = style.area_key(LEARNT)
    if median is not None:
        ax.axvline(median, color=LEARNT)
        keys[f"median {plain(median, 4)}"] = style.line_key(LEARNT)
    ax.set_xlim(0, result.steps)
    ax.set_xlabel("step $t$")
    ax.set_ylabel(r"$v(t)=d\;\mathrm{E}[(\theta_j\cdot\theta_*)^2]$")
    ax.set_title(
        rf"$\delta={plain(result.delta)}$, $d={result.dimension}$: "
        f"{result.success_probability:.0%} learn in {result.steps} steps"
    )
    style.legend(figure, keys, columns=3)
    return figure


def _learning_curve(results: Sequence[LearningTime]) -> style.Figure:
    by_delta = len({r.delta for r in results}) > 1

    def place(r: LearningTime) -> float:
        return float(r.delta if by_delta else r.dimension)

    groups = sorted({r.dimension for r in results}) if by_delta else [None]
    figure = style.new_figure(style.PAGE, 2.4)
    left, right = figure.subplots(1, 2)
    keys: dict[str, Any] = {}
    for group, colour in zip(groups, style.colours(len(groups)), strict=True):
        some = sorted((r for r in results if group in (None, r.dimension)), key=place)
        known = [r for r in some if r.time is not None]
        x = [place(r) for r in known]
        y = np.array([float(r.time or 0) for r in known])
        low = [float(r.quartiles[2] if r.quartiles[2] is not None else r.time or 0) for r in known]
        high = [float(r.quartiles[0] if r.quartiles[0] is not None else r.steps) for r in known]
        left.errorbar(x, y, yerr=[np.maximum(y - low, 0), np.maximum(high - y, 0)], color=colour, fmt="o-", capsize=2)
        right.plot([place(r) for r in some], [r.success_probability for r in some], "o-", color=colour)
        if group is not None and len(groups) > 1:
            keys[f"$d={group}$"] = style.line_key(colour)
    for number, ax in enumerate((left, right)):
        ax.set_xlabel(r"samples per dimension $\delta$" if by_delta else "dimension $d$")
        ax.set_xscale("linear" if by_delta else "log")
        style.letter(ax, number, ("time to learn (median, quartiles)", "probability of learning")[number])
    left.set_ylabel("steps")
    left.set_ylim(bottom=0)
    right.set_ylabel(f"within {max(r.steps for r in results)} steps")
    right.set_ylim(0, 1.05)
    style.legend(figure, keys)
    return figure
