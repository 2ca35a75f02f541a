"""The public results, field by field (the contract of the design): theory and measurement share their words.

Per-time entries are arrays with steps + 1 entries. For one neuron and one direction they are numbers; otherwise
`norm2` is (time, neuron), `overlap` and `cosine` (time, neuron, direction), and `hidden_variance` the covariance
(time, neuron x hard direction, neuron x hard direction), the neuron running slowest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bulkedge.foundation.result import Record, Result

_CORE = ("montanari-wang-2026", "celentano-cheng-montanari-2021")


def shaped(m: int, k: int, **entries: np.ndarray | None) -> dict[str, Any]:
    """Per-time entries as the contract has them: plain numbers for one neuron and one direction.

    Entries are (time, m), (time, m, k) or (time, m r, m r); their trailing axes are dropped if m = k = 1.
    """
    if m > 1 or k > 1:
        return entries
    return {name: None if v is None else v.reshape(v.shape[0]) for name, v in entries.items()}


@dataclass(frozen=True, kw_only=True)
class Outlier(Record):
    """An eigenvalue outside the bulk.

    kind: hidden (a hard direction of the target), easy, or weight (the network's own weights).
    overlap2: squared projection of its unit eigenvector on that kind's direction(s).
    stderr: of the value; zero when computed by quadrature. probability: that it exists, given that error.
    """

    value: float
    overlap2: float
    kind: str
    stderr: float = 0.0
    probability: float = 1.0
    overlap2_stderr: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Threshold(Result):
    """Samples per dimension above which the Hessian has a negative hidden outlier (theory 1.3, 1.4).

    delta: the least such value, None where there is none (then `reason` says why).
    windows: [[low, high or None], ...], all intervals of delta where the outlier exists.
    edge: left edge of the bulk at `delta`. efficiency: delta_alg / delta.
    """

    delta: float | None
    reason: str | None = None
    stderr: float | None = 0.0
    edge: float | None = None
    time: float = 0
    windows: list[list[float | None]] = field(default_factory=list)
    delta_alg: float | None = None
    efficiency: float | None = None
    method: str = ""
    residual: float | None = None
    neurons: list[float | None] | None = None
    """the threshold of each neuron's block, where there are several"""
    dependence: list[list[float | None]] = field(default_factory=list)
    """[[N, delta, stderr], ...]: how the number moves with the number of samples where G is unbounded below"""
    diverged_at: int | None = None
    """the first step that left every bound, where the dynamics does so at every delta tried"""
    numerics: dict[str, Any] = field(default_factory=dict)
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = (*_CORE, "mondelli-montanari-2018", "troiani-2025")

    @property
    def absence(self) -> str:
        """Why there is no `delta`, in words."""
        words = {"none": "no outlier at any delta", None: "not settled"}
        return words.get(self.reason, self.reason or "")


@dataclass(frozen=True, kw_only=True)
class Sensitivity(Result):
    """Gradient of the threshold at step `time` in a network's continuous choices (theory 1.4).

    delta, stderr_delta: the threshold. gradient: {name: d delta/d p, a list over neurons where there are several};
    empty where there is no threshold. stderr: {name: of the gradient}. values: {name: where it was taken}.
    neuron: whose threshold it is.
    """

    delta: float | None
    neuron: int
    gradient: dict[str, Any]
    time: int = 0
    stderr_delta: float | None = 0.0
    stderr: dict[str, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    method: str = ""
    numerics: dict[str, Any] = field(default_factory=dict)
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = _CORE


@dataclass(frozen=True, kw_only=True)
class Design(Result):
    """The network of a family that learns with the least data (theory 1.4).

    before, after: {delta, stderr, reason, edge, efficiency, windows, method}, thresholds at t = 0 of the problem as
    given and of the winner. parameters: {name: winning value, a list over neurons where there are several}.
    efficiency: delta_alg/delta of the winner, = steadiness x shape for one hard direction and no easy one.
    preprocessing: {y, mass, realised, optimal}: the function T of the label that the winner's Hessian weight amounts to
    at its threshold, 1 - 1/E[1/(1 + beta G) | y], and the best one, 1 - 1/E[s^2 | y].
    steadiness: how little the winner's weight depends on what is not the label. shape: squared cosine of the rest to
    the best preprocessing.
    verified: training of both at one delta: {verdict, more_succeed, sentence, delta, dimension, steps, seeds,
    step_size {before, after}, predicted, predicted_stderr, measured, measured_stderr}, the last four
    {before, after, gain}, of the probability to find the features; None if not asked for.
    starts: [[delta at a start, delta after descent from it], ...]. winner: the winning problem, with the step size that
    makes its first step as long as the default's.
    """

    before: dict[str, Any]
    after: dict[str, Any]
    parameters: dict[str, Any]
    efficiency: float | None
    verified: dict[str, Any] | None = None
    delta_alg: float | None = None
    preprocessing: dict[str, Any] = field(default_factory=dict)
    steadiness: float | None = None
    shape: float | None = None
    gradient: dict[str, Any] = field(default_factory=dict)
    starts: list[list[float | None]] = field(default_factory=list)
    winner: dict[str, Any] = field(default_factory=dict)
    numerics: dict[str, Any] = field(default_factory=dict)
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = (*_CORE, "mondelli-montanari-2018", "troiani-2025")


@dataclass(frozen=True, kw_only=True)
class Spectrum(Result):
    """Limiting law of m times the Hessian's eigenvalues: bulk, edges, atom at zero, outliers.

    density: {"x": (p,), "y": (p,)}, the absolutely continuous part (its integral is 1 - atom).
    """

    delta: float
    time: float | None
    edge: float
    right_edge: float
    atom: float
    outliers: list[Outlier]
    density: dict[str, Any]
    edge_stderr: float = 0.0
    right_edge_stderr: float = 0.0
    edge_scale: float | None = None
    """gamma: without outliers the lowest of d eigenvalues is near edge + 1.2065 gamma d^(-2/3) (Tracy-Widom)"""
    hessian: str = "block"
    neuron: int = 0
    blocks: list[Spectrum] | None = None
    """with several neurons and hessian="block": one spectrum per neuron (this one is the first)"""
    diverged_at: int | None = None
    numerics: dict[str, Any] = field(default_factory=dict)
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = (*_CORE, "silverstein-choi-1995")
    _records: ClassVar[dict[str, str]] = {"outliers": "Outlier", "blocks": "Spectrum"}


@dataclass(frozen=True, kw_only=True)
class Trajectory(Result):
    """Gradient descent in the limit of high dimension (theory 1.5): curves over t = 0..steps.

    hidden_variance: v(t) = d E[overlap^2] along hard directions before learning (theory 1.7).
    stderr: {field: array}. diverged_at: the first step at which the dynamics left every bound.
    """

    delta: float
    time: np.ndarray
    train_loss: np.ndarray
    test_loss: np.ndarray
    norm2: np.ndarray
    overlap: np.ndarray
    cosine: np.ndarray
    hidden_variance: np.ndarray | None
    stderr: dict[str, Any]
    diverged_at: int | None = None
    numerics: dict[str, Any] = field(default_factory=dict)
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = (*_CORE, "lu-2020")
    _arrays: ClassVar[tuple[str, ...]] = (
        "time",
        "train_loss",
        "test_loss",
        "norm2",
        "overlap",
        "cosine",
        "hidden_variance",
    )


@dataclass(frozen=True, kw_only=True)
class LearningTime(Result):
    """When gradient descent finds a hard direction at a finite dimension (theory 1.7).

    time: the median over initialisations, None where more than half never learn.
    quartiles: [slow, median, fast]. success_probability: of learning within `steps`.
    """

    delta: float
    dimension: int
    steps: int
    time: float | None
    quartiles: list[float | None]
    success_probability: float
    hidden_variance: np.ndarray
    stderr: dict[str, Any] = field(default_factory=dict)
    diverged_at: int | None = None
    numerics: dict[str, Any] = field(default_factory=dict)
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = _CORE
    _arrays: ClassVar[tuple[str, ...]] = ("hidden_variance",)


@dataclass(frozen=True, kw_only=True)
class Simulation(Result):
    """Networks really trained, averaged over seeds: the same words as `Trajectory`, with measured spectra.

    success: per seed, whether some neuron ends with |P_H theta|/|theta| > 1/2.
    seeds: one dictionary per seed with its own curves. eigenvalues, overlap2: {time: lowest ones, mean over seeds}.
    """

    delta: float
    dimension: int
    samples: int
    time: np.ndarray
    train_loss: np.ndarray
    test_loss: np.ndarray
    norm2: np.ndarray
    overlap: np.ndarray
    cosine: np.ndarray
    hidden_variance: np.ndarray | None
    success: list[bool]
    seeds: list[dict[str, Any]]
    stderr: dict[str, Any]
    eigenvalues: dict[str, Any]
    overlap2: dict[str, Any]
    residual: dict[str, Any] = field(default_factory=dict)
    """{time: relative residual of each eigenpair, worst over seeds}"""
    data: str
    seconds: float
    diverged_at: int | None = None
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = ()
    _arrays: ClassVar[tuple[str, ...]] = Trajectory._arrays


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """Prediction and measurement of one problem, point by point, with the verdict.

    rows: {quantity, time, predicted, predicted_stderr, measured, measured_stderr, verdict}.
    """

    delta: float
    dimension: int
    verdict: str
    sentence: str
    rows: list[dict[str, Any]]
    verdicts: dict[str, Any]
    trajectory: Trajectory
    simulation: Simulation
    spectra: list[Spectrum]
    diverged_at: int | None = None
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = (*_CORE, "lu-2020", "silverstein-choi-1995")
    _records: ClassVar[dict[str, str]] = {
        "trajectory": "Trajectory",
        "simulation": "Simulation",
        "spectra": "Spectrum",
    }
