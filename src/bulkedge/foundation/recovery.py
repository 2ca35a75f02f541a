"""Answers about algorithms that are no networks: the spectral method and approximate message passing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from bulkedge.foundation.answers import Spectrum
from bulkedge.foundation.result import Result


@dataclass(frozen=True, kw_only=True)
class SpectralRecovery(Result):
    """The spectral method: limiting spectrum of D = (1/n) sum_i T(y_i) x_i x_i^T, and its top eigenpairs on data.

    delta_c: from where the best T sees the target (None if nowhere), with `delta_c_stderr`. preprocessing: which T.
    direction: u, of which T uses the conditional variance (None for a T of the user's own).
    predicted_eigenvalues, predicted_overlap2: of the top components in the limit; the edge and 0 where there is no
    outlier. eigenvalues, overlap2: measured, means over seeds; overlap2 is with the span of all directions.
    Without a dimension only the prediction is there, and what is measured is empty.
    """

    target: str
    delta: float
    delta_c: float | None
    delta_c_stderr: float
    preprocessing: str
    direction: list[float] | None
    spectrum: Spectrum
    predicted_eigenvalues: list[float]
    predicted_overlap2: list[float]
    dimension: int | None = None
    samples: int | None = None
    eigenvalues: list[float] = field(default_factory=list)
    overlap2: list[float] = field(default_factory=list)
    stderr: dict[str, Any] = field(default_factory=dict)
    seeds: list[dict[str, Any]] = field(default_factory=list)
    verdict: str | None = None
    sentence: str = ""
    seconds: float = 0.0

    citations: ClassVar[tuple[str, ...]] = (
        "mondelli-montanari-2018",
        "luo-alghamdi-lu-2019",
        "kovacevic-2025",
    )
    _records: ClassVar[dict[str, str]] = {"spectrum": "Spectrum"}


@dataclass(frozen=True, kw_only=True)
class StateEvolution(Result):
    """Bayes-optimal AMP in the limit of high dimension: overlap matrices M over t = 0..iterations.

    overlap: (t, k, k), or (t,) for one direction; M = I is full recovery. fixed_point: the last one.
    stderr: of `overlap`, zero by quadrature. residual: the last change.
    """

    target: str
    delta: float
    time: np.ndarray
    overlap: np.ndarray
    stderr: np.ndarray
    fixed_point: Any
    residual: float
    numerics: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = ("troiani-2025", "aubin-2018")
    _arrays: ClassVar[tuple[str, ...]] = ("time", "overlap", "stderr")


@dataclass(frozen=True, kw_only=True)
class MessagePassing(Result):
    """AMP on data beside its state evolution.

    overlap: (t, k, k), or (t,) for one direction: mean over seeds of B^T Theta_* with B the estimate (rows of length
    at most one); signs and permutations that leave the target unchanged are matched first. cosine2: of the final
    estimate's span with the true directions, mean over seeds. evolution: the prediction from the same start.
    """

    target: str
    delta: float
    dimension: int
    samples: int
    time: np.ndarray
    overlap: np.ndarray
    cosine2: float
    evolution: StateEvolution
    stderr: dict[str, Any]
    seeds: list[dict[str, Any]]
    verdict: str | None = None
    sentence: str = ""
    seconds: float = 0.0

    citations: ClassVar[tuple[str, ...]] = ("troiani-2025", "aubin-2018")
    _arrays: ClassVar[tuple[str, ...]] = ("time", "overlap")
    _records: ClassVar[dict[str, str]] = {"evolution": "StateEvolution"}


@dataclass(frozen=True, kw_only=True)
class LinearisedAMP(Result):
    """AMP linearised where it knows nothing: its asymmetric matrix (n k x n k) and its symmetric one (d k x d k).

    delta_alg: where the linearisation becomes unstable. bulk_radius, outliers: of the asymmetric matrix in the limit,
    the largest first. symmetric_outlier: 1 above delta_alg where all E[z z^T | y] commute, None elsewhere.
    predicted_overlap2: of the asymmetric matrix's leading estimate, for one direction.
    outlier: measured, the mean of the largest that are predicted equal; bulk: largest real part of an eigenvalue that
    is no outlier; overlap2, symmetric_eigenvalue, symmetric_overlap2: measured. Means over seeds; None without a
    dimension.
    """

    target: str
    delta: float
    delta_alg: float
    delta_alg_stderr: float
    bulk_radius: float
    outliers: list[float]
    symmetric_outlier: float | None
    predicted_overlap2: float | None
    dimension: int | None = None
    samples: int | None = None
    outlier: float | None = None
    bulk: float | None = None
    overlap2: float | None = None
    symmetric_eigenvalue: float | None = None
    symmetric_overlap2: float | None = None
    stderr: dict[str, Any] = field(default_factory=dict)
    seeds: list[dict[str, Any]] = field(default_factory=list)
    verdict: str | None = None
    sentence: str = ""
    seconds: float = 0.0

    citations: ClassVar[tuple[str, ...]] = ("defilippis-2025", "troiani-2025", "mondelli-montanari-2018")
