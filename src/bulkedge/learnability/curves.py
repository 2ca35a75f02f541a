"""Train and test curves of gradient descent in the limit of high dimension (theory 1.5, 1.7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bulkedge.dynamics import dmft, escape
from bulkedge.foundation.answers import Trajectory, shaped
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.status import Status
from bulkedge.learnability.room import asked, require_room
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem

Progress = Callable[[str, int, int], None]
MOST_STEPS = 2000


@over_arrays("delta")
def trajectory(
    problem: Problem,
    delta: float,
    steps: int = 20,
    *,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> Trajectory:
    """Losses, norms, overlaps and hidden variance over t = 0..steps at delta = n/d, each with its standard error.

    Averages over independent replicas of the DMFT. hidden_variance: v(t) = d E[overlap^2] along hard directions.
    """
    asked(problem, numerics)
    delta, steps = positive("delta", delta), integer("steps", steps, low=0, high=MOST_STEPS)
    require_room(problem, steps, numerics, kept=False)
    runs: list[dmft.Run] = []
    escapes: list[escape.Escape] = []
    hard = directions(problem.link).hard.shape[1]
    for i in range(numerics.replicas):
        run = dmft.solve(problem, delta, steps, paths=numerics.paths, seed=(numerics.seed, i))
        if hard:
            escapes.append(escape.escape(run))
        runs.append(run.without_samples())
        if progress:
            progress("replicas", i + 1, numerics.replicas)
    diverged_at = min((r.diverged_at for r in runs if r.diverged_at is not None), default=None)
    last = steps if diverged_at is None else diverged_at - 1
    values: dict[str, np.ndarray | None] = {}
    errors: dict[str, np.ndarray] = {}

    def put(name: str, per_replica: list[np.ndarray]) -> None:
        values[name], errors[name] = summary([v[: last + 1] for v in per_replica], steps)

    put("train_loss", [r.train_loss for r in runs])
    put("test_loss", [r.test_loss for r in runs])
    put("norm2", [r.norm2 for r in runs])
    put("overlap", [r.overlap for r in runs])
    put("cosine", [r.overlap / np.sqrt(np.maximum(r.norm2, 1e-300))[:, :, None] for r in runs])
    values["hidden_variance"] = None
    if hard:
        put("hidden_variance", [e.covariance for e in escapes])
    m, k = problem.m, problem.k
    warnings = []
    if diverged_at is not None:
        warnings.append(f"The dynamics diverges at step {diverged_at}: try a smaller step size or a larger delta.")
    return Trajectory(
        delta=delta,
        time=np.arange(steps + 1, dtype=float),
        **shaped(m, k, **values),
        stderr=shaped(m, k, **errors),
        diverged_at=diverged_at,
        status=Status.CONVERGED if diverged_at is None else Status.DIVERGED,
        warnings=warnings,
        numerics=numerics.to_dict(),
        problem=problem.to_dict(),
    )


def padded(values: np.ndarray, steps: int) -> np.ndarray:
    """Times after the last one computed become NaN."""
    missing = steps + 1 - len(values)
    return np.concatenate([values, np.full((missing, *values.shape[1:]), np.nan)])


def summary(replicas: list[np.ndarray], steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean over replicas and its standard error."""
    stack: Any = np.stack(replicas)
    error = np.std(stack, axis=0, ddof=1) / np.sqrt(len(replicas))
    return padded(stack.mean(axis=0), steps), padded(error, steps)
