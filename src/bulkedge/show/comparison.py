"""Prediction and measurement in one figure: the curves above, the spectra below."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bulkedge.foundation.answers import Comparison
from bulkedge.foundation.errors import BadInput
from bulkedge.show import curves, spectra, style


@style.styled
def comparisons(results: Sequence[Comparison], part: str = "all") -> style.Figure:
    """A figure of a comparison. part: "all", or "curves" or "spectra" alone. Several share the curves' panels."""
    if part not in ("all", "curves", "spectra"):
        raise BadInput("part", f"must be one of all, curves, spectra, not {part!r}")
    if part == "curves" or (len(results) > 1 and part == "all") or not any(r.spectra for r in results):
        return curves.curves([c for r in results for c in (r.trajectory, r.simulation)])
    pairs = [(s, r) for r in results for s in r.spectra]
    rows = [(b, spectra.measured_at(r.simulation, s.time, j)) for s, r in pairs for j, b in _blocks(s)]
    everything = [s for s, _ in pairs]
    shown = curves.panels([c for r in results for c in (r.trajectory, r.simulation)]) if part == "all" else []
    figure = style.new_figure(style.PAGE, 0.45 + (2.1 if shown else 0) + 2.0 * len(rows))
    keys: dict[str, Any] = {}
    bottom: Any = figure
    if shown:
        halves: Any = figure.subfigures(2, 1, height_ratios=[2.2, 2.0 * len(rows)])
        top, bottom = halves
        axes = top.subplots(1, len(shown), squeeze=False)[0]
        keys |= curves.draw_curves(axes, [results[0].trajectory, results[0].simulation], shown)
    axes = bottom.subplots(len(rows), 2, squeeze=False)
    for i, (spectrum, seen) in enumerate(rows):
        title = spectra.title_of(spectrum, everything)
        found = spectra.draw_spectrum(axes[i], spectrum, seen, title, first=len(shown) + 2 * i)
        if "theory" in keys:  # the curves' entry says it already
            found.pop("measured", None)
        keys |= found
    style.legend(figure, keys)
    return figure


def _blocks(spectrum: Any) -> list[tuple[int, Any]]:
    return list(enumerate(spectra.blocks_of(spectrum)[: spectra.MOST_BLOCKS]))
