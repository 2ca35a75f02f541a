"""The network that learns with the least data: the threshold at t = 0 minimised over continuous choices (theory 1.4).

No network does better than delta_alg, and it gets there only if T = beta G/(1 + beta G) is a function of the label
alone, with the shape 1 - E[s^2 | y]. So delta_alg/delta is the squared cosine of T and that function, and it factors:
    steadiness  E[E[T | y]^2]/E[T^2], what T loses by depending on the neuron's own pre-activation;
    shape       the squared cosine of E[T | y] and 1 - E[s^2 | y].
A spectral method that weighs samples by a preprocessing T(y) has G = -T(y); averaged over what is not the label, the
network acts as the preprocessing 1 - 1/E[1/(1 + beta G) | y], whose best form is 1 - 1/E[s^2 | y].
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.stats import qmc

from bulkedge.foundation.answers import Design, Threshold
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.status import Status
from bulkedge.learnability import windows
from bulkedge.learnability.floor import bounded_below
from bulkedge.learnability.surface import Point, Surface, needs_hard, probes
from bulkedge.learnability.thresholds import threshold
from bulkedge.models.family import Family, family
from bulkedge.models.problem import Problem
from bulkedge.spectra import bulk

Progress = Callable[[str, int, int], None]
_COARSE = 0.35
_FEW_SAMPLES = 16384
_DESCENTS, _FINALISTS = 8, 4
_BINS = 200
_AGREE = 0.01
"""Relative difference between the minimum found and the threshold of the winner that is still no disagreement."""


def optimise(
    problem: Problem,
    over: Any,
    *,
    activation: Any = None,
    loss: Any = None,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> tuple[Design, Problem]:
    """The best member of a family at t = 0, not verified by training, and its problem.

    Descent by exact gradients (`sensitivity`) from the given problem and the best of quasi-random starts, on coarse
    nodes, then on fine ones; both thresholds are those of `threshold`.
    """
    needs_hard(problem)
    members = family(problem, over, activation, loss)
    _check_bounded(members)
    search = _Search(Surface(members, _COARSE, _FEW_SAMPLES, numerics.seed))
    starts = search.starts(numerics.seed)
    first = [search.value(x) for x in starts]
    ends: list[np.ndarray] = []
    chosen = np.argsort(first, kind="stable")[:_DESCENTS]
    for i in chosen:
        ends.append(search.descend(starts[i], 12))
        if progress:
            progress("descents", len(ends), len(chosen) + _FINALISTS)
    for done, i in enumerate(np.argsort([search.value(x) for x in ends], kind="stable")[: _FINALISTS - 1]):
        ends[i] = search.descend(ends[i], 60)
        if progress:
            progress("descents", len(ends) + done + 1, len(chosen) + _FINALISTS)
    last = [search.value(x) for x in ends]
    if min(last) >= _NOWHERE:
        raise BadInput("over", "no choice within these bounds gives the Hessian a negative hidden outlier at t = 0")
    fine = _Search(Surface(members, 1.0, numerics.paths, numerics.seed))
    best = fine.descend(ends[int(np.argmin(last))], 60)
    if progress:
        progress("descents", len(chosen) + _FINALISTS, len(chosen) + _FINALISTS)
    values = members.values(fine.vector(best))
    winner = members.member(values)
    _check_winner(winner)
    before, after = (threshold(p, numerics=numerics) for p in (problem, winner))
    point = fine.surface.at(members.vector(values))
    warnings = [*(f"before: {w}" for w in before.warnings), *after.warnings]
    status = after.status
    if point.delta is None or after.delta is None or abs(point.delta / after.delta - 1.0) > _tolerance(after):
        warnings.append("The minimum that was found is not confirmed by the threshold of the winner.")
        status = Status.NOT_CONVERGED
    at_bound = _at_bound(members, fine, best)
    if at_bound:
        warnings.append(f"The winner is at the bounds of {at_bound}: wider ones may do better.")
    delta = point.delta or math.nan
    steadiness, shape = _factors(fine.surface, point)
    found = Design(
        before=_summary(before),
        after=_summary(after),
        parameters=values,
        efficiency=after.efficiency,
        delta_alg=after.delta_alg,
        preprocessing=_preprocessing(fine.surface, point),
        steadiness=steadiness,
        shape=shape,
        gradient=members.values(delta * point.slope),
        starts=[[_delta(first[i]), _delta(end)] for i, end in zip(chosen, last, strict=True)],
        winner=winner.to_dict(),
        numerics=numerics.to_dict(),
        problem=problem.to_dict(),
        status=status,
        warnings=list(dict.fromkeys(warnings)),
    )
    return found, winner


_NOWHERE = math.log(windows.HIGH)


class _Search:
    """log delta over the unit cube; log HIGH and more where there is no threshold."""

    def __init__(self, surface: Surface) -> None:
        self.surface = surface
        low, high = surface.family.bounds.T
        self._log = surface.family.logarithmic
        self._low = np.where(self._log, np.log(np.where(self._log, low, 1.0)), low)
        self._width = np.where(self._log, np.log(np.where(self._log, high, 1.0)), high) - self._low

    def vector(self, x: np.ndarray) -> np.ndarray:
        inner = self._low + self._width * x
        return np.where(self._log, np.exp(np.where(self._log, inner, 0.0)), inner)

    def place(self, vector: np.ndarray) -> np.ndarray:
        inner = np.where(self._log, np.log(np.where(self._log, vector, 1.0)), vector)
        return np.clip((inner - self._low) / self._width, 0.0, 1.0)

    def starts(self, seed: int) -> np.ndarray:
        """The given problem, then quasi-random points."""
        size = self._low.size
        points = qmc.Sobol(size, rng=np.random.default_rng([seed, 3])).random(16 if size < 3 else 32)
        return np.concatenate([self.place(self.surface.family.given)[None], points])

    def value(self, x: np.ndarray) -> float:
        return self.slope(x)[0]

    def slope(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        vector = self.vector(np.asarray(x, float))
        point = self.surface.at(vector)
        stretch = self._width * np.where(self._log, vector, 1.0)
        value = _NOWHERE + point.margin if point.delta is None else math.log(point.delta)
        return value, point.slope * stretch

    def descend(self, x: np.ndarray, steps: int) -> np.ndarray:
        box, options = [(0.0, 1.0)] * x.size, {"maxiter": steps, "ftol": 1e-9}
        return np.asarray(minimize(self.slope, x, jac=True, method="L-BFGS-B", bounds=box, options=options).x)


def _check_bounded(members: Family) -> None:
    """Refuse a family whose Hessian weights are unbounded below: minimising there chases the largest sample."""
    for vector in probes(members):
        values = members.values(vector)
        member = members.member(values)
        if not all(bounded_below(member, j) for j in range(member.m)):
            where = ", ".join(f"{n} = {v}" for n, v in values.items())
            raise BadInput(
                "over",
                f"the Hessian weight is unbounded below at {where}, where there is no threshold (theory 1.9); "
                "take a loss of bounded slope or a bounded target",
            )


def _check_winner(winner: Problem) -> None:
    if not all(bounded_below(winner, j) for j in range(winner.m)):
        raise BadInput("over", "the minimum lies where the Hessian weight is unbounded below (theory 1.9)")


def _tolerance(after: Threshold) -> float:
    return _AGREE + 4.0 * (after.stderr or 0.0) / (after.delta or 1.0)


def _delta(value: float) -> float | None:
    return math.exp(value) if value < _NOWHERE else None


def _at_bound(members: Family, search: _Search, x: np.ndarray) -> str:
    close = (x < 1e-6) | (x > 1.0 - 1e-6)
    return ", ".join(n for n in members.names if np.any(close[members.places(n)]))


def _summary(found: Threshold) -> dict[str, Any]:
    return {n: found[n] for n in ("delta", "stderr", "reason", "edge", "efficiency", "windows", "method")}


@dataclass(frozen=True, eq=False)
class _ByLabel:
    """E[. | y] of the winner in cells of y: mass, y, T, 1/(1 + beta G), and s^2 along the direction that appears."""

    mass: np.ndarray
    y: np.ndarray
    t: np.ndarray
    rest: np.ndarray
    s2: np.ndarray
    power: float


def _by_label(surface: Surface, point: Point) -> _ByLabel:
    law, nodes, w = point.law, surface.nodes, point.direction
    p = np.full(law.g.size, 1.0 / law.g.size) if law.p is None else law.p
    t = bulk.transform(law, point.beta)
    i, k = np.triu_indices(law.r)
    s2 = (w[i] * w[k] * np.where(i == k, 1.0, 2.0)) @ nodes.moments
    values, cell = np.unique(np.round(nodes.y, 12), return_inverse=True)
    if values.size > _BINS:
        # Half of a cell's number tells mass, half the place on the axis: tails have cells of their own.
        level = np.cumsum(np.bincount(cell, p))
        spread = (values - values[0]) / (values[-1] - values[0])
        coarse = np.floor((0.5 * level / level[-1] + 0.5 * spread) * (_BINS - 1)).astype(int)
        cell = np.unique(coarse, return_inverse=True)[1][cell]
    mass = np.bincount(cell, p)
    means = [np.bincount(cell, p * v) / np.maximum(mass, 1e-300) for v in (nodes.y, t, 1.0 - t, s2)]
    keep = mass > 1e-12
    return _ByLabel(mass[keep], *(v[keep] for v in means), power=float(law.mean(t * t)))


def _preprocessing(surface: Surface, point: Point) -> dict[str, Any]:
    by = _by_label(surface, point)
    return {
        "y": by.y.tolist(),
        "mass": by.mass.tolist(),
        "realised": (1.0 - 1.0 / by.rest).tolist(),
        "optimal": (1.0 - 1.0 / np.maximum(by.s2, 1e-300)).tolist(),
    }


def _factors(surface: Surface, point: Point) -> tuple[float, float]:
    """(steadiness, shape)."""
    by = _by_label(surface, point)
    best = 1.0 - by.s2
    own = float(np.sum(by.mass * by.t**2))
    together = float(np.sum(by.mass * by.t * best))
    return own / by.power, together**2 / (own * float(np.sum(by.mass * best**2)))
