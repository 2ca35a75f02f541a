"""The spectrum of the Hessian: bulk, edges, outliers by kind, and measured eigenpairs beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bulkedge.foundation.answers import Outlier, Simulation, Spectrum
from bulkedge.show import style
from bulkedge.show.numbers import plain, time_name

MOST_BLOCKS = 6


@dataclass(frozen=True)
class Measured:
    """Eigenvalues of a trained network and the squared overlaps of their vectors, with standard errors, all (p,)."""

    values: np.ndarray
    overlap2: np.ndarray
    value_errors: np.ndarray
    overlap_errors: np.ndarray


def at_time(table: Mapping[Any, Any] | None, time: Any) -> Any:
    """The entry of {time: ...} at a time, however the key was written; None where there is none."""
    if not table or time is None:
        return None
    return next((v for k, v in table.items() if float(k) == float(time)), None)


def measured_at(simulation: Simulation | None, time: Any, block: int = 0) -> Measured | None:
    """What a simulation measured at a time, for one neuron's block."""
    values = None if simulation is None else at_time(simulation.eigenvalues, time)
    if simulation is None or values is None:
        return None

    def pick(entry: Any) -> np.ndarray:
        if entry is None:
            return np.full(np.shape(x), np.nan)
        array = np.asarray(entry, float)
        return array[block] if array.ndim == 2 else array

    x = pick(values)
    errors = {name: at_time(simulation.stderr.get(name), time) for name in ("eigenvalues", "overlap2")}
    return Measured(x, pick(at_time(simulation.overlap2, time)), pick(errors["eigenvalues"]), pick(errors["overlap2"]))


def blocks_of(spectrum: Spectrum) -> list[Spectrum]:
    """The spectra a result holds: one per neuron, or itself."""
    return list(spectrum.blocks) if spectrum.blocks else [spectrum]


@style.styled
def spectra(results: Sequence[Spectrum], simulation: Simulation | None = None) -> style.Figure:
    """One row per spectrum: the whole of it, and its left edge, where the features leave the bulk."""
    rows = [(s, measured_at(simulation, s.time, j)) for r in results for j, s in enumerate(blocks_of(r)[:MOST_BLOCKS])]
    figure = style.new_figure(style.PAGE, 0.35 + 2.0 * len(rows))
    axes = figure.subplots(len(rows), 2, squeeze=False)
    keys: dict[str, Any] = {}
    for i, (spectrum, seen) in enumerate(rows):
        keys |= draw_spectrum(axes[i], spectrum, seen, title_of(spectrum, results), first=2 * i)
    style.legend(figure, keys)
    return figure


def title_of(spectrum: Spectrum, results: Sequence[Spectrum]) -> str:
    """Which of the spectra this is: its time, delta and, where there are several, neuron."""
    parts = [rf"$t={time_name(spectrum.time)}$"] if spectrum.time is not None else []
    parts.append(rf"$\delta={plain(spectrum.delta)}$")
    counts = [len(blocks_of(r)) for r in results]
    if max(counts) > 1:
        parts.append(f"neuron {spectrum.neuron + 1} of {max(counts)}")
    return ", ".join(parts)


def draw_spectrum(
    axes: Sequence[Axes], spectrum: Spectrum, seen: Measured | None, title: str, first: int = 0
) -> dict[str, Any]:
    """The whole spectrum on the first axes, its left end on the second; returns the legend's entries."""
    keys = _bulk(axes[0], spectrum)
    keys |= _outliers(axes[0], spectrum.outliers, labelled=False)
    axes[0].set_ylim(bottom=0)
    style.letter(axes[0], first, f"spectrum, {title}")

    low, high = _left_window(spectrum, seen)
    _bulk(axes[1], spectrum)
    inside = [o for o in spectrum.outliers if low <= o.value <= high]
    axes[1].set_xlim(low, high)
    _fit_height(axes[1], spectrum, low, high)
    keys |= _outliers(axes[1], inside, labelled=True)
    if seen is not None:
        _points(axes[1], seen)
        keys["measured"] = style.point_key()
    style.letter(axes[1], first + 1, "left edge")
    return keys


