"""Curves over training time: losses, norm, overlap, hidden variance; theory as lines, measurements as points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from bulkedge.foundation.answers import Simulation, Trajectory
from bulkedge.show import style
from bulkedge.show.numbers import plain

Curve = Trajectory | Simulation
MOST_MARKERS = 21
SEEN = 1e-6
"""An overlap smaller than this is zero by symmetry and gets no panel."""


@dataclass(frozen=True)
class Panel:
    """What one panel shows: fields of a result that share an axis."""

    fields: tuple[str, ...]
    title: str
    label: str


LOSS = Panel(("train_loss", "test_loss"), "loss", "loss")
NORM = Panel(("norm2",), "norm", r"$|\theta_j|^2$")
COSINE = Panel(("cosine",), "overlap", r"$\theta_j\cdot\theta_*\,/\,|\theta_j|$")
HIDDEN = Panel(("hidden_variance",), "hidden variance", r"$v(t)=d\;\mathrm{E}[(\theta_j\cdot\theta_*)^2]$")


def panels(results: Sequence[Curve]) -> list[Panel]:
    """The panels worth drawing: an overlap that theory says is zero is left to the hidden variance."""
    shown = [LOSS, NORM]
    if any(_moves(r.cosine) for r in results if isinstance(r, Trajectory)) or all(
        r.hidden_variance is None for r in results
    ):
        shown.append(COSINE)
    if any(r.hidden_variance is not None for r in results):
        shown.append(HIDDEN)
    return shown


def _moves(values: Any) -> bool:
    finite = np.nan_to_num(np.asarray(values, float))
    return bool(finite.size and np.max(np.abs(finite)) > SEEN)


def components(field: str, values: Any, neurons: int) -> Iterator[tuple[int, int, np.ndarray]]:
    """(neuron, direction, curve) of a per-time field; a variance gives its diagonal, neuron by neuron."""
    array = np.asarray(values, float)
    if array.ndim == 1:
        yield 0, 0, array
    elif field == "hidden_variance":
        directions = array.shape[1] // neurons
        for i in range(array.shape[1]):
            yield i // directions, i % directions, array[:, i, i]
    elif array.ndim == 2:
        for j in range(array.shape[1]):
            yield j, 0, array[:, j]
    else:
        for j in range(array.shape[1]):
            for i in range(array.shape[2]):
                yield j, i, array[:, j, i]


def width_of(result: Curve) -> int:
    """The number of neurons, read off the norms."""
    shape = np.shape(result.norm2)
    return shape[1] if len(shape) > 1 else 1


def directions_of(result: Curve) -> int:
    """The number of latent directions, read off the overlaps."""
    shape = np.shape(result.overlap)
    return shape[2] if len(shape) > 2 else 1


@style.styled
def curves(results: Sequence[Curve]) -> style.Figure:
    """One figure of trajectories or simulations; several of them (other delta) share the panels."""
    shown = panels(results)
    figure = style.new_figure(style.PAGE, 2.35)
    axes = figure.subplots(1, len(shown), squeeze=False)[0]
    style.legend(figure, draw_curves(axes, results, shown))
    return figure


def draw_curves(axes: Sequence[Axes], results: Sequence[Curve], shown: Sequence[Panel]) -> dict[str, Any]:
    """Draw the panels on given axes; returns the legend's entries."""
    look = _Look.of(results)
    keys = look.keys(results)
    for number, (ax, panel) in enumerate(zip(axes, shown, strict=True)):
        # Measurements last, on top of the bands.
        for result in sorted(results, key=lambda r: isinstance(r, Simulation)):
            for order, field in enumerate(panel.fields):
                values = getattr(result, field)
                if values is None:
                    continue
                if isinstance(result, Simulation):
                    _each_seed(ax, result, field, order, look)
                spread = _errors(result, field, values)
                errors = {(j, i): e for j, i, e in components(field, spread, width_of(result))}
                for j, i, curve in components(field, values, width_of(result)):
                    colour, dash = look.colour_and_dash(result, field, order, j, i)
                    _one(ax, result, curve, errors[j, i], colour, dash, style.MARKERS[order])
        ax.set_xlabel("step $t$")
        ax.set_ylabel(panel.label)
        ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
        style.letter(ax, number, panel.title)
    return keys


