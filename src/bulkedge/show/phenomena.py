"""The figure of a phenomenon, from the panels it declares and the dataset of its results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from bulkedge.foundation.phenomenon import Mark, Panel
from bulkedge.show import style
from bulkedge.show.numbers import plain

_LONG_NUMBER = re.compile(r"\d+\.\d{4,}")
COLUMNS = 3
MOST_PANELS = 24
_SYMBOLS = {
    "delta": r"$\delta$",
    "dimension": "$d$",
    "time": "$t$",
    "step_size": r"$\eta$",
    "width": "$m$",
    "steps": "$T$",
    "step": r"$\eta/\eta_0$",
}


@style.styled
def outcomes(results: Sequence[Any]) -> style.Figure:
    """The figure of an outcome of `bulkedge.run`."""
    if len(results) != 1:
        raise TypeError("one phenomenon makes one figure")
    dataset: xr.Dataset = results[0].dataset
    panels = [shown for panel in results[0].declaration().panels for shown in _expanded(panel, dataset)]
    panels = [shown for shown in panels if _something(*shown, dataset)][:MOST_PANELS] or panels[:1]
    columns = min(len(panels), 2 if len(panels) == 4 else COLUMNS)
    rows = -(-len(panels) // columns)
    width = style.PAGE if columns > 1 else style.COLUMN
    figure = style.new_figure(width, 0.35 + 2.2 * rows)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    kinds: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for number, (panel, where, ax) in enumerate(zip(*zip(*panels, strict=True), grid, strict=False)):
        _draw_panel(ax, panel, where, dataset, kinds, values)
        chosen = _chosen(panel, dataset) | where
        title = ", ".join(filter(None, [panel.title, *(name_value(axis, v) for axis, v in chosen.items())]))
        if len(panels) > 1:
            style.letter(ax, number, title)
        else:
            ax.set_title(title)
    for ax in grid[len(panels) :]:
        ax.set_visible(False)
    style.legend(figure, kinds | values, columns=5 if columns > 1 else 2)
    return figure


def name_value(axis: str, value: Any) -> str:
    """A coordinate's value for people: a word with its long numbers cut, a number with its name."""
    if isinstance(value, str):
        return _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.3g}", value)
    return f"{_SYMBOLS.get(axis, axis.replace('_', ' '))} = {plain(value)}"


def _expanded(panel: Panel, dataset: xr.Dataset) -> Iterator[tuple[Panel, dict[str, Any]]]:
    """The panel, or one for each value of its coordinate `each`."""
    if panel.each is None:
        yield panel, {}
    elif panel.each in dataset.coords:
        for value in dataset[panel.each].values:
            yield panel, {panel.each: value.item()}


def _something(panel: Panel, where: Mapping[str, Any], dataset: xr.Dataset) -> bool:
    """Whether any of the panel's marks has anything to draw."""
    marks = [mark for mark in panel.marks if _there(mark, dataset)]
    return any(bool(np.isfinite(_selected(dataset, mark, where)[mark.variable]).any()) for mark in marks)


def _chosen(panel: Panel, dataset: xr.Dataset) -> dict[str, Any]:
    """The values at which a panel's first mark is drawn, for its title."""
    mark = panel.marks[0]
    if not _there(mark, dataset):
        return {}
    there = dataset[[n for n in _names(mark) if n in dataset]]
    wanted = {axis: value for axis, value in (mark.where or {}).items() if axis in there.dims}
    wanted = {axis: value for axis, value in wanted.items() if there.sizes[axis] > 1}
    return {a: v if isinstance(v, str) else _nearest(there, mark, a, v) for a, v in wanted.items()}


def _colours(dataset: xr.Dataset, axis: str) -> Iterator[tuple[Any, Any]]:
    """A colour for each value of a coordinate, the same in every panel."""
    values = [v.item() for v in dataset[axis].values]
    return zip(values, style.colours(len(values)), strict=True)


