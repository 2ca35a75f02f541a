"""Answers about the target alone: which directions are easy or hard, and the limits of any algorithm on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from bulkedge.foundation.result import Result


@dataclass(frozen=True, kw_only=True)
class Subspaces(Result):
    """What descent sees of the target at once, what only later, and what is not there (theory 1.1).

    easy, hard, inert: orthonormal directions, each a list of k numbers.
    stages: the easy directions in the order in which those already known reveal them.
    certificate: {"stages": [{"signal", "stderr", "resolution", "largest_unseen"}, ...], "symmetries"}: explained
    variances of the new directions given the label and the known ones; a direction is easy if it explains more than
    `resolution`, and one that explains less would be missed. Zeros: settled by a symmetry of the link.
    """

    easy: list[list[float]]
    hard: list[list[float]]
    inert: list[list[float]]
    stages: list[list[list[float]]]
    certificate: dict[str, Any]
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = ("montanari-wang-2026", "troiani-2025")


@dataclass(frozen=True, kw_only=True)
class DeltaAlg(Result):
    """Samples per dimension above which the best efficient algorithm finds the hard directions (theory 02, 2a).

    delta: the first positive threshold of the staircase, easy directions given; None where it is infinite, nothing is
    hard, or it could not be resolved: `reason` says which. rank_one: the same for the best matrix sum T(y_i) x_i x_i^T.
    condition: the condition of the formula, and how it was checked. method: level sets, regression or first moments.
    stages: [[delta, directions], ...]: what becomes visible at delta once the stages before are known; 0 for easy
    directions, None for those no second-order statistic ever sees. stderrs: of each stage's delta.
    """

    delta: float | None
    reason: str | None = None
    rank_one: float | None
    condition: str
    stages: list[list[Any]]
    stderr: float | None
    stderrs: list[float | None]
    method: str
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = ("mondelli-montanari-2018", "troiani-2025", "kovacevic-2025")


@dataclass(frozen=True, kw_only=True)
class Exponents(Result):
    """How high a Hermite degree must be looked at before the target shows (theory 2c), and what that costs.

    information, leap: of E[y | z], what descent on fresh samples sees: the first degree d with E[y h_d(z)] not zero,
    and the largest degree any stage of the staircase needs, products of h_d with functions of known coordinates too.
    generative, generative_leap: the same of E[h_d(z) | y] and E[h_d(z_unknown) | y, z_known], what any function of the
    label sees. None where infinite, or beyond the degrees looked at: `reasons` {name: sentence} says which.
    evidence: {"leap" and "generative_leap": [{"degree", "directions", "degrees": [{"degree", "energy", "error",
    "resolution"}, ...], "method"}, ...]}, one entry a stage: the variance explained by each degree looked at; it counts
    as zero below `resolution`. samples: {"online", "reused", "best"}: the sentence each exponent implies.
    """

    information: int | None
    generative: int | None
    leap: int | None
    generative_leap: int | None
    reasons: dict[str, str]
    samples: dict[str, str]
    evidence: dict[str, Any]
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = (
        "ben-arous-2021",
        "abbe-2023",
        "damian-2024",
        "damian-2025",
        "dandi-2024",
    )


@dataclass(frozen=True, kw_only=True)
class DeltaIT(Result):
    """Samples per dimension below which nobody, and above which somebody, beats a random guess of the hard directions.

    delta: the threshold itself where a formula gives it; None where it does not, or nothing is hard: see `reason`.
    lower, upper: bounds on it, with delta between them. kinds: {"delta", "lower", "upper"}: what each number is.
    overlap: squared overlap to which the best estimator jumps at delta; 0 where it starts from zero.
    delta_alg: of the same directions; above delta, the difference is the statistical-to-computational gap.
    """

    delta: float | None
    reason: str | None = None
    lower: float | None
    upper: float | None
    kinds: dict[str, str]
    overlap: float | None = None
    delta_alg: float | None = None
    stderr: float | None = None
    directions: list[list[float]]
    condition: str = ""
    method: str = ""
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = ("mondelli-montanari-2018", "barbier-2019", "troiani-2025")
