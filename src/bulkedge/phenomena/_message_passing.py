"""Bayes-optimal AMP for a target: its state evolution, its run on data, and a verdict on the two."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from typing import Any

import numpy as np

from bulkedge.finite import data as training
from bulkedge.finite.amp import AMP
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import choice, integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.recovery import MessagePassing, StateEvolution
from bulkedge.foundation.status import Status
from bulkedge.foundation.verdict import judge, widening
from bulkedge.gaussian.streams import stream
from bulkedge.learnability.state_evolution import ACCURACY, start_matrix, state_evolution
from bulkedge.models.directions import symmetries
from bulkedge.models.target import Target
from bulkedge.models.target import target as read

Progress = Callable[[str, int, int], None]
_START = 7
"""Of the random streams of a seed: the one that starts are drawn from."""
_SETTLED = 1e-4
"""Relative change of an estimate from data, at which it has settled: its rounding is that of float32."""


@over_arrays("delta")
def amp(
    target: Any,
    delta: float,
    dimension: int,
    *,
    start: Any = 0.1,
    iterations: int = 30,
    seeds: int = 5,
    seed: int = 0,
    data: str = "stored",
    latent_dim: int | None = None,
    numerics: Any = ACCURACY,
    progress: Progress | None = None,
) -> MessagePassing:
    """Bayes-optimal approximate message passing on data, beside its state evolution.

    Args:
        target: a link whose conditional moments are computed: one or two directions (see `state_evolution`).
        delta: n/d.
        dimension: d.
        start: overlap matrix M (or a number, for M times the identity) of an informed first estimate, from which state
            evolution begins as well; or "random", an estimate that knows nothing.
        iterations: most iterations.
        seeds: how many training sets.
        seed: training set i is drawn from (seed, i).
        data: "stored", or "lazy" (revealed by products; exact in law).
        latent_dim: number of directions, where the target does not say.
        numerics: paths and replicas of state evolution.
        progress: called as progress(what, done, total).

    From an informed start every iteration is judged. From a random one, whose escape takes a time that differs from run
    to run, only the end is: against the fixed point reached from M = I/d, up to signs and permutations of the link.
    """
    began = clock.perf_counter()
    link = read(target, latent_dim)
    delta, k = positive("delta", delta), link.latent_dim
    d = integer("dimension", dimension, low=max(2, k), high=10**9)
    steps, runs = integer("iterations", iterations, low=1, high=100_000), integer("seeds", seeds, low=1, high=10**6)
    seed, kind = integer("seed", seed, low=0, high=2**63 - 1), choice("data", data, ("stored", "lazy"))
    informed = not isinstance(start, str)
    if not informed:
        choice("start", start, ("random",))
    n = round(delta * d)
    if n < 1:
        raise BadInput("delta", f"leaves no sample at dimension {d}; it must be at least {1 / d:g}")
    first = start_matrix(start, k) if informed else np.eye(k) / d
    evolution = state_evolution(
        link,
        delta,
        start=first,
        iterations=steps if informed else 10 * steps,
        tolerance=1e-9 if informed else 1e-6,
        numerics=numerics,
    )
    found, paths = [], np.full((runs, steps + 1, k, k), np.nan)
    for i in range(runs):
        paths[i], record = _run(link, n, d, (seed, i), first if informed else None, steps, kind)
        found.append(record)
        if progress:
            progress("message passing", i + 1, runs)
    mean = paths.mean(axis=0)
    error = paths.std(axis=0, ddof=1) / math.sqrt(runs) if runs > 1 else np.full(mean.shape, np.nan)
    cosines = np.array([run["cosine2"] for run in found])
    verdict = _judged(evolution, mean, error, d, runs, informed)
    diverged = any(run["status"] == Status.DIVERGED for run in found)
    settled = all(run["status"] == Status.CONVERGED for run in found)
    squeeze = (lambda a: a[:, 0, 0]) if k == 1 else (lambda a: a)
    return MessagePassing(
        target=link.name,
        delta=delta,
        dimension=d,
        samples=n,
        time=np.arange(steps + 1),
        overlap=squeeze(mean),
        cosine2=float(cosines.mean()),
        evolution=evolution,
        stderr={
            "overlap": squeeze(error),
            "cosine2": float(cosines.std(ddof=1) / math.sqrt(runs)) if runs > 1 else math.nan,
        },
        seeds=found,
        verdict=verdict.verdict,
        sentence=verdict.sentence,
        seconds=clock.perf_counter() - began,
        # A fixed number of iterations from an informed start is what was asked for.
        status=Status.DIVERGED if diverged else Status.CONVERGED if settled or informed else Status.NOT_CONVERGED,
    )


def _run(
    link: Target, n: int, d: int, key: tuple[int, int], known: np.ndarray | None, steps: int, kind: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """Overlaps (steps + 1, k, k) of one training set, the last one held once it has settled, and its record."""
    k = link.latent_dim
    if kind == "stored":
        x, y = training.stored(link, n, d, key)
    else:
        x, y = training.lazy(link, n, d, key, k * (steps + 1))
    truth = np.eye(k, d)
    first = None if known is None else informed_start(known, truth, key)
    machine = AMP(link, max_iter=steps, tol=_SETTLED, start=first, random_state=key[1])
    machine.fit(x, y, truth=truth)
    path = np.concatenate([machine.overlaps_, np.repeat(machine.overlaps_[-1:], steps + 1 - len(machine.overlaps_), 0)])
    if known is None:
        path = path @ _nearest(link, path[-1]).T
    if machine.status_ == Status.DIVERGED:
        path[len(machine.overlaps_) :] = np.nan
    return path, {
        "overlap": (path[:, 0, 0] if k == 1 else path).tolist(),
        "cosine2": cosine2(machine.components_, truth),
        "iterations": machine.n_iter_,
        "status": str(machine.status_),
    }


def informed_start(overlap: np.ndarray, truth: np.ndarray, key: tuple[int, ...]) -> np.ndarray:
    """Rows (k, d) b = M theta_* + (M - M^2)^(1/2) noise: b theta_*^T = b b^T = M, as of a posterior mean."""
    noise = stream(*key, _START).standard_normal(truth.shape) / math.sqrt(truth.shape[1])
    value, basis = np.linalg.eigh(overlap - overlap @ overlap)
    spread = (basis * np.sqrt(np.maximum(value, 0.0))) @ basis.T
    return overlap @ truth + spread @ noise


def _nearest(link: Target, overlap: np.ndarray) -> np.ndarray:
    """The symmetry g of the link, which no data can decide, that brings the estimate closest."""
    return max(symmetries(link), key=lambda g: float(np.trace(overlap @ g.T)))


def cosine2(rows: np.ndarray, truth: np.ndarray) -> float:
    """|P_B P_*|^2/k: mean squared cosine of the principal angles of the two spans."""
    basis, size, _ = np.linalg.svd(rows.T, full_matrices=False)
    found = basis[:, size > 1e-8 * max(size[0], 1e-300)]
    return float(np.sum((truth @ found) ** 2) / len(truth))


def _judged(evolution: StateEvolution, mean: np.ndarray, error: np.ndarray, d: int, runs: int, informed: bool) -> Any:
    """At every iteration, or at the end; on the scale 1 of an overlap."""
    steps, k = len(mean) - 1, mean.shape[1]
    held = np.minimum(np.arange(steps + 1), len(evolution.overlap) - 1)
    predicted, doubt = (np.reshape(a, (-1, k, k))[held] for a in (evolution.overlap, evolution.stderr))
    at = slice(1, None) if informed else slice(-1, None)
    if not informed:
        predicted, doubt = (np.reshape(a, (-1, k, k))[-1:] for a in (evolution.overlap, evolution.stderr))
    else:
        predicted, doubt = predicted[at], doubt[at]
    wide = error[at] * widening(runs) if runs > 1 else error[at]
    return judge(predicted, doubt, mean[at], wide, scale=1.0, drift=4.0 / d, name="overlap")
