"""Hessians at the start of training for inputs with a covariance, as whole matrices."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bulkedge.dynamics.descent import initial
from bulkedge.dynamics.stored_data import START
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian.streams import stream
from bulkedge.models.covariance import Covariance
from bulkedge.models.problem import Problem


@dataclass(frozen=True, eq=False)
class StartSpectrum:
    """Of the first neuron's block: eigenvalues `values` (d,), ascending; overlap2 and own (d,), the squared components
    of their eigenvectors along theta_* and along theta(0).
    """

    values: np.ndarray
    overlap2: np.ndarray
    own: np.ndarray


def start_spectrum(problem: Problem, covariance: Covariance, delta: float, dimension: int, seed: int) -> StartSpectrum:
    """One network with one direction on n = round(delta d) fresh samples; a function of `seed`.

    Sigma is diagonal: its eigenvalues are quantiles of the spectrum, and theta_* has random components of the given
    weight in each eigenspace.
    """
    d, delta = integer("dimension", dimension, low=2, high=20_000), positive("delta", delta)
    if problem.k != 1:
        raise BadInput("target", f"must have one direction here, not {problem.k}")
    place = np.searchsorted(np.cumsum(covariance.mass), (np.arange(d) + 0.5) / d)
    place = np.minimum(place, covariance.tau.size - 1)
    tau = covariance.tau[place]
    weights = covariance.measure(1)[:, 0, 0] / covariance.tau
    rng = stream(seed, 5)
    theta = rng.standard_normal(d)
    within = np.bincount(place, theta**2, covariance.tau.size)
    theta *= np.sqrt(weights / np.where(within > 0, within, 1.0))[place]
    theta /= np.linalg.norm(theta)
    x = (rng.standard_normal((round(delta * d), d), dtype=np.float32) * np.sqrt(tau)).astype(np.float32)
    start = initial(problem, d, (seed, START))
    noise = rng.standard_normal(len(x))
    y = problem.labels((x @ theta / np.sqrt(theta**2 @ tau))[:, None], noise)
    g = np.asarray(problem.pointwise.block(start @ x.T, y, *problem.layer))[0].astype(np.float32)
    values, vectors = np.linalg.eigh(x.T @ (g[:, None] * x) / np.float32(len(x)))
    return StartSpectrum(values, (vectors.T @ theta) ** 2, (vectors.T @ start[0]) ** 2)
