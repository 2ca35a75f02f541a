"""Outliers that are not along hard directions: along easy ones, and along the network's own weights (theory 1.3)."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable

import numpy as np

from bulkedge.dynamics import dmft
from bulkedge.foundation.answers import Outlier
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra import matrix_outliers
from bulkedge.spectra.matrix_law import MatrixLaw
from bulkedge.spectra.revealed import revealed_outliers

MOST_PATHS, _REPLICAS = 32768, 4
_NODES = 1 << 17
"""m^2 times the samples of one replica that the whole Hessian's equation is given."""

Seen = tuple[str, str, float, float]
"""Side of the bulk, kind, value, overlap2."""


def block_outliers(runs: list[dmft.Run], neuron: int, delta: float, time: int) -> list[Outlier]:
    """Easy and weight outliers of one neuron's block, on both sides of the bulk; see `typical`."""

    def seen(run: dmft.Run) -> list[Seen]:
        g, c, f = _samples(run, run.weights(time)[neuron], time, MOST_PATHS)
        found = []
        for spike in revealed_outliers(g, c, f if f.shape[1] else None, delta) if np.any(g) else []:
            told = _kind(run.problem, spike.kernel[None], float(spike.overlaps.sum()))
            found += [(spike.side, told[0], spike.value, told[1])] if told else []
        return found

    return typical(runs, seen)


def whole_outliers(runs: list[dmft.Run], delta: float, time: int) -> list[Outlier]:
    """The same for the whole md x md Hessian; overlap2 sums over the m blocks of an eigenvector."""

    def seen(run: dmft.Run) -> list[Seen]:
        weights = np.moveaxis(run.weights(time, "full"), -1, 0)
        g, c, f = _samples(run, weights, time, max(1024, _NODES // run.problem.m**2))
        law, found = MatrixLaw(g, c), []
        for side, look in (("below", matrix_outliers.below), ("above", matrix_outliers.above)):
            for spike in look(law, delta, f):
                told = _kind(run.problem, spike.direction / np.linalg.norm(spike.direction), spike.overlap2)
                found += [(side, told[0], spike.value, told[1])] if told else []
        return found

    return typical(runs, seen)


def _samples(run: dmft.Run, weights: np.ndarray, time: int, most: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The first samples: weights, coordinates (n, q) along all that training has seen, factors used so far (n, K)."""
    born, few = int(run.kernels.born[time]), slice(None, most)
    x, f = run.coordinates(few)
    return weights[few], x[: run.problem.k + run.problem.m + born].T, f[:born].T


def _kind(problem: Problem, kernel: np.ndarray, overlap2: float) -> tuple[str, float] | None:
    """Kind and overlap2 of an eigenvector with unit kernel (m, q) in the revealed span; None if it is a hidden one."""
    link, k = directions(problem.link), problem.k
    hidden, easy = (float(np.sum((kernel[:, :k] @ basis) ** 2)) for basis in (link.hard, link.easy))
    own = float(np.sum(kernel[:, k:] ** 2))
    if hidden > max(easy, own):
        return None
    return ("easy", overlap2 * easy) if easy > own else ("weight", overlap2 * own)


def typical(runs: list[dmft.Run], seen: Callable[[dmft.Run], list[Seen]]) -> list[Outlier]:
    """Outliers that most replicas have.

    kind easy: overlap2 is the squared projection of the eigenvector on the easy directions. kind weight: on the span of
    the weights theta(0..t) of all neurons.
    """
    groups: dict[tuple[str, str], list[list[tuple[float, float]]]] = defaultdict(list)
    runs = runs[:_REPLICAS]
    for i, run in enumerate(runs):
        for side, kind, value, overlap2 in seen(run):
            found = groups[side, kind]
            found.extend([] for _ in range(i + 1 - len(found)))
            found[i].append((value, overlap2))
    outliers = []
    for (side, kind), found in groups.items():
        # From the outermost inwards, so that the same outlier has the same place in every replica.
        lists = [sorted(f, reverse=side == "above") for f in found]
        for place in range(max(map(len, lists))):
            here = np.array([f[place] for f in lists if len(f) > place])
            if 2 * len(here) <= len(runs):
                continue
            value, overlap2 = here.mean(axis=0)
            error = here.std(axis=0, ddof=1) / math.sqrt(len(here)) if len(here) > 1 else (math.nan, math.nan)
            outliers.append(
                Outlier(
                    value=float(value),
                    overlap2=float(overlap2),
                    kind=kind,
                    stderr=float(error[0]),
                    overlap2_stderr=float(error[1]),
                    probability=len(here) / len(runs),
                )
            )
    return outliers
