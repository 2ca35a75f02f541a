"""Threshold and spectrum at the start of training for inputs x ~ N(0, Sigma) (see `spectra.separable`).

The latent variables are standardised, z_a = theta_a . x / sqrt(theta_a . Sigma theta_a), so that the law of the labels
is that of Sigma = I. theta_j(0) is uniform on the unit sphere, so that V_j ~ N(0, tr Sigma/d), independent of z. Only
the start is covered: the dynamics for Sigma != I has a correlation for every eigenvalue.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from bulkedge.dynamics import dmft
from bulkedge.foundation.answers import Outlier, Spectrum, Threshold
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.status import Status
from bulkedge.learnability import laws, windows
from bulkedge.learnability.floor import bounded_below, never_negative
from bulkedge.learnability.others import MOST_PATHS, Seen, typical
from bulkedge.learnability.room import asked
from bulkedge.models import functions
from bulkedge.models.covariance import Covariance
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra import bulk, separable, separable_density
from bulkedge.spectra.law import WeightLaw, pooled
from bulkedge.spectra.separable import Population

_GRID = np.log(np.geomspace(windows.LOW, windows.HIGH, 91))
_UNBOUNDED = (
    "The Hessian weight is unbounded below (theory 1.9): what depends on the left edge belongs to {} samples and moves "
    "with their number; there is no threshold in the limit."
)
_NEVER = "The Hessian weights are never negative: no direction of descent, at any delta and for any covariance."


@dataclass(frozen=True, kw_only=True)
class AnisotropicThreshold(Threshold):
    """The threshold at t = 0 for inputs with a covariance.

    isotropic: the same for Sigma = (tr Sigma/d) I. delta_alg is that of Sigma = I, which whitened data reach without
    knowing where in the spectrum the direction lies; a direction of large variance can be seen with less, so that there
    is no efficiency.
    """

    isotropic: float | None = None
    covariance: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = (*Threshold.citations, "paul-silverstein-2009")


@dataclass(frozen=True, kw_only=True)
class AnisotropicSpectrum(Spectrum):
    """The spectrum at t = 0 for inputs with a covariance. overlap2: with directions in the space of the inputs."""

    covariance: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = (*Spectrum.citations, "paul-silverstein-2009")


@dataclass(frozen=True)
class _Stretched:
    """v -> sigma(c v): a neuron whose pre-activation has the standard deviation c."""

    sigma: functions.ScalarFunction
    c: float

    def __call__(self, v: Any) -> Any:
        return self.sigma.call(self.c * v)


@dataclass(frozen=True, eq=False)
class _Start:
    """The law of one neuron's weight in replicas (one, if exact), and the population along its coordinates."""

    replicas: list[WeightLaw]
    population: Population
    coarse: WeightLaw | None
    exact: bool


def anisotropic_threshold(
    problem: Problem, covariance: Covariance, *, numerics: Numerics = DEFAULT
) -> AnisotropicThreshold:
    """The least delta = n/d at which the Hessian at t = 0 has a negative outlier along a hard direction.

    >>> import bulkedge as be
    >>> problem = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu")
    >>> inputs = be.Covariance([0.5, 1.5], target=[0, 1])
    >>> round(be.anisotropic_threshold(problem, inputs).delta, 3)
    2.747
    """
    from bulkedge.learnability.algorithmic import hard_threshold

    asked(problem, numerics)
    _check(problem, covariance)
    common: dict[str, Any] = {
        "covariance": covariance.to_dict(),
        "numerics": numerics.to_dict(),
        "problem": problem.to_dict(),
    }
    if directions(problem.link).hard.shape[1] == 0:
        sentence = f"The target has no hard direction ({directions(problem.link).kinds})."
        return AnisotropicThreshold(delta=None, reason="nothing hard", stderr=None, warnings=[sentence], **common)
    flat = Covariance([covariance.variance])
    found = [_windows(problem, j, covariance, numerics) for j in range(problem.m)]
    lows = [ends[0][0][0] if ends[0] else None for ends in found]
    best = min((j for j, low in enumerate(lows) if low is not None), key=lambda j: lows[j] or 0.0, default=0)
    ends, stderr, residual, method, warnings = found[best]
    delta_alg, remarks = hard_threshold(problem.link)
    edge, isotropic = None, None
    if lows[best] is not None:
        start = _start(problem, best, covariance, numerics)
        edge = separable.left_edge(pooled(start.replicas), start.population, lows[best] or 1.0).value
    if never_negative(problem, best):
        warnings = (_NEVER, *warnings)
    else:
        plain = _windows(problem, best, flat, numerics)[0]
        isotropic = plain[0][0] if plain else None
    met = residual is None or residual <= max(1e-3, numerics.rtol)
    return AnisotropicThreshold(
        delta=lows[best],
        reason=None if lows[best] is not None else "none",
        stderr=None if lows[best] is None else stderr,
        edge=edge,
        windows=[list(w) for w in ends],
        delta_alg=delta_alg,
        method=method,
        residual=residual,
        neurons=lows if len(lows) > 1 else None,
        isotropic=isotropic,
        status=Status.CONVERGED if met else Status.NOT_CONVERGED,
        warnings=list(dict.fromkeys([*warnings, *remarks])),
        **common,
    )


