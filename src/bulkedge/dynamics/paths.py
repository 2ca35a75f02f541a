"""Quasi-random standard Gaussian samples that drive the effective process."""

from __future__ import annotations

import functools

import numpy as np

_REMEMBERED = 1 << 16
_QUASI = 40
"""Rows taken from a Sobol sequence; later ones matter little and are pseudo-random."""


def gaussians(rows: int, count: int, seed: tuple[int, ...]) -> np.ndarray:
    """Standard Gaussians of shape (rows, count), count a power of two; asking for more rows repeats the first ones.

    The first rows are a scrambled Sobol sequence through the inverse normal distribution: randomised quasi-Monte Carlo,
    unbiased, and independent between seeds, so that the spread of replicas is an honest error.
    """
    first = (_remembered if count <= _REMEMBERED else _sobol)(count, seed)
    if rows <= _QUASI:
        return first[:rows].copy()
    more = np.random.default_rng([*seed, 2]).standard_normal((rows - _QUASI, count))
    return np.concatenate([first, more])


def _sobol(count: int, seed: tuple[int, ...]) -> np.ndarray:
    from scipy.special import ndtri
    from scipy.stats import qmc

    points = qmc.Sobol(_QUASI, scramble=True, rng=np.random.default_rng([*seed, 1])).random(count)
    return ndtri(np.clip(points, 1e-16, 1.0 - 1e-16)).T.copy()


_remembered = functools.lru_cache(maxsize=16)(_sobol)
"""Searches over delta ask for the same numbers again and again."""


def coins(steps: int, count: int, probability: float, seed: tuple[int, ...]) -> np.ndarray:
    """Mini-batch weights (steps, count): 1/probability with that probability, else 0."""
    thrown = np.random.default_rng([*seed, 3]).random((steps, count)) < probability
    return thrown / probability


def power_of_two(count: int) -> int:
    """The least power of two not below `count`: Sobol points are balanced only then."""
    return 1 << (int(count) - 1).bit_length()
