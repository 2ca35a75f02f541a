"""Quasi-random Gaussian points with weights, in independent replicas, and the jackknife over them.

The points are scrambled Sobol points of N(0, s^2 I) with s > 1, weighted back to N(0, I): the tails, where second
moments and Hermite polynomials live, are sampled as well as the middle. Replicas differ by the scrambling alone, so
that the spread between them is an honest error of the smooth integrals, which converge much faster than 1/sqrt(N).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

REPLICAS = 16


@dataclass(frozen=True, eq=False)
class Cloud:
    """points: (R, N, D). p: (R, N) probabilities, each replica sums to 1."""

    points: np.ndarray
    p: np.ndarray


@functools.lru_cache(maxsize=6)
def cloud(dimension: int, log2: int, replicas: int = REPLICAS, seed: int = 20260201) -> Cloud:
    """2^log2 points in each replica."""
    spread = 1.0 + 1.2 / dimension
    points = np.empty((replicas, 1 << log2, dimension))
    streams = np.random.SeedSequence(seed).spawn(replicas)
    for out, stream in zip(points, streams, strict=True):
        u = qmc.Sobol(dimension, rng=np.random.default_rng(stream)).random_base2(log2)
        out[:] = spread * ndtri(np.clip(u, 1e-16, 1.0 - 1e-16))
    p = np.exp(-0.5 * (1.0 - spread**-2) * np.einsum("rnd,rnd->rn", points, points))
    p /= p.sum(axis=1, keepdims=True)
    points.flags.writeable = p.flags.writeable = False
    return Cloud(points, p)


def leave_one_out(sums: np.ndarray) -> np.ndarray:
    """Replicas (R, ...) to means over (all, all but the first, all but the second, ...): (R + 1, ...)."""
    total, r = sums.sum(axis=0, keepdims=True), len(sums)
    return np.concatenate([total / r, (total - sums) / (r - 1)])


def jackknife(stack: Any) -> tuple[Any, Any]:
    """(estimate without its first-order bias, standard error) of a function of means, from `leave_one_out` values."""
    values = np.asarray(stack, float)
    r = len(values) - 1
    rest = values[1:]
    estimate = r * values[0] - (r - 1) * rest.mean(axis=0)
    return estimate, np.sqrt((r - 1) / r * np.sum((rest - rest.mean(axis=0)) ** 2, axis=0))
