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

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.dynamics.paths import coins, gaussians, power_of_two
from bulkedge.models import functions
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem, pointwise

RANK_TOLERANCE = 1e-3
SAMPLE = np.float32
"""What is kept of every sample, whose rounding is far below the sampling error; kernels are float64."""
_BOUND = 1e8
"""|V|^2 averaged over samples beyond which the dynamics has diverged."""


@dataclass(frozen=True, eq=False)
class Kernels:
    """What maps a sample to its path; u counts right directions (q of them), v left ones (K).

    c: (T + 1, m, q) coordinates of theta(t). mix: (T, m, K), the coordinates E[F(t) f_v]. born: (T,), how many f there
    were before t. turn: (T, m, m): the f new at t are the non-zero rows of turn(t) @ (F(t) - mix(t) f).
    """

    c: np.ndarray
    mix: np.ndarray
    born: np.ndarray
    turn: np.ndarray


@dataclass(frozen=True, eq=False)
class Run:
    """One replica of N paths.

    x: (q, N) coordinates of the samples along right directions, f: (K, N) along left ones. z: (k, N). y: (N,).
    coins: mini-batch weights (T, N), or None. Times after `diverged_at`, the first step that left every bound, are
    missing.
    """

    problem: Problem
    delta: float
    kernels: Kernels
    x: Any
    f: Any
    z: np.ndarray
    y: Any
    train_loss: np.ndarray
    test_loss: np.ndarray
    coins: np.ndarray | None
    diverged_at: int | None

    @property
    def steps(self) -> int:
        return len(self.train_loss) - 1

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
        return replace(self, x=empty, f=empty, z=empty, y=empty, coins=None)

    def preactivations(self, t: int) -> Any:
        """V(t) of every sample, shape (m, N)."""
        with jax.enable_x64(True):
            return jnp.asarray(self.kernels.c[t]) @ jnp.asarray(self.x, float)

    def weights(self, t: int, hessian: str = "block") -> np.ndarray:
        """Hessian weights of every sample at t: (m, N) per neuron, (m, m, N) for the full Hessian (theory 1.2)."""
        with jax.enable_x64(True):
            form = getattr(self.problem.pointwise, hessian)
            return np.asarray(form(self.preactivations(t), jnp.asarray(self.y), *map(jnp.asarray, self.problem.layer)))


