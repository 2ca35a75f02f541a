"""Quasi-random standard Gaussian samples that drive the effective process."""

from __future__ import annotations

import functools

import numpy as np

_QUASI = 40
"""Rows taken from a Sobol sequence; later ones matter little and are pseudo-random."""


def gaussians(rows: range, count: int, seed: tuple[int, ...]) -> np.ndarray:
    """Some rows of an endless table of standard Gaussians: shape (len(rows), count), count a power of two.

    The first rows are a scrambled Sobol sequence through the inverse normal distribution: randomised quasi-Monte Carlo,
    unbiased, and independent between seeds, so that the spread of replicas is an honest error.
    """
    out = np.empty((len(rows), count))
    quasi = range(rows.start, min(rows.stop, _QUASI))
    if quasi:
        # Searches over delta ask for the same few rows again and again.
        remembered = count <= _REMEMBERED and rows.stop <= _QUASI
        out[: len(quasi)] = (_remembered if remembered else _sobol)(quasi, count, seed)
    for place, row in enumerate(rows):
        if row >= _QUASI:
            out[place] = np.random.default_rng([*seed, 2, row]).standard_normal(count)
    return out


def _sobol(rows: range, count: int, seed: tuple[int, ...]) -> np.ndarray:
    from scipy.special import ndtri
    from scipy.stats import qmc

    points = qmc.Sobol(_QUASI, scramble=True, rng=np.random.default_rng([*seed, 1])).random(count)
    return ndtri(np.clip(points[:, rows.start : rows.stop].T, 1e-16, 1.0 - 1e-16))


_REMEMBERED = 1 << 16
_remembered = functools.lru_cache(maxsize=16)(_sobol)


def coins(steps: int, count: int, probability: float, seed: tuple[int, ...]) -> np.ndarray:
    """Mini-batch weights (steps, count): 1/probability with that probability, else 0."""
    thrown = np.random.default_rng([*seed, 3]).random((steps, count)) < probability
    return thrown / probability


def power_of_two(count: int) -> int:
    """The least power of two not below `count`: Sobol points are balanced only then."""
    return 1 << (int(count) - 1).bit_length()
