"""Thresholds of the second and later hard directions, once the first are learned.

After a direction theta_*1 has been learned, theta = m theta_*1 + the rest. The law of the Hessian weight changes, since
V = m z_1 + (Gaussian) now goes along with z_1; the remaining directions s enter as before, if they are still hidden.
Writing c for all latent coordinates that are known (learned, or easy given the learned ones), V is a function of c and
of what is independent of all latent variables, so that for the first-order signal and for the block that would couple s
to c in the Hessian
    E[F(V, y) s] = E[F E[s | y, c]],   E[T(V, y) s c^T] = E[T E[s | y, c] c^T].
Both vanish if E[s | y, c] = 0, that is, if s is *hard given c*. Then s has no overlap with the weights at any later
time either, and the outliers along s are those of `spectra.outliers` for the law of (G, s). If E[s | y, c] is not zero
the direction has become easy, as in a staircase: no outlier is needed, and descent finds it in O(1) steps (if this
network's gradient feels it: `pull`).

The state: theta_j(0) = the given overlap with the learned directions + a uniformly distributed rest, of unit length in
all, on data independent of it; then `time` steps of descent by DMFT. time = 0 is the snapshot on fresh data. What a
real run remembers of the data from *before* its overlap had grown is left out; the later the time, the less it matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.dynamics import dmft
from bulkedge.foundation.answers import Threshold
from bulkedge.foundation.checks import choice, integer, number
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.result import Result
from bulkedge.foundation.status import Status
from bulkedge.learnability import algorithmic, laws, windows
from bulkedge.learnability.floor import bounded_below
from bulkedge.learnability.room import asked, require_room
from bulkedge.learnability.thresholds import Found, Search, dependence_on_samples, moving, threshold
from bulkedge.models import directions as classes
from bulkedge.models import latent
from bulkedge.models.problem import Problem
from bulkedge.models.target import Target
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.law import WeightLaw, pooled

Progress = Callable[[str, int, int], None]
_TIED = 1e-3
_SIGMAS = 4.0


@dataclass(frozen=True, kw_only=True)
class LaterThreshold(Threshold):
    """The threshold of the hard directions that remain once others are learned.

    learned: directions taken as learned. overlap: (m, k), of the weights at the start. easy: directions that have a
    first-order signal, now that these are known. hard: those that remain hidden. directions: those of the outlier at
    `delta`, several where they appear together, and neuron: whose block has it. delta_alg: of the best efficient
    algorithm that knows the same. pull, pull_stderr: the length, for the neuron that feels it most, of E[F s]/eta over
    the `easy` directions that the weights do not have yet: the part of descent's first step along them.
    """

    learned: list[list[float]]
    overlap: list[list[float]]
    easy: list[list[float]]
    hard: list[list[float]]
    directions: list[list[float]] = field(default_factory=list)
    neuron: int | None = None
    pull: float | None = None
    pull_stderr: float | None = None


@dataclass(frozen=True, kw_only=True)
class LaterThresholds(Result):
    """One stage after the other, in the order in which this network's Hessian shows the directions.

    stages: the first with nothing learned; then each with the directions of the stages before. staircase: [[delta,
    directions], ...], the order of the best efficient algorithm, with 0 for what first-order statistics see.
    """

    stages: list[LaterThreshold]
    staircase: list[list[Any]]
    problem: dict[str, Any] = field(default_factory=dict)

    citations: ClassVar[tuple[str, ...]] = Threshold.citations
    _records: ClassVar[dict[str, str]] = {"stages": "LaterThreshold"}


@dataclass(frozen=True, eq=False)
class Known:
    """Bases: learned (k, l), easy given these (k, e), and hard (k, r), the rest of what y depends on."""

    learned: np.ndarray
    easy: np.ndarray
    hard: np.ndarray

    @property
    def both(self) -> np.ndarray:
        return np.concatenate([self.learned, self.easy], axis=1)


def split(link: Target, learned: np.ndarray) -> Known:
    """What the learned directions (k, l) make easy, step by step as on the staircase, and what remains hard."""
    active, group = latent.active(link), classes.symmetries(link)
    known = learned
    while known.shape[1] < link.latent_dim:
        new = classes.complement(known, classes.directions(link).easy)
        if new.shape[1] == 0:
            new, _ = classes.visible(link, known, active, group)
        if new.shape[1] == 0:
            break
        known = np.concatenate([known, new], axis=1)
    easy = classes.complement(learned, known)
    return Known(learned, classes.tidy(easy), classes.tidy(classes.complement(known, active)))


def later_thresholds(
    problem: Problem,
    *,
    cosine: float = 0.5,
    holders: str = "one",
    time: int = 0,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> LaterThresholds:
    """Thresholds stage by stage, each with the directions of the stages before learned.

    cosine: the length of theta_j(0) within the directions that neuron j has learned, equally along each. holders:
    "one", a direction is learned by the neuron whose block shows it first; or "all". time: steps of descent after that.
    Ends where nothing hard remains, or where a stage has no threshold. `later_threshold` takes any overlap.
    """
    asked(problem, numerics)
    choice("holders", holders, ("one", "all"))
    stages = list(_chain(problem, cosine, holders, time, numerics, progress))
    found = [[s.delta, s.directions.T.tolist()] for s in algorithmic.staircase(problem.link)]
    return LaterThresholds(
        stages=stages,
        staircase=found,
        status=next((s.status for s in stages if s.status is not Status.CONVERGED), Status.CONVERGED),
        warnings=list(dict.fromkeys(w for s in stages for w in s.warnings)),
        problem=problem.to_dict(),
    )


def _chain(
    problem: Problem, cosine: float, holders: str, time: int, numerics: Numerics, progress: Progress | None
) -> Iterator[LaterThreshold]:
    length = _cosine(cosine)
    held: list[list[list[float]]] = [[] for _ in range(problem.m)]
    learned: list[list[float]] = []
    while True:
        rows = [np.sum(own, axis=0) / math.sqrt(len(own)) if own else np.zeros(problem.k) for own in held]
        overlap = length * np.array(rows)
        stage = later_threshold(problem, learned, overlap=overlap, time=time, numerics=numerics, progress=progress)
        if stage.easy or stage.hard:
            yield stage
        if not stage.directions:
            return
        learned = learned + stage.directions
        for j in range(problem.m) if holders == "all" else [stage.neuron or 0]:
            held[j] = held[j] + stage.directions


def later_threshold(
    problem: Problem,
    learned: Any,
    *,
    cosine: float = 0.5,
    overlap: Any = None,
    time: int = 0,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> LaterThreshold:
    """The least delta at which the Hessian has a negative outlier along what is still hard, others being learned.

    Args:
        problem: target, network, loss, step size.
        learned: latent directions that are learned, a list of lists of k numbers; none gives `threshold`.
        cosine: length of every theta_j(0) within the learned directions, equally along each.
        overlap: theta_j(0) . theta_*a, (m, k), instead of `cosine`; within learned and easy directions.
        time: steps of descent from there; 0 for the snapshot on fresh data.
        numerics: paths, replicas and seed of the sampled law.
        progress: called as progress(what, done, total).

    >>> import bulkedge as be
    >>> problem = be.Problem("tanh(z1^2) + tanh(z2^2)/2", "gelu")
    >>> found = be.later_threshold(problem, [[1, 0]], cosine=0.5, numerics=be.Numerics(paths=4096, replicas=4))
    >>> found.hard
    [[0.0, 1.0]]
    """
    asked(problem, numerics)
    t = integer("time", time, low=0, high=10_000)
    link, k, m = problem.link, problem.k, problem.m
    known = split(link, _basis(learned, k))
    start = _start(problem, known, cosine, overlap)
    common: dict[str, Any] = {
        "time": t,
        "learned": known.learned.T.tolist(),
        "overlap": start.tolist(),
        "easy": known.easy.T.tolist(),
        "hard": known.hard.T.tolist(),
        "numerics": numerics.to_dict(),
        "problem": problem.to_dict(),
    }
    pull, error = _pull(problem, known, start, numerics)
    common |= {"pull": pull, "pull_stderr": error}
    if known.hard.shape[1] == 0:
        sentence = "No direction is hard once the learned ones are known: what remains has a first-order signal."
        given = {"reason": "nothing hard", "stderr": None, "warnings": [sentence]}
        return LaterThreshold(delta=None, **given, **common)

    def draw(delta: float, choice: Numerics) -> laws.Sampled:
        return planted(problem, delta, t, choice, start, known.hard)

    if not known.learned.shape[1] and not np.any(start):
        # Nothing is learned: the same question as `threshold`, which may have an exact answer.
        base = threshold(problem, t, numerics=numerics, progress=progress)
        fields = {name: base[name] for name in base if name not in common}
    else:
        found = [_neuron(problem, j, t, numerics, known.hard, draw, progress) for j in range(m)]
        fields = _fields(found) | {"delta_alg": algorithmic.stage_after(link, known.both).delta}
    answer = LaterThreshold(**fields, **common)
    if answer.delta is None:
        return answer
    neuron = answer.neurons.index(answer.delta) if answer.neurons else 0
    turns = _turns(link, start, known.hard)
    shown = _shown(draw(answer.delta, numerics), answer.delta, neuron, known.hard, turns)
    efficiency = answer.delta_alg / answer.delta if answer.delta_alg else None
    return replace(answer, directions=shown.T.tolist(), neuron=neuron, efficiency=efficiency)


def _fields(found: list[Found]) -> dict[str, Any]:
    """The answer of several neurons: that of the one with the least threshold."""
    lows = [f.windows[0][0] if f.windows else None for f in found]
    best = min((j for j, low in enumerate(lows) if low is not None), key=lambda j: lows[j] or 0.0, default=0)
    one, delta = found[best], lows[best]
    return {
        "delta": delta,
        "reason": None if delta is not None else "none",
        "stderr": None if delta is None else one.stderr,
        "edge": one.edge,
        "windows": [list(w) for w in one.windows],
        "method": one.method,
        "neurons": lows if len(lows) > 1 else None,
        "dependence": one.dependence,
        "diverged_at": one.diverged_at,
        "status": one.status,
        "warnings": list(dict.fromkeys(w for f in found for w in f.warnings)),
    }


def _basis(learned: Any, k: int) -> np.ndarray:
    """Orthonormal columns (k, l) of the span of the given directions."""
    try:
        rows = np.asarray(learned, float)
    except (TypeError, ValueError):
        raise BadInput("learned", f"must be a list of directions, each of {k} numbers") from None
    if rows.size == 0:
        return np.zeros((k, 0))
    rows = np.atleast_2d(rows)
    if rows.ndim != 2 or rows.shape[1] != k or not np.all(np.isfinite(rows)):
        raise BadInput("learned", f"must be a list of directions, each of {k} numbers")
    if np.linalg.matrix_rank(rows) < len(rows):
        raise BadInput("learned", "must be independent directions")
    return classes.tidy(np.linalg.qr(rows.T)[0])


def _cosine(value: Any) -> float:
    c = number("cosine", value)
    if not 0 <= c < 1:
        raise BadInput("cosine", f"must be at least 0 and below 1, not {c:g}")
    return c


def _start(problem: Problem, known: Known, cosine: float, overlap: Any) -> np.ndarray:
    """The planted overlap, (m, k)."""
    if overlap is None:
        row = _cosine(cosine) * known.learned.sum(axis=1) / math.sqrt(max(known.learned.shape[1], 1))
        return np.tile(row, (problem.m, 1))
    try:
        given = np.asarray(overlap, float).reshape(problem.m, problem.k)
    except (TypeError, ValueError):
        raise BadInput("overlap", f"must be {problem.m} x {problem.k} numbers, neuron x direction") from None
    if not np.all(np.isfinite(given)) or np.any(np.sum(given**2, axis=1) >= 1):
        raise BadInput("overlap", "must be finite, and each neuron's of length below 1")
    if np.any(np.abs(given @ known.hard) > 1e-9):
        raise BadInput("overlap", "must lie within the learned directions and those that they make easy")
    return given


def planted(
    problem: Problem, delta: float, time: int, numerics: Numerics, overlap: np.ndarray, hidden: np.ndarray
) -> laws.Sampled:
    """Replicas of the DMFT that start with an overlap (m, k) and stay without any along `hidden` (k, r)."""
    require_room(problem, time, numerics, kept=True)
    runs = [
        dmft.solve(problem, delta, time, paths=numerics.paths, seed=(numerics.seed, i), overlap=overlap, hidden=hidden)
        for i in range(numerics.replicas)
    ]
    return laws.Sampled(runs, time)


def hidden_laws(sample: laws.Sampled, neuron: int, hidden: np.ndarray) -> list[WeightLaw]:
    """The law of one neuron's weight and of the hidden coordinates, in each replica."""
    return [WeightLaw(run.weights(sample.time)[neuron], run.z.T @ hidden) for run in sample.runs]


