"""Gradient descent in the limit of high dimension, by dynamical mean field theory (theory 1.5).

Celentano, Cheng and Montanari (2021) and Montanari and Wang (2026) write the limit with correlation and response
kernels. Expanded in the independent Gaussians that drive it, the same limit needs neither the inverse of a covariance
nor a derivative of the gradient:

- right directions: theta_j(t) = sum_u c_ju(t) e_u over orthonormal e_u: the k latent directions, the m initial ones,
  and a new one for every new gradient vector;
- left directions: f_1, f_2, ..., the gradients F(0), F(1), ... orthonormalised over samples, E[f_u f_v] = delta_uv;
- a sample sees e_u as X_u: independent standard Gaussians for the first k + m, and X_u = xi_u - f_u/sqrt(delta), with
  fresh xi_u, for the direction that f_u brought. Hence V_j(t) = sum_u c_ju(t) X_u;
- a step is c_ju(t+1) = c_ju(t) - E[F_j(t) X_u], with F as in 1.5 (its eta included).

Integrating E[F xi_u] by parts gives the responses R_l; E[F f_u]/sqrt(delta) is the square root of C_l/delta (a QR
factor, taken twice over); sum_u c_u f_u/sqrt(delta) is the memory term. So this *is* the DMFT, with the Stein form of
every response: kinks of sigma need no delta-function terms. (It is also the limit of the lazily revealed data matrix;
Lu 2020.)

Cost O(T K N) for T steps and rank K <= T m of the gradients. Gradients hardly change when the step is small; what is
new in one of them is left out once its size is below `RANK_TOLERANCE` of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.dynamics import paths as tables
from bulkedge.dynamics.ensemble import Ensemble, Look
from bulkedge.dynamics.paths import coins, power_of_two
from bulkedge.foundation.threads import one_blas_thread
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem

RANK_TOLERANCE = 1e-3
PRECISION = "double"
"""Of what is kept of every sample. "single": half the time; its rounding, some 1e-6, is below the sampling error."""
_BOUND = 1e8
"""|V|^2 averaged over samples beyond which the dynamics has diverged."""


@dataclass(frozen=True, eq=False)
class Kernels:
    """What maps a sample to its path; u counts right directions (q of them), v left ones (K).

    c: (T + 1, m, q) coordinates of theta(t). mix: (T, m, K), the coordinates E[F(t) f_v]. born: (T + 1,), how many f
    there were before t.
    """

    c: np.ndarray
    mix: np.ndarray
    born: np.ndarray


@dataclass(frozen=True, eq=False)
class Run:
    """One replica of N paths.

    ensemble: the samples, None where they are not kept. z: (k, N). y: (N,). coins: mini-batch weights (T, N), or None.
    Times after `diverged_at`, the first step that left every bound, are missing.
    """

    problem: Problem
    delta: float
    kernels: Kernels
    ensemble: Ensemble | None
    z: np.ndarray
    y: np.ndarray
    train_loss: np.ndarray
    test_loss: np.ndarray
    coins: np.ndarray | None
    diverged_at: int | None

    @property
    def steps(self) -> int:
        return len(self.train_loss) - 1

    @property
    def rank(self) -> int:
        """K, how many left directions the gradients span."""
        return int(self.kernels.born[-1]) if self.kernels.born.size else 0

    @property
    def norm2(self) -> np.ndarray:
        """|theta_j(t)|^2, shape (T + 1, m)."""
        return np.sum(self.kernels.c**2, axis=2)

    @property
    def overlap(self) -> np.ndarray:
        """theta_j(t) . theta_*a, shape (T + 1, m, k)."""
        return self.kernels.c[:, :, : self.problem.k]

    def without_samples(self) -> Run:
        """The kernels and curves alone, for keeping many runs."""
        empty = np.zeros((0, 0))
        return replace(self, ensemble=None, z=empty, y=empty, coins=None)

    def coordinates(self, part: slice = slice(None)) -> tuple[np.ndarray, np.ndarray]:
        """Of some samples along right directions, (q, ..), and along left ones, (K, ..)."""
        assert self.ensemble is not None, "the samples of this run were not kept"
        return self.ensemble.coordinates(self.rank, part)

    def preactivations(self, t: int) -> np.ndarray:
        """V(t) of every sample, shape (m, N)."""
        assert self.ensemble is not None, "the samples of this run were not kept"
        with jax.enable_x64(True):
            return self.ensemble.combined(self.kernels.c[t])

    def weights(self, t: int, hessian: str = "block") -> np.ndarray:
        """Hessian weights of every sample at t: (m, N) per neuron, (m, m, N) for the full Hessian (theory 1.2)."""
        with jax.enable_x64(True):
            form = getattr(self.problem.pointwise, hessian)
            v = jnp.asarray(self.preactivations(t))
            return np.asarray(form(v, jnp.asarray(self.y), *map(jnp.asarray, self.problem.layer)))


def solve(
    problem: Problem,
    delta: float,
    steps: int,
    *,
    paths: int,
    seed: tuple[int, ...],
    overlap: np.ndarray | None = None,
    drift: np.ndarray | None = None,
    hidden: np.ndarray | None = None,
    mirror: bool = True,
    memory: bool = True,
    rank_tolerance: float = RANK_TOLERANCE,
    precision: str = PRECISION,
    until: Callable[[np.ndarray], bool] | None = None,
) -> Run:
    """Run the DMFT for `steps` steps with N = `paths` (rounded up to a power of two) samples.

    overlap: initial theta_j . theta_*a, shape (m, k); zero by default.
    drift: added to the overlap at each step, shape (steps, m, k): the noise of a finite dimension (theory 1.7).
    hidden: (k, r), the directions along which E[F V_*] vanishes by symmetry: the hard and inert ones by default. Where
    some of them have been learned, only those that the labels and the learned ones say nothing of.
    mirror: use that E[F V_*] vanishes along hidden directions. With zero initial overlap that is done in the
    equations; otherwise samples come in pairs (V_*, -V_*) that share all else: the spurious part of E[F V_*], of order
    1/sqrt N and as large as a real overlap, cancels in a pair.
    memory: False drops the memory term (wrong on purpose: for tests that must notice).
    precision: "double" or "single", of samples; kernels and averages over samples are float64 in either.
    until: of the coordinates c(t), (m, q), whose first k columns are the overlap: True ends the run at t.
    """
    # What diverges overflows first; it is told by its size.
    with jax.enable_x64(True), one_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        n, m, k = power_of_two(paths), problem.m, problem.k
        dtype = np.float64 if precision == "double" else np.float32
        link = directions(problem.link)
        still = np.concatenate([link.hard, link.inert], axis=1) if hidden is None else np.asarray(hidden, float)
        still = still @ still.T
        start = np.zeros((m, k)) if overlap is None else np.asarray(overlap, float).reshape(m, k)
        push = np.zeros((steps, m, k)) if drift is None else np.asarray(drift, float).reshape(steps, m, k)
        paired = mirror and bool(np.any(np.abs(start @ still) > 0) or np.any(np.abs(push @ still) > 0))
        frozen = still if mirror and not paired else np.zeros((k, k))
        batch = None if problem.batch == 1.0 else coins(steps, n, problem.batch, seed)
        table = tables.table(n // 2 if paired else n, seed)

        def draw(first: int, number: int) -> np.ndarray:
            rows = table.rows(first, number)
            return np.concatenate([rows, rows], axis=1) if paired else rows

        latent = draw(0, k + 1)
        if paired:
            latent[:k, n // 2 :] -= 2.0 * still @ latent[:k, n // 2 :]
        z, y = latent[:k], problem.labels(latent[:k].T, latent[k])
        ensemble = Ensemble(problem, z, y, draw(k + 1, m), draw(k + 1 + m, m), dtype)
        born_at = k + 1 + 2 * m
        shrink = 1.0 - problem.step_size * problem.weight_decay
        root_delta = float(np.sqrt(delta))

        length = np.sqrt(np.maximum(0.0, 1.0 - np.sum(start**2, axis=1)))
        c = before = np.concatenate([start, np.diag(length)], axis=1)
        diverged_at, history = None, _History()
        for t in range(steps + 1):
            count = ensemble.count
            seen = ensemble.look(c, _root(c[:, k:]), None if batch is None or t == steps else batch[t])
            if not (seen.size < _BOUND and np.isfinite(seen.train + seen.test)):
                diverged_at = t
                break
            history.look(c, count, seen)
            if t == steps or (until is not None and until(c)):
                break
            mix, slope = seen.mix, seen.slope
            fresh = seen.second - mix @ mix.T
            if np.linalg.eigvalsh(fresh)[-1] > (rank_tolerance**2 - 1e-12) * seen.power:
                born = ensemble.extend(seen, draw(born_at + count, m), rank_tolerance, memory / root_delta)
                mix = np.concatenate([mix + born.mix, born.along], axis=1)
                slope = np.concatenate([slope, born.slope], axis=1)
                c, before = (np.pad(v, [(0, 0), (0, born.kept)]) for v in (c, before))
            # X_u holds minus f_u/sqrt(delta) twice over: as memory in V, and here as the noise of the gradient.
            slope[:, k + m :] += (float(memory) - 1.0) * mix / root_delta
            slope[:, :k] -= slope[:, :k] @ frozen
            c, before = shrink * c - slope + problem.momentum * (c - before), c
            c[:, :k] += push[t]
            history.mix.append(mix)
        return history.run(problem, delta, ensemble, z, y, batch, diverged_at)


def _root(rest: np.ndarray) -> np.ndarray:
    """A square root of the Gram matrix of the rows, which may be singular or, once diverged, not finite."""
    gram = rest @ rest.T
    if not np.all(np.isfinite(gram)):
        return np.full(gram.shape, np.nan)
    value, vector = np.linalg.eigh(gram)
    return vector * np.sqrt(np.maximum(value, 0.0))


class _History:
    """What is recorded while a run goes on."""

    def __init__(self) -> None:
        self.c: list[np.ndarray] = []
        self.born: list[int] = []
        self.train: list[float] = []
        self.test: list[float] = []
        self.mix: list[np.ndarray] = []

    def look(self, c: np.ndarray, count: int, seen: Look) -> None:
        self.c.append(c)
        self.born.append(count)
        self.train.append(seen.train)
        self.test.append(seen.test)

    def run(
        self,
        problem: Problem,
        delta: float,
        ensemble: Ensemble,
        z: np.ndarray,
        y: np.ndarray,
        batch: np.ndarray | None,
        diverged_at: int | None,
    ) -> Run:
        """Times before a divergence, and the directions that were used."""
        m, last = problem.m, len(self.c) - 1
        used = self.born[last] if last >= 0 else 0
        q = problem.k + m + used

        def cut(rows: list[np.ndarray], width: int) -> np.ndarray:
            """Rows of growing width, all `width` wide: (times, m, width)."""
            out = np.zeros((len(rows), m, width))
            for place, row in zip(out, rows, strict=True):
                here = min(width, row.shape[1])
                place[:, :here] = row[:, :here]
            return out

        kernels = Kernels(
            cut(self.c, q),
            cut(self.mix[: max(last, 0)], used),
            np.array(self.born, int),
        )
        coins = None if batch is None else batch[: max(last, 0)]
        losses = np.array(self.train), np.array(self.test)
        return Run(problem, delta, kernels, ensemble, z, y, *losses, coins, diverged_at)
