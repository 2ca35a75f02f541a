"""Outliers that are not along hard directions: along easy ones, and along the network's own weights (theory 1.3)."""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from bulkedge.dynamics import dmft
from bulkedge.foundation.answers import Outlier
from bulkedge.learnability.laws import Sampled
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra.revealed import RevealedSpike, revealed_outliers

MOST_PATHS, _REPLICAS = 32768, 4


def other_outliers(problem: Problem, neuron: int, delta: float, time: int, sample: Sampled) -> list[Outlier]:
    """Easy and weight outliers on both sides of the bulk, those that most replicas have.

    kind easy: overlap2 is the squared projection of the eigenvector on the easy directions. kind weight: on the span of
    the weights theta(0..t) of all neurons.
    """
    groups: dict[tuple[str, str], list[list[tuple[float, float]]]] = defaultdict(list)
    runs = sample.runs[:_REPLICAS]
    for i, run in enumerate(runs):
        for spike, kind, overlap2 in _kinds(run, neuron, delta, time):
            found = groups[spike.side, kind]
            found.extend([] for _ in range(i + 1 - len(found)))
            found[i].append((spike.value, overlap2))
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


def _kinds(run: dmft.Run, neuron: int, delta: float, time: int) -> list[tuple[RevealedSpike, str, float]]:
    """The outliers of one replica that are not hidden, with kind and overlap2."""
    problem, link = run.problem, directions(run.problem.link)
    k, m = problem.k, problem.m
    born = int(run.kernels.born[time])
    few = slice(None, MOST_PATHS)
    g = run.weights(time)[neuron, few]
    c = np.asarray(run.x)[: k + m + born, few].T
    f = np.asarray(run.f)[:born, few].T
    found = []
    for spike in revealed_outliers(g, c, f if born else None, delta):
        target, weights = spike.kernel[:k], spike.kernel[k:]
        hidden = float(np.sum((link.hard.T @ target) ** 2))
        easy = float(np.sum((link.easy.T @ target) ** 2))
        own = float(weights @ weights)
        if hidden > max(easy, own) or not np.any(g):
            continue
        size = float(spike.overlaps.sum())
        found.append((spike, "easy", size * easy) if easy > own else (spike, "weight", size * own))
    return found
