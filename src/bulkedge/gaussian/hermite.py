"""Hermite polynomials of several Gaussian variables, normalised, and the symmetric tensors they are entries of.

h_alpha(s) = prod_i He_{alpha_i}(s_i)/sqrt(alpha_i!) over multi-indices |alpha| = d is an orthonormal basis of degree d.
The tensor He_d(s) with entries prod_i He_{alpha_i}(s_i) has squared norm d! sum_alpha h_alpha^2.
"""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np


@functools.cache
def multi_indices(variables: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """All alpha with |alpha| = degree."""
    found = [tuple(alpha) for alpha in itertools.product(range(degree + 1), repeat=variables) if sum(alpha) == degree]
    return tuple(sorted(found, reverse=True))


def hermite(s: np.ndarray, degree: int) -> np.ndarray:
    """S (..., r) to h_alpha(s) (..., number of alpha)."""
    table = [np.ones_like(s), s]
    for d in range(1, degree):
        table.append((s * table[d] - math.sqrt(d) * table[d - 1]) / math.sqrt(d + 1))
    columns = []
    for alpha in multi_indices(s.shape[-1], degree):
        column = np.ones(s.shape[:-1])
        for i, power in enumerate(alpha):
            if power:
                column = column * table[power][..., i]
        columns.append(column)
    return np.stack(columns, axis=-1)


def invariant(turns: list[np.ndarray], degree: int) -> np.ndarray:
    """The orthogonal projection (A, A) on the combinations of h_alpha, |alpha| = degree, that all turns leave alone.

    turns: orthogonal r x r matrices g, a group or some that generate it, with h(g s) = D(g)^T h(s).
    """
    r = len(turns[0])
    count = len(multi_indices(r, degree))
    x = np.random.default_rng(20260204).standard_normal((2 * count + 40, r))
    moved = np.mean([hermite(x @ g.T, degree) for g in turns], axis=0)
    return fixed(np.linalg.lstsq(hermite(x, degree), moved, rcond=None)[0])


def fixed(mean: np.ndarray) -> np.ndarray:
    """The projection on what every one of some orthogonal matrices leaves alone, from their mean.

    A unit vector is as long as its mean image only if all its images are the same.
    """
    value, vector = np.linalg.eigh(0.5 * (mean + mean.T))
    kept = vector[:, value > 1.0 - 1e-5]
    projection = kept @ kept.T
    return np.where(np.abs(projection) < 1e-12, 0.0, projection)


@functools.cache
def contraction(variables: int, degree: int) -> np.ndarray:
    """The tensor K with sum_ab K_ijab t_a t_b = (T T^T)_ij / d!, T the r x r^(d-1) unfolding of the tensor whose
    coefficients in the basis h are t: its range is the span of the directions the tensor uses, its trace |t|^2.
    """
    r, place = variables, {alpha: a for a, alpha in enumerate(multi_indices(variables, degree))}
    out = np.zeros((r, r, len(place), len(place)))
    for beta in multi_indices(r, degree - 1):
        for i, j in itertools.product(range(r), repeat=2):
            a, b = (tuple(n + (m == axis) for m, n in enumerate(beta)) for axis in (i, j))
            # T_alpha = sqrt(alpha!) t_alpha, each beta stands for (d-1)!/beta! entries of the unfolding.
            weight = math.sqrt(math.prod(map(math.factorial, a)) * math.prod(map(math.factorial, b)))
            weight *= math.factorial(degree - 1) / math.prod(map(math.factorial, beta)) / math.factorial(degree)
            out[i, j, place[a], place[b]] += weight
    return out
