"""When descent finds a hard direction at a finite dimension (theory 1.7).

Two stages. While the overlap is small it is a Gaussian process xi/sqrt(d), xi(0) ~ N(0, I), driven by a noise zeta that
is known (dynamics.escape). Later the dynamics is deterministic but nonlinear. So histories (xi(0), zeta(0..T)) are
drawn, and for each the full DMFT is run from the overlap xi(0)/sqrt(d), pushed by -zeta(t)/sqrt(d), until the feature
is found: first passages, where growth wins and where noise does. Given xi(t1) = v(t1)^(1/2) w at the time t1 where a
typical overlap has grown to a third of |theta|, a history is still Gaussian: w, which all but decides where growth
wins, is taken from even points, and the rest at random. No constant is fitted. What is left out: fluctuations of the
bulk at finite d, which spread the growth rate by O(1/sqrt d).
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
_DRAWS, _GROUPS = 128, 4
_PATHS = 8192
"""At most, for a nonlinear run: its spurious overlap cancels in pairs, and its errors in the many draws."""
_GROWN = 1.0 / 3.0
"""|overlap|/|theta| of a typical run where the linear stage is about to end."""
_TYPICAL = 0.6745


@dataclass(frozen=True)
class _Stage:
    """What the linear stage has found in each replica. norm2: (T + 1, m). covariance: (T + 1, mr, mr)."""

    problem: Problem
    delta: float
    dimension: int
    steps: int
    parts: list[escape.Escape]
    norm2: np.ndarray
    covariance: np.ndarray

    @property
    def end(self) -> int:
        """t1; the last time of the linear stage if overlaps do not grow that far."""
        variance = np.einsum("tii->ti", self.covariance).reshape(len(self.covariance), self.problem.m, -1).sum(axis=2)
        size = _TYPICAL * np.sqrt(variance / (self.dimension * self.norm2))
        grown = np.flatnonzero(size.max(axis=1) >= _GROWN)
        return max(1, int(grown[0])) if grown.size else len(size) - 1

    def history(self, w: np.ndarray, replica: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """xi(0) (mr,) and zeta (T, mr), given w (mr,); by conditioning a free draw of (xi(0), omega) on xi(t1)."""
        part, t1 = self.parts[replica], self.end
        value, vector = np.linalg.eigh(part.noise)
        first = rng.standard_normal(w.size)
        omega = vector @ (np.sqrt(np.maximum(value, 0.0)) * rng.standard_normal(value.size))
        gain, push, v = part.gain[t1], part.push[t1], part.covariance[t1]
        root = np.linalg.cholesky(v + 1e-12 * np.trace(v) * np.eye(w.size))
        y = np.linalg.solve(v, root @ w - gain @ first - push @ omega)
        return first + gain.T @ y, part.kick @ (omega + part.noise @ push.T @ y)

    def crossing(self, w: np.ndarray, seed: int, paths: int) -> float:
        """The first step at which some neuron has |P_H theta|/|theta| > 1/2, interpolated; inf if there is none."""
        hard = directions(self.problem.link).hard
        m, r, k, root = self.problem.m, hard.shape[1], self.problem.k, math.sqrt(self.dimension)
        first, zeta = self.history(w, seed % len(self.parts), np.random.default_rng([seed, 8]))
        drift = np.zeros((self.steps, m, k))
        drift[: len(zeta)] = -zeta.reshape(-1, m, r) @ hard.T / root
        start = first.reshape(m, r) @ hard.T / root
        # In a small dimension a draw can be longer than the weights.
        start /= max(1.0, float(np.linalg.norm(start, axis=1).max()) / 0.999)

        def learned(c: np.ndarray) -> bool:
            return bool(np.any(np.linalg.norm(c[:, :k] @ hard, axis=1) > 0.5 * np.linalg.norm(c, axis=1)))

        settings: dict[str, Any] = {"paths": paths, "seed": (seed, 7), "overlap": start, "drift": drift}
        run = dmft.solve(self.problem, self.delta, self.steps, **settings, until=learned)
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
    paths = min(numerics.paths, max(_PATHS, numerics.paths * _FULL_PATHS // linear))
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
    v = np.stack([part.covariance for part in parts])
    covariance, error = v.mean(axis=0), np.std(v, axis=0, ddof=1) / math.sqrt(len(v))
    stage = _Stage(problem, delta, dimension, steps, parts, np.mean(norms, axis=0), covariance)
    times = _times(stage, numerics, progress)
    quartiles, spread = _with_error(times, lambda t: np.quantile(t, _LEVELS, method="nearest"))
    success, missed = _with_error(times, lambda t: np.mean(np.isfinite(t)))
    steps_of = [float(math.ceil(t - 1e-9)) if math.isfinite(t) else None for t in quartiles]
    errors = {"quartiles": spread.tolist(), "time": float(spread[1])}
    # No finite number of draws tells a probability from 0 or 1.
    errors["success_probability"] = math.hypot(float(missed), 0.5 / times.size)
    m, k = problem.m, problem.k
    return LearningTime(
        **common,
        time=steps_of[1],
        quartiles=steps_of,
        success_probability=float(success),
        **shaped(m, k, hidden_variance=padded(covariance, steps)),
        stderr=shaped(m, k, hidden_variance=padded(error, steps)) | errors,
    )


_LEVELS = (0.75, 0.5, 0.25)


def _times(stage: _Stage, numerics: Numerics, progress: Progress | None) -> np.ndarray:
    """First passages, (groups, draws): each group has even points w of its own."""
    freedoms, paths = stage.covariance.shape[1], min(numerics.paths, _PATHS)
    each = _DRAWS // _GROUPS
    times = np.empty((_GROUPS, each))
    for g in range(_GROUPS):
        if freedoms == 1:
            # By symmetry |w| is enough; together the groups are even too.
            level = (np.arange(each) + (g + 0.5) / _GROUPS) / each
            draws = ndtri(0.5 + 0.5 * level)[:, None]
        else:
            points = qmc.Sobol(freedoms, rng=np.random.default_rng([numerics.seed, 99, g])).random(each)
            draws = ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))
        for i, w in enumerate(draws):
            times[g, i] = stage.crossing(w, numerics.seed * _DRAWS + g * each + i, paths)
            if progress:
                progress("nonlinear stage", g * each + i + 1, _DRAWS)
    return times


def _with_error(times: np.ndarray, functional: Callable[[np.ndarray], Any]) -> tuple[np.ndarray, np.ndarray]:
    """A functional of all times, and its standard error from the spread over groups; NaN where one is not finite."""
    parts = np.array([functional(group) for group in times], float)
    with np.errstate(invalid="ignore"):
        error = np.std(parts, axis=0, ddof=1) / math.sqrt(len(parts))
    return np.asarray(functional(times.ravel()), float), error
