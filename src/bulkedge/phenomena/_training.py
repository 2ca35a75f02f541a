"""What several phenomena do: train one network and see whether it found the features, and predict the same."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import bulkedge as be
from bulkedge.foundation.phenomenon import Quantity
from bulkedge.learnability.floor import bounded_below
from bulkedge.models.directions import directions

SHARP_PATHS = 16384
"""Paths of a prediction whose Hessian weights are bounded below; otherwise there are as many as samples."""
_LEAST, _MOST = 256, 131072
_ROUNDING = 1.0 / math.sqrt(12.0)
"""Standard error of a time for being a whole step."""

MEASURED = (
    Quantity("learned", over="fraction", label="fraction that learned"),
    Quantity("success", over="fraction", label="fraction that learned for good"),
    Quantity("learned_at", over="median", label="learning time"),
)
PREDICTED = (
    Quantity("learning_probability", label="probability to learn"),
    Quantity("learning_time", label="median learning time"),
)


@functools.lru_cache(maxsize=256)
def problem(
    target: str, activation: str, loss: str, step_size: float, bias: float = 0.0, batch: float = 1.0
) -> be.Problem:
    """One neuron with second layer 1."""
    return be.Problem(target, be.Network(activation, bias=bias), loss, step_size, batch=batch)


def cosines(run: dict[str, Any], problem: be.Problem) -> np.ndarray:
    """|P_H theta|/|theta| of the best neuron of a run over time, (steps + 1,)."""
    shape = (-1, problem.m, problem.k)
    return np.linalg.norm(np.reshape(run["cosine"], shape) @ directions(problem.link).hard, axis=2).max(axis=1)


def first_above(values: np.ndarray, level: float = 0.5) -> float:
    """The first index at which values exceed the level; NaN if none does."""
    hit = np.flatnonzero(values > level)
    return float(hit[0]) if hit.size else math.nan


def trained(*, delta: float, dimension: int, steps: int, seed: int, **learner: Any) -> dict[str, float]:
    """Train once. learned: some time within `steps` |P_H theta|/|theta| > 1/2; success: also at the end."""
    task = problem(**learner)
    run = be.simulate(task, delta, dimension, steps, seeds=1, seed=seed)
    at = first_above(cosines(run.seeds[0], task))
    return {"learned": float(math.isfinite(at)), "success": float(run.success[0]), "learned_at": at}


def predicted(*, delta: float, dimension: int, steps: int, **learner: Any) -> dict[str, float]:
    """The probability to learn within `steps`, and the median time, of theory 1.7.

    Where the Hessian weights are unbounded below, the law of a finite sample counts (theory 1.9): the paths of the
    dynamics are then as many as there are samples, to the nearest power of two.
    """
    task = problem(**learner)
    paths = paths_for(task, delta * dimension)
    numerics = be.Numerics(paths=paths, replicas=4)
    answer = be.learning_time(task, delta, dimension, steps, numerics=numerics)
    error = answer.stderr.get("time", math.nan)
    return {
        "learning_probability": answer.success_probability,
        "learning_probability_stderr": answer.stderr.get("success_probability", math.nan),
        "learning_time": math.inf if answer.time is None else answer.time,  # more than half never learn
        "learning_time_stderr": math.nan if answer.time is None else math.hypot(error, _ROUNDING),
    }


def paths_for(task: be.Problem, samples: float) -> int:
    """How many paths a prediction for so many samples should have."""
    if bounded_below(task, 0):
        return SHARP_PATHS
    return int(np.clip(2 ** round(math.log2(samples)), _LEAST, _MOST))
