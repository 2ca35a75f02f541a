"""Trained networks: their curves and, where spectra were measured, their lowest eigenpairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from bulkedge.foundation.answers import Simulation
from bulkedge.show import curves, style
from bulkedge.show.numbers import time_name
from bulkedge.show.spectra import measured_at


@style.styled
def simulations(results: Sequence[Simulation]) -> style.Figure:
    """One figure of simulations; a single one also shows its eigenpairs."""
    if len(results) > 1 or not results[0].eigenvalues:
        return curves.curves(results)
    result = results[0]
    shown = curves.panels(results)
    figure = style.new_figure(style.PAGE, 4.6)
    halves: Any = figure.subfigures(2, 1)
    top, bottom = halves
    keys = curves.draw_curves(top.subplots(1, len(shown), squeeze=False)[0], results, shown)
    _eigenpairs(bottom.subplots(), result, letter=len(shown))
    style.legend(figure, keys)
    bottom.legend(loc="outside right upper")
    return figure


def _eigenpairs(ax: Axes, result: Simulation, letter: int) -> None:
    """Squared overlap against eigenvalue, coloured by time, a marker for each neuron."""
    times = sorted(result.eigenvalues, key=float)
    neurons = max(np.atleast_2d(result.eigenvalues[t]).shape[0] for t in times)
    for time, colour in zip(times, style.colours(len(times)), strict=True):
        for j in range(np.atleast_2d(result.eigenvalues[time]).shape[0]):
            seen = measured_at(result, time, j)
            if seen is None:
                continue
            ax.errorbar(
                seen.values,
                seen.overlap2,
                xerr=np.nan_to_num(seen.value_errors),
                yerr=np.nan_to_num(seen.overlap_errors),
                fmt=style.MARKERS[j % len(style.MARKERS)],
                color=colour,
                markerfacecolor="white",
                markeredgewidth=0.8,
                elinewidth=0.8,
                label=rf"$t={time_name(time)}$" + (f", neuron {j + 1}" if neurons > 1 else ""),
            )
    ax.set_ylim(-0.03, 1.05)
    ax.set_xlabel(style.EIGENVALUE)
    ax.set_ylabel("squared overlap")
    style.letter(ax, letter, "lowest eigenpairs")