@over_arrays("delta")
def anisotropic_spectrum(
    problem: Problem,
    covariance: Covariance,
    delta: float,
    *,
    points: int = 400,
    numerics: Numerics = DEFAULT,
) -> AnisotropicSpectrum:
    """Limiting spectrum of m times the Hessian at t = 0, one neuron's block each."""
    asked(problem, numerics)
    _check(problem, covariance)
    delta = positive("delta", delta)
    points = integer("points", points, low=16, high=100_000)
    blocks = [_block(problem, j, covariance, delta, points, numerics) for j in range(problem.m)]
    return blocks[0] if problem.m == 1 else replace(blocks[0], blocks=blocks)


def _check(problem: Problem, covariance: Covariance) -> None:
    """A step along an easy direction must not move along a hard one: no spectral measure between them."""
    if not isinstance(covariance, Covariance):
        raise BadInput("covariance", "must be a Covariance")
    link, measure = directions(problem.link), covariance.measure(problem.k)
    still = np.concatenate([link.hard, link.inert], axis=1)
    tie = np.einsum("ka,pkl,lb->pab", link.easy, measure, still)
    if tie.size and np.max(np.abs(tie).sum(axis=0)) > 1e-9:
        raise BadInput(
            "covariance",
            "ties hard directions to easy ones (they are correlated within eigenspaces): the first step along an easy "
            "direction already moves along a hard one, and nothing waits for an outlier",
        )


def _start(problem: Problem, neuron: int, covariance: Covariance, numerics: Numerics) -> _Start:
    """Quadrature where `laws.initial` has it and no inert direction is involved; samples otherwise."""
    c = math.sqrt(covariance.variance)
    stretched, link, measure = _stretched(problem, c), directions(problem.link), covariance.measure(problem.k)
    tie = np.einsum("ka,pkl,lb->pab", link.hard, measure, link.inert)
    alone = not tie.size or float(np.max(np.abs(tie).sum(axis=0))) < 1e-9
    basis = link.hard if alone else np.concatenate([link.hard, link.inert], axis=1)
    population = Population(covariance.tau, covariance.mass, np.einsum("ka,pkl,lb->pab", basis, measure, basis))
    if alone and bounded_below(problem, neuron):
        law = laws.initial(stretched, neuron)
        coarse = laws.initial(stretched, neuron, 0.7)
        if law is not None:
            return _Start([_shrunk(law, c)], population, None if coarse is None else _shrunk(coarse, c), True)
    runs = laws.sampled(stretched, 1.0, 0, numerics).runs
    replicas = [WeightLaw(run.weights(0)[neuron] / c**2, run.z.T @ basis) for run in runs]
    return _Start(replicas, population, None, False)


def _stretched(problem: Problem, c: float) -> Problem:
    """The problem in terms of V/c, standard Gaussian: sigma(c v), biases over c; its weights are c^2 G."""
    if abs(c - 1.0) < 1e-12:
        return problem
    network = replace(problem.network, activation=_Stretched(problem.network.sigma, c), bias=problem.network.b / c)
    return replace(problem, network=network)


def _shrunk(law: WeightLaw, c: float) -> WeightLaw:
    return law if c == 1.0 else replace(law, g=law.g / c**2)


_Windows = tuple[list[windows.Window], float, float | None, str, tuple[str, ...]]
"""Windows, the standard error of the first end, residual, method, warnings."""


