"""The transition of a finite sample: does the law of *n* Hessian weights have a negative hidden outlier?

Where the weight is unbounded below there is no limiting threshold (theory 1.9), but n = delta d samples have one: the
condition of theory 1.3 for the empirical law of n paths of the DMFT, solved with n tied to delta. It fluctuates from
one training set to another, mostly with its lowest weights, and so the answer is a distribution.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from bulkedge.dynamics.paths import power_of_two
from bulkedge.foundation.checks import integer
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.result import Record
from bulkedge.learnability import laws, windows
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra.law import WeightLaw

Progress = Callable[[str, int, int], None]
_GRID = np.geomspace(0.5, 128.0, 25)
_SURPLUS = 4
"""Paths of the DMFT for every sample of a training set: a random part of them is close to independent."""


@dataclass(frozen=True, kw_only=True)
class FiniteThreshold(Record):
    """Over training sets of n = round(delta d): quartiles [first, median, last] of the least delta with an outlier.

    An entry is None where that share of the training sets has none in the searched range. draws: (number,), the least
    delta of each training set, NaN where there is none.
    """

    dimension: int
    time: int
    delta: float | None
    quartiles: list[float | None]
    draws: np.ndarray


def finite_threshold(
    problem: Problem,
    dimension: int,
    time: int = 0,
    *,
    neuron: int = 0,
    draws: int = 24,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> FiniteThreshold:
    """The least delta at which n = round(delta d) samples of the law of (G, s) at step `time` have a hidden outlier.

    Each training set is followed over a grid of delta, its own least delta interpolated in log delta. The dynamics is
    the limiting one at each delta; only the law of the weights is that of n samples.
    """
    d, t = integer("dimension", dimension, low=2, high=10**7), integer("time", time, low=0, high=10_000)
    draws = integer("draws", draws, low=2, high=10_000)
    if directions(problem.link).hard.shape[1] == 0:
        raise BadInput("target", "has no hard direction: nothing waits for an outlier")
    margins = np.full((draws, _GRID.size), np.nan)
    for i, delta in enumerate(_GRID):
        margins[:, i] = _margins(problem, float(delta), d, t, neuron, draws, numerics)
        if progress:
            progress(f"delta tried at d = {d}", i + 1, _GRID.size)
        if i and np.all(np.any((margins[:, 1 : i + 1] < 0) & (margins[:, :i] < 0), axis=1)):
            break
    least = np.array([_first_negative(m) for m in margins])
    ordered = np.sort(np.where(np.isnan(least), np.inf, least))
    quartiles = [float(q) for q in np.quantile(ordered, [0.25, 0.5, 0.75], method="nearest")]
    found = [q if math.isfinite(q) else None for q in quartiles]
    return FiniteThreshold(dimension=d, time=t, delta=found[1], quartiles=found, draws=least)


def _margins(problem: Problem, delta: float, d: int, t: int, neuron: int, draws: int, numerics: Numerics) -> np.ndarray:
    """Margin of every training set (negative: an outlier exists); positive where the dynamics diverges."""
    n = max(2, round(delta * d))
    paths = max(numerics.paths, power_of_two(_SURPLUS * n))
    sample = laws.sampled(problem, delta, t, replace(numerics, paths=paths, replicas=2))
    if sample.diverged_at is not None:
        return np.ones(draws)
    whole = sample.laws(neuron)
    found = np.ones(draws)
    for i in range(draws):
        law = whole[i % 2]
        taken = np.random.default_rng([numerics.seed, 17, i]).choice(law.g.size, n, replace=False)
        part = WeightLaw(law.g[taken], law.s[taken])
        found[i] = windows.margin_at(part, delta) if part.low < 0 else 1.0
    return found


def _first_negative(margins: np.ndarray) -> float:
    """Where a margin over the grid first falls below zero, linearly in log delta; NaN if it does not."""
    negative = np.flatnonzero(margins < 0)
    if negative.size == 0:
        return math.nan
    i = int(negative[0])
    if i == 0:
        return float(_GRID[0])
    share = margins[i - 1] / (margins[i - 1] - margins[i])
    return float(np.exp(np.log(_GRID[i - 1]) + share * np.log(_GRID[i] / _GRID[i - 1])))
