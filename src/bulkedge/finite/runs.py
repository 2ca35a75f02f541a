"""One trained network, and the average over many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bulkedge.dynamics.descent import Data, Descent, descend, initial
from bulkedge.dynamics.lazy_data import PRODUCTS
from bulkedge.dynamics.stored_data import START
from bulkedge.finite.test_loss import TestLoss
from bulkedge.foundation.answers import Simulation, shaped
from bulkedge.foundation.status import Status
from bulkedge.models.directions import Directions
from bulkedge.models.problem import Problem
from bulkedge.spectra.eigenpairs import eigenpairs

TOLERANCE = 1e-4
"""Accepted residual of a Hessian eigenpair over the norm of the Hessian."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What every run of a simulation does; see `simulate`."""

    problem: Problem
    n: int
    d: int
    steps: int
    times: tuple[int, ...]
    pairs: int
    hessian: str
    test_loss: TestLoss
    directions: Directions

    @property
    def sought(self) -> np.ndarray:
        """The directions whose learning is success, (k, r): the hard ones, or the easy ones if nothing is hard."""
        return self.directions.hard if self.directions.hard.shape[1] else self.directions.easy


@dataclass(frozen=True, eq=False)
class Run:
    """One run: its descent, test loss (T+1,) with its error, success, and spectra {time: (values, overlap2, residual)}.

    Each entry of a spectrum is (pairs,), or (m, pairs) for the blocks of several neurons.
    """

    descent: Descent
    test_loss: np.ndarray
    test_error: np.ndarray
    success: bool
    spectra: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=dict)

    @property
    def norm2(self) -> np.ndarray:
        """(T+1, m)."""
        return np.diagonal(self.descent.gram, axis1=1, axis2=2)

    @property
    def cosine(self) -> np.ndarray:
        """(T+1, m, k)."""
        return self.descent.overlap / np.sqrt(self.norm2)[:, :, None]


def measure(plan: Plan, data: Data, key: tuple[int, ...], tick: Callable[[int], None]) -> Run:
    """Train once and measure."""
    spectra: dict[int, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}

    def visit(t: int, theta: np.ndarray) -> None:
        if t in plan.times:
            spectra[t] = _spectrum(plan, data, theta, t)

    start = initial(plan.problem, plan.d, (*key, START))
    descent = descend(data, start, plan.steps, visit=visit, progress=tick)
    value, error = plan.test_loss(descent.gram, descent.overlap)
    learned = descent.overlap[-1] @ plan.sought
    # A run that diverged has NaN here, which is not above one half.
    success = bool(np.any(np.sum(learned**2, axis=1) > 0.25 * np.diag(descent.gram[-1])))
    return Run(descent, value, error, success, spectra)


