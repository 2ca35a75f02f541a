"""How many samples per dimension until the Hessian has a descent direction towards the features (theory 1.3 to 1.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bulkedge.foundation.answers import Threshold
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import choice, integer
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.roots import bracketed
from bulkedge.foundation.status import Status
from bulkedge.learnability import laws, windows
from bulkedge.learnability.algorithmic import hard_threshold
from bulkedge.learnability.floor import bounded_below, never_negative
from bulkedge.learnability.room import asked
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra import bulk
from bulkedge.spectra.law import WeightLaw, pooled

Progress = Callable[[str, int, int], None]
SCAN = np.geomspace(0.1, 200.0, 31)
BEYOND = np.array([500.0, 2e3, 1e4, 1e5])
_SHARE = 0.05


@over_arrays("time")
def threshold(
    problem: Problem,
    time: float = 0,
    *,
    hessian: str = "block",
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> Threshold:
    """The least delta = n/d at which the Hessian at step `time` has a negative outlier along a hard direction.

    At t = 0 the law of the weights is integrated by quadrature where that is possible; at t > 0 the dynamics is run at
    every delta tried, with common random numbers, and the error comes from independent replicas. time=math.inf
    extrapolates in t, or says that the sequence has not settled. With several neurons the least over their blocks is
    reported (hessian="block"), or the threshold of the whole Hessian (hessian="full").

    >>> import bulkedge as be
    >>> round(be.threshold(be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu")).delta, 4)
    5.1062
    """
    asked(problem, numerics)
    choice("hessian", hessian, ("block", "full"))
    if time == math.inf:
        from bulkedge.learnability.late import late_threshold

        return late_threshold(problem, hessian=hessian, numerics=numerics, progress=progress)
    t = integer("time", time, low=0, high=10_000)
    hard = directions(problem.link).hard.shape[1]
    common: dict[str, Any] = {
        "time": t,
        "numerics": numerics.to_dict(),
        "problem": problem.to_dict(),
    }
    if hard == 0:
        sentence = (
            f"The target has no hard direction ({directions(problem.link).kinds}): descent sees all of it at once."
        )
        return Threshold(delta=None, reason="nothing hard", stderr=None, warnings=[sentence], method="", **common)
    if hessian == "full" and problem.m > 1:
        from bulkedge.learnability.whole import whole_threshold

        found = [whole_threshold(problem, t, numerics, progress)]
    else:
        found = [_neuron(problem, j, t, numerics, progress) for j in range(problem.m)]
    return _answer(problem, found, common)


@dataclass(frozen=True)
class Found:
    """What one neuron's block has: windows, the standard error of the first end, and how it was found."""

    windows: list[windows.Window]
    stderr: float
    edge: float | None
    method: str
    residual: float | None
    status: Status
    warnings: tuple[str, ...]
    dependence: list[list[float | None]]
    diverged_at: int | None = None


def _answer(problem: Problem, found: list[Found], common: dict[str, Any]) -> Threshold:
    lows = [f.windows[0][0] if f.windows else None for f in found]
    best = min((i for i, low in enumerate(lows) if low is not None), key=lambda i: lows[i] or 0.0, default=0)
    one = found[best]
    delta = lows[best]
    outside = delta is not None and delta <= windows.LOW * 1.000001
    delta_alg, remarks = hard_threshold(problem.link)
    kink = (
        [
            "The activation has a kink, where sigma'' is a delta function: it does not enter the Hessian of a finite "
            "network, whose weights are those of theory 1.2 with sigma'' = 0 almost everywhere."
        ]
        if problem.network.kink is not None
        else []
    )
    return Threshold(
        delta=None if outside else delta,
        reason="outside the searched range" if outside else None if delta is not None else "none",
        stderr=None if delta is None else one.stderr,
        edge=one.edge,
        windows=[list(w) for w in one.windows],
        delta_alg=delta_alg,
        efficiency=None if delta is None or delta_alg is None else delta_alg / delta,
        method=one.method,
        residual=one.residual,
        neurons=lows if len(lows) > 1 else None,
        dependence=one.dependence,
        diverged_at=one.diverged_at,
        status=one.status,
        warnings=list(dict.fromkeys([*kink, *(w for f in found for w in f.warnings), *remarks])),
        **common,
    )


def _neuron(problem: Problem, j: int, t: int, numerics: Numerics, progress: Progress | None) -> Found:
    bounded = bounded_below(problem, j)
    if t > 0:
        search = Search(
            lambda sample, delta: [windows.margin_at(law, delta) for law in sample.laws(j)],
            lambda sample, delta: bulk.left_edge(pooled(sample.laws(j)), delta),
        )
        dependence = [] if bounded else dependence_on_samples(problem, j, numerics)
        found = moving(problem, t, numerics, search, dependence, progress)
        if found.windows or not never_negative(problem, j):
            return found
        return replace(found, warnings=(_NEVER_NEGATIVE, *found.warnings))
    if bounded:
        law = laws.initial(problem, j)
        if law is not None:
            return _by_quadrature(problem, j, law, numerics.rtol)
    return _by_samples(problem, j, numerics, bounded, progress)


def _none(method: str, residual: float | None, warnings: tuple[str, ...] = ()) -> Found:
    return Found([], 0.0, None, method, residual, Status.CONVERGED, warnings, [])


_NEVER_NEGATIVE = "The Hessian weights are never negative: no direction of descent, at any delta."


def _by_quadrature(problem: Problem, j: int, law: WeightLaw, rtol: float) -> Found:
    if law.low >= 0:
        return _none("quadrature", 0.0, (_NEVER_NEGATIVE,))
    found = windows.of_fixed_law(law)
    coarse_law = laws.initial(problem, j, 0.7)
    coarse = windows.of_fixed_law(coarse_law) if coarse_law is not None else []
    if not found:
        return _none("quadrature", 0.0 if not coarse else None)
    low = found[0][0]
    residual = abs(coarse[0][0] / low - 1.0) if coarse else math.inf
    edge = bulk.left_edge(law, low)
    status = Status.CONVERGED if residual < max(1e-3, rtol) else Status.NOT_CONVERGED
    warnings = thin(edge)
    if residual > rtol:
        warnings += (f"Two quadratures differ by {residual:.1e} of the threshold, more than rtol = {rtol:.1e}.",)
    # What a coarser rule changes is counted as an error only where it exceeds the accuracy asked for.
    stderr = 0.0 if residual <= rtol else residual * low
    return Found(found, stderr, edge.value, "quadrature", residual, status, warnings, [])


def thin(edge: Any) -> tuple[str, ...]:
    """The warning of an edge that is taken at A."""
    if not edge.thin:
        return ()
    return (
        "The law of the weights thins out at its infimum and the edge is taken there (theory 1.3): "
        "finite matrices approach it slowly.",
    )


def _by_samples(problem: Problem, j: int, numerics: Numerics, bounded: bool, progress: Progress | None) -> Found:
    """Windows of the sampled law at t = 0, which does not depend on delta."""
    each = []
    for i, law in enumerate(laws.sampled(problem, 1.0, 0, numerics).laws(j)):
        each.append(windows.of_fixed_law(law) if law.low < 0 else [])
        if progress:
            progress("replicas at t = 0", i + 1, numerics.replicas)
    method = f"Monte Carlo, {numerics.paths} samples x {numerics.replicas}"
    dependence = [] if bounded else dependence_on_samples(problem, j, numerics)
    warnings = () if bounded else (trap(dependence, numerics),)
    if sum(bool(w) for w in each) * 2 < len(each):
        return replace(_none(method, None, warnings), dependence=dependence)
    starts = np.array([w[0][0] for w in each if w])
    if starts.size < len(each):
        warnings += (f"Only {starts.size} of {len(each)} replicas have a window.",)
    typical = each[int(np.argsort([w[0][0] if w else np.inf for w in each])[starts.size // 2])]
    low, stderr = (
        float(starts.mean()),
        float(starts.std(ddof=1) / math.sqrt(starts.size)) if starts.size > 1 else math.nan,
    )
    whole = pooled(laws.sampled(problem, 1.0, 0, numerics).laws(j))
    edge = bulk.left_edge(whole, low)
    return Found(
        [(low, typical[0][1]), *typical[1:]],
        stderr,
        edge.value,
        method,
        None,
        Status.CONVERGED,
        (*warnings, *heavy(edge)),
        dependence,
    )


def heavy(edge: Any) -> tuple[str, ...]:
    """The warning of an edge that hangs on a single sample."""
    if edge.share < _SHARE:
        return ()
    return (f"A single sample carries {edge.share:.0%} of what decides the edge: more paths would move it.",)


def dependence_on_samples(problem: Problem, j: int, numerics: Numerics) -> list[list[float | None]]:
    """[[N, threshold at t = 0 from N samples, standard error], ...]: what drifts when G is unbounded below."""
    rows: list[list[float | None]] = []
    for count in (1024, 16384, 131072):
        few = replace(numerics, paths=count, replicas=4)
        found = [windows.of_fixed_law(law) for law in laws.sampled(problem, 1.0, 0, few).laws(j) if law.low < 0]
        starts = np.array([w[0][0] for w in found if w])
        full = starts.size == few.replicas
        rows.append([count, float(starts.mean()) if full else None, float(starts.std(ddof=1) / 2.0) if full else None])
    return rows


def trap(dependence: list[list[float | None]], numerics: Numerics) -> str:
    """The warning of a weight that is unbounded below."""
    rows = ", ".join(
        f"{int(n or 0)}: " + ("none" if d is None or e is None else f"{d:.3g}({e:.1g})") for n, d, e in dependence
    )
    return (
        "The Hessian weight is unbounded below (theory 1.9): read literally there is no threshold, and one computed "
        f"from N samples drifts with N. At t = 0, N: threshold (standard error): {rows}. Numbers here are for "
        f"N = {numerics.paths}; a loss with bounded slope or a bounded target has no such problem."
    )


@dataclass(frozen=True)
class Search:
    """What a search over delta looks at: the margins of the replicas (negative: an outlier exists), and the edge."""

    margins: Callable[[laws.Sampled, float], list[float]]
    edge: Callable[[laws.Sampled, float], Any]


def moving(
    problem: Problem,
    t: int,
    numerics: Numerics,
    search: Search,
    dependence: list[list[float | None]],
    progress: Progress | None,
    draw: Callable[[float, Numerics], laws.Sampled] | None = None,
) -> Found:
    """Windows where the law of the weights depends on delta through the dynamics.

    draw: replicas of the dynamics at a delta; those that start without any overlap by default.
    """
    draw = draw or (lambda delta, choice: laws.sampled(problem, delta, t, choice))
    few = replace(numerics, paths=min(numerics.paths, 8192), replicas=2)
    lost: dict[float, int] = {}

    def margins(delta: float, choice: Numerics) -> np.ndarray:
        sample = draw(delta, choice)
        if sample.diverged_at is not None:
            lost[delta] = sample.diverged_at
            return np.ones(choice.replicas)
        return np.array(search.margins(sample, delta))

    total = SCAN.size + BEYOND.size
    seen: dict[float, float] = {}

    def scan(u: float) -> float:
        if u not in seen:
            seen[u] = float(margins(math.exp(u), few).mean())
            if progress:
                progress(f"delta tried at t = {t}", min(len(seen), total), total)
        return seen[u]

    rough = windows.intervals(scan, np.log(np.concatenate([SCAN, BEYOND])))
    method = f"DMFT, {numerics.paths} paths x {numerics.replicas}"
    warnings: tuple[str, ...] = (trap(dependence, numerics),) if dependence else ()
    if lost:
        warnings += (f"The dynamics diverges at delta up to {max(lost):.3g}: no outlier is counted there.",)
    if len(lost) == len(seen):
        return replace(
            _none(method, None, warnings),
            dependence=dependence,
            status=Status.DIVERGED,
            diverged_at=min(lost.values()),
        )
    if not rough:
        return replace(_none(method, None, warnings), dependence=dependence)
    found: list[windows.Window] = []
    errors: list[float] = []
    for i, (a, b) in enumerate(rough):
        first = _refine(lambda d: margins(d, numerics), a) if a > math.log(SCAN[0]) else (windows.LOW, 0.0)
        last = (math.inf, 0.0) if b >= math.log(BEYOND[-1]) else _refine(lambda d: margins(d, numerics), b)
        if first is None or last is None:
            warnings += (
                f"A window near delta {math.exp(a):.3g} to {math.exp(b):.3g}, seen with few paths, is not confirmed.",
            )
        else:
            found.append((first[0], None if math.isinf(last[0]) else last[0]))
            errors.append(first[1])
        if progress:
            progress("windows refined", i + 1, len(rough))
    if not found:
        return replace(_none(method, None, warnings), dependence=dependence)
    low, stderr = found[0][0], errors[0]
    sample = draw(low, numerics)
    edge = search.edge(sample, low) if sample.diverged_at is None else None
    extra = () if edge is None else (*thin(edge), *heavy(edge))
    return Found(
        found,
        stderr,
        None if edge is None else edge.value,
        method,
        None,
        Status.CONVERGED,
        warnings + extra,
        dependence,
    )


def _refine(margins: Callable[[float], np.ndarray], u: float) -> tuple[float, float] | None:
    """The root in delta of the mean margin near e^u, and its standard error from the replicas' own roots; None if none.

    All replicas are evaluated with common random numbers, so their margins are smooth in delta; near the root each is
    a straight line in log delta.
    """
    cache: dict[float, np.ndarray] = {}

    def values(u: float) -> np.ndarray:
        if u not in cache:
            cache[u] = margins(math.exp(u))
        return cache[u]

    def mean(u: float) -> float:
        return float(values(u).mean())

    step = 0.02
    low, high = u - step, u + step
    while mean(low) * mean(high) > 0:
        step *= 2.0
        if step > 0.7:
            return None
        low, high = u - step, u + step
    root = bracketed(mean, low, high, xtol=1e-4)
    below, above = values(root - 0.01), values(root + 0.01)
    slope = (above - below) / 0.02
    own = root - 0.5 * (above + below) / np.where(slope == 0, np.nan, slope)
    stderr = float(np.std(own, ddof=1) / math.sqrt(own.size)) * math.exp(root)
    return math.exp(root), stderr
