"""The set of delta where a negative hidden outlier exists, as intervals (theory 1.3, 1.4)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize_scalar

from bulkedge.foundation.roots import bracketed
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.law import WeightLaw

LOW, HIGH = 1e-3, 1e6
"""The range of delta searched."""

Window = tuple[float, float | None]


def of_fixed_law(law: WeightLaw) -> list[Window]:
    """Windows for a law of (G, s) that does not depend on delta, as at t = 0.

    With T = beta G/(1 + beta G), beta ends the search for an outlier at exactly one delta: at 1/E[T^2] if it is the
    edge there, at 1/E[T] if z = psi(beta) reaches zero first; that is, at 1/D(beta) with D = max(E[T^2], E[T]), which
    increases. An outlier exists at that delta iff lambda_min(E[T(s s^T - I)]) + D < 0: windows end at the roots of this
    function of beta, and no search over delta is needed.
    """

    def ends(u: float) -> tuple[float, float]:
        beta = bulk.beta_of(law, u)
        t = bulk.transform(law, beta)
        size = max(float(law.mean(t * t)), float(law.mean(t)), 1e-300)
        # Relative to D, so that the sign survives at small beta where everything vanishes.
        return math.log(size), 1.0 + float(outliers.signal(law, beta)[0]) / size

    def margin(u: float) -> float:
        return ends(u)[1]

    def delta(u: float) -> float:
        return math.exp(-ends(u)[0])

    first = _where(lambda u: ends(u)[0] + math.log(HIGH))
    last = _where(lambda u: ends(u)[0] + math.log(LOW))
    grid = np.linspace(first, last, 121)
    # From large beta to small, that is from small delta to large.
    found = intervals(margin, grid[::-1])
    return [(delta(a) if a != last else LOW, None if b == first else delta(b)) for a, b in found]


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
            dip = minimize_scalar(margin, bounds=ends, method="bounded", options={"xatol": 1e-3 * (ends[1] - ends[0])})
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