def solve(
    problem: Problem,
    delta: float,
    steps: int,
    *,
    paths: int,
    seed: tuple[int, ...],
    overlap: np.ndarray | None = None,
    drift: np.ndarray | None = None,
    mirror: bool = True,
    memory: bool = True,
    rank_tolerance: float = RANK_TOLERANCE,
) -> Run:
    """Run the DMFT for `steps` steps with N = `paths` (rounded up to a power of two) samples.

    overlap: initial theta_j . theta_*a, shape (m, k); zero by default.
    drift: added to the overlap at each step, shape (steps, m, k): the noise of a finite dimension (theory 1.7).
    mirror: use that E[F V_*] vanishes along hard and inert directions. With zero initial overlap that is done in the
    equations; otherwise samples come in pairs (V_*, -V_*) that share all else: the spurious part of E[F V_*], of order
    1/sqrt N and as large as a real overlap, cancels in a pair.
    memory: False drops the memory term (wrong on purpose: for tests that must notice).
    """
    with jax.enable_x64(True):
        n, m, k = power_of_two(paths), problem.m, problem.k
        link = directions(problem.link)
        still = np.concatenate([link.hard, link.inert], axis=1)
        still = still @ still.T
        start = np.zeros((m, k)) if overlap is None else np.asarray(overlap, float).reshape(m, k)
        push = np.zeros((steps, m, k)) if drift is None else np.asarray(drift, float).reshape(steps, m, k)
        paired = mirror and bool(np.any(np.abs(start @ still) > 0) or np.any(np.abs(push @ still) > 0))
        frozen = still if mirror and not paired else np.zeros((k, k))
        batch = None if problem.batch == 1.0 else coins(steps, n, problem.batch, seed)
        most = max(1, steps) * m
        rank = min(most, (12 if batch is None else steps) * m)
        form = _compiled(problem.network.sigma, problem.loss_function)
        numbers = {
            "a": jnp.asarray(problem.layer[0]),
            "b": jnp.asarray(problem.layer[1]),
            "eta": problem.step_size,
            "decay": problem.weight_decay,
            "momentum": problem.momentum,
            "delta": delta,
            "memory": float(memory),
            "tolerance": rank_tolerance,
            "frozen": jnp.asarray(frozen),
        }
        outside = (None if batch is None else jnp.asarray(batch), jnp.asarray(push))

        def draw(first: int, count: int) -> np.ndarray:
            rows = gaussians(range(first, first + count), n // 2 if paired else n, seed)
            return np.concatenate([rows, rows], axis=1) if paired else rows

        latent = draw(0, k + 1)
        if paired:
            latent[:k, n // 2 :] -= 2.0 * still @ latent[:k, n // 2 :]
        z, e = latent[:k], latent[k]
        y, spare = problem.labels(z.T, e), draw(k + 1, m)
        samples = tuple(jnp.asarray(v, SAMPLE) for v in (z, y, spare))
        state = _begin(jnp.asarray(draw(k + 1 + m, m), SAMPLE), samples[0], jnp.asarray(start), steps)
        noise = jnp.zeros((0, n), SAMPLE)
        while True:
            known = noise.shape[0]
            noise = jnp.concatenate([noise, jnp.asarray(draw(k + 1 + 2 * m + known, rank - known), SAMPLE)])
            state = form.advance(_widened(state, rank), noise, samples, outside, numbers)
            if int(state["t"]) == steps:
                break
            rank = min(most, 2 * rank)
        return _collect(problem, delta, form.finish(state, samples, numbers), z, y, batch, steps)


def _begin(first: Any, z: Any, start: Any, steps: int) -> dict[str, Any]:
    """Before the first step: no left direction, and of the right ones the latent and the initial."""
    m, k = start.shape
    length = jnp.sqrt(jnp.maximum(0.0, 1.0 - jnp.sum(start**2, axis=1)))
    c = jnp.concatenate([start, jnp.diag(length)], axis=1)
    return {
        "t": jnp.zeros((), int),
        "count": jnp.zeros((), int),
        "x": jnp.concatenate([z, first]),
        "f": jnp.zeros((0, z.shape[1]), z.dtype),
        "now": c,
        "before": c,
        "c": jnp.zeros((steps + 1, m, k + m)),
        "mix": jnp.zeros((steps, m, 0)),
        "turn": jnp.zeros((steps, m, m)),
        "born": jnp.zeros(steps + 1, int),
        **{name: jnp.zeros(steps + 1) for name in ("train", "test", "size")},
    }


def _widened(state: dict[str, Any], rank: int) -> dict[str, Any]:
    """The same with room for `rank` left directions."""
    more = rank - state["f"].shape[0]

    def longer(v: Any, axis: int) -> Any:
        return jnp.pad(v, [(0, more if i == axis else 0) for i in range(v.ndim)])

    return (
        state
        | {name: longer(state[name], 0) for name in ("x", "f")}
        | {name: longer(state[name], state[name].ndim - 1) for name in ("now", "before", "c", "mix")}
    )


def _collect(
    problem: Problem, delta: float, out: dict[str, Any], z: np.ndarray, y: Any, batch: np.ndarray | None, steps: int
) -> Run:
    """Cut the buffers to what was used, and the times to those before a divergence."""
    size = np.asarray(out["size"])
    bad = np.flatnonzero(~(size < _BOUND))
    diverged_at = int(bad[0]) if bad.size else None
    last = steps if diverged_at is None else diverged_at - 1
    counts = np.asarray(out["born"])
    used = int(counts[last]) if last >= 0 else 0
    q = problem.k + problem.m + used
    kernels = Kernels(
        np.asarray(out["c"])[: last + 1, :, :q],
        np.asarray(out["mix"])[:last, :, :used],
        counts[: last + 1],
        np.asarray(out["turn"])[:last],
    )
    return Run(
        problem,
        delta,
        kernels,
        out["x"][:q],
        out["f"][:used],
        z,
        y,
        np.asarray(out["train"])[: last + 1],
        np.asarray(out["test"])[: last + 1],
        None if batch is None else batch[:last],
        diverged_at,
    )


class _Compiled(NamedTuple):
    """Jitted: as many steps as the room for left directions allows, and the last look."""

    advance: Callable[..., dict[str, Any]]
    finish: Callable[..., dict[str, Any]]


@functools.lru_cache(maxsize=64)
def _compiled(sigma: functions.ScalarFunction, loss: functions.ScalarFunction) -> _Compiled:
    form = pointwise(sigma, loss)

    def inner(g: Any, rows: Any) -> Any:
        """E[g row] over the samples, (m, rows). Row by row: on a CPU a product of two matrices is slower here."""
        return jnp.stack([rows @ one for one in g]).astype(float) / g.shape[1]

    def look(state: dict[str, Any], samples: tuple[Any, ...], p: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """V(t), and what is recorded at t."""
        (z, y, spare), c, t = samples, state["now"], state["t"]
        m, k = c.shape[0], z.shape[0]
        v = c.astype(SAMPLE) @ state["x"]
        rest = c[:, k:] @ c[:, k:].T
        root = jnp.linalg.cholesky(rest + 1e-13 * (1e-300 + jnp.trace(rest)) * jnp.eye(m))
        fresh = c[:, :k].astype(SAMPLE) @ z + root.astype(SAMPLE) @ spare
        layer = p["a"].astype(SAMPLE), p["b"].astype(SAMPLE)
        seen = {
            "c": c,
            "train": jnp.mean(form.risk(v, y, *layer), dtype=float),
            "test": jnp.mean(form.risk(fresh, y, *layer), dtype=float),
            "size": jnp.mean(v * v, dtype=float),
            "born": state["count"],
        }
        return v, {name: state[name].at[t].set(value) for name, value in seen.items()}

    def step(
        state: dict[str, Any], noise: Any, samples: tuple[Any, ...], outside: tuple[Any, Any], p: dict[str, Any]
    ) -> dict[str, Any]:
        x, f, c, t, count = (state[name] for name in ("x", "f", "now", "t", "count"))
        (m, k), (coins, push) = (c.shape[0], samples[0].shape[0]), outside
        v, seen = look(state, samples, p)
        layer = p["a"].astype(SAMPLE), p["b"].astype(SAMPLE)
        g = (p["eta"] * form.factor(v, samples[1], *layer)).astype(SAMPLE)
        if coins is not None:
            g = g * coins[t]
        # In the limit the fresh noise xi is orthogonal to every f so far; among N samples it is made so.
        left = jnp.concatenate([g, jax.lax.dynamic_slice(noise, (count, 0), g.shape)])
        mix = jnp.zeros((m, f.shape[0]))
        # Twice: what one pass leaves grows from step to step by the inverse of what is new in a gradient.
        for _ in range(2):
            along = inner(left, f)
            mix, left = mix + along[:m], left - along.astype(SAMPLE) @ f
        r, xi = jnp.split(left, 2)
        value, vector = jnp.linalg.eigh(inner(r, r))
        value, vector = value[::-1], vector[:, ::-1]
        keep = value > p["tolerance"] ** 2 * jnp.mean(g * g, dtype=float)
        turn = jnp.where(keep, 1.0 / jnp.sqrt(jnp.where(keep, value, 1.0)), 0.0)[:, None] * vector.T
        new = turn.astype(SAMPLE) @ r
        xi = jnp.where(keep[:, None], xi - inner(xi, new).astype(SAMPLE) @ new, 0.0)
        born = xi - (p["memory"] / jnp.sqrt(p["delta"])).astype(SAMPLE) * new
        x = jax.lax.dynamic_update_slice(x, born, (k + m + count, 0))
        slope = inner(g, x)
        # X_u holds minus f_u/sqrt(delta) twice over: as memory in V, and here as the noise of the gradient.
        full = jax.lax.dynamic_update_slice(mix, inner(g, new), (0, count))
        slope = slope.at[:, k + m :].add((p["memory"] - 1.0) * full / jnp.sqrt(p["delta"]))
        slope = slope.at[:, :k].add(-slope[:, :k] @ p["frozen"])
        then = (1.0 - p["eta"] * p["decay"]) * c - slope + p["momentum"] * (c - state["before"])
        return {
            **state,
            **seen,
            "t": t + 1,
            "count": count + jnp.sum(keep),
            "x": x,
            "f": jax.lax.dynamic_update_slice(f, new, (count, 0)),
            "now": then.at[:, :k].add(push[t]),
            "before": c,
            "mix": state["mix"].at[t].set(mix),
            "turn": state["turn"].at[t].set(turn),
        }

    def advance(state: dict[str, Any], noise: Any, *rest: Any) -> dict[str, Any]:
        (m, steps), rank = state["turn"].shape[1::-1], noise.shape[0]

        def more(state: dict[str, Any]) -> Any:
            return (state["t"] < steps) & (state["count"] + m <= rank)

        return jax.lax.while_loop(more, lambda state: step(state, noise, *rest), state)

    def finish(state: dict[str, Any], samples: tuple[Any, ...], p: dict[str, Any]) -> dict[str, Any]:
        return state | look(state, samples, p)[1]

    return _Compiled(jax.jit(advance, donate_argnums=0), jax.jit(finish, donate_argnums=0))
