"""When descent finds a hard direction at a finite dimension (theory 1.7).

Two stages. While the overlap is small it is a Gaussian process xi/sqrt(d), xi(0) ~ N(0, I), whose covariance v(t) is
computed (dynamics.escape). Later the dynamics is deterministic but nonlinear: the full DMFT, started at the overlap
xi(0)/sqrt(d) and pushed by the noise zeta/sqrt(d) of a finite dimension. A typical run is the *most likely* history
(xi(0), zeta) given xi(t1) = x, where the linear stage ends:
    xi(0) = gain(t1)^T v(t1)^-1 x,   zeta(s) = Cov(zeta(s), xi(t1)) v(t1)^-1 x,   x = v(t1)^(1/2) w,   w ~ N(0, I).
Each w has a t1 of its own, where |x| has grown to a third of sqrt(d) |theta|: slow runs feel the noise for longer.
Quantiles of |w| are those of the learning time (one neuron, one direction); otherwise w is drawn. No constant is
fitted. What is left out: fluctuations of the bulk at finite d, which spread the growth rate by O(1/sqrt d).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from bulkedge.dynamics import dmft, escape
from bulkedge.foundation.answers import LearningTime, shaped
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.status import Status
from bulkedge.learnability import room
from bulkedge.learnability.curves import padded
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem

Progress = Callable[[str, int, int], None]
_LINEAR_STEPS, _FULL_PATHS = 400, 60
"""Most steps of the linear stage; it has all paths up to the second number of steps, and fewer beyond."""
_PATHS, _REPLICAS = 32768, 4
"""At most, for a nonlinear run: its spurious overlap cancels in pairs, so that few paths are enough."""
_DRAWS, _PATHS_OF_DRAWS = 64, 8192
_BISECTIONS = 6
_GROWN = 1.0 / 3.0
"""|overlap|/|theta| at which the linear stage ends."""


@dataclass(frozen=True)
class _Stage:
    """What the linear stage has found. norm2: (T + 1, m). roots: (T + 1, mr, mr), v(t) = root root^T."""

    problem: Problem
    delta: float
    dimension: int
    steps: int
    escape: escape.Escape
    norm2: np.ndarray
    roots: np.ndarray

    @property
    def freedoms(self) -> int:
        return self.roots.shape[1]

    def end(self, w: np.ndarray) -> int:
        """t1 of a draw w (mr,): the last time of the linear stage if its overlap does not grow that far."""
        x = (self.roots @ w).reshape(len(self.roots), self.problem.m, -1)
        size = np.linalg.norm(x, axis=2) / np.sqrt(self.dimension * self.norm2)
        grown = np.flatnonzero(size.max(axis=1) >= _GROWN)
        return max(1, int(grown[0])) if grown.size else len(self.roots) - 1

    def crossing(self, w: np.ndarray, seed: int, paths: int) -> float:
        """The first step at which some neuron has |P_H theta|/|theta| > 1/2, interpolated; inf if there is none."""
        hard = directions(self.problem.link).hard
        e, t1, root = self.escape, self.end(w), math.sqrt(self.dimension)
        m, r, k = self.problem.m, hard.shape[1], self.problem.k
        y = np.linalg.solve(e.covariance[t1], self.roots[t1] @ w)
        start = (e.gain[t1].T @ y).reshape(m, r) @ hard.T / root
        drift = np.zeros((self.steps, m, k))
        drift[:t1] = -(e.shared[:t1, :, t1] @ y).reshape(t1, m, r) @ hard.T / root

        def learned(c: np.ndarray) -> bool:
            return bool(np.any(np.linalg.norm(c[:, :k] @ hard, axis=1) > 0.5 * np.linalg.norm(c, axis=1)))

        run = dmft.solve(
            self.problem,
            self.delta,
            self.steps,
            paths=paths,
            seed=(seed, 7),
            overlap=start,
            drift=drift,
            until=learned,
        )
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
    passes 1/2, None where it does not within `steps`. hidden_variance: v(t) of the linear stage, whatever d.
    """
    delta = positive("delta", delta)
    dimension = integer("dimension", dimension, low=2, high=10**12)
    steps = integer("steps", steps, low=1, high=5000)
    room.asked(problem, numerics)
    hard = directions(problem.link).hard
    if hard.shape[1] == 0:
        raise BadInput(
            "target", f"has no hard direction ({directions(problem.link).kinds}): nothing waits to be learned"
        )
    common: dict[str, Any] = {
        "delta": delta,
        "dimension": dimension,
        "steps": steps,
        "numerics": numerics.to_dict(),
        "problem": problem.to_dict(),
    }
    room.require_room(problem, steps, numerics, kept=False)
    parts, norms = [], []
    linear = min(steps, _LINEAR_STEPS)
    paths = min(numerics.paths, max(_PATHS_OF_DRAWS, numerics.paths * _FULL_PATHS // linear))
    for i in range(numerics.replicas):
        run = dmft.solve(problem, delta, linear, paths=paths, seed=(numerics.seed, i))
        if run.diverged_at is not None:
            return LearningTime(
                **common,
                time=None,
                quartiles=[None] * 3,
                success_probability=0.0,
                hidden_variance=np.zeros(0),
                diverged_at=run.diverged_at,
                status=Status.DIVERGED,
                warnings=[
                    f"The dynamics diverges at step {run.diverged_at}: try a smaller step size or a larger delta."
                ],
            )
        parts.append(escape.escape(run))
        norms.append(run.norm2)
        if progress:
            progress("linear stage", i + 1, numerics.replicas)
    whole = escape.mean(parts)
    stage = _Stage(problem, delta, dimension, steps, whole, np.mean(norms, axis=0), _roots(whole.covariance))
    search = _by_quantiles if stage.freedoms == 1 else _by_draws
    quartiles, success, more = search(stage, numerics, progress)
    v = np.stack([part.covariance for part in parts])
    errors = {"hidden_variance": np.std(v, axis=0, ddof=1) / math.sqrt(len(v))}
    m, k = problem.m, problem.k
    return LearningTime(
        **common,
        time=quartiles[1],
        quartiles=quartiles,
        success_probability=success,
        **shaped(m, k, hidden_variance=padded(whole.covariance, steps)),
        stderr=shaped(m, k, **{name: padded(error, steps) for name, error in errors.items()}) | more,
    )


def _roots(covariance: np.ndarray) -> np.ndarray:
    """Lower triangular roots of covariances (T + 1, n, n), which move with t as little as they can."""
    size = np.einsum("tii->t", covariance)[:, None, None]
    return np.linalg.cholesky(covariance + 1e-12 * size * np.eye(covariance.shape[1]))


def _step(time: float) -> float | None:
    """The step at which the threshold is first seen to be passed."""
    return float(math.ceil(time - 1e-9)) if math.isfinite(time) else None


def _by_quantiles(
    stage: _Stage, numerics: Numerics, progress: Progress | None
) -> tuple[list[float | None], float, dict[str, object]]:
    """|w| at its quartiles; the success probability by bisection in the quantile."""
    paths = min(numerics.paths, _PATHS)
    replicas = min(numerics.replicas, _REPLICAS)
    done, total = 0, 3 * replicas + _BISECTIONS

    def time(level: float, replica: int) -> float:
        nonlocal done
        w = np.array([float(ndtri(0.5 + 0.5 * level))])
        found = stage.crossing(w, numerics.seed + 1000 * replica, paths)
        done += 1
        if progress:
            progress("nonlinear stage", min(done, total), total)
        return found

    times = np.array([[time(level, i) for i in range(replicas)] for level in (0.25, 0.5, 0.75)])
    middle = np.median(times, axis=1)
    spread = [float(np.std(t, ddof=1) / math.sqrt(replicas)) if np.all(np.isfinite(t)) else math.nan for t in times]
    # A larger |w| learns earlier: find the smallest quantile that learns in time.
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
    stage: _Stage, numerics: Numerics, progress: Progress | None
) -> tuple[list[float | None], float, dict[str, object]]:
    """Several neurons or directions: w is drawn, from a scrambled Sobol sequence."""
    points = qmc.Sobol(stage.freedoms, rng=np.random.default_rng([numerics.seed, 99])).random(_DRAWS)
    paths = min(numerics.paths, _PATHS_OF_DRAWS)
    times = []
    for i, w in enumerate(ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))):
        times.append(stage.crossing(w, numerics.seed + 1000 * (i % _REPLICAS), paths))
        if progress:
            progress("nonlinear stage", i + 1, _DRAWS)
    ordered = np.array(times)
    quartiles = [_step(t) for t in np.quantile(ordered, [0.75, 0.5, 0.25], method="nearest")]
    success = float(np.mean(np.isfinite(ordered)))
    # Of independent draws: those of a Sobol sequence are more even.
    errors = [_quantile_error(ordered, level) for level in (0.75, 0.5, 0.25)]
    told = {"success_probability": math.sqrt(success * (1 - success) / _DRAWS), "quartiles": errors, "time": errors[1]}
    return quartiles, success, told


def _quantile_error(values: np.ndarray, level: float) -> float:
    """Half the distance between the order statistics one binomial deviation to either side."""
    width = math.sqrt(level * (1.0 - level) / values.size)
    low, high = np.quantile(values, [max(level - width, 0.0), min(level + width, 1.0)], method="nearest")
    return 0.5 * float(high - low) if np.isfinite(high) else math.nan
