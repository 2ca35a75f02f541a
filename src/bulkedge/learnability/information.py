"""delta_IT: samples per dimension at which any estimator at all begins to beat a random guess of the hard directions.

One hard direction, the law of s given y known (easy coordinates c known): the Bayes-optimal squared overlap maximises
delta I(q) + (q + log(1 - q))/2 (Barbier et al. 2019, proved for generalised linear models; without noise, as the limit
of vanishing noise), so that with I of `overlap_information`

    delta_IT = inf over 0 < q <= 1 of -(q + log(1 - q))/(2 I(q)),

delta_alg being its value at q -> 0. If the infimum is there the transition is continuous and nothing separates what is
possible from what is efficient; else the best overlap jumps at delta_IT.

Below, for any number r of hard directions: the second moment of the likelihood ratio stays bounded (Mondelli and
Montanari 2018) as long as delta log f(M) + log det(I - M M^T)/2 < 0 for all overlaps M of two copies. f is a sum over
Hermite degrees: the second one is at most |M|^2/(2 delta_alg), each other at most the same sum with E[E[h|y]^2] <= 1.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy.optimize import minimize

from bulkedge.foundation.limits import DeltaIT
from bulkedge.gaussian.cloud import cloud
from bulkedge.gaussian.conditional import levels
from bulkedge.learnability.admissible import Progress, described, read
from bulkedge.learnability.algorithmic import TRIVIAL, Stage, resolved, staircase
from bulkedge.learnability.overlap_information import (
    Weighted,
    coincidence,
    information,
    laws,
    least,
    most_coincidence,
)
from bulkedge.models import directions as classes
from bulkedge.models import latent
from bulkedge.models.target import Target

_GRID = np.array([0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98])
_FAR = np.array([0.99, 0.995, 0.998, 0.999])
"""Added where s is known up to a few values: the label then says ever more of finer views."""
_MOST_KNOWN = 1
_CORE, _TAIL = 6.0, 1e-3
"""The tails of s beyond the first must not add more than this share of f - 1."""
_FAINT = 1e-6
_LABELS = 64
_VIEWS, _POINTS = 9, 11

FORMULA = "threshold: replica-symmetric formula of the Bayes-optimal overlap, proved for generalised linear models"
SECOND_MOMENT = "lower bound: the second moment of the likelihood ratio stays bounded below it"
HERMITE = "lower bound: second-moment method, Hermite degrees above two bounded by their largest possible value"
ALGORITHM = "upper bound: delta_alg, above which an efficient algorithm succeeds"
EQUAL = "upper bound: the threshold itself (delta_alg is infinite)"
REPLICA = "upper bound: replica-symmetric formula at an overlap proportional to the identity"


def delta_it(target: Any, latent_dim: int | None = None, *, progress: Progress | None = None) -> DeltaIT:
    """Samples per dimension below which no estimator beats a random guess of the hard directions, or bounds on them.

    target: an expression in z (or z1, z2, ...) and noise e, a callable (z, e) -> y, or a `Problem`; latent_dim where it
    cannot be read off. Easy directions are taken as known, as in `delta_alg`.

    >>> import bulkedge as be
    >>> found = be.delta_it("z^2")
    >>> round(found.lower, 6), round(found.delta, 6), round(found.upper, 6)
    (0.5, 0.5, 0.5)
    """
    link = read(target, latent_dim)
    found = classes.directions(link)
    easy, hard = found.easy, found.hard
    common: dict[str, Any] = {"directions": hard.T.tolist(), "problem": described(link)}
    if hard.shape[1] == 0:
        kinds = {"lower": TRIVIAL, "upper": TRIVIAL}
        return DeltaIT(delta=None, reason=TRIVIAL, lower=0.0, upper=0.0, kinds=kinds, **common)
    if progress:
        progress("delta_alg", 0, 2)
    stage = next(s for s in staircase(link) if s.delta != 0.0)
    common["condition"] = "the easy directions known" if easy.shape[1] else "nothing known"
    if progress:
        progress("information", 1, 2)
    if hard.shape[1] == 1 and easy.shape[1] <= _MOST_KNOWN:
        both = [laws(link, easy, hard, coarseness) for coarseness in (1.0, 1.5)]
        if both[0] is not None and both[1] is not None:
            return _exact(both[0], both[1], stage, _even(link, easy, hard), common)
    return _bounds(link, easy, hard, stage, common)


# --- one direction ---


def _exact(fine: Weighted, coarse: Weighted, stage: Stage, even: bool, common: dict[str, Any]) -> DeltaIT:
    q, delta = _smallest(fine, stage.delta)
    error = abs(delta - _smallest(coarse, stage.delta)[1]) + (stage.stderr if q == 0.0 else 0.0)
    lower = _second_moment(fine, stage.delta, even)
    finite = stage.delta is not None
    return DeltaIT(
        delta=delta,
        # Both are infima of computed functions: no rounding may put them in the wrong order.
        lower=min(lower, delta),
        upper=stage.delta if finite else delta,
        kinds={"delta": FORMULA, "lower": SECOND_MOMENT, "upper": ALGORITHM if finite else EQUAL},
        overlap=q,
        delta_alg=stage.delta,
        stderr=error,
        method="quadrature over the law of z given y",
        **common,
    )


def _grid(found: Weighted) -> np.ndarray:
    return np.append(_GRID, _FAR) if all(part.s.ndim == 2 for _, part in found) else _GRID


def _smallest(found: Weighted, at_zero: float | None) -> tuple[float, float]:
    """(q, infimum over q), the limits q -> 0 and q -> 1 included."""
    best = least(lambda q: -(q + math.log1p(-q)) / (2.0 * information(found, q)), _grid(found))
    # A mass rho of labels that fixes s up to finitely many values makes I grow like -rho/2 log(1 - q).
    rho = sum(mass * float(part.p.sum()) for mass, part in found if part.s.ndim == 2)
    limits = [(0.0, at_zero if at_zero is not None else math.inf), (1.0, 1.0 / rho if rho > 0 else math.inf)]
    # Ties go to the limit at zero: there the grid only approaches it.
    return min([*limits, best], key=lambda pair: pair[1])


def _second_moment(found: Weighted, at_zero: float | None, even: bool) -> float:
    """Inf over 0 < m < 1 of -log(1 - m^2)/(2 log f(m)).

    Where the tails of s beyond what is integrated matter, f is bounded by its value for y = z, or y = |z|.
    """
    most = most_coincidence(found)

    def bound(m: float) -> float:
        whole = coincidence(found, m)
        tail = whole - coincidence(found, m, _CORE)
        by_degrees = 1.0 / (1.0 - m * m) if even else 1.0 / (1.0 - m)
        settled = tail <= max(_TAIL * (whole - 1.0), _FAINT)
        return min(whole + tail if settled else math.inf, by_degrees, most)

    best = least(lambda m: -0.5 * math.log1p(-m * m) / math.log(bound(m)), _GRID)[1]
    # Beyond the grid f is at most `most`; without such a bound the ratio of f for y = |z|, or y = z, tends to 1/2.
    last = float(_GRID[-1])
    beyond = 0.5 if math.isinf(most) else -0.5 * math.log1p(-last * last) / math.log(most)
    return min(best, beyond, at_zero if at_zero is not None else math.inf)


# --- several directions, or a law that is not known exactly ---


def _bounds(link: Target, easy: np.ndarray, hard: np.ndarray, stage: Stage, common: dict[str, Any]) -> DeltaIT:
    known = stage.delta if stage.delta is None or resolved(stage) else None
    rate = 0.0 if stage.delta is None else 1.0 / max(stage.delta - 5.0 * stage.stderr, 1e-9)
    if stage.bound is not None:
        rate = 1.0 / stage.bound
    r, even = hard.shape[1], _even(link, easy, hard)
    labels = _labels(link)
    lower = _hermite_bound(r, rate, even, math.inf if labels is None else float(labels.size))
    kinds = {"lower": HERMITE}
    upper, why = known, ALGORITHM
    if labels is not None and labels.size <= _LABELS:
        replica = least(functools.partial(_identity_ratio, link, easy, hard, labels), _GRID[2:])[1]
        if upper is None or replica < upper:
            upper, why = replica, REPLICA
    if upper is not None:
        kinds["upper"] = why
    one = "the law of z given y is not known exactly" if r == 1 else f"no formula is evaluated for {r} hard directions"
    return DeltaIT(
        delta=None,
        reason=f"between bounds: {one}",
        lower=lower if upper is None else min(lower, upper),
        upper=upper,
        kinds=kinds,
        delta_alg=known,
        method="bounds",
        **common,
    )


def _even(link: Target, easy: np.ndarray, hard: np.ndarray) -> bool:
    """Whether turning all hard directions round leaves the label alone: it then sees no odd Hermite degree."""
    turns = [hard.T @ g @ hard for g in classes.symmetries(link) if np.allclose(g @ easy, easy, atol=1e-6)]
    return any(np.allclose(g @ h, -np.eye(hard.shape[1]), atol=1e-6) for g in turns for h in turns)


def _labels(link: Target) -> np.ndarray | None:
    """The values of y if there are only so many, else None."""
    number, values = levels(latent.nodes(link).y)
    return values if np.all(number >= 0) else None


def _hermite_bound(r: int, rate: float, even: bool, most: float) -> float:
    """Inf over singular values s of M of -sum log(1 - s^2)/2 over the log of an upper bound of f(M).

    rate: 1/delta_alg. even: the label sees no odd degree. most: f is never above the number of labels.
    """

    def ratio(x: np.ndarray) -> float:
        s = 1.0 / (1.0 + np.exp(-np.clip(x, -7.0, 9.0)))
        # sum over d of the complete homogeneous polynomials h_d(s), without the degrees treated apart
        plus, minus = float(np.prod(1.0 / (1.0 - s))), float(np.prod(1.0 / (1.0 + s)))
        first, second = float(s.sum()), 0.5 * float(s.sum() ** 2 + np.sum(s * s))
        rest = 0.5 * (plus + minus) - 1.0 - second if even else plus - 1.0 - first - second
        f = min(1.0 + 0.5 * rate * float(np.sum(s * s)) + max(rest, 0.0), most)
        return -0.5 * float(np.sum(np.log1p(-s * s))) / math.log(f) if f > 1.0 else math.inf

    starts = [np.full(r, x) for x in np.linspace(-6.0, 8.0, 15)]
    starts += [np.where(np.arange(r) < j, x, -7.0) for x in np.linspace(-4.0, 8.0, 13) for j in range(1, r)]
    start = min(starts, key=ratio)
    best = float(minimize(ratio, start, method="Nelder-Mead", options={"xatol": 1e-6, "fatol": 1e-9}).fun)
    # The limits: s -> 0, and s -> 1 where f grows without bound (each direction adds log(1 - s) to both sides).
    at_zero = 1.0 / rate if rate > 0 else math.inf
    return min(best, at_zero, 0.5 if math.isinf(most) else math.inf)


def _identity_ratio(link: Target, easy: np.ndarray, hard: np.ndarray, labels: np.ndarray, q: float) -> float:
    """-(r/2)(q + log(1 - q))/I(q): I the information of y on a view sqrt(q) s + sqrt(1-q) xi of all hard directions."""
    r, e = hard.shape[1], easy.shape[1]
    views = cloud(r + e, _VIEWS, 4)
    inner = cloud(r + int(link.noisy), _POINTS, 2)
    total = []
    for x, mass in zip(views.points, views.p, strict=True):
        conditional = np.zeros((len(x), labels.size))
        for point, p in zip(inner.points, inner.p, strict=True):
            s = math.sqrt(q) * x[:, None, :r] + math.sqrt(1.0 - q) * point[None, :, :r]
            z = s @ hard.T + x[:, None, r:] @ easy.T
            noise = point[:, r] if link.noisy else np.zeros(len(point))
            y = latent.evaluate(link, z, np.broadcast_to(noise, z.shape[:2]))
            number = np.abs(y[:, :, None] - labels).argmin(axis=2)
            for j in range(labels.size):
                conditional[:, j] += np.where(number == j, p, 0.0).sum(axis=1) / len(inner.p)
        total.append(_entropy(mass @ conditional) - float(mass @ _entropy(conditional)))
    value = float(np.mean(total))
    return -0.5 * r * (q + math.log1p(-q)) / value if value > 1e-6 else math.inf


def _entropy(p: np.ndarray) -> Any:
    with np.errstate(divide="ignore", invalid="ignore"):
        return -np.sum(np.where(p > 0, p * np.log(p), 0.0), axis=-1)
