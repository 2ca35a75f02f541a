"""Quasi-random standard Gaussian samples that drive the effective process."""

from __future__ import annotations

import functools

import jax
import numpy as np

_QUASI = 24
"""Rows taken from a Sobol sequence; later ones matter little and are pseudo-random."""
_REMEMBERED = 1 << 16


class Table:
    """An endless table of standard Gaussians, in rows of `count` entries, a power of two; a function of `seed`.

    The first rows are a scrambled Sobol sequence through the inverse normal distribution: randomised quasi-Monte Carlo,
    unbiased, and independent between seeds, so that the spread of replicas is an honest error.
    """

    def __init__(self, count: int, seed: tuple[int, ...]) -> None:
        self._count, self._seed = count, seed
        self._rows: dict[int, np.ndarray] = {}  # of a small table, which is remembered

    @functools.cached_property
    def _points(self) -> np.ndarray:
        from scipy.stats import qmc

        rng = np.random.default_rng([*self._seed, 1])
        points = qmc.Sobol(_QUASI, scramble=True, rng=rng).random(self._count)
        return np.ascontiguousarray(np.clip(points, 1e-16, 1.0 - 1e-16, out=points).T)

    def rows(self, first: int, number: int) -> np.ndarray:
        """Some rows, (number, count); they must not be written to."""
        found = [self._find(row) for row in range(first, first + number)]
        return np.stack(found) if number != 1 else found[0][None]

    def _find(self, row: int) -> np.ndarray:
        if self._count > _REMEMBERED:
            return self._made(row)
        if row not in self._rows:
            self._rows[row] = self._made(row)
        return self._rows[row]

    def _made(self, row: int) -> np.ndarray:
        if row >= _QUASI:
            return np.random.default_rng([*self._seed, 2, row]).standard_normal(self._count)
        with jax.enable_x64(True):
            return np.asarray(_inverse(self._points[row]))


_inverse = jax.jit(jax.scipy.special.ndtri)


def table(count: int, seed: tuple[int, ...]) -> Table:
    """The table of that seed; small ones are remembered: searches over delta ask for the same rows again and again."""
    return _small(count, seed) if count <= _REMEMBERED else Table(count, seed)


@functools.lru_cache(maxsize=16)
def _small(count: int, seed: tuple[int, ...]) -> Table:
    return Table(count, seed)


def coins(steps: int, count: int, probability: float, seed: tuple[int, ...]) -> np.ndarray:
    """Mini-batch weights (steps, count): 1/probability with that probability, else 0."""
    thrown = np.random.default_rng([*seed, 3]).random((steps, count)) < probability
    return thrown / probability


def power_of_two(count: int) -> int:
    """The least power of two not below `count`: Sobol points are balanced only then."""
    return 1 << (int(count) - 1).bit_length()