def _windows(problem: Problem, neuron: int, covariance: Covariance, numerics: Numerics) -> _Windows:
    start = _start(problem, neuron, covariance, numerics)
    each = [_of_law(law, start.population) for law in start.replicas]
    if start.exact:
        found = each[0]
        coarse = _of_law(start.coarse, start.population) if start.coarse is not None else []
        residual = abs(coarse[0][0] / found[0][0] - 1.0) if found and coarse else 0.0 if found == coarse else math.inf
        stderr = residual * found[0][0] if found and residual > numerics.rtol else 0.0
        return found, stderr, residual, "quadrature", ()
    method = f"Monte Carlo, {numerics.paths} samples x {numerics.replicas}"
    warnings = () if bounded_below(problem, neuron) else (_UNBOUNDED.format(numerics.paths),)
    lows = np.array([w[0][0] for w in each if w])
    if 2 * lows.size < len(each):
        return [], 0.0, None, method, warnings
    if lows.size < len(each):
        warnings += (f"Only {lows.size} of {len(each)} replicas have a window.",)
    middle = next(w for w in each if w and w[0][0] == np.sort(lows)[lows.size // 2])
    error = float(lows.std(ddof=1) / math.sqrt(lows.size)) if lows.size > 1 else math.nan
    return [(float(lows.mean()), middle[0][1]), *middle[1:]], error, None, method, warnings


def _of_law(law: WeightLaw, population: Population) -> list[windows.Window]:
    """The intervals of delta with a negative outlier; an end at an end of the range searched is open there."""
    if law.low >= 0:
        return []

    def margin(v: float) -> float:
        return float(separable.margins(law, population, math.exp(v), negative=True).min())

    return [(math.exp(a), None if b == _GRID[-1] else math.exp(b)) for a, b in windows.intervals(margin, _GRID)]


def _block(
    problem: Problem, neuron: int, covariance: Covariance, delta: float, points: int, numerics: Numerics
) -> AnisotropicSpectrum:
    start = _start(problem, neuron, covariance, numerics)
    law, population = pooled(start.replicas), start.population
    left, right = separable.left_edge(law, population, delta), separable.right_edge(law, population, delta)
    x, y, status, missing = separable_density.density(law, population, delta, points)
    warnings = [] if bounded_below(problem, neuron) else [_UNBOUNDED.format(numerics.paths)]
    hole = bulk.atom(law, delta)
    if abs(missing) > 0.01:
        warnings.append(f"The density integrates to {1 - missing - hole:.3f} instead of {1 - hole:.3f}.")
    edges = np.array([[edge(one, population, delta).value for edge in _EDGES] for one in start.replicas])
    error = edges.std(axis=0, ddof=1) / math.sqrt(len(edges)) if len(edges) > 1 else np.zeros(2)
    found = _hidden(start, law, delta) + _others(problem, neuron, covariance, delta, numerics)
    return AnisotropicSpectrum(
        delta=delta,
        time=0,
        neuron=neuron,
        edge=left.value,
        right_edge=right.value,
        atom=hole,
        outliers=sorted(found, key=lambda o: o.value),
        density={"x": x, "y": y},
        edge_stderr=float(error[0]),
        right_edge_stderr=float(error[1]),
        edge_scale=separable.edge_scale(law, population, delta, left),
        status=status,
        warnings=warnings,
        covariance=covariance.to_dict(),
        numerics=numerics.to_dict(),
        problem=problem.to_dict(),
    )


_EDGES = (separable.left_edge, separable.right_edge)


def _hidden(start: _Start, law: WeightLaw, delta: float) -> list[Outlier]:
    """Outliers along hard directions, with the spread of the replicas as their error."""
    found = []
    for look in (separable.below, separable.above):
        each = [look(one, start.population, delta) for one in start.replicas]
        for i, spike in enumerate(look(law, start.population, delta)):
            here = np.array([[s[i].value, s[i].overlap2] for s in each if len(s) > i])
            error = here.std(axis=0, ddof=1) / math.sqrt(len(here)) if len(here) > 1 else np.full(2, math.nan)
            error = np.zeros(2) if start.exact else error
            found.append(
                Outlier(
                    value=spike.value,
                    overlap2=spike.overlap2,
                    kind="hidden",
                    stderr=float(error[0]),
                    overlap2_stderr=float(error[1]),
                    probability=len(here) / len(each),
                )
            )
    return found


def _others(problem: Problem, neuron: int, covariance: Covariance, delta: float, numerics: Numerics) -> list[Outlier]:
    """Outliers along easy directions and along the network's own weights, from samples of (V, z)."""
    c, link, k, m = math.sqrt(covariance.variance), directions(problem.link), problem.k, problem.m
    few = replace(numerics, paths=min(numerics.paths, MOST_PATHS))
    runs = laws.sampled(_stretched(problem, c), 1.0, 0, few).runs
    basis = np.concatenate([link.easy, link.hard, link.inert], axis=1)
    q, e = k + m, link.easy.shape[1]
    measure = np.zeros((covariance.tau.size, q, q))
    measure[:, :k, :k] = np.einsum("ka,pkl,lb->pab", basis, covariance.measure(k), basis)
    measure[:, k:, k:] = (covariance.mass * covariance.tau / covariance.variance)[:, None, None] * np.eye(m)
    population = Population(covariance.tau, covariance.mass, measure)

    def seen(run: dmft.Run) -> list[Seen]:
        g = run.weights(0)[neuron][:MOST_PATHS] / c**2
        rows = run.coordinates(slice(None, MOST_PATHS))[0][: k + m].T
        rows[:, :k] = rows[:, :k] @ basis
        law, told = WeightLaw(g, rows), []
        for side, look in (("below", separable.below), ("above", separable.above)):
            for spike in look(law, population, delta) if np.any(g) else []:
                easy, hidden, own = (float(part.sum()) for part in np.split(spike.overlaps, [e, k]))
                if hidden < max(easy, own):
                    told.append((side, "easy", spike.value, easy) if easy > own else (side, "weight", spike.value, own))
        return told

    return typical(runs, seen)
