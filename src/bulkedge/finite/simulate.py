"""Networks really trained on Gaussian data, many times, with standard errors: the measurement."""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable
from typing import Any

from bulkedge.dynamics.lazy_data import LazyData
from bulkedge.dynamics.stored_data import StoredData
from bulkedge.finite.choice import choose
from bulkedge.finite.runs import Plan, Run, gather, measure
from bulkedge.finite.test_loss import TestLoss
from bulkedge.foundation.answers import Simulation
from bulkedge.foundation.checks import choice, instance, integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem


def simulate(
    problem: Problem,
    delta: float | None = None,
    dimension: int = 1000,
    steps: int = 20,
    seeds: int = 3,
    seed: int = 0,
    data: str = "auto",
    spectrum_times: Any = (),
    eigenpairs: int = 4,
    hessian: str = "block",
    samples: int | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Simulation:
    """Train the network of a problem on fresh Gaussian data, `seeds` times, and measure what theory predicts.

    Every number is a function of the arguments and `seed`; run i depends on (seed, i) alone, so that more seeds
    repeat the first ones. The samples are x ~ N(0, I_d), theta_* the first k coordinate axes (exact in law, by
    rotation invariance), theta_j(0) uniform on the unit sphere. The test loss is an expectation over a fresh sample
    given the weights (`bulkedge.finite.test_loss`), not the loss of a test set.

    Args:
        problem: target, network, loss and training.
        delta: samples per dimension, n = round(delta d). Give this or `samples`.
        dimension: d.
        steps: T; curves run over t = 0..T.
        seeds: how many independent runs.
        seed: of all randomness.
        data: "stored", "lazy" (revealed as descent asks, exact in law), or "auto": the cheaper of what fits.
        spectrum_times: times at which the lowest Hessian eigenpairs are computed, matrix-free.
        eigenpairs: how many of them.
        hessian: "block" (of each neuron) or "full" (md x md); always of m Risk.
        samples: n, instead of delta.
        progress: called as progress(what, done, total).

    Returns:
        Means over runs; `stderr` has the standard errors of the means (NaN for a single run, which has none),
        `seeds` each run's own curves. success of a run: some neuron ends with |P_H theta_j|/|theta_j| > 1/2, P_H the
        projection on the hard directions, or on the easy ones if nothing is hard. hidden_variance is
        d E[vec(Theta U_H) vec(Theta U_H)^T], a mean over runs. With several neurons and hessian="block",
        eigenvalues, overlap2 and residual are lists over neurons. A run whose loss leaves every bound stops; it
        holds NaN from its `diverged_at` on, and so do the means.
    """
    began = clock.perf_counter()
    instance("problem", problem, Problem)
    n, d = sizes(delta, samples, dimension, problem.k)
    steps = integer("steps", steps, low=0, high=10**7)
    runs = integer("seeds", seeds, low=1, high=10**6)
    seed = integer("seed", seed, low=0, high=2**63 - 1)
    choice("hessian", hessian, ("block", "full"))
    times = _times(spectrum_times, steps, problem)
    span = d * problem.m if hessian == "full" else d
    pairs = integer("eigenpairs", eigenpairs, low=1, high=min(100, span))
    looked = hessian if times else None
    kind = choose(data, problem, n, d, steps, len(times), looked)
    plan = Plan(problem, n, d, steps, times, pairs, hessian, TestLoss(problem), directions(problem.link))
    records: list[Run] = []
    for i in range(runs):
        key = (seed, i)
        if kind == "stored":
            training = StoredData.drawn(problem, n, d, key)
        else:
            training = LazyData(problem, n, d, key, steps, looked)
        records.append(measure(plan, training, key, _ticker(progress, i, runs, steps)))
        # The next training set is drawn only when this one is gone: there is room for one.
        del training
    return gather(plan, records, kind, clock.perf_counter() - began)


def sizes(delta: Any, samples: Any, dimension: Any, k: int) -> tuple[int, int]:
    """(n, d) from the arguments."""
    d = integer("dimension", dimension, low=k, high=10**12)
    if (delta is None) == (samples is None):
        raise BadInput("delta", "give either delta (samples per dimension) or samples, and not both")
    if samples is not None:
        return integer("samples", samples, low=1, high=10**15), d
    n = round(positive("delta", delta) * d)
    if n < 1:
        raise BadInput("delta", f"leaves no sample at dimension {d}; it must be at least {1 / d:g}")
    return n, d


def _times(given: Any, steps: int, problem: Problem) -> tuple[int, ...]:
    entries = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    times = tuple(sorted({integer("spectrum_times", t, low=0, high=steps) for t in entries}))
    if times and (kink := problem.network.kink) is not None:
        name = problem.network.sigma.name
        where = f"the slope of {name} jumps at {kink:.3g}, so that its Hessian has a delta function there"
        raise BadInput("spectrum_times", f"must be empty: {where} and is no average over samples")
    return times


def _ticker(progress: Callable[[str, int, int], None] | None, run: int, runs: int, steps: int) -> Callable[[int], None]:
    """Progress of one run, in steps of all runs."""

    def tick(t: int) -> None:
        if progress is not None:
            progress("training", run * (steps + 1) + t + 1, runs * (steps + 1))

    return tick
