"""The whole md x md Hessian of a network of finite width (theory 1.6): its threshold and its spectrum."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from bulkedge.foundation.answers import Outlier, Spectrum
from bulkedge.foundation.numerics import Numerics
from bulkedge.foundation.status import Status
from bulkedge.learnability import laws
from bulkedge.learnability.floor import bounded_below
from bulkedge.learnability.others import whole_outliers
from bulkedge.learnability.thresholds import Found, Search, dependence_on_samples, moving
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra import matrix, matrix_density, matrix_outliers

Progress = Callable[[str, int, int], None]
_NODES = 1 << 19
"""m^2 times the samples of one replica that the matrix equation is given."""


def matrix_laws(sample: laws.Sampled) -> list[matrix.MatrixLaw]:
    """The law of the m x m weights in each replica."""
    problem = sample.runs[0].problem
    hard = directions(problem.link).hard
    few = slice(None, max(2048, _NODES // problem.m**2))
    return [
        matrix.MatrixLaw(np.moveaxis(r.weights(sample.time, "full")[:, :, few], 2, 0), (r.z.T @ hard)[few])
        for r in sample.runs
    ]


def whole_threshold(problem: Problem, t: int, numerics: Numerics, progress: Progress | None) -> Found:
    """Windows of delta where the whole Hessian has a negative hidden outlier."""
    loose = [j for j in range(problem.m) if not bounded_below(problem, j)]
    search = Search(
        lambda sample, delta: [matrix_outliers.margin(law, delta) for law in matrix_laws(sample)],
        lambda sample, delta: matrix.left_edge(matrix_laws(sample)[0], delta),
    )
    dependence = dependence_on_samples(problem, loose[0], numerics) if loose else []
    return moving(problem, t, numerics, search, dependence, progress)


def whole_spectrum(
    problem: Problem, delta: float, t: int, points: int, numerics: Numerics, progress: Progress | None
) -> Spectrum:
    """Limiting spectrum of m times the md x md Hessian; overlap2 of an eigenvector sums over its m blocks."""
    common: dict[str, Any] = {
        "delta": delta,
        "time": t,
        "hessian": "full",
        "numerics": numerics.to_dict(),
        "problem": problem.to_dict(),
    }
    sample = laws.sampled(problem, delta, t, numerics)
    if sample.diverged_at is not None:
        nothing = {"edge": math.nan, "right_edge": math.nan, "atom": math.nan, "outliers": []}
        warnings = [f"The dynamics diverges at step {sample.diverged_at}."]
        return Spectrum(**common, **nothing, density={"x": [], "y": []}, status=Status.DIVERGED, warnings=warnings)
    replicas = matrix_laws(sample)
    warnings = []
    if not all(bounded_below(problem, j) for j in range(problem.m)):
        warnings.append(
            "A Hessian weight is unbounded below (theory 1.9): the left edge is that of a sample of "
            f"{len(replicas[0].g)} and moves with its size; finite matrices show localised negative eigenvalues."
        )
    edges = []
    for i, law in enumerate(replicas):
        edges.append((matrix.left_edge(law, delta).value, matrix.right_edge(law, delta).value))
        if progress:
            progress("edges of replicas", i + 1, len(replicas))
    error = np.std(edges, axis=0, ddof=1) / math.sqrt(len(edges))
    left, right = np.mean(edges, axis=0)
    x, y, status, missing = matrix_density.density(replicas[0], delta, min(points, 200))
    if abs(missing) > 0.02:
        warnings.append(f"The density misses {missing:.3f} of the mass.")
    found = [o for side in (matrix_outliers.below, matrix_outliers.above) for o in _side(replicas, delta, side)]
    found += whole_outliers(sample.runs, delta, t)
    return Spectrum(
        **common,
        edge=float(left),
        right_edge=float(right),
        atom=matrix_density.atom(replicas[0], delta),
        outliers=sorted(found, key=lambda o: o.value),
        density={"x": x, "y": y},
        edge_stderr=float(error[0]),
        right_edge_stderr=float(error[1]),
        status=status,
        warnings=warnings,
    )


def _side(
    replicas: list[matrix.MatrixLaw], delta: float, side: Callable[[matrix.MatrixLaw, float], list[Any]]
) -> list[Outlier]:
    """Hidden outliers of one side that most replicas have, from the outermost inwards."""
    found = [side(law, delta) for law in replicas]
    outliers = []
    for place in range(max(map(len, found))):
        here = np.array([(f[place].value, f[place].overlap2) for f in found if len(f) > place])
        chance = len(here) / len(found)
        if chance < 0.5:
            continue
        error = here.std(axis=0, ddof=1) / math.sqrt(len(here)) if len(here) > 1 else np.full(2, math.nan)
        outliers.append(
            Outlier(
                value=float(here[:, 0].mean()),
                overlap2=float(here[:, 1].mean()),
                kind="hidden",
                stderr=float(error[0]),
                overlap2_stderr=float(error[1]),
                probability=chance,
            )
        )
    return outliers