def _neuron(
    problem: Problem,
    j: int,
    t: int,
    numerics: Numerics,
    hidden: np.ndarray,
    draw: Callable[[float, Numerics], laws.Sampled],
    progress: Progress | None,
) -> Found:
    dependence = [] if bounded_below(problem, j) else dependence_on_samples(problem, j, numerics)
    if t > 0:
        search = Search(
            lambda sample, delta: [windows.margin_at(law, delta) for law in hidden_laws(sample, j, hidden)],
            lambda sample, delta: bulk.left_edge(pooled(hidden_laws(sample, j, hidden)), delta),
        )
        return moving(problem, t, numerics, search, dependence, progress, draw)
    each = [windows.of_fixed_law(law) if law.low < 0 else [] for law in hidden_laws(draw(1.0, numerics), j, hidden)]
    method = f"Monte Carlo, {numerics.paths} samples x {numerics.replicas}"
    warnings: tuple[str, ...] = ()
    if dependence:
        warnings += (
            "The Hessian weight is unbounded below (theory 1.9): the number belongs to "
            f"{numerics.paths} samples and moves with them.",
        )
    lows = np.array([w[0][0] for w in each if w])
    if 2 * lows.size < len(each) or lows.size == 0:
        return Found([], 0.0, None, method, None, Status.CONVERGED, warnings, dependence)
    if lows.size < len(each):
        warnings += (f"Only {lows.size} of {len(each)} replicas have a window.",)
    middle = next(w for w in each if w and w[0][0] == np.sort(lows)[lows.size // 2])
    low, error = float(lows.mean()), float(lows.std(ddof=1) / math.sqrt(lows.size)) if lows.size > 1 else math.nan
    edge = bulk.left_edge(pooled(hidden_laws(draw(low, numerics), j, hidden)), low)
    found = [(low, middle[0][1]), *middle[1:]]
    return Found(found, error, edge.value, method, None, Status.CONVERGED, warnings, dependence)


def _shown(sample: laws.Sampled, delta: float, neuron: int, hidden: np.ndarray, turns: list[np.ndarray]) -> np.ndarray:
    """The directions (k, n) of the lowest eigenvalue of E[T (s s^T - I)] where the outlier begins, ties included.

    turns: (r, r), what the symmetries of link and weights do to s. The matrix is averaged over them, so that directions
    which they decide come out exactly: one that is off by the sampling error would, once known, reveal the others.
    """
    tensors = []
    for law in hidden_laws(sample, neuron, hidden):
        edge = bulk.left_edge(law, delta)
        one = law.tensor(bulk.transform(law, outliers.search_end(law, delta, edge, negative=True)))
        tensors.append(np.mean([g.T @ one @ g for g in turns], axis=0))
    value, vector = np.linalg.eigh(np.mean(tensors, axis=0))
    spread = np.std([np.diag(vector.T @ one @ vector) for one in tensors], axis=0, ddof=1) / math.sqrt(len(tensors))
    gap = np.maximum(_TIED * abs(value[0]), _SIGMAS * np.hypot(spread, spread[0]))
    gap[0] = 0.0
    return classes.tidy(hidden @ vector[:, value - value[0] <= gap])


def _turns(link: Target, start: np.ndarray, hidden: np.ndarray) -> list[np.ndarray]:
    """Symmetries of the link that leave the overlap of the weights alone, as they act on the hidden coordinates."""
    found = []
    for g in classes.symmetries(link):
        turn = hidden.T @ g @ hidden
        if np.allclose(start @ g, start) and np.allclose(turn @ turn.T, np.eye(len(turn))):
            found.append(turn)
    return found


def _pull(problem: Problem, known: Known, start: np.ndarray, numerics: Numerics) -> tuple[float | None, float | None]:
    """|E[F s]|/eta over the easy directions without overlap, for the neuron where it is largest, and its error."""
    fresh = known.easy[:, np.all(np.abs(start @ known.easy) < 1e-9, axis=0)]
    if fresh.shape[1] == 0:
        return None, None
    few = replace(numerics, paths=min(numerics.paths, 1 << 15))
    each = []
    for run in planted(problem, 1.0, 0, few, start, known.hard).runs:
        with jax.enable_x64(True):
            layer = map(jnp.asarray, problem.layer)
            f = np.asarray(problem.pointwise.factor(run.preactivations(0), jnp.asarray(run.y), *layer))
        each.append(f @ (run.z.T @ fresh) / run.z.shape[1])
    mean, error = np.mean(each, axis=0), np.std(each, axis=0, ddof=1) / math.sqrt(len(each))
    j = int(np.argmax(np.linalg.norm(mean, axis=1)))
    return float(np.linalg.norm(mean[j])), float(np.linalg.norm(error[j]))
