"""Figures and reports of answers. Computes nothing; matplotlib is imported when something is drawn."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from bulkedge.foundation.result import PLOTTERS, Result

_DRAWERS = {
    "Threshold": ("bulkedge.show.thresholds", "thresholds"),
    "LearningTime": ("bulkedge.show.thresholds", "learning_times"),
    "Spectrum": ("bulkedge.show.spectra", "spectra"),
    "Trajectory": ("bulkedge.show.curves", "curves"),
    "Simulation": ("bulkedge.show.simulations", "simulations"),
    "Comparison": ("bulkedge.show.comparison", "comparisons"),
    "Design": ("bulkedge.show.designs", "designs"),
    "Outcome": ("bulkedge.show.phenomena", "outcomes"),
}


def draw(results: Result | Sequence[Result], **options: Any) -> Any:
    """One figure of one answer, or of several of the same kind (other times, other delta)."""
    several = [results] if isinstance(results, Result) else list(results)
    kinds = {_kind(r) for r in several}
    if len(kinds) != 1 or not kinds <= set(_DRAWERS):
        raise TypeError(f"cannot draw {', '.join(sorted(kinds)) or 'nothing'} in one figure")
    module, name = _DRAWERS[kinds.pop()]
    return getattr(importlib.import_module(module), name)(several, **options)


def _kind(result: Result) -> str:
    """The name of the nearest class that is drawn."""
    names = [kind.__name__ for kind in type(result).__mro__]
    return next((name for name in names if name in _DRAWERS), names[0])


def save(figure: Any, path: Any, dpi: int = 300) -> Any:
    """Write a figure as .png, .svg or .pdf, by its suffix; returns the path."""
    from bulkedge.show.style import save

    return save(figure, path, dpi)


def report(comparison: Any, path: Any, **options: Any) -> Any:
    """Write one self-contained HTML page about a comparison; returns the path."""
    from bulkedge.show.page import write

    return write(comparison, path, **options)


PLOTTERS.update(dict.fromkeys(_DRAWERS, draw))

__all__ = ["draw", "report", "save"]
