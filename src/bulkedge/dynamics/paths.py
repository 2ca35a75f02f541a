"""Quasi-random standard Gaussian samples that drive the effective process."""

from __future__ import annotations

import numpy as np

_QUASI = 40
"""Rows taken from a Sobol sequence; later ones matter little and are pseudo-random."""


def gaussians(rows: int, count: int, seed: tuple[int, ...]) -> np.ndarray:
    """Standard Gaussians of shape (rows, count), count a power of two.

    The first rows are a scrambled Sobol sequence through the inverse normal distribution: randomised quasi-Monte Carlo,
    unbiased, and independent between seeds, so that the spread of replicas is an honest error.
    """
    from scipy.special import ndtri
    from scipy.stats import qmc

    quasi = min(rows, _QUASI)
    points = qmc.Sobol(quasi, scramble=True, rng=np.random.default_rng([*seed, 1])).random(count)
    out = np.empty((rows, count))
    out[:quasi] = ndtri(np.clip(points, 1e-16, 1.0 - 1e-16)).T
    out[quasi:] = np.random.default_rng([*seed, 2]).standard_normal((rows - quasi, count))
    return out


def coins(steps: int, count: int, probability: float, seed: tuple[int, ...]) -> np.ndarray:
    """Mini-batch weights (steps, count): 1/probability with that probability, else 0."""
    thrown = np.random.default_rng([*seed, 3]).random((steps, count)) < probability
    return thrown / probability


def power_of_two(count: int) -> int:
    """The least power of two not below `count`: Sobol points are balanced only then."""
    return 1 << (int(count) - 1).bit_length()