def _draw_panel(
    ax: Axes,
    panel: Panel,
    where: Mapping[str, Any],
    dataset: xr.Dataset,
    kinds: dict[str, Any],
    values: dict[str, Any],
) -> None:
    """Draw the panel's marks; kinds and values collect the entries of the legend."""
    for mark in panel.marks:
        if not _there(mark, dataset):
            continue
        there = _selected(dataset, mark, where)
        if mark.by is None:
            drawn = _DRAW[mark.kind](ax, there, mark, _colour(mark))
        else:
            drawn = False
            for value, colour in _colours(dataset, mark.by):
                if value not in there[mark.by].values:
                    continue
                one = there.sel({mark.by: value}) if mark.by in there.dims else there
                if _DRAW[mark.kind](ax, one, mark, colour):
                    values[name_value(mark.by, value)] = style.line_key(colour)
                    drawn = True
        if drawn:
            kinds[_label(mark)] = _sign(mark)
    ax.set_xlabel(panel.xlabel)
    ax.set_ylabel(panel.ylabel)
    ax.set_xscale(panel.xscale)
    ax.set_yscale(panel.yscale)
    ax.set_ylim(*panel.ylim)
    ax.set_xlim(*panel.xlim)
    for axis, scale in ((ax.xaxis, panel.xscale), (ax.yaxis, panel.yscale)):
        if scale == "log":
            style.plain_log(axis)


def _there(mark: Mark, dataset: xr.Dataset) -> bool:
    """Whether the plan at hand has units of the mark's part, and the words that the mark is restricted to."""
    words = [(axis, word) for axis, word in (mark.where or {}).items() if isinstance(word, str)]
    return mark.variable in dataset and all(axis in dataset and word in dataset[axis].values for axis, word in words)


def _selected(dataset: xr.Dataset, mark: Mark, where: Mapping[str, Any]) -> xr.Dataset:
    """Only what the mark is about."""
    there = dataset[[n for n in _names(mark) if n in dataset]]
    for axis, value in {**(mark.where or {}), **where}.items():
        if axis in there.dims:
            there = there.sel({axis: value if isinstance(value, str) else _nearest(there, mark, axis, value)})
    return there


def _nearest(there: xr.Dataset, mark: Mark, axis: str, value: float) -> float:
    """The number nearest to `value` among those of a coordinate at which the mark has something."""
    counts = there[f"{mark.variable}_runs"]
    known = there[axis].values[(counts > 0).any([d for d in counts.dims if d != axis]).values]
    known = known if known.size else there[axis].values
    return known[np.argmin(np.abs(known - value))].item()


def _names(mark: Mark) -> list[str]:
    ends = ("", "_stderr", "_runs", "_each") if mark.kind == "curves" else ("", "_stderr", "_runs")
    return [f"{mark.variable}{end}" for end in ends] + ([mark.x] if mark.x else [])


def _column(there: xr.Dataset, name: str, mark: Mark) -> tuple[np.ndarray, np.ndarray]:
    """The values of a variable along the horizontal axis, and where they stand on it."""
    values, x = xr.broadcast(there[name], there[mark.x])
    free = [d for d in values.dims if values.sizes[d] > 1]
    if len(free) > 1:
        raise ValueError(
            f"{mark.variable} has the axes {', '.join(map(str, free))} left; give them to by, each or where"
        )
    return np.ravel(x.values).astype(float), np.ravel(values.values).astype(float)


def _points(ax: Axes, there: xr.Dataset, mark: Mark, colour: Any) -> bool:
    x, y = _column(there, mark.variable, mark)
    _, error = _column(there, f"{mark.variable}_stderr", mark)
    here = np.isfinite(x) & np.isfinite(y)
    ax.errorbar(
        x[here],
        y[here],
        yerr=np.nan_to_num(error[here]),
        fmt=style.MARKERS[mark.dash % len(style.MARKERS)],
        color=colour,
        markerfacecolor="white",
        markeredgewidth=0.8,
        elinewidth=0.8,
        zorder=4,
    )
    return bool(here.any())


