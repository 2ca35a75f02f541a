"""The step at which a network first finds a feature: descent that stops there, for learning times over many runs."""

from __future__ import annotations

import contextlib
import math

import numpy as np

from bulkedge.dynamics.descent import descend, initial
from bulkedge.dynamics.lazy_data import LazyData
from bulkedge.dynamics.stored_data import START, StoredData
from bulkedge.finite.choice import choose
from bulkedge.finite.simulate import sizes
from bulkedge.foundation.checks import integer
from bulkedge.foundation.errors import BadInput
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem


class _Found(Exception):
    """Raised inside a descent to end it."""


def first_passage(
    problem: Problem, delta: float, dimension: int, steps: int, seed: int = 0, *, run: int = 0, data: str = "auto"
) -> float:
    """The first step at which some neuron has |P_H theta|/|theta| > 1/2; inf if none within `steps`.

    It is the run number `run` of `simulate` with the same arguments, which goes on after that step.
    """
    n, d = sizes(delta, None, dimension, problem.k)
    steps = integer("steps", steps, low=1, high=10**7)
    key = (integer("seed", seed, low=0, high=2**63 - 1), integer("run", run, low=0))
    hard = directions(problem.link).hard
    if hard.shape[1] == 0:
        raise BadInput("target", "has no hard direction: nothing waits to be learned")
    stored = choose(data, problem, n, d, steps, 0, None) == "stored"
    training = StoredData.drawn(problem, n, d, key) if stored else LazyData(problem, n, d, key, steps)
    at = math.inf

    def look(t: int, theta: np.ndarray) -> None:
        nonlocal at
        along = np.linalg.norm(theta[:, : problem.k] @ hard, axis=1)
        if np.any(along > 0.5 * np.linalg.norm(theta, axis=1)):
            at = float(t)
            raise _Found

    with contextlib.suppress(_Found):
        descend(training, initial(problem, d, (*key, START)), steps, visit=look)
    return at
