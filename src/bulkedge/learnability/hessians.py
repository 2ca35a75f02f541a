"""The spectrum of the Hessian along training: bulk, edges, atom, outliers (theory 1.3, 1.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.special import ndtr

from bulkedge.foundation.answers import Outlier, Spectrum
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import choice, integer, positive
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.status import Status
from bulkedge.learnability import laws
from bulkedge.learnability.floor import bounded_below
from bulkedge.learnability.others import MOST_PATHS, block_outliers
from bulkedge.learnability.room import asked
from bulkedge.models.problem import Problem
from bulkedge.spectra import bulk
from bulkedge.spectra import outliers as spikes
from bulkedge.spectra.law import WeightLaw, pooled

Progress = Callable[[str, int, int], None]
_SHARE = 0.05
_PARTS = 8
_FAINT = 0.02
"""Probability of existence below which an outlier is not listed."""


@over_arrays("delta", "time")
def spectrum(
    problem: Problem,
    delta: float,
    time: int = 0,
    *,
    hessian: str = "block",
    points: int = 400,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> Spectrum:
    """Limiting spectrum of m times the Hessian at step `time` and delta = n/d.

    hessian: "block", one spectrum a neuron (in `blocks` where there are several), or "full", the md x md matrix.
    points: of the density. Outliers carry overlap2, their kind and the probability that they exist.
    """
    asked(problem, numerics)
    delta, t = positive("delta", delta), integer("time", time, low=0, high=10_000)
    choice("hessian", hessian, ("block", "full"))
    points = integer("points", points, low=16, high=100_000)
    if hessian == "full" and problem.m > 1:
        from bulkedge.learnability.whole import whole_spectrum

        return whole_spectrum(problem, delta, t, points, numerics, progress)
    blocks = [_block(problem, j, delta, t, points, numerics, progress) for j in range(problem.m)]
    if problem.m == 1:
        return blocks[0]
    return replace(blocks[0], blocks=blocks)


@over_arrays("delta")
def outliers(weights: Any, s: Any, delta: float, *, points: int = 400) -> Spectrum:
    """The random-matrix formula alone: H = (1/n) sum_i G_i x_i x_i^T with weights and hard coordinates of the user's.

    weights: (n,), a sample of G. s: (n,) or (n, r), the hard coordinates of the same sample, standard Gaussian whatever
    their correlation with G. The weights are taken as samples: errors come from eight interleaved parts of them.
    """
    delta = positive("delta", delta)
    law = WeightLaw.of(weights, s)
    parts = [WeightLaw(law.g[i::_PARTS], law.s[i::_PARTS]) for i in range(_PARTS) if law.g.size >= 64 * _PARTS] or [law]
    return Spectrum(delta=delta, time=None, **limiting_spectrum(parts, law, delta, points, []))


def _block(
    problem: Problem, j: int, delta: float, t: int, points: int, numerics: Numerics, progress: Progress | None
) -> Spectrum:
    common: dict[str, Any] = {
        "delta": delta,
        "time": t,
        "neuron": j,
        "numerics": numerics.to_dict(),
        "problem": problem.to_dict(),
    }
    warnings: list[str] = []
    if not bounded_below(problem, j):
        warnings.append(
            "The Hessian weight is unbounded below (theory 1.9): the left edge is that of a sample of "
            f"{numerics.paths} and moves with its size; finite matrices show localised negative eigenvalues."
        )
    if problem.network.kink is not None:
        warnings.append("The activation has a kink: the Hessian of a finite network does not see sigma'' there.")
    exact = laws.initial(problem, j) if t == 0 and not warnings else None
    sample: laws.Sampled | None = None
    if exact is not None:
        replicas, law = [exact], exact
    else:
        sample = laws.sampled(problem, delta, t, numerics)
        if sample.diverged_at is not None:
            empty: dict[str, Any] = {"x": [], "y": []}
            nothing = {"edge": math.nan, "right_edge": math.nan, "atom": math.nan, "outliers": [], "density": empty}
            warnings.append(f"The dynamics diverges at step {sample.diverged_at}.")
            at = sample.diverged_at
            return Spectrum(**common, **nothing, status=Status.DIVERGED, diverged_at=at, warnings=warnings)
        replicas = sample.laws(j)
        law = pooled(replicas)
    limits = limiting_spectrum(replicas, law, delta, points, warnings)
    if sample is None:
        sample = laws.sampled(problem, delta, t, replace(numerics, paths=min(numerics.paths, MOST_PATHS)))
    seen = block_outliers(sample.runs, j, delta, t)
    limits["outliers"] = sorted([*limits["outliers"], *seen], key=lambda o: o.value)
    return Spectrum(**common, **limits)


def limiting_spectrum(
    replicas: list[WeightLaw], law: WeightLaw, delta: float, points: int, warnings: list[str]
) -> dict[str, Any]:
    """Bulk and hidden outliers of a law, with errors from its replicas (a single one is exact)."""
    left, right = bulk.left_edge(law, delta), bulk.right_edge(law, delta)
    if left.thin:
        warnings.append("The law of the weights thins out at its infimum: finite matrices approach the edge slowly.")
    if left.share > _SHARE and len(replicas) > 1:
        warnings.append(f"A single sample carries {left.share:.0%} of what decides the left edge.")
    found = _hidden(replicas, law, delta, negative_side=True) + _hidden(replicas, law, delta, negative_side=False)
    x, y, status, missing = bulk.density(law, delta, points)
    hole = bulk.atom(law, delta)
    if abs(missing) > 0.01:
        warnings.append(f"The density integrates to {1 - missing - hole:.3f} instead of {1 - hole:.3f}.")
    return {
        "edge": left.value,
        "right_edge": right.value,
        "atom": hole,
        "outliers": sorted(found, key=lambda o: o.value),
        "density": {"x": x, "y": y},
        "edge_stderr": _error([bulk.left_edge(r, delta).value for r in replicas]),
        "right_edge_stderr": _error([bulk.right_edge(r, delta).value for r in replicas]),
        "edge_scale": bulk.edge_scale(law, delta, left),
        "status": status,
        "warnings": warnings,
    }


def _error(values: list[float]) -> float:
    """Standard error of the mean of replicas; zero for one, which is then exact."""
    return float(np.std(values, ddof=1) / math.sqrt(len(values))) if len(values) > 1 else 0.0


def _hidden(replicas: list[WeightLaw], law: WeightLaw, delta: float, *, negative_side: bool) -> list[Outlier]:
    """Hidden outliers on one side of the bulk, with errors and the probability that each exists.

    Outlier i exists iff its margin is negative; the margin's mean over replicas and standard error give the probability
    (exactly 0 or 1 by quadrature).
    """
    if law.r == 0:
        return []
    side = (lambda x: x) if negative_side else (lambda x: x.mirrored)
    sign = 1.0 if negative_side else -1.0
    laws_here = [side(x) for x in replicas]
    margins = np.array([spikes.margins(x, delta, bulk.left_edge(x, delta), negative=False) for x in laws_here])
    mean = margins.mean(axis=0)
    error = margins.std(axis=0, ddof=1) / math.sqrt(len(margins)) if len(margins) > 1 else np.zeros_like(mean)
    probability = np.where(error > 0, ndtr(-mean / np.where(error > 0, error, 1.0)), (mean < 0).astype(float))
    pooled_spikes = spikes.below(side(law), delta)
    each = [spikes.below(x, delta) for x in laws_here]
    found = []
    for i, chance in enumerate(probability):
        if chance < _FAINT:
            continue
        values = [s[i].value for s in each if len(s) > i]
        overlaps = [s[i].overlap2 for s in each if len(s) > i]
        if i >= len(pooled_spikes) and not values:
            continue
        value = pooled_spikes[i].value if i < len(pooled_spikes) else float(np.mean(values))
        overlap2 = pooled_spikes[i].overlap2 if i < len(pooled_spikes) else float(np.mean(overlaps))
        enough = len(values) > 1
        found.append(
            Outlier(
                value=sign * value,
                overlap2=overlap2,
                kind="hidden",
                stderr=_error(values) if enough else (0.0 if len(replicas) == 1 else math.nan),
                overlap2_stderr=_error(overlaps) if enough else (0.0 if len(replicas) == 1 else math.nan),
                probability=float(chance),
            )
        )
    return found
