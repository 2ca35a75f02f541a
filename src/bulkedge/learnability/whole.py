"""The whole md x md Hessian of a network of finite width (theory 1.6): its threshold and its spectrum."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bulkedge.foundation.answers import Outlier, Spectrum
from bulkedge.foundation.numerics import Numerics
from bulkedge.foundation.roots import bracketed
from bulkedge.foundation.status import Status
from bulkedge.learnability import laws, windows
from bulkedge.learnability.floor import bounded_below
from bulkedge.learnability.others import whole_outliers
from bulkedge.learnability.thresholds import (
    BEYOND,
    SCAN,
    Found,
    Search,
    dependence_on_samples,
    heavy,
    moving,
    thin,
    trap,
)
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra import matrix, matrix_density, matrix_outliers
from bulkedge.spectra.matrix_law import MatrixLaw

Progress = Callable[[str, int, int], None]
_NODES = 1 << 19
"""m^2 times the samples of one replica that the matrix equation is given."""
_LEAST = 2048
_SCANNED = 1024
"""Samples with which windows at t = 0 are looked for, before they are refined with all."""
_FOUND = 1e-5
"""Relative accuracy in delta of the end of a replica's window."""


def matrix_laws(sample: laws.Sampled) -> list[MatrixLaw]:
    """The law of the m x m weights in each replica. Neurons with the same second layer and bias are alike."""
    problem = sample.runs[0].problem
    hard = directions(problem.link).hard
    few = slice(None, _samples(problem))
    kinds = np.unique(np.stack(problem.layer, axis=1), axis=0, return_inverse=True)[1]
    alike = tuple(int(i) for i in np.ravel(kinds))
    return [
        MatrixLaw(np.moveaxis(r.weights(sample.time, "full")[:, :, few], 2, 0).copy(), (r.z.T @ hard)[few], alike=alike)
        for r in sample.runs
    ]


def _samples(problem: Problem) -> int:
    return max(_LEAST, _NODES // problem.m**2)


def whole_threshold(problem: Problem, t: int, numerics: Numerics, progress: Progress | None) -> Found:
    """Windows of delta where the whole Hessian has a negative hidden outlier."""
    loose = [j for j in range(problem.m) if not bounded_below(problem, j)]
    dependence = dependence_on_samples(problem, loose[0], numerics) if loose else []
    if t == 0:
        return _at_the_start(problem, numerics, dependence, progress)
    search = Search(
        lambda sample, delta: [matrix_outliers.margin(law, delta)[0] for law in matrix_laws(sample)],
        lambda sample, delta: matrix.left_edge(matrix_laws(sample)[0], delta),
    )
    return moving(problem, t, numerics, search, dependence, progress)


class _Margins:
    """The margin of one law over log delta, each search begun from the nearest edge already known."""

    def __init__(self, law: MatrixLaw, start: matrix.MatrixEdge | None = None) -> None:
        self.law, self._start = law, start
        self._known: dict[float, tuple[float, matrix.MatrixEdge]] = {}

    def look(self, u: float) -> tuple[float, matrix.MatrixEdge]:
        if u not in self._known:
            nearest = min(self._known, key=lambda v: abs(v - u), default=None)
            near = self._start if nearest is None else self._known[nearest][1]
            self._known[u] = matrix_outliers.margin(self.law, math.exp(u), near)
        return self._known[u]

    def __call__(self, u: float) -> float:
        return self.look(u)[0]

    def root(self, u: float) -> float | None:
        """The root nearest to u, within a factor of three in delta."""
        step = 0.02
        while step < 1.2:
            ends = u - step, u + step
            if self(ends[0]) * self(ends[1]) <= 0:
                return bracketed(self, *ends, xtol=_FOUND)
            step *= 2.0
        return None


def _at_the_start(
    problem: Problem, numerics: Numerics, dependence: list[list[float | None]], progress: Progress | None
) -> Found:
    """At t = 0 the law does not depend on delta: it is sampled once, and every replica has windows of its own."""
    few = replace(numerics, paths=min(numerics.paths, _samples(problem)))
    replicas = matrix_laws(laws.sampled(problem, 1.0, 0, few))
    first = replicas[0]
    some = MatrixLaw(first.g[:_SCANNED], first.s[:_SCANNED], alike=first.alike)
    grid = np.log(np.concatenate([SCAN, BEYOND]))
    rough = _Margins(some)
    # From large delta to small: an edge at a large one is easy to find, and leads to the next.
    for i, u in enumerate(grid[::-1]):
        rough(float(u))
        if progress:
            progress("delta tried at t = 0", i + 1, grid.size)
    method = f"Monte Carlo, {len(first.g)} samples x {len(replicas)}"
    warnings: tuple[str, ...] = (trap(dependence, numerics),) if dependence else ()
    found: list[windows.Window] = []
    errors: list[float] = []
    edges: list[matrix.MatrixEdge] = []
    ends = windows.intervals(rough, grid)
    for i, (a, b) in enumerate(ends):
        own = [_Margins(law, rough.look(a)[1]) for law in replicas]
        low = _mean_root(own, a) if a > grid[0] else (windows.LOW, 0.0)
        high = _mean_root(own, b) if b < grid[-1] else (math.inf, 0.0)
        if low is None or high is None:
            warnings += (
                f"A window near delta {math.exp(a):.3g} to {math.exp(b):.3g}, seen with few samples, is not confirmed.",
            )
            continue
        found.append((low[0], None if math.isinf(high[0]) else high[0]))
        errors.append(low[1])
        edges.append(own[0].look(math.log(low[0]))[1])
        if progress:
            progress("windows refined", i + 1, len(ends))
    if not found:
        return Found([], 0.0, None, method, None, Status.CONVERGED, warnings, dependence)
    best = int(np.argmin([w[0] for w in found]))
    warnings += (*thin(edges[best]), *heavy(edges[best]))
    return Found(found, errors[best], edges[best].value, method, None, Status.CONVERGED, warnings, dependence)


def _mean_root(margins: list[_Margins], u: float) -> tuple[float, float] | None:
    """The mean end of the replicas' windows near e^u and its standard error; None unless all have one."""
    roots = [m.root(u) for m in margins]
    if any(r is None for r in roots):
        return None
    values = np.exp(np.array(roots, float))
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else math.nan


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
        nothing: dict[str, Any] = {"edge": math.nan, "right_edge": math.nan, "atom": math.nan, "outliers": []}
        warnings = [f"The dynamics diverges at step {sample.diverged_at}."]
        nothing |= {"density": {"x": [], "y": []}, "diverged_at": sample.diverged_at}
        return Spectrum(**common, **nothing, status=Status.DIVERGED, warnings=warnings)
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


def hidden_below(problem: Problem, delta: float, t: int, numerics: Numerics) -> tuple[list[Outlier], float, float]:
    """Hidden outliers left of the bulk of the whole Hessian, lowest first, each as often as it is there; the left edge
    and its standard error.
    """
    few = replace(numerics, paths=min(numerics.paths, _samples(problem))) if t == 0 else numerics
    replicas = matrix_laws(laws.sampled(problem, delta if t else 1.0, t, few))
    edges = np.array([matrix.left_edge(law, delta).value for law in replicas])
    error = float(edges.std(ddof=1) / math.sqrt(edges.size)) if edges.size > 1 else math.nan
    return _side(replicas, delta, matrix_outliers.below), float(edges.mean()), error


def _side(
    replicas: list[MatrixLaw], delta: float, side: Callable[[matrix.MatrixLaw, float], list[Any]]
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
