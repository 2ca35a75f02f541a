"""The gradient of the threshold at t > 0, where the law of the Hessian weights depends on delta through the dynamics.

With M(delta, p) the margin of `windows.margin_at` (negative where an outlier exists), the threshold is M = 0, and
    d delta/d p = -M_p/M_delta.
Both slopes are central differences of the dynamics with common random numbers, so that M is smooth in all its
arguments; two spacings, h and h/2, are extrapolated, and their disagreement is part of the error. The rest of it is the
spread over independent replicas.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from bulkedge.foundation.numerics import Numerics
from bulkedge.learnability import laws, windows
from bulkedge.learnability.thresholds import threshold
from bulkedge.models.problem import Problem

Progress = Callable[[str, int, int], None]
_SPACING = 0.02
_LEAST = 0.25
"""Spacing is relative to the parameter, or to this where it is smaller."""


@dataclass(frozen=True, eq=False)
class LaterSlopes:
    """delta with its standard error, and slope, stderr: (entries,), of d delta/d p."""

    delta: float | None
    delta_stderr: float
    neuron: int
    method: str
    slope: np.ndarray = field(default_factory=lambda: np.zeros(0))
    stderr: np.ndarray = field(default_factory=lambda: np.zeros(0))
    warnings: list[str] = field(default_factory=list)


def later_slopes(
    member: Callable[[np.ndarray], Problem],
    values: np.ndarray,
    t: int,
    numerics: Numerics,
    progress: Progress | None = None,
) -> LaterSlopes:
    """The gradient at `values`; member: the problem at a vector of parameters."""
    here = threshold(member(values), t, numerics=numerics, progress=progress)
    if here.delta is None:
        return LaterSlopes(None, math.nan, 0, here.method, warnings=["There is no threshold here, and so no gradient."])
    delta = here.delta
    lows = [math.inf if low is None else low for low in here.neurons or [delta]]
    neuron = int(np.argmin(lows))

    def margins(at: float, problem: Problem) -> np.ndarray:
        sample = laws.sampled(problem, at, t, numerics)
        if sample.diverged_at is not None:
            return np.full(numerics.replicas, math.nan)
        return np.array([windows.margin_at(law, at) for law in sample.laws(neuron)])

    def slope(f: Callable[[float], np.ndarray], scale: float) -> tuple[np.ndarray, np.ndarray]:
        """Extrapolated central difference of every replica, and how far the finer of the two is from it."""
        wide, fine = ((f(h) - f(-h)) / (2.0 * h) for h in (_SPACING * scale, 0.5 * _SPACING * scale))
        best = (4.0 * fine - wide) / 3.0
        return best, np.abs(best - fine)

    def along(i: int) -> Callable[[float], np.ndarray]:
        unit = np.eye(values.size)[i]
        return lambda h: margins(delta, member(values + h * unit))

    by_delta, off = slope(lambda h: margins(delta + h, member(values)), delta)
    rows, errors = [], []
    for i, value in enumerate(values):
        by_p, gap = slope(along(i), max(abs(float(value)), _LEAST))
        whole = -by_p.mean() / by_delta.mean()
        # Each replica's own quotient spreads as the quotient of means does, to first order.
        own = -(by_p + whole * (by_delta - by_delta.mean())) / by_delta.mean()
        spread = own.std(ddof=1) / math.sqrt(own.size) if own.size > 1 else math.nan
        rows.append(whole)
        errors.append(math.hypot(spread, gap.mean() / by_delta.mean(), whole * off.mean() / by_delta.mean()))
        if progress:
            progress("differences of the dynamics", i + 1, values.size)
    return LaterSlopes(
        delta, here.stderr or 0.0, neuron, here.method, np.array(rows), np.array(errors), list(here.warnings)
    )
