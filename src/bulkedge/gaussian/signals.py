"""Is E[h_alpha(s) | y, c] zero for all |alpha| = d, and if not, which directions of s does it use?

s are unknown and c known Gaussian coordinates of a sample with label y. The conditional expectation is zero iff
E[h_alpha(s) F(y, c)] = 0 for every F. F runs through many bounded smooth functions, orthonormal under the law of
(y, c), so that the sum of squares is a variance explained: each test is a plain Gaussian integral, and no density of y
is needed. What is found is a lower bound of the explained variance; a signal that only shows below `resolution` is
missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from bulkedge.gaussian.hermite import contraction, hermite

SIGMAS = 25.0
"""Of the fluctuation of an explained variance under no signal. Large, because tests of one label are correlated."""
FLOOR = 1e-14
"""Explained variance below which nothing is believed in double precision."""
_LABEL_TESTS = {0: 24, 1: 12, 2: 10, 3: 8}
_KNOWN_TESTS = {0: 1, 1: 8, 2: 5, 3: 4}
_LINEAR_TESTS = {0: 1, 1: 16, 2: 8}


@dataclass(frozen=True, eq=False)
class Signal:
    """energy: explained variance, its own noise taken out. stderr: how far it fluctuates if there is no signal.

    directions: (r, n) orthonormal basis of what the signal uses. unseen: the largest explained variance along another
    direction; one of more than `resolution` would have been seen.
    """

    energy: float
    stderr: float
    resolution: float
    directions: np.ndarray
    unseen: float


@dataclass(frozen=True, eq=False)
class Tests:
    """The functions F_jl(y, c) = sum_i of_label_i mix_ij of_known_l.

    of_label (R, N, J), mix (J, J'), of_known (R, N, L).

    Orthonormal under the law of (y, c), where c does not help to predict y; nearly so otherwise.
    """

    of_label: np.ndarray
    mix: np.ndarray
    of_known: np.ndarray


def signal(
    s: np.ndarray, tests: Tests, p: np.ndarray, degree: int, projection: np.ndarray | None = None, floor: float = FLOOR
) -> Signal:
    """Args: s (R, N, r), the unknown coordinates; p (R, N), probabilities; projection (A, A), on what symmetries allow;
    floor, of the resolution.
    """
    replicas = len(p)
    combine = contraction(s.shape[2], degree)
    rows = []
    for r in range(replicas):
        phi = p[r, :, None] * hermite(s[r], degree)
        seen = (tests.of_known[r][:, :, None] * phi[:, None, :]).reshape(len(phi), -1)
        rows.append((tests.mix.T @ (tests.of_label[r].T @ seen)).reshape(-1, phi.shape[1]))
    t = np.stack(rows)
    if projection is not None:
        t = t @ projection
    mean = t.mean(axis=0)
    noise = t.var(axis=0, ddof=1) / replicas
    spread = t - mean
    gram = mean.T @ mean - np.einsum("rja,rjb->ab", spread, spread, optimize=True) / (replicas * (replicas - 1))
    stderr = float(np.sqrt(2.0 * np.sum(noise**2)))
    resolution = max(SIGMAS * stderr, FLOOR, floor)
    value, vector = np.linalg.eigh(np.einsum("ijab,ab->ij", combine, gram))
    found = value > resolution
    return Signal(
        float(np.trace(gram)), stderr, resolution, vector[:, found], float(np.max(value[~found], initial=0.0))
    )


def any_tests(y: np.ndarray, known: np.ndarray, p: np.ndarray) -> Tests:
    """Many functions of (y, c): y, p (R, N), known (R, N, e)."""
    e = known.shape[2]
    # Polynomials of a smooth monotone map of y to (-1, 1) that is near its distribution function.
    basis = np.polynomial.legendre.legvander(_flattened(y, p), _LABEL_TESTS.get(e, 6) - 1)
    flat = basis.reshape(-1, basis.shape[2])
    value, vector = np.linalg.eigh(flat.T @ (flat * p.reshape(-1, 1)) / p.sum())
    keep = value > 1e-7 * value[-1]
    return Tests(basis, vector[:, keep] / np.sqrt(value[keep]), _of_known(known, _KNOWN_TESTS.get(e, 3)))


def linear_tests(y: np.ndarray, known: np.ndarray, p: np.ndarray) -> Tests:
    """The label itself, standardised, times functions of c: what descent on the squared loss sees."""
    mean = np.sum(p * y) / np.sum(p)
    spread = np.sqrt(np.sum(p * (y - mean) ** 2) / np.sum(p))
    of_label = ((y - mean) / spread)[:, :, None]
    return Tests(of_label, np.eye(1), _of_known(known, _LINEAR_TESTS.get(known.shape[2], 5)))


def _of_known(known: np.ndarray, degree: int) -> np.ndarray:
    """Products of Legendre polynomials in the ranks of the known coordinates."""
    out = np.ones((*known.shape[:2], 1))
    for i in range(known.shape[2]):
        u = 2.0 * ndtr(known[:, :, i]) - 1.0
        factor = np.polynomial.legendre.legvander(u, degree - 1) * np.sqrt(2.0 * np.arange(degree) + 1.0)
        out = (out[:, :, :, None] * factor[:, :, None, :]).reshape(*u.shape, -1)
    return out


def _flattened(y: np.ndarray, p: np.ndarray) -> np.ndarray:
    order = np.argsort(y, axis=None)
    rank = np.cumsum(p.ravel()[order])
    count = 31
    marks = np.interp(np.arange(1, count + 1) / (count + 1.0) * rank[-1], rank, y.ravel()[order])
    # Each step is as wide as the distance to its neighbours three places away, so that the sum is smooth.
    i = np.arange(count)
    width = 0.5 * (marks[np.minimum(i + 3, count - 1)] - marks[np.maximum(i - 3, 0)])
    width = np.maximum(width, 0.02 * np.ptp(marks) + 1e-300)

    def steps(y: np.ndarray) -> np.ndarray:
        total = np.zeros(y.shape)
        for mark, scale in zip(marks, width, strict=True):
            total += np.arctan((y - mark) / scale)
        return total / (0.5 * np.pi * count)

    if y.size <= _FEW:
        return steps(y)
    # Any function of y will do: a table of it is one too.
    table = np.unique(y.ravel()[order[np.linspace(0, y.size - 1, _FEW).astype(int)]])
    return np.interp(y, table, steps(table))


_FEW = 1 << 12
