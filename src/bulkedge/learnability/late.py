"""delta*(infinity): the threshold extrapolated in time, or an honest 'not settled' (theory 1.4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bulkedge.foundation.answers import Threshold
from bulkedge.foundation.numerics import Numerics
from bulkedge.foundation.status import Status
from bulkedge.learnability.floor import never_negative
from bulkedge.learnability.thresholds import threshold
from bulkedge.models.problem import Problem

Progress = Callable[[str, int, int], None]
_TIMES = (4, 8, 16, 32)
_SETTLED = 0.03
_RATIO = 0.8


def late_threshold(problem: Problem, *, hessian: str, numerics: Numerics, progress: Progress | None) -> Threshold:
    """delta*(t) at t = 4, 8, 16, 32 and its limit.

    Settled if the last difference D is within its noise and that is below 3 percent; or if successive differences
    shrink by a ratio |r| < 0.8 and what is left, D r/(1 - r), is below 3 percent or follows a D that is: the limit is
    then delta*(32) + D r/(1 - r) (Aitken), its uncertainty |D| and the correction, with the standard error. Otherwise,
    or where some delta*(t) does not exist, the sequence has not settled and no number is given.
    """
    found: list[Threshold] = []
    for t in _TIMES:
        found.append(threshold(problem, t, hessian=hessian, numerics=numerics, progress=progress))
        if found[-1].delta is None:
            break
    last = found[-1]
    sequence = "delta*(t): " + ", ".join(
        f"t={t}: " + ("none" if f.delta is None else f"{f.delta:.4g}({f.stderr or 0:.1g})")
        for t, f in zip(_TIMES, found, strict=False)
    )
    common: dict[str, Any] = {
        "time": math.inf,
        "warnings": [*last.warnings, sequence],
        "method": last.method + ", extrapolated in t",
    }
    if last.reason == "nothing hard" or all(never_negative(problem, j) for j in range(problem.m)):
        return replace(last, time=math.inf)
    if last.delta is None:
        reason = "The outlier is gone at the last time of the list: " if len(found) > 1 else ""
        return replace(last, **common | {"status": Status.NOT_SETTLED, "warnings": [*last.warnings, reason + sequence]})
    delta = np.array([f.delta for f in found], float)
    error = np.array([f.stderr or 0.0 for f in found])
    step = np.diff(delta)
    noise = 2.0 * math.hypot(error[-1], error[-2])
    small = _SETTLED * delta[-1]
    if abs(step[-1]) <= noise <= small:
        return replace(last, **common, stderr=float(math.hypot(error[-1], noise)))
    ratio = step[-1] / step[-2] if step[-2] != 0 else math.inf
    correction = step[-1] * ratio / (1.0 - ratio) if abs(ratio) < _RATIO else math.inf
    if noise > small or not math.isfinite(correction) or (abs(step[-1]) > small and abs(correction) > small):
        if noise > small:
            common["warnings"].append(f"Errors of {noise / delta[-1]:.0%} hide whether it settles: take more paths.")
        empty = {"delta": None, "stderr": None, "windows": [], "edge": None, "efficiency": None}
        return replace(last, **common | empty | {"status": Status.NOT_SETTLED})
    limit = float(delta[-1] + correction)
    return replace(
        last,
        **common,
        delta=limit,
        stderr=float(math.hypot(error[-1], abs(correction) + abs(step[-1]))),
        efficiency=None if last.delta_alg is None else last.delta_alg / limit,
        windows=[[limit, *w[1:]] if i == 0 else w for i, w in enumerate(last.windows)],
    )
