"""When descent finds a hard direction at a finite dimension (theory 1.7).

Two stages. While the overlap is small it is a Gaussian process xi/sqrt(d), xi(0) ~ N(0, I), whose covariance v(t) is
computed (dynamics.escape). Later the dynamics is deterministic but nonlinear: the full DMFT, started at the overlap
xi(0)/sqrt(d) and pushed by the noise zeta/sqrt(d) of a finite dimension. A typical run is the *most likely* history
(xi(0), zeta) given xi(t1) = x, where the linear stage ends:
    xi(0) = gain(t1)^T v(t1)^-1 x,   zeta(s) = Cov(zeta(s), xi(t1)) v(t1)^-1 x,   x ~ N(0, v(t1)).
Its quantiles in |x| are those of the learning time (one neuron, one direction); otherwise x is drawn. No constant is
fitted. What is left out: fluctuations of the bulk at finite d, which spread the growth rate by O(1/sqrt d).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bulkedge.dynamics import dmft, escape
from bulkedge.foundation.answers import LearningTime, shaped
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.status import Status
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem

Progress = Callable[[str, int, int], None]
_LINEAR_STEPS = 60
_PATHS, _REPLICAS = 32768, 4
"""At most, for a nonlinear run: its spurious overlap cancels in pairs, so that few paths are enough."""
_DRAWS = 32
_BISECTIONS = 6


@dataclass(frozen=True)
class _Stage:
    """The end of the linear stage: t1, and what a draw x ~ N(0, v(t1)) implies for (xi(0), zeta)."""

    problem: Problem
    delta: float
    dimension: int
    steps: int
    t1: int
    escape: escape.Escape

    def crossing(self, x: np.ndarray, seed: int, paths: int) -> float:
        """The first step at which some neuron has |P_H theta|/|theta| > 1/2, interpolated; inf if there is none."""
        hard = directions(self.problem.link).hard
        e, t1, root = self.escape, self.t1, math.sqrt(self.dimension)
        m, r = self.problem.m, hard.shape[1]
        y = np.linalg.solve(e.covariance[t1], x)
        start = (e.gain[t1].T @ y).reshape(m, r) @ hard.T / root
        drift = np.zeros((self.steps, m, self.problem.k))
        drift[:t1] = -(e.shared[:t1, :, t1] @ y).reshape(t1, m, r) @ hard.T / root
        run = dmft.solve(self.problem, self.delta, self.steps, paths=paths, seed=(seed, 7), overlap=start, drift=drift)
        size = np.linalg.norm(run.overlap @ hard, axis=2) / np.sqrt(np.maximum(run.norm2, 1e-300))
        best = size.max(axis=1)
        hit = np.flatnonzero(best > 0.5)
        if hit.size == 0:
            return math.inf
        i = int(hit[0])
        return float(i) if i == 0 else i - 1 + float((0.5 - best[i - 1]) / (best[i] - best[i - 1]))


@over_arrays("delta", "dimension")
def learning_time(
    problem: Problem,
    delta: float,
    dimension: int,
    steps: int = 200,
    *,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> LearningTime:
    """Median and quartiles, over initialisations, of the step at which some neuron has |P_H theta|/|theta| > 1/2.

    success_probability: of learning within `steps`. Times are those steps at which a run of the given quantile first
    passes 1/2, None where it does not within `steps`.
    """
    delta = positive("delta", delta)
    dimension = integer("dimension", dimension, low=2, high=10**12)
    steps = integer("steps", steps, low=1, high=5000)
    hard = directions(problem.link).hard
    if hard.shape[1] == 0:
        raise BadInput(
            "target", f"has no hard direction ({directions(problem.link).kinds}): nothing waits to be learned"
        )
    linear = min(steps, _LINEAR_STEPS)
    parts, norms = [], []
    diverged: int | None = None
    for i in range(numerics.replicas):
        run = dmft.solve(problem, delta, linear, paths=numerics.paths, seed=(numerics.seed, i))
        if run.diverged_at is not None:
            diverged = run.diverged_at if diverged is None else min(diverged, run.diverged_at)
            continue
        parts.append(escape.escape(run))
        norms.append(run.norm2)
        if progress:
            progress("linear stage", i + 1, numerics.replicas)
    common = {
        "delta": delta,
        "dimension": dimension,
        "steps": steps,
        "numerics": numerics.to_dict(),
        "problem": problem.to_dict(),
    }
    if diverged is not None:
        return LearningTime(
            **common,
            time=None,
            quartiles=[None] * 3,
            success_probability=0.0,
            hidden_variance=np.zeros(0),
            status=Status.DIVERGED,
            warnings=[f"The dynamics diverges at step {diverged}: try a smaller step size or a larger delta."],
        )
    whole = escape.mean(parts)
    variance = np.einsum("tii->t", whole.covariance)
    reach = np.flatnonzero(variance >= 0.25 * dimension * np.mean(norms, axis=0).min(axis=1))
    stage = _Stage(problem, delta, dimension, steps, max(1, int(reach[0]) if reach.size else linear), whole)
    v = np.stack([part.covariance for part in parts])
    errors = {"hidden_variance": np.std(v, axis=0, ddof=1) / math.sqrt(len(v))}
    paths = min(numerics.paths, _PATHS)
    scalar = whole.covariance.shape[1] == 1
    search = _by_quantiles if scalar else _by_draws
    quartiles, success, more = search(stage, numerics, paths, progress)
    return LearningTime(
        **common,
        time=quartiles[1],
        quartiles=quartiles,
        success_probability=success,
        **shaped(problem.m, problem.k, hidden_variance=whole.covariance),
        stderr=shaped(problem.m, problem.k, **errors) | more,
    )


def _step(time: float) -> float | None:
    """The step at which the threshold is first seen to be passed."""
    return float(math.ceil(time - 1e-9)) if math.isfinite(time) else None


def _by_quantiles(
    stage: _Stage, numerics: Numerics, paths: int, progress: Progress | None
) -> tuple[list[float | None], float, dict[str, object]]:
    """|x| at its quartiles; the success probability by bisection in the quantile."""
    deviation = math.sqrt(float(stage.escape.covariance[stage.t1, 0, 0]))
    replicas = min(numerics.replicas, _REPLICAS)
    done, total = 0, 3 * replicas + _BISECTIONS

    def time(level: float, replica: int) -> float:
        nonlocal done
        found = stage.crossing(
            np.array([deviation * float(ndtri(0.5 + 0.5 * level))]), numerics.seed + 1000 * replica, paths
        )
        done += 1
        if progress:
            progress("nonlinear stage", min(done, total), total)
        return found

    times = np.array([[time(level, i) for i in range(replicas)] for level in (0.25, 0.5, 0.75)])
    middle = np.median(times, axis=1)
    spread = [float(np.std(t, ddof=1) / math.sqrt(replicas)) if np.all(np.isfinite(t)) else math.nan for t in times]
    # A larger |x| learns earlier: find the smallest quantile that learns in time.
    low, high = 0.0, 1.0
    for level, t in zip((0.25, 0.5, 0.75), middle, strict=True):
        if math.isfinite(t):
            high = min(high, level)
        else:
            low = max(low, level)
    for _ in range(_BISECTIONS):
        level = 0.5 * (low + high)
        if math.isfinite(time(level, 0)):
            high = level
        else:
            low = level
    success = 0.0 if high == 1.0 else 1.0 - 0.5 * (low + high)
    return [_step(t) for t in middle], success, {"quartiles": spread, "time": spread[1]}


def _by_draws(
    stage: _Stage, numerics: Numerics, paths: int, progress: Progress | None
) -> tuple[list[float | None], float, dict[str, object]]:
    """Several neurons or directions: x is drawn."""
    covariance = stage.escape.covariance[stage.t1]
    root = np.linalg.cholesky(covariance + 1e-12 * np.trace(covariance) * np.eye(len(covariance)))
    draws = np.random.default_rng([numerics.seed, 99]).standard_normal((_DRAWS, len(covariance))) @ root.T
    times = []
    for i, x in enumerate(draws):
        times.append(stage.crossing(x, numerics.seed + 1000 * (i % _REPLICAS), paths))
        if progress:
            progress("nonlinear stage", i + 1, _DRAWS)
    ordered = np.array(times)
    quartiles = [_step(t) for t in np.quantile(ordered, [0.75, 0.5, 0.25], method="nearest")]
    success = float(np.mean(np.isfinite(ordered)))
    return quartiles, success, {"success_probability": math.sqrt(success * (1 - success) / _DRAWS)}
