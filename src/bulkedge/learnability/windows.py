"""The set of delta where a negative hidden outlier exists, as intervals (theory 1.3, 1.4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from bulkedge.foundation.roots import bracketed
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.law import WeightLaw

LOW, HIGH = 1e-3, 1e6
"""The range of delta searched."""

Window = tuple[float, float | None]


@dataclass(frozen=True, eq=False)
class Chart:
    """Where outlier number `which` (0: the lowest) begins and ends, for a law that does not depend on delta.

    With T = beta G/(1 + beta G), beta ends the search for an outlier at exactly one delta: at 1/E[T^2] if it is the
    edge there, at 1/E[T] if z = psi(beta) reaches zero first; that is, at 1/D(beta) with D = max(E[T^2], E[T]), which
    increases. The outlier exists at that delta iff lambda_which(E[T(s s^T - I)]) + D < 0.
    """

    law: WeightLaw
    which: int = 0

    def at(self, u: float) -> tuple[float, float]:
        """(log D, 1 + lambda_which/D): relative to D, so that the sign survives where everything vanishes."""
        beta = bulk.beta_of(self.law, u)
        t = bulk.transform(self.law, beta)
        size = max(float(self.law.mean(t * t)), float(self.law.mean(t)), 1e-300)
        return math.log(size), 1.0 + float(outliers.signal(self.law, beta)[self.which]) / size

    def margin(self, u: float) -> float:
        return self.at(u)[1]

    def delta(self, u: float) -> float:
        return math.exp(-self.at(u)[0])

    @cached_property
    def grid(self) -> np.ndarray:
        """Points u from delta = HIGH to LOW, as far as the chart goes."""
        first = _where(lambda u: self.at(u)[0] + math.log(HIGH))
        return np.linspace(first, _where(lambda u: self.at(u)[0] + math.log(LOW)), 121)


def of_fixed_law(law: WeightLaw, which: int = 0) -> list[Window]:
    """Windows for a law of (G, s) that does not depend on delta, as at t = 0.

    They end at the roots of a function of beta (see `Chart`), and no search over delta is needed.
    """
    chart = Chart(law, which)
    first, last = chart.grid[0], chart.grid[-1]
    # From large beta to small, that is from small delta to large.
    found = intervals(chart.margin, chart.grid[::-1])
    return [(chart.delta(a) if a != last else LOW, None if b == first else chart.delta(b)) for a, b in found]


def _where(f: Callable[[float], float]) -> float:
    low, high = -bulk.FAR, bulk.FAR
    if f(low) >= 0:
        return low
    return high if f(high) <= 0 else bracketed(f, low, high, xtol=1e-9)


def intervals(margin: Callable[[float], float], grid: np.ndarray) -> list[tuple[float, float]]:
    """The intervals where a margin is negative, in the order of a monotone grid; ends at grid ends stay there.

    Sign changes are bracketed by the grid; a dip below zero between its points is looked for at each local minimum.
    """
    xs, values = [float(x) for x in grid], [margin(float(x)) for x in grid]
    for i in range(len(xs) - 2, 0, -1):
        if values[i] > 0 and values[i] <= values[i - 1] and values[i] <= values[i + 1]:
            ends = sorted((xs[i - 1], xs[i + 1]))
            dip: Any = minimize_scalar(
                margin, bounds=ends, method="bounded", options={"xatol": 1e-3 * (ends[1] - ends[0])}
            )
            if dip.fun < 0:
                after = (dip.x - xs[i]) * (xs[i + 1] - xs[i]) > 0
                xs.insert(i + after, float(dip.x))
                values.insert(i + after, float(dip.fun))
    found: list[tuple[float, float]] = []
    start = xs[0] if values[0] < 0 else None
    for x, v, y, w in zip(xs, values, xs[1:], values[1:], strict=False):
        if v >= 0 > w:
            start = bracketed(margin, x, y)
        elif v < 0 <= w and start is not None:
            found.append((start, bracketed(margin, x, y)))
            start = None
    if start is not None:
        found.append((start, xs[-1]))
    return found


def margin_at(law: WeightLaw, delta: float) -> float:
    """1 + delta lambda_min(E[T(s s^T - I)]) where the search ends: negative iff an outlier exists."""
    edge = bulk.left_edge(law, delta)
    return float(np.min(outliers.margins(law, delta, edge, negative=True)))
