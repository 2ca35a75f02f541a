"""Full-batch gradient descent of the two-layer network of a `Problem`, recorded step by step (theory 1.1).

    theta(t+1) = theta(t) - eta (grad Risk(theta(t)) + lambda theta(t)) + beta (theta(t) - theta(t-1)),

same batch at every step unless problem.batch < 1. The samples are stored or lazily revealed: the two look the same
from here. theta is kept in float64, passes over samples are float32.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from bulkedge.gaussian.streams import stream
from bulkedge.models.problem import Problem

BOUND = 1e12
"""Descent has diverged where the loss or a squared norm is not finite or above this."""


class Data(Protocol):
    """What descent asks of a training set; see `StoredData` and `LazyData`."""

    problem: Problem
    n: int
    d: int
    kind: str

    def gradient(self, theta: np.ndarray, step: int) -> tuple[np.ndarray, float]: ...

    def risk(self, theta: np.ndarray) -> float: ...

    def curvature(
        self, theta: np.ndarray, neuron: int | None, tag: int = 0
    ) -> AbstractContextManager[Callable[..., np.ndarray]]: ...


@dataclass(frozen=True, eq=False)
class Descent:
    """One run: arrays over t = 0..steps, NaN from `diverged_at` on.

    train_loss: (T+1,). gram: theta_i . theta_j, (T+1, m, m). overlap: theta_j . theta_*i, (T+1, m, k).
    theta: the final weights (m, d).
    """

    train_loss: np.ndarray
    gram: np.ndarray
    overlap: np.ndarray
    theta: np.ndarray
    diverged_at: int | None


def initial(problem: Problem, d: int, key: tuple[int, ...]) -> np.ndarray:
    """theta(0): m independent points uniform on the unit sphere of R^d, (m, d)."""
    theta = stream(*key).standard_normal((problem.m, d))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    return theta


def descend(
    data: Data,
    theta: np.ndarray,
    steps: int,
    *,
    visit: Callable[[int, np.ndarray], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Descent:
    """Train from theta (m, d), which is overwritten.

    Args:
        data: the training set.
        theta: initial weights in float64.
        steps: T.
        visit: called as visit(t, theta(t)) at every t before the step is taken; it may look at curvatures.
        progress: called as progress(t) after every step.
    """
    problem, k = data.problem, data.problem.k
    m = problem.m
    loss = np.full(steps + 1, np.nan)
    gram = np.full((steps + 1, m, m), np.nan)
    overlap = np.full((steps + 1, m, k), np.nan)
    before = theta.copy() if problem.momentum else None
    slope, diverged = None, None
    for t in range(steps + 1):
        with np.errstate(over="ignore", invalid="ignore"):
            products = theta @ theta.T
        if not np.max(np.diag(products)) <= BOUND:
            diverged = t
            break
        gram[t], overlap[t] = products, theta[:, :k]
        if t < steps:
            slope, loss[t] = data.gradient(theta, t)
        else:
            loss[t] = data.risk(theta)
        if not loss[t] <= BOUND:
            loss[t] = np.nan
            gram[t], overlap[t] = np.nan, np.nan
            diverged = t
            break
        if visit is not None:
            visit(t, theta)
        if slope is not None and t < steps:
            _step(problem, theta, slope, before)
        if progress is not None:
            progress(t)
    return Descent(loss, gram, overlap, theta, diverged)


def _step(problem: Problem, theta: np.ndarray, slope: np.ndarray, before: np.ndarray | None) -> None:
    """One step in place; `before` is theta(t-1) on entry and theta(t) on return."""
    with np.errstate(over="ignore", invalid="ignore"):
        slope *= -problem.step_size
        if problem.weight_decay:
            slope -= problem.step_size * problem.weight_decay * theta
        if before is not None:
            slope += problem.momentum * (theta - before)
            before[...] = theta
        theta += slope
