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

_EXACT = 1e4
"""Trials that stand for a probability given without a number of them."""


@dataclass(frozen=True)
class Onset:
    """value, stderr: of the knob at one half. bound: "below" or "above" where all fractions are on one side of it."""

    value: float
    stderr: float
    bound: str = ""

    def __str__(self) -> str:
        if self.bound:
            return f"{self.bound} {self.value:.3g}"
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
        a, b = float(theta[0]), math.exp(float(theta[1]))
        sign, size = np.linalg.slogdet(information(a, b) / b**2)
        if sign <= 0:
            return math.inf
        likelihood = np.sum(n * (p * log_expit(b * (u - a)) + (1.0 - p) * log_expit(-b * (u - a))))
        return -float(likelihood + 0.5 * size)

    start = np.array([float(np.mean(u)), math.log(4.0)])
    best = minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9, "maxiter": 4000}).x
    a, b = float(best[0]), math.exp(float(best[1]))
    spread = math.sqrt(float(np.linalg.inv(information(a, b))[0, 0])) if trials is not None else math.nan
    return Onset(math.exp(a), math.exp(a) * spread)
