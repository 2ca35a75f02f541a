"""All eigenvalues of the Hessian of a network really trained, for matrices small enough to be stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from bulkedge.dynamics.descent import descend, initial
from bulkedge.dynamics.stored_data import START, StoredData
from bulkedge.foundation import memory
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.result import Record
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem

MOST = 5000
"""Dimensions of a matrix that is diagonalised in a minute."""


@dataclass(frozen=True, kw_only=True)
class WholeSpectrum(Record):
    """Of one neuron's block of the Hessian at each of `times`; NaN where the run had diverged.

    eigenvalues: (times, d), ascending. overlap2: (times, d), squared projections of the eigenvectors on the hard
    directions.
    """

    times: tuple[int, ...]
    eigenvalues: np.ndarray
    overlap2: np.ndarray


def whole_spectrum(
    problem: Problem, delta: float, dimension: int, times: Iterable[int], *, neuron: int = 0, seed: int = 0
) -> WholeSpectrum:
    """Train once, on the samples of the first run of `simulate` with this seed, and diagonalise at `times`."""
    d = integer("dimension", dimension, low=max(2, problem.k), high=MOST)
    n = max(1, round(positive("delta", delta) * d))
    wanted = tuple(sorted({integer("times", t, low=0, high=10**6) for t in times}))
    if not wanted:
        raise BadInput("times", "needs at least one step")
    if problem.network.kink is not None:
        raise BadInput("activation", f"{problem.network.sigma.name} has a kink: its Hessian is no average over samples")
    memory.require("dimension", 32.0 * d * d + 12.0 * n * d, f"diagonalising a matrix of {d} dimensions")
    data = StoredData.drawn(problem, n, d, (seed, 0))
    x = data.matrix()
    layer = [np.asarray(v, np.float32) for v in problem.layer]
    values = np.full((len(wanted), d), np.nan)
    overlap2 = np.full((len(wanted), d), np.nan)
    hard = directions(problem.link).hard

    def visit(t: int, theta: np.ndarray) -> None:
        if t in wanted:
            g = np.asarray(problem.pointwise.block((x @ theta.T).T, data.labels, *layer)[neuron], np.float32)
            matrix = np.asarray((x * g[:, None]).T @ x, float) / n
            i = wanted.index(t)
            values[i], vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
            overlap2[i] = np.sum((hard.T @ vectors[: problem.k]) ** 2, axis=0)

    descend(data, initial(problem, d, (seed, 0, START)), wanted[-1], visit=visit)
    return WholeSpectrum(times=wanted, eigenvalues=values, overlap2=overlap2)