def _spectrum(plan: Plan, data: Data, theta: np.ndarray, t: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m, k, d = plan.problem.m, plan.problem.k, plan.d
    neurons: list[int | None] = [None] if plan.hessian == "full" else list(range(m))
    hard = plan.directions.hard
    found = []
    for number, neuron in enumerate(neurons):
        with data.curvature(theta, neuron, t * m + number) as product:
            size = d if neuron is not None else m * d
            pairs = eigenpairs(product, size, plan.pairs, tolerance=TOLERANCE, seed=t, most_products=PRODUCTS)
        blocks = pairs.vectors.reshape(-1, d, plan.pairs)
        overlap2 = np.sum(np.einsum("jkp,kr->jrp", blocks[:, :k], hard) ** 2, axis=(0, 1))
        found.append((pairs.values, overlap2, pairs.residual))
    values, overlap2, residual = (np.stack(part) for part in zip(*found, strict=True))
    return (values, overlap2, residual) if len(neurons) > 1 else (values[0], overlap2[0], residual[0])


def gather(plan: Plan, runs: list[Run], kind: str, seconds: float) -> Simulation:
    """Means and standard errors over runs."""
    problem, m, k = plan.problem, plan.problem.m, plan.problem.k
    hidden = [_hidden(plan, run) for run in runs]
    mean: dict[str, Any] = {}
    stderr: dict[str, Any] = {}
    columns: dict[str, list[np.ndarray]] = {
        "train_loss": [run.descent.train_loss for run in runs],
        "test_loss": [run.test_loss for run in runs],
        "norm2": [run.norm2 for run in runs],
        "overlap": [run.descent.overlap for run in runs],
        "cosine": [run.cosine for run in runs],
    }
    for name, values in columns.items():
        mean[name], stderr[name] = _average(values)
    # The expectation over fresh samples is the same for all runs, and so is its error.
    stderr["test_loss"] = np.hypot(stderr["test_loss"], np.max([run.test_error for run in runs], axis=0))
    mean["hidden_variance"] = stderr["hidden_variance"] = None
    if plan.directions.hard.shape[1]:
        mean["hidden_variance"], stderr["hidden_variance"] = _average([h for h in hidden if h is not None])
    mean.update(_curves(m, k, mean))
    stderr.update(_curves(m, k, stderr))
    spectra: dict[str, Any] = {"eigenvalues": {}, "overlap2": {}, "residual": {}}
    stderr.update({"eigenvalues": {}, "overlap2": {}})
    for t in plan.times:
        values, overlap2, residual = (_stack(plan, runs, t, part) for part in range(3))
        for name, stack in (("eigenvalues", values), ("overlap2", overlap2)):
            centre, error = _average(list(stack))
            spectra[name][t], stderr[name][t] = centre.tolist(), error.tolist()
        spectra["residual"][t] = np.max(residual, axis=0).tolist()
    stops = [run.descent.diverged_at for run in runs if run.descent.diverged_at is not None]
    worst = max((float(np.nanmax(s[2])) for run in runs for s in run.spectra.values()), default=0.0)
    status, warnings = Status.CONVERGED, []
    if worst > TOLERANCE:
        status = Status.NOT_CONVERGED
        warnings.append(f"a Hessian eigenpair has a residual of {worst:.1e} of the norm, above {TOLERANCE:g}")
    if stops:
        status = Status.DIVERGED
        warnings.append(f"{len(stops)} of {len(runs)} runs diverged, the first at step {min(stops)}")
    return Simulation(
        delta=plan.n / plan.d,
        dimension=plan.d,
        samples=plan.n,
        time=np.arange(plan.steps + 1),
        **mean,
        success=[run.success for run in runs],
        seeds=[_one(plan, run, i) for i, run in enumerate(runs)],
        stderr=stderr,
        **spectra,
        data=kind,
        seconds=seconds,
        status=status,
        warnings=warnings,
        diverged_at=min(stops) if stops else None,
        problem=problem.to_dict(),
    )


def _average(values: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Mean over runs and its standard error, NaN for a single run."""
    stack = np.stack(values)
    if len(values) == 1:
        return stack[0], np.full(stack[0].shape, np.nan)
    return stack.mean(axis=0), stack.std(axis=0, ddof=1) / np.sqrt(len(values))


def _hidden(plan: Plan, run: Run) -> np.ndarray | None:
    """The matrix d vec(Theta U_H) vec(Theta U_H)^T at every time, (T+1, m r, m r); None if nothing is hard."""
    if plan.directions.hard.shape[1] == 0:
        return None
    h = (run.descent.overlap @ plan.directions.hard).reshape(plan.steps + 1, -1)
    return plan.d * h[:, :, None] * h[:, None, :]


def _curves(m: int, k: int, entries: dict[str, Any]) -> dict[str, Any]:
    return shaped(m, k, **{name: entries[name] for name in ("norm2", "overlap", "cosine", "hidden_variance")})


def _stack(plan: Plan, runs: list[Run], t: int, part: int) -> np.ndarray:
    """One part of the spectra at t over runs; NaN for a run that had diverged by then."""
    shape = (plan.pairs,) if plan.hessian == "full" or plan.problem.m == 1 else (plan.problem.m, plan.pairs)
    return np.stack([run.spectra[t][part] if t in run.spectra else np.full(shape, np.nan) for run in runs])


def _one(plan: Plan, run: Run, i: int) -> dict[str, Any]:
    """The curves of one run, in the words of the answer."""
    entries = {"norm2": run.norm2, "overlap": run.descent.overlap, "cosine": run.cosine}
    parts = ("eigenvalues", "overlap2", "residual")
    return {
        "run": i,
        "train_loss": run.descent.train_loss,
        "test_loss": run.test_loss,
        **shaped(plan.problem.m, plan.problem.k, **entries),
        **{name: {t: s[part].tolist() for t, s in run.spectra.items()} for part, name in enumerate(parts)},
        "success": run.success,
        "diverged_at": run.descent.diverged_at,
    }
