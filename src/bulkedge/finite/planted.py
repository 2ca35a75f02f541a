"""Networks that start with an overlap with some of the target's directions, and their Hessians along training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bulkedge.dynamics.descent import descend
from bulkedge.dynamics.stored_data import START, StoredData
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian.streams import stream
from bulkedge.models.problem import Problem
from bulkedge.spectra.eigenpairs import eigenpairs


def planted_spectra(
    problem: Problem,
    overlap: np.ndarray,
    delta: float,
    dimension: int,
    times: Sequence[int] = (0,),
    *,
    neuron: int = 0,
    pairs: int = 6,
    seed: int = 0,
) -> list[tuple[np.ndarray, np.ndarray]]:
    """At each time, the lowest eigenvalues (pairs,) of a neuron's block and the components (k, pairs) of their vectors.

    theta_j(0) = the overlap (m, k) with theta_* (the first k axes) + a uniform rest, of unit length in all; the data
    are independent of it. A function of `seed`.
    """
    d, delta = integer("dimension", dimension, low=problem.k + 1, high=10**6), positive("delta", delta)
    given = np.asarray(overlap, float)
    if given.shape != (problem.m, problem.k) or np.any(np.sum(given**2, axis=1) > 1):
        raise BadInput("overlap", f"must be {problem.m} x {problem.k}, each neuron's of length at most 1")
    data = StoredData.drawn(problem, round(delta * d), d, (seed,))
    rest = stream(seed, START).standard_normal((problem.m, d - problem.k))
    rest *= (np.sqrt(1.0 - np.sum(given**2, axis=1)) / np.linalg.norm(rest, axis=1))[:, None]
    seen: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def visit(t: int, theta: np.ndarray) -> None:
        if t in times:
            with data.curvature(theta, neuron, t) as product:
                found = eigenpairs(product, d, pairs, tolerance=1e-4, seed=t)
            seen[t] = found.values, found.vectors[: problem.k]

    descend(data, np.concatenate([given, rest], axis=1), max(times), visit=visit)
    nothing = np.full(pairs, np.nan), np.full((problem.k, pairs), np.nan)
    return [seen.get(t, nothing) for t in times]
