"""delta*(infinity): the threshold extrapolated in time, or an honest 'not settled' (theory 1.4)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bulkedge.foundation.answers import Threshold
from bulkedge.foundation.numerics import Numerics
from bulkedge.foundation.status import Status
from bulkedge.learnability.thresholds import threshold
from bulkedge.models.problem import Problem

Progress = Callable[[str, int, int], None]
_TIMES = (4, 8, 16, 32)
_SETTLED = 0.03


def late_threshold(problem: Problem, *, hessian: str, numerics: Numerics, progress: Progress | None) -> Threshold:
    """delta*(t) at t = 4, 8, 16, 32 and its limit.

    If successive differences shrink by a ratio r < 0.8 the limit is delta*(32) + D r/(1 - r), D the last difference
    (Aitken); the uncertainty is the whole correction, plus the standard error. Where the last difference exceeds 3
    percent and does not shrink, or some delta*(t) does not exist, the sequence has not settled and no number is given.
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
    common = {"time": math.inf, "warnings": [*last.warnings, sequence], "method": last.method + ", extrapolated in t"}
    if last.reason == "nothing hard":
        return replace(last, time=math.inf)
    if last.delta is None:
        reason = "The outlier is gone at the last time of the list: " if len(found) > 1 else ""
        return replace(last, **common | {"status": Status.NOT_SETTLED, "warnings": [*last.warnings, reason + sequence]})
    delta = np.array([f.delta for f in found], float)
    error = np.array([f.stderr or 0.0 for f in found])
    step = np.diff(delta)
    noise = 2.0 * math.hypot(error[-1], error[-2])
    if abs(step[-1]) <= noise:
        return replace(last, **common, stderr=float(math.hypot(error[-1], noise)))
    ratio = step[-1] / step[-2] if step[-2] != 0 else math.inf
    correction = step[-1] * ratio / (1.0 - ratio) if 0 <= ratio < 0.8 else math.inf
    if abs(step[-1]) > _SETTLED * delta[-1] and abs(correction) > _SETTLED * delta[-1]:
        return replace(
            last,
            **common,
            delta=None,
            reason=None,
            stderr=None,
            windows=[],
            edge=None,
            efficiency=None,
            status=Status.NOT_SETTLED,
        )
    if not math.isfinite(correction):
        correction = 0.0
    limit = float(delta[-1] + correction)
    return replace(
        last,
        **common,
        delta=limit,
        stderr=float(math.hypot(error[-1], abs(correction) + abs(step[-1]))),
        efficiency=None if last.delta_alg is None else last.delta_alg / limit,
        windows=[[limit, *w[1:]] if i == 0 else w for i, w in enumerate(last.windows)],
    )
