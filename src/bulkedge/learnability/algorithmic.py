"""delta_alg: samples per dimension for weak recovery of hard directions by the best first-order method (theory 02, 2a).

With E(y, c) = E[s s^T - I | y, c], s the unknown and c the known coordinates, 1/delta_alg is the largest singular value
of F(M) = E[E(y, c) M E(y, c)] on symmetric matrices. F is self-adjoint and preserves positive matrices, so it is the
largest eigenvalue and is reached by a positive semidefinite M, whose range is what becomes visible. The best matrix
sum_i T(y_i) x_i x_i^T does it at 1/max_|u|=1 E[(u^T E u)^2], which is never less. The staircase: once directions are
known they join c, and the next ones are looked for. Sources: Mondelli and Montanari (2018); Troiani et al. (2025).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bulkedge.foundation.limits import DeltaAlg
from bulkedge.foundation.status import Status
from bulkedge.learnability.admissible import Progress, described, read
from bulkedge.learnability.second_moments import second_moments
from bulkedge.models import directions as classes
from bulkedge.models import latent
from bulkedge.models.target import Target

_ZERO = 1e-9
_INFINITE = 2e-3
"""A rate 1/delta below this that is not above its error counts as zero."""
_SIGMAS = 5.0
_RESOLVED = 0.02
_TIED = 1e-3
_FAINT = 3e-3
"""Eigenvalue of M, relative to the largest, below which a direction is not in its range."""
TRIVIAL = "trivial: first moments of z given y see every direction that y depends on, so any delta > 0 is enough"


@dataclass(frozen=True, eq=False)
class Stage:
    """Directions (k, n) that become visible at delta samples per dimension, those of the stages before being known.

    delta: 0 if first-order statistics see them, None if no second-order statistic does. bound: then delta is above it.
    """

    delta: float | None
    directions: np.ndarray
    stderr: float = 0.0
    rank_one: float | None = None
    bound: float | None = None
    method: str = "first moments"


def staircase(link: Target) -> Iterator[Stage]:
    """The stages one after the other, each computed when it is asked for."""
    active, group = latent.active(link), classes.symmetries(link)
    known = np.zeros((link.latent_dim, 0))
    easy = list(classes.directions(link).stages)
    while known.shape[1] < active.shape[1]:
        new = easy.pop(0) if easy else np.zeros((link.latent_dim, 0))
        if new.shape[1] == 0 and known.shape[1] > classes.directions(link).easy.shape[1]:
            new, _ = classes.visible(link, known, active, group)
        stage = Stage(0.0, classes.tidy(new)) if new.shape[1] else _second_order(link, known, active)
        yield stage
        if stage.delta is None:
            return
        known = np.concatenate([known, stage.directions], axis=1)


def stage_after(link: Target, known: np.ndarray) -> Stage:
    """What second-order statistics see next once the directions `known` (k, e) are, and no first-order ones remain."""
    return _second_order(link, known, latent.active(link))


def _second_order(link: Target, known: np.ndarray, active: np.ndarray) -> Stage:
    rest = classes.tidy(classes.complement(known, active))
    moments = second_moments(link, known, rest)
    rate, error = moments.estimate(_largest)
    most = max(rate + _SIGMAS * error, _ZERO)
    if rate <= max(_SIGMAS * error, _ZERO) and most < _INFINITE:
        return Stage(None, rest, bound=1.0 / most, method=moments.method)
    best, _ = moments.estimate(lambda t: _rank_one(t))
    new = classes.tidy(rest @ _visible(moments.mean, max(_TIED, 4.0 * error / rate), max(_FAINT, 30.0 * error / rate)))
    return Stage(1.0 / rate, new, error / rate**2, 1.0 / min(best, rate), method=moments.method)


def _operator(t: np.ndarray) -> np.ndarray:
    """F as a matrix on flattened r x r matrices."""
    r = len(t)
    f = t.transpose(0, 3, 1, 2).reshape(r * r, r * r)
    return 0.5 * (f + f.T)


def _largest(t: np.ndarray) -> float:
    return float(np.linalg.eigvalsh(_operator(t))[-1])


def _visible(t: np.ndarray, tie: float, faint: float) -> np.ndarray:
    """Basis (r, n) of the ranges of all M that reach the largest eigenvalue."""
    r = len(t)
    value, vector = np.linalg.eigh(_operator(t))
    top = vector[:, value > value[-1] * (1.0 - tie)].T.reshape(-1, r, r)
    symmetric = 0.5 * (top + top.transpose(0, 2, 1))
    weight, basis = np.linalg.eigh(np.einsum("nab,ncb->ac", symmetric, symmetric))
    return basis[:, weight > faint**2 * weight[-1]]


def _rank_one(t: np.ndarray) -> float:
    """Max over unit u of sum T_ijkl u_i u_j u_k u_l, by ascent u <- T u u u + shift u from many starts."""
    r = len(t)
    if r == 1:
        return float(t.item())
    u = np.random.default_rng(3).standard_normal((64 * r, r))
    u[:r] = np.eye(r)
    u[r] = 1.0
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    flat = (t + t.transpose(0, 2, 1, 3) + t.transpose(0, 3, 1, 2)).reshape(r, -1) / 3.0
    shift = float(np.max(np.abs(np.linalg.eigvalsh(_operator(t)))))
    for _ in range(300):
        cube = np.einsum("na,nb,nc->nabc", u, u, u).reshape(len(u), -1)
        u = cube @ flat.T + shift * u
        u /= np.linalg.norm(u, axis=1, keepdims=True)
    return float(np.max(np.einsum("ijkl,ni,nj,nk,nl->n", t, u, u, u, u, optimize=True)))


@functools.lru_cache(maxsize=64)
def hard_threshold(link: Target) -> tuple[float | None, tuple[str, ...]]:
    """(delta_alg of the hard directions given the easy ones, remarks); None where it is infinite or not resolved."""
    for stage in staircase(link):
        if stage.delta is None:
            return None, (_infinite(stage),)
        if stage.delta > 0:
            return (stage.delta, ()) if resolved(stage) else (None, (_unresolved(stage),))
    return None, ()


def resolved(stage: Stage) -> bool:
    """Whether the error of a stage is small enough for a number."""
    return stage.delta is not None and stage.stderr <= _RESOLVED * stage.delta


def _infinite(stage: Stage) -> str:
    return (
        "delta_alg is infinite: no second-order statistic of (y, z) sees the hard directions "
        f"(numerically, it is above {stage.bound:.2g})."
    )


def _unresolved(stage: Stage) -> str:
    return (
        "delta_alg could not be resolved: the law of z given y is too irregular for the quadrature "
        f"({stage.delta:.4g} with a standard error of {stage.stderr:.2g})."
    )


def delta_alg(target: Any, latent_dim: int | None = None, *, progress: Progress | None = None) -> DeltaAlg:
    """Samples per dimension above which the best efficient algorithm recovers the hard directions weakly.

    target: an expression in z (or z1, z2, ...) and noise e, a callable (z, e) -> y, or a `Problem`; latent_dim where it
    cannot be read off. Easy directions are taken as known; `stages` goes on once the first hard ones are known too.

    >>> import bulkedge as be
    >>> round(be.delta_alg("z^2").delta, 6)
    0.5
    """
    link = read(target, latent_dim)
    stages = []
    for stage in staircase(link):
        stages.append(stage)
        if progress:
            progress("directions found", sum(s.directions.shape[1] for s in stages), latent.active(link).shape[1])
    first = next((s for s in stages if s.delta != 0.0), None)
    common: dict[str, Any] = {
        "stages": [[s.delta, s.directions.T.tolist()] for s in stages],
        "stderrs": [s.stderr if s.delta is not None else None for s in stages],
        "condition": _condition(link, first),
        "problem": described(link),
    }
    if first is None:
        return DeltaAlg(delta=None, reason=TRIVIAL, rank_one=None, stderr=None, method="first moments", **common)
    if first.delta is None:
        return DeltaAlg(
            delta=None,
            reason=_infinite(first),
            rank_one=None,
            stderr=None,
            method=first.method,
            **common,
        )
    good = resolved(first)
    return DeltaAlg(
        delta=first.delta if good else None,
        reason=None if good else _unresolved(first),
        rank_one=first.rank_one if good else None,
        stderr=first.stderr,
        method=first.method,
        status=Status.CONVERGED if good else Status.NOT_CONVERGED,
        **common,
    )


def _condition(link: Target, first: Stage | None) -> str:
    found = classes.directions(link)
    if first is None:
        return "E[z | y] = 0 fails along every direction"
    given = " and the easy coordinates" if found.easy.shape[1] else ""
    evidence = found.certificate["stages"][-1]
    if evidence["resolution"] == 0.0:
        how = "by a symmetry of the link"
    else:
        how = f"explained variance {evidence['signal']:.1e}, where {evidence['resolution']:.1e} would be seen"
    return f"E[z | y{given}] = 0 holds along the hard directions ({how})"
