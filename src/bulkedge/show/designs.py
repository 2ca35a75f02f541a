"""A design: how far it comes towards the best algorithm, which preprocessing it amounts to, and what training says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bulkedge.foundation.answers import Design
from bulkedge.show import style
from bulkedge.show.numbers import plain

BEFORE, AFTER, BEST = style.GREY, style.VERMILLION, style.GREEN
_RANGE, _SHOWN = 12.0, 4.0
"""Values of a preprocessing further out than the first are no part of its line, which has poles; nor is the figure
higher than the second."""


@style.styled
def designs(results: Sequence[Design]) -> style.Figure:
    """Thresholds, preprocessing and, where it was verified, success: one row for each design."""
    columns = 3 if any(r.verified for r in results) else 2
    figure = style.new_figure(style.PAGE, 0.5 + 2.1 * len(results))
    axes = figure.subplots(len(results), columns, squeeze=False)
    keys: dict[str, Any] = {
        "default": style.area_key(BEFORE, 1.0),
        "winner": style.area_key(AFTER, 1.0),
        "best possible": style.line_key(BEST, style.DASHES[1]),
    }
    for i, r in enumerate(results):
        _thresholds(axes[i, 0], r)
        _preprocessing(axes[i, 1], r)
        titles = ["threshold at $t=0$", "preprocessing of the labels", "training"]
        if r.verified is not None:
            _training(axes[i, 2], r.verified)
            keys["predicted"], keys["measured"] = style.area_key(style.BLACK), style.point_key()
        elif columns == 3:
            axes[i, 2].set_axis_off()
        for j, title in enumerate(titles[:columns]):
            style.letter(axes[i, j], columns * i + j, title)
    style.legend(figure, keys)
    return figure


def _thresholds(ax: Axes, r: Design) -> None:
    for place, (side, colour) in enumerate(((r.before, BEFORE), (r.after, AFTER))):
        if side["delta"] is None:
            ax.text(place, 0.5, "none", ha="center", transform=ax.get_xaxis_transform())
            continue
        ax.bar(place, side["delta"], 0.6, color=colour)
        ax.text(place, side["delta"], plain(side["delta"], 3), ha="center", va="bottom")
    if r.delta_alg is not None:
        ax.axhline(r.delta_alg, color=BEST, linestyle=style.DASHES[1])
    ax.set_xlim(-0.6, 1.6)
    ax.margins(y=0.15)
    ax.set_xticks([0, 1], ["default", "winner"])
    ax.set_ylabel(r"samples per dimension $\delta$")


def _preprocessing(ax: Axes, r: Design) -> None:
    y, mass = np.asarray(r.preprocessing["y"], float), np.asarray(r.preprocessing["mass"], float)
    order = np.argsort(y)
    y, level = y[order], np.cumsum(mass[order]) / mass.sum()
    few = y.size <= 10
    inside = np.full(y.size, True) if few else (level > 0.002) & (level < 0.998)
    seen = []
    for name, colour, dash in (("realised", AFTER, "-"), ("optimal", BEST, style.DASHES[1])):
        values = np.array([np.nan if v is None else v for v in r.preprocessing[name]], float)[order]
        values[np.abs(values) > _RANGE] = np.nan
        ax.plot(y[inside], values[inside], color=colour, linestyle=dash, marker="o" if few else None)
        seen.append(values[inside])
    low, high = float(np.nanmin(seen)), float(np.nanmax(seen))
    if not few:
        ax.set_ylim(max(low, -_SHOWN) - 0.1, min(high, _SHOWN) + 0.1)
    ax.set_xlabel("label $y$")
    ax.set_ylabel("$T(y)$")


def _training(ax: Axes, found: dict[str, Any]) -> None:
    for place, (name, colour) in enumerate((("before", BEFORE), ("after", AFTER))):
        ax.bar(place, found["predicted"][name], 0.6, color=colour, alpha=0.35)
        ax.errorbar(place, found["measured"][name], found["measured_stderr"][name], color=colour, fmt="o", capsize=2)
    ax.set_xlim(-0.6, 1.6)
    ax.set_ylim(0.0, 1.05)
    ax.set_xticks([0, 1], ["default", "winner"])
    ax.set_ylabel("fraction that learns")
    ax.set_xlabel(rf"$\delta={plain(found['delta'], 3)}$, $d={found['dimension']}$, {found['steps']} steps")
