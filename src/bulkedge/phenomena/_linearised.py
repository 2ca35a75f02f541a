"""Linearised AMP for a target: its spectrum in the limit, its eigenvalues on data, and a verdict on the two."""

from __future__ import annotations

import math
import time as clock
from dataclasses import replace
from typing import Any

import numpy as np

from bulkedge.finite import data as training
from bulkedge.finite.estimator import products
from bulkedge.finite.linearised_amp import asymmetric, symmetric
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.recovery import LinearisedAMP
from bulkedge.foundation.status import Status
from bulkedge.foundation.verdict import judge, overall, widening
from bulkedge.learnability.linearised import linearised
from bulkedge.learnability.preprocessing import second_moments
from bulkedge.models.target import target as read

_BEYOND = 2
"""Eigenvalues of the asymmetric matrix looked at beyond its outliers: the edge of the disk."""
_DRIFT = 30.0
"""Outliers that are predicted equal have a relative bias of this over d (seen for |z|^2/2 at d = 200 and 800)."""


@over_arrays("delta")
def linearised_amp(
    target: Any,
    delta: float,
    dimension: int | None = None,
    *,
    seeds: int = 5,
    seed: int = 0,
    latent_dim: int | None = None,
) -> LinearisedAMP:
    """Spectrum of AMP linearised where it knows nothing, in the limit and on data.

    Args:
        target: a link without easy directions.
        delta: n/d.
        dimension: of the data; None for the prediction alone.
        seeds: how many training sets.
        seed: training set i is drawn from (seed, i).
        latent_dim: number of directions, where the target does not say.

    Judged are the largest outlier of the asymmetric matrix (the mean of those that are predicted equal), its overlap2
    where one is predicted, and the top eigenvalue 1 of the symmetric matrix where all E[z z^T | y] commute.
    """
    began = clock.perf_counter()
    link = read(target, latent_dim)
    delta, k = positive("delta", delta), link.latent_dim
    limit = linearised(link)
    outliers = limit.outliers(delta)
    above = delta * limit.rates[0] > 1.0
    answer = LinearisedAMP(
        target=link.name,
        delta=delta,
        delta_alg=1.0 / limit.rates[0],
        delta_alg_stderr=limit.largest_stderr / limit.rates[0] ** 2,
        bulk_radius=limit.radius(delta),
        outliers=outliers,
        symmetric_outlier=1.0 if limit.commute and above else None,
        predicted_overlap2=limit.overlap2(delta),
    )
    if dimension is None:
        return answer
    d = integer("dimension", dimension, low=max(2, k), high=10**7)
    runs, seed = integer("seeds", seeds, low=1, high=10**6), integer("seed", seed, low=0, high=2**63 - 1)
    n = round(delta * d)
    if n * k < 50:
        raise BadInput("dimension", f"leaves {n} samples: too few for eigenvalues of a bulk")
    tied = max(1, sum(abs(v / outliers[0] - 1.0) < 0.01 for v in outliers)) if outliers else 1
    found = [_run(link, n, d, (seed, i), sum(v > 0 for v in outliers), tied) for i in range(runs)]
    columns = {name: np.array([run[name] for run in found], float) for name in found[0] if name != "converged"}
    errors = {name: _stderr(values) for name, values in columns.items()}
    expected = []
    if outliers:
        expected.append(("largest outlier", "outlier", outliers[0], delta * limit.largest_stderr, outliers[0]))
    if outliers and limit.overlap2(delta) is not None:
        expected.append(("squared overlap", "overlap2", limit.overlap2(delta), 0.0, 1.0))
    if answer.symmetric_outlier is not None:
        expected.append(("top eigenvalue of the symmetric matrix", "symmetric_eigenvalue", 1.0, 0.0, 1.0))
    verdicts = [
        judge(
            value,
            error,
            float(columns[name].mean()),
            errors[name] * float(widening(runs)) if runs > 1 else math.nan,
            scale=scale,
            drift=_DRIFT / d * scale,
            name=words,
        )
        for words, name, value, error, scale in expected
    ]
    word = overall([v.verdict for v in verdicts]) if verdicts else None
    poor = sum(not run["converged"] for run in found)
    return replace(
        answer,
        dimension=d,
        samples=n,
        **{name: float(values.mean()) for name, values in columns.items()},
        stderr=errors,
        seeds=found,
        verdict=word,
        sentence=" ".join(v.sentence for v in verdicts if v.verdict == word) or "There is no outlier to compare.",
        seconds=clock.perf_counter() - began,
        status=Status.NOT_CONVERGED if poor else Status.CONVERGED,
        warnings=[f"The eigenvalues of {poor} of {runs} runs are not exact."] if poor else [],
    )


def _run(link: Any, n: int, d: int, key: tuple[int, int], outliers: int, tied: int) -> dict[str, Any]:
    """One training set: mean of the tied largest eigenvalues, the first that is no outlier, overlaps."""
    x, y = training.stored(link, n, d, key)
    data, second = products(x, y), second_moments(link, y)
    large, top = asymmetric(data, second, outliers + _BEYOND, key[1]), symmetric(data, second, key[1])
    real = large.values.real
    return {
        "outlier": float(np.mean(real[:tied])),
        "bulk": float(real[outliers]) if real.size > outliers else math.nan,
        "overlap2": _overlap2(large.estimate, link.latent_dim),
        "symmetric_eigenvalue": float(top.values[0].real),
        "symmetric_overlap2": _overlap2(top.estimate, link.latent_dim),
        "converged": large.converged and top.converged,
    }


def _overlap2(estimate: np.ndarray, k: int) -> float:
    """Share of the squared length of b (d, k) in the span of the truth, the first k coordinates."""
    return float(np.sum(estimate[:k] ** 2) / max(np.sum(estimate**2), 1e-300))


def _stderr(values: np.ndarray) -> float:
    return float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.nan