def _line(ax: Axes, there: xr.Dataset, mark: Mark, colour: Any) -> bool:
    x, y = _column(there, mark.variable, mark)
    _, error = _column(there, f"{mark.variable}_stderr", mark)
    here = np.isfinite(x) & np.isfinite(y)
    x, y, error = x[here], y[here], np.nan_to_num(error[here])
    order = np.argsort(x, kind="stable")
    x, y, error = x[order], y[order], error[order]
    ax.plot(x, y, color=colour, linestyle=_dash(mark), marker="_" if len(x) == 1 else "")
    if np.any(error > 0):
        ax.fill_between(x, y - error, y + error, color=colour, alpha=0.25, linewidth=0)
    return bool(here.any())


def _curves(ax: Axes, there: xr.Dataset, mark: Mark, colour: Any) -> bool:
    drawn = False
    for seed in there["seed"].values:
        x, y = _column(there.sel(seed=seed), f"{mark.variable}_each", mark)
        here = np.isfinite(x) & np.isfinite(y)
        ax.plot(x[here], y[here], color=colour, linestyle=_dash(mark), linewidth=0.6, alpha=0.45)
        drawn = drawn or bool(here.any())
    return drawn


def _histogram(ax: Axes, there: xr.Dataset, mark: Mark, colour: Any) -> bool:
    x, y = _column(there, mark.variable, mark)
    here = np.isfinite(x) & np.isfinite(y)
    x, y = x[here], y[here]
    if len(x) < 2:
        return False
    middle = 0.5 * (x[1:] + x[:-1])
    edges = np.concatenate([[1.5 * x[0] - 0.5 * x[1]], middle, [1.5 * x[-1] - 0.5 * x[-2]]])
    ax.stairs(y, edges, fill=True, color=colour, alpha=0.3, linewidth=0)
    return True


def _rule(ax: Axes, there: xr.Dataset, mark: Mark, colour: Any) -> bool:
    return _straight(ax.axvline, ax.axvspan, there, mark, colour)


def _level(ax: Axes, there: xr.Dataset, mark: Mark, colour: Any) -> bool:
    return _straight(ax.axhline, ax.axhspan, there, mark, colour)


def _straight(line: Any, span: Any, there: xr.Dataset, mark: Mark, colour: Any) -> bool:
    values = np.ravel(there[mark.variable].values).astype(float)
    errors = np.nan_to_num(np.ravel(there[f"{mark.variable}_stderr"].values).astype(float))
    here = np.isfinite(values)
    for value, error in set(zip(values[here], errors[here], strict=True)):
        line(value, color=colour, linestyle=_dash(mark), linewidth=1.0)
        if error > 0:
            span(value - error, value + error, color=colour, alpha=0.2, linewidth=0)
    return bool(here.any())


_DRAW = {
    "points": _points,
    "line": _line,
    "curves": _curves,
    "histogram": _histogram,
    "rule": _rule,
    "level": _level,
}
_USUAL = {"points": "measured", "line": "predicted", "curves": "single runs", "histogram": "measured"}


def _colour(mark: Mark) -> Any:
    """Of a mark that is not by anything."""
    if mark.colour:
        return style.CYCLE[(mark.colour - 1) % len(style.CYCLE)]
    return style.VERMILLION if mark.kind == "rule" else style.BLACK


def _dash(mark: Mark) -> Any:
    return style.DASHES[mark.dash % len(style.DASHES)]


def _label(mark: Mark) -> str:
    return mark.label or _USUAL.get(mark.kind) or mark.variable.replace("_", " ")


def _sign(mark: Mark) -> Any:
    colour = style.BLACK if mark.by is not None else _colour(mark)
    if mark.kind == "points":
        return style.point_key(colour, style.MARKERS[mark.dash % len(style.MARKERS)])
    if mark.kind == "histogram":
        return style.area_key(colour)
    key = style.line_key(colour, _dash(mark))
    if mark.kind == "curves":
        key.set_linewidth(0.6)
    return key
