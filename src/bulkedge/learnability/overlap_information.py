"""What a label says about a noisy view of one latent variable s, and about two correlated copies of it.

With w = sqrt(q) s + sqrt(1-q) xi standing for what an estimator of squared overlap q knows of s, and c known:
    I(q) = I(w; y | c) = E_{y,c} KL(law of w given y, c || N(0, 1)),
    f(m) = E_{y,c} E[K_m(s, s') | y, c], K_m(s, s') = density of a pair of correlation m over the product of its margins
         = sum_d m^d E[E[h_d(s) | y, c]^2],
s and s' two independent draws from the law of s given y, c. Both are sums over `level_sets.Posterior`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np

from bulkedge.learnability.level_sets import Posterior
from bulkedge.learnability.second_moments import known_nodes, line_of, posteriors
from bulkedge.models.target import Target

_LEAST = 1e-13
_ENTRIES = 4_000_000
_MOST_PIECES = 40
_INNER = 5.5
_SETTLED = 1e-4
_GAUSS = np.polynomial.hermite_e.hermegauss(24)

Weighted = list[tuple[float, Posterior]]


def laws(link: Target, known: np.ndarray, unknown: np.ndarray, coarseness: float) -> Weighted | None:
    """The laws of s given y at all nodes of the known coordinates, with their masses; None where one is not known."""
    line = line_of(link, known, unknown)
    out: Weighted = []
    for point, mass in zip(*known_nodes(link, known, unknown, 1.5 * coarseness), strict=True):
        found = posteriors(link, line, point, coarseness)
        if found is None or any(part.s.ndim == 2 and part.s.shape[1] > _MOST_PIECES for part in found):
            return None
        out += [(float(mass), part) for part in found]
    return out


def information(found: Weighted, q: float) -> float:
    """I(q), in nats."""
    return sum(mass * (_on_pieces if part.s.ndim == 2 else _on_grid)(part, q) for mass, part in found)


def _on_pieces(part: Posterior, q: float) -> float:
    """A few values of s for each label: Gauss-Hermite nodes around each of them."""
    xi, weight = _GAUSS
    weight = weight / weight.sum()
    total = 0.0
    for rows in _blocks(part, part.s.shape[1] * xi.size):
        s, w = part.s[rows], part.w[rows]
        centre = np.sqrt(q) * s
        x = centre[:, :, None] + np.sqrt(1.0 - q) * xi
        # The law of the view over N(0, 1), at every node.
        square = -0.5 * (x[:, :, :, None] - centre[:, None, None, :]) ** 2 / (1.0 - q) + 0.5 * x[..., None] ** 2
        top = square.max(axis=3, keepdims=True)
        ratio = np.sum(w[:, None, None, :] * np.exp(square - top), axis=3)
        with np.errstate(divide="ignore"):
            log = np.log(ratio) + top[..., 0] - 0.5 * np.log(1.0 - q)
        log = np.where(w[:, :, None] > 0, log, 0.0)
        total += float(np.sum(part.p[rows] * np.einsum("nm,nmg,g->n", w, log, weight)))
    return total


def _on_grid(part: Posterior, q: float) -> float:
    """Many values of s, the same for all labels: the trapezoidal rule in the view."""
    step = 0.4 * np.sqrt(1.0 - q)
    reach = 8.0 + np.sqrt(q)
    x = np.arange(-reach, reach, min(step, 0.4))
    kernel = np.exp(-0.5 * (x[:, None] - np.sqrt(q) * part.s) ** 2 / (1.0 - q)) / np.sqrt(2.0 * np.pi * (1.0 - q))
    total = 0.0
    for rows in _blocks(part, x.size):
        law = part.w[rows] @ kernel.T
        with np.errstate(divide="ignore", invalid="ignore"):
            log = np.where(law > 0, np.log(law) + 0.5 * x * x + 0.5 * np.log(2.0 * np.pi), 0.0)
        total += float(np.sum(part.p[rows] * np.sum(law * log, axis=1)) * (x[1] - x[0]))
    return total


def coincidence(found: Weighted, m: float, reach: float = math.inf) -> float:
    """f(m), from |s| <= reach alone. K_m(s, s) grows like exp(s^2 m/(1 + m)): for m near 1 far tails decide."""
    total = 0.0
    for mass, part in found:
        w = np.where(np.abs(part.s) <= reach, part.w, 0.0)
        if part.s.ndim == 1:
            kernel = _kernel(part.s[:, None], part.s, m)
            total += mass * float(np.sum(part.p * np.sum((w @ kernel) * w, axis=1)))
            continue
        for rows in _blocks(part, part.s.shape[1], least=0.0):
            s = part.s[rows]
            pairs = w[rows][:, :, None] * w[rows][:, None, :]
            values = np.where(pairs > 0, _kernel(s[:, :, None], s[:, None, :], m), 0.0)
            total += mass * float(np.sum(part.p[rows] * np.sum(pairs * values, axis=(1, 2))))
    return total


def most_coincidence(found: Weighted) -> float:
    """f(1) = E[p(y | s)/p(y)], the most f can be: the number of labels if y is discrete.

    Infinite where s is known up to a few values, or where the integral does not settle in the tails.
    """
    total, inner = 0.0, 0.0
    for mass, part in found:
        if part.s.ndim == 2:
            return math.inf
        share = np.sum(part.p[:, None] * part.w**2, axis=0) / np.maximum(part.p @ part.w, 1e-300)
        total += mass * float(share.sum())
        inner += mass * float(share[np.abs(part.s) <= _INNER].sum())
    return total if total - inner < _SETTLED * total else math.inf


def _kernel(s: np.ndarray, t: np.ndarray, m: float) -> np.ndarray:
    return np.exp((2.0 * m * s * t - m * m * (s * s + t * t)) / (2.0 * (1.0 - m * m))) / np.sqrt(1.0 - m * m)


def _blocks(part: Posterior, entries: int, least: float = _LEAST) -> Iterator[np.ndarray]:
    rows = np.flatnonzero(part.p > least)
    width = part.w.shape[1] if part.s.ndim == 2 else 1
    yield from np.array_split(rows, max(1, rows.size * entries * width // _ENTRIES))


def least(ratio: Callable[[float], float], grid: np.ndarray) -> tuple[float, float]:
    """(x, value) of the smallest value of a function on (0, 1), on a grid and then by golden sections around it."""
    values = [ratio(float(x)) for x in grid]
    i = int(np.argmin(values))
    low, high = float(grid[max(i - 1, 0)]), float(grid[min(i + 1, len(grid) - 1)])
    best = (float(grid[i]), values[i])
    shrink = 0.5 * (np.sqrt(5.0) - 1.0)
    a, b = high - shrink * (high - low), low + shrink * (high - low)
    fa, fb = ratio(a), ratio(b)
    for _ in range(14):
        best = min(best, (a, fa), (b, fb), key=lambda pair: pair[1])
        if fa < fb:
            high, b, fb = b, a, fa
            a = high - shrink * (high - low)
            fa = ratio(a)
        else:
            low, a, fa = a, b, fb
            b = low + shrink * (high - low)
            fb = ratio(b)
    return best