def _bulk(ax: Axes, spectrum: Spectrum) -> dict[str, Any]:
    x, y = (np.asarray(spectrum.density[c], float) for c in ("x", "y"))
    ax.fill_between(x, 0, y, color=style.BLUE, alpha=0.22, linewidth=0)
    ax.plot(x, y, color=style.BLUE, linewidth=1.0)
    for edge, error in (
        (spectrum.edge, spectrum.edge_stderr),
        (spectrum.right_edge, spectrum.right_edge_stderr),
    ):
        if np.isfinite(edge):
            ax.axvline(edge, color=style.BLACK, linewidth=0.8, linestyle=style.DASHES[1])
            if error:
                ax.axvspan(edge - error, edge + error, color=style.BLACK, alpha=0.15, linewidth=0)
    keys = {"bulk": style.area_key(style.BLUE), "edge": style.line_key(style.BLACK, style.DASHES[1])}
    if spectrum.atom > 0:
        ax.axvline(0, color=style.GREY, linewidth=0.8, linestyle=style.DASHES[2])
        keys[f"atom at 0, mass {plain(spectrum.atom, 3)}"] = style.line_key(style.GREY, style.DASHES[2])
    ax.set_xlabel(style.EIGENVALUE)
    ax.set_ylabel("density")
    return keys


def _overlap_axis(ax: Axes) -> Axes:
    """The axis at the right on which outliers and measured eigenvectors stand."""
    twin = next((a for a in ax.figure.axes if a is not ax and a.bbox is ax.bbox), None)
    if twin is None:
        twin = ax.twinx()
        twin.spines["right"].set_visible(True)
        twin.set_ylim(0, 1.08)
        twin.set_ylabel("squared overlap")
    return twin


def _outliers(ax: Axes, outliers: Sequence[Outlier], *, labelled: bool) -> dict[str, Any]:
    right = _overlap_axis(ax)
    keys = {}
    for outlier in outliers:
        colour = style.KINDS.get(outlier.kind, style.BLACK)
        right.vlines(outlier.value, 0, outlier.overlap2, color=colour, linewidth=1.4)
        right.errorbar(
            outlier.value,
            outlier.overlap2,
            xerr=outlier.stderr or None,
            yerr=outlier.overlap2_stderr or None,
            fmt="D",
            markersize=3.5,
            color=colour,
            elinewidth=0.8,
        )
        keys[f"{outlier.kind} outlier"] = _stem_key(colour)
        if labelled:
            chance = "" if outlier.probability >= 0.995 else f"\nexists: {outlier.probability:.0%}"
            right.annotate(
                f"{plain(outlier.value, 4).replace('-', '−')}{chance}",
                (outlier.value, outlier.overlap2),
                xytext=(0, 6),
                textcoords="offset points",
                ha="center",
                va="bottom",
                fontsize=7.5,
                color=colour,
            )
    return keys


def _stem_key(colour: Any) -> Any:
    key = style.line_key(colour)
    key.set_marker("D")
    return key


def _points(ax: Axes, seen: Measured) -> None:
    _overlap_axis(ax).errorbar(
        seen.values,
        np.nan_to_num(seen.overlap2),
        xerr=np.nan_to_num(seen.value_errors),
        yerr=np.nan_to_num(seen.overlap_errors),
        fmt="o",
        color=style.BLACK,
        markerfacecolor="white",
        markeredgewidth=0.8,
        elinewidth=0.8,
        zorder=4,
        clip_on=False,
    )


def _left_window(spectrum: Spectrum, seen: Measured | None) -> tuple[float, float]:
    """An interval around the left edge that holds the outliers left of it and every measured eigenvalue."""
    points = [spectrum.edge, *(o.value for o in spectrum.outliers if o.value < spectrum.edge)]
    if seen is not None:
        points += [float(v) for v in seen.values if np.isfinite(v)]
    low, high = min(points), max(points)
    span = max(high - low, 0.08 * (spectrum.right_edge - spectrum.edge))
    return low - 0.4 * span, high + 0.4 * span


def _fit_height(ax: Axes, spectrum: Spectrum, low: float, high: float) -> None:
    x, y = (np.asarray(spectrum.density[c], float) for c in ("x", "y"))
    inside = y[(x >= low) & (x <= high)]
    top = float(np.max(inside, initial=0.0))
    ax.set_ylim(0, 1.4 * top if top > 0 else 1.0)
