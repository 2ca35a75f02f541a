"""Roots of functions of one variable, always inside a bracket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from scipy.optimize import brentq


def bracketed(f: Callable[[float], float], low: float, high: float, xtol: float = 1e-13) -> float:
    """The root of f between `low` and `high`, where f must change its sign, by Brent's method."""
    tight: Any = 1e-14
    return float(cast(float, brentq(f, low, high, xtol=xtol, rtol=tight)))
