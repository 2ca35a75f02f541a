"""Where a fraction of successes passes one half: logistic regression in the logarithm of the knob.

    P(success | x) = 1/(1 + exp(-b (log x - a))),  onset = e^a.

The likelihood is maximised with Jeffreys' prior (D. Firth, Biometrika 80, 1993): without it the slope is infinite
where no value of the knob has both successes and failures. The error is that of the observed information.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from bulkedge.foundation.checks import positive
from bulkedge.foundation.errors import BadInput

_STEEPEST, _FARTHEST = 8.0, 20.0
"""Of the logarithm of the slope, and of the middle from the mean of log x: the law is not sought beyond."""
_EXACT = 1e4
"""Trials that stand for a probability given without a number of them."""


@dataclass(frozen=True)
class Onset:
    """value, stderr: of the knob at one half.

    bound: "below" or "above" where all fractions are on one side of it, "unknown" where they do not grow with the knob.
    """

    value: float
    stderr: float
    bound: str = ""

    def __str__(self) -> str:
        if self.bound:
            return self.bound if math.isnan(self.value) else f"{self.bound} {self.value:.3g}"
        return f"{self.value:.3g}" if math.isnan(self.stderr) else f"{self.value:.3g} ± {self.stderr:.1g}"


def onset(x: Any, fraction: Any, trials: Any = None) -> Onset:
    """Onset of fractions at the knob's values x > 0; entries that are NaN or without trials are left out.

    trials: how many runs each fraction comes from; None for probabilities, whose onset has no statistical error.
    """
    values, p = np.asarray(x, float), np.asarray(fraction, float)
    n = np.full(p.shape, _EXACT) if trials is None else np.asarray(trials, float)
    if not values.shape == p.shape == n.shape or values.ndim != 1:
        raise BadInput("fraction", "must have one entry for every value of the knob")
    here = np.isfinite(p) & (n > 0)
    if not here.any():
        return Onset(math.nan, math.nan, "unknown")
    values, p, n = values[here], p[here], n[here]
    positive("x", float(values.min()))
    if np.all(p >= 0.5):
        return Onset(float(values.min()), math.nan, "below")
    if np.all(p < 0.5):
        return Onset(float(values.max()), math.nan, "above")
    u = np.log(values)
    if u.size == 1 or np.ptp(u) == 0:
        return Onset(math.nan, math.nan, "unknown")

    def information(a: float, b: float) -> np.ndarray:
        """Fisher's information on (a, b)."""
        w = n * expit(b * (u - a)) * expit(-b * (u - a))
        design = np.stack([np.full(u.size, -b), u - a])
        return (design * w) @ design.T

    def cost(theta: np.ndarray) -> float:
        if abs(theta[1]) > _STEEPEST or abs(theta[0] - u.mean()) > _FARTHEST:
            return math.inf
        a, b = float(theta[0]), math.exp(float(theta[1]))
        sign, size = np.linalg.slogdet(information(a, b) / b**2)
        if sign <= 0:
            return math.inf
        likelihood = np.sum(n * (p * log_expit(b * (u - a)) + (1.0 - p) * log_expit(-b * (u - a))))
        return -float(likelihood + 0.5 * size)

    start = np.array([float(np.mean(u)), math.log(4.0)])
    best = minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000}).x
    a, b = float(best[0]), math.exp(float(best[1]))
    # Fractions that fall, or do not change, put the middle of the law where nothing was tried.
    if not float(u.min()) <= a <= float(u.max()):
        return Onset(math.nan, math.nan, "unknown")
    spread = math.sqrt(float(np.linalg.inv(information(a, b))[0, 0])) if trials is not None else math.nan
    return Onset(math.exp(a), math.exp(a) * spread)


def own_onset(x: Any, success: Any) -> float:
    """Where one run that was tried at every value x > 0 of the knob begins to succeed (successes 0 or 1).

    Every x stands for a cell of log x that ends half-way to its neighbours; the cells of the failures, laid end to end
    from the left, reach up to the answer. The mean of its logarithm over runs is the estimator of Spearman and Kärber
    of the mean of a threshold, whether or not a run's own successes are monotone. NaN where all fail; where none does,
    the left end of the first cell, which is then only a bound.
    """
    values, hit = np.asarray(x, float), np.asarray(success, float)
    if values.ndim != 1 or values.shape != hit.shape or values.size < 2:
        raise BadInput("success", "must have one entry for every value of the knob, of which there are two at least")
    positive("x", float(values.min()))
    order = np.argsort(values)
    u, hit = np.log(values[order]), hit[order]
    if not np.all(np.diff(u) > 0):
        raise BadInput("x", "holds a value twice")
    if not np.all(np.isfinite(hit)) or not np.any(hit > 0.5):
        return math.nan
    middle = 0.5 * (u[1:] + u[:-1])
    ends = np.concatenate([[1.5 * u[0] - 0.5 * u[1]], middle, [1.5 * u[-1] - 0.5 * u[-2]]])
    return float(math.exp(ends[0] + np.sum(np.diff(ends) * (hit < 0.5))))