@dataclass(frozen=True)
class _Look:
    """Which property of a curve its colour and dash tell: delta, neuron, or training against test."""

    deltas: tuple[float, ...]
    neurons: int
    directions: int

    @classmethod
    def of(cls, results: Sequence[Curve]) -> _Look:
        deltas = tuple(sorted({float(r.delta) for r in results}))
        return cls(deltas, max(map(width_of, results)), max(map(directions_of, results)))

    def colour_and_dash(self, result: Curve, field: str, order: int, neuron: int, direction: int) -> tuple[Any, Any]:
        if len(self.deltas) > 1:
            dash = style.DASHES[(order if field.endswith("loss") else direction) % len(style.DASHES)]
            return style.colours(len(self.deltas))[self.deltas.index(float(result.delta))], dash
        if field.endswith("loss"):
            return (style.GREY, style.BLACK)[order] if self.neurons > 1 else style.CYCLE[order], "-"
        return style.colours(self.neurons)[neuron], style.DASHES[direction % len(style.DASHES)]

    def keys(self, results: Sequence[Curve]) -> dict[str, Any]:
        entries: dict[str, Any] = {}
        if len({type(r) for r in results}) > 1:
            entries = {"theory": style.line_key(), "trained networks": style.point_key()}
        if len(self.deltas) > 1:
            entries["training"] = _pair_key(results, style.BLACK, 0, style.DASHES[0])
            entries["test"] = _pair_key(results, style.BLACK, 1, style.DASHES[1])
            shades = zip(self.deltas, style.colours(len(self.deltas)), strict=True)
            return entries | {rf"$\delta={plain(d)}$": style.line_key(c) for d, c in shades}
        pair = (style.GREY, style.BLACK) if self.neurons > 1 else style.CYCLE[:2]
        entries |= {name: _pair_key(results, pair[i], i) for i, name in enumerate(("training", "test"))}
        if self.neurons > 1:
            shades = style.colours(self.neurons)
            named = range(self.neurons) if self.neurons <= len(style.CYCLE) else (0, self.neurons - 1)
            entries |= {f"neuron {j + 1}": style.line_key(shades[j]) for j in named}
        if self.directions > 1:
            dashes = enumerate(style.DASHES[: self.directions])
            entries |= {f"direction {i + 1}": style.line_key(style.GREY, dash) for i, dash in dashes}
        return entries


def _pair_key(results: Sequence[Curve], colour: Any, order: int, dash: Any = "-") -> Any:
    """The legend's sign for the training or the test loss: as line, as marker, or both, as they are drawn."""
    key = style.line_key(colour, dash if any(isinstance(r, Trajectory) for r in results) else "")
    if any(isinstance(r, Simulation) for r in results):
        key.set_marker(style.MARKERS[order])
        key.set_markerfacecolor("white")
    return key


def _errors(result: Curve, field: str, values: Any) -> np.ndarray:
    """The standard errors of a field, NaN where none are known."""
    known = result.stderr.get(field)
    shape = np.shape(values)
    return np.full(shape, np.nan) if known is None else np.broadcast_to(np.asarray(known, float), shape)


def _one(ax: Axes, result: Curve, curve: np.ndarray, error: np.ndarray, colour: Any, dash: Any, marker: str) -> None:
    time = np.asarray(result.time, float)
    spread = np.nan_to_num(error)
    if isinstance(result, Trajectory):
        ax.plot(time, curve, color=colour, linestyle=dash)
        ax.fill_between(time, curve - spread, curve + spread, color=colour, alpha=0.25, linewidth=0)
        return
    some = np.unique(np.linspace(0, len(time) - 1, min(len(time), MOST_MARKERS)).round().astype(int))
    ax.errorbar(
        time[some],
        curve[some],
        yerr=spread[some],
        fmt=marker,
        color=colour,
        markerfacecolor="white",
        markeredgewidth=0.8,
        elinewidth=0.8,
        zorder=3,
    )


def _each_seed(ax: Axes, result: Simulation, field: str, order: int, look: _Look) -> None:
    """The single runs behind the mean, faint; a variance is made of all seeds and has none."""
    if field == "hidden_variance":
        return
    for seed in result.seeds:
        values = seed.get(field)
        if values is None:
            continue
        for j, i, curve in components(field, values, width_of(result)):
            colour, _ = look.colour_and_dash(result, field, order, j, i)
            ax.plot(np.asarray(result.time)[: len(curve)], curve, color=colour, alpha=0.2, linewidth=0.5, zorder=1)
