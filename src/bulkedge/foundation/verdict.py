"""Does a measurement confirm a prediction?

With difference D = measured - predicted and combined standard error S = sqrt(s_p^2 + s_m^2),
the comparison *could have seen* an effect of relative size 5 percent only if its resolution
S/scale is small enough; agreement is claimed only then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import stdtrit

from bulkedge.foundation.result import Record

AGREES, DISAGREES, UNDECIDED = "agrees", "disagrees", "undecided"
SIGMAS = 4.0
RESOLUTION = 0.05
_CONFIDENCE = 1e-3


@dataclass(frozen=True, kw_only=True)
class Verdict(Record):
    """verdict: agrees, disagrees or undecided. sigmas: |D|/S at the worst point that counts.

    resolution: standard error over the size of the effect, at the worst point.
    points: the verdict of each point. sentence: for people.
    """

    verdict: str
    sigmas: float
    resolution: float
    points: list[str]
    sentence: str


def judge(
    predicted: Any,
    predicted_stderr: Any,
    measured: Any,
    measured_stderr: Any,
    *,
    scale: Any = None,
    drift: Any = 0.0,
    name: str = "the quantity",
) -> Verdict:
    """The verdict over the points of two curves.

    scale: the size of the effect the comparison must be able to resolve (default: the predicted value).
    drift: an allowed finite-size difference where its law is known, e.g. c/d; it widens the interval.
    A standard error that is NaN is not known, and its point is undecided; 0 says exact.
    A point agrees if |D| <= 4 S + drift and S <= 5% of scale; disagrees if |D| > 4 S + drift;
    a point that is inside the interval but too noisy to see 5 percent is undecided.
    """
    p, sp, q, sq = (
        np.atleast_1d(np.asarray(x, float)) for x in (predicted, predicted_stderr, measured, measured_stderr)
    )
    p, sp, q, sq, drift = np.broadcast_arrays(p, sp, q, sq, np.asarray(drift, float))
    size = np.abs(p) if scale is None else np.broadcast_to(np.asarray(scale, float), p.shape)
    s = np.hypot(sp, sq)
    gap = np.abs(q - p)
    usable = np.isfinite(gap) & np.isfinite(s)
    roundoff = 1e-9 * np.maximum(np.abs(p), np.abs(q))
    inside = gap <= SIGMAS * s + drift + roundoff
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        resolution = np.where(s > 0, s / np.where(size > 0, size, np.nan), 0.0)
        sigmas = np.where(s > 0, gap / s, np.where(inside, 0.0, np.inf))
    sharp = np.nan_to_num(resolution, nan=np.inf) <= RESOLUTION
    points = [
        UNDECIDED if not u else DISAGREES if not i else AGREES if r else UNDECIDED
        for u, i, r in zip(usable.ravel(), inside.ravel(), sharp.ravel(), strict=True)
    ]
    word = overall(points)
    worst = float(np.max(sigmas[usable], initial=0.0))
    coarse = float(np.max(np.nan_to_num(resolution[usable], nan=np.inf), initial=0.0)) if usable.any() else np.inf
    allowed = ", a known finite-size drift allowed for" if np.any(drift > 0) else ""
    sentence = {
        AGREES: f"{name}: prediction and measurement agree (largest gap {worst:.1f} standard errors{allowed}).",
        DISAGREES: f"{name}: prediction and measurement disagree by {worst:.1f} standard errors "
        f"at {points.count(DISAGREES)} of {len(points)} points{allowed}.",
        UNDECIDED: f"{name}: undecided; at {points.count(UNDECIDED)} of {len(points)} points "
        f"a difference of 5 percent could not have been seen.",
    }[word]
    if not points:
        sentence = f"{name}: undecided; there is no point that has both a prediction and a measurement."
    return Verdict(verdict=word, sigmas=worst, resolution=coarse, points=points, sentence=sentence)


def overall(words: Sequence[str]) -> str:
    """One verdict of several: a disagreement anywhere is one; to agree, at least half of them must."""
    if DISAGREES in words:
        return DISAGREES
    return AGREES if words and 2 * words.count(AGREES) >= len(words) else UNDECIDED


def widening(runs: Any) -> np.ndarray:
    """How much wider the standard error of a mean over so few runs must be taken, being itself uncertain.

    Student's quantile over the normal one's place at four standard errors; NaN below two runs, towards 1 for many.
    """
    free = np.asarray(runs, float) - 1.0
    with np.errstate(invalid="ignore"):
        return np.where(free > 0, np.maximum(1.0, -stdtrit(np.maximum(free, 1), 0.5 * _CONFIDENCE) / SIGMAS), np.nan)
