"""How an overlap too small to be seen grows: the linear stage of learning a hard direction (theory 1.7).

By the symmetry V_* -> -V_* of hard directions, xi(t) = sqrt(d) U_H^T theta_j(t), an (m r)-vector, is to leading order
    xi(t+1) = (1 - eta lambda) xi(t) - sum_{s <= t} M(t, s) xi(s) - zeta(t) + beta (xi(t) - xi(t-1)),   xi(0) ~ N(0, I),
    M(t, s) = E[dF(t)/dW(s) (x) s s^T],   Cov(zeta(t), zeta(s)) = E[F(t) F(s)^T (x) s s^T]/delta,
with s the hard coordinates of a sample. The response is pathwise: a field h at (s, j) moves V(t) directly and through
the left directions f of the DMFT's memory, which are linear in the gradients so far.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.dynamics.dmft import Run
from bulkedge.models import functions
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem, pointwise

_CHUNK = 512
_FLOPS = 2e10
"""Work allowed for the responses of one replica; beyond it fewer of its samples are used."""


@dataclass(frozen=True, eq=False)
class Growth:
    """The kernels of xi: response (T, T, mr, mr), M(t, s); noise (T, T, mr, mr), Cov(zeta(t), zeta(s)).

    Index order of the last two axes: neuron x hard direction, the neuron running slowest.
    """

    response: np.ndarray
    noise: np.ndarray


@dataclass(frozen=True, eq=False)
class Escape:
    """gain: (T + 1, mr, mr), d xi(t)/d xi(0). covariance: (T + 1, mr, mr), of xi(t).

    shared: (T, mr, T + 1, mr), Cov(zeta(s), xi(t)).
    """

    gain: np.ndarray
    covariance: np.ndarray
    shared: np.ndarray


def growth(run: Run) -> Growth:
    """M and the noise of one replica."""
    problem, steps = run.problem, run.steps
    hard = directions(problem.link).hard
    m, r, rank = problem.m, hard.shape[1], run.kernels.mix.shape[2] + problem.m
    size = m * r
    if steps == 0 or r == 0:
        return Growth(np.zeros((steps, steps, size, size)), np.zeros((steps, steps, size, size)))
    work = 4.0 * (steps * m) ** 2 * rank
    count = int(min(run.y.size, max(_CHUNK, _FLOPS / work)) // _CHUNK) * _CHUNK
    every = run.y.size // count
    with jax.enable_x64(True):
        s = jnp.asarray((run.z.T @ hard).T[:, ::every][:, :count])
        pairs = (s[:, None] * s[None]).reshape(r * r, -1)
        x = jnp.asarray(run.x[:, ::every][:, :count], float)
        y = jnp.asarray(run.y[::every][:count])
        coins = jnp.ones((steps, 1)) if run.coins is None else jnp.asarray(run.coins[:, ::every][:, :count])
        coins = jnp.broadcast_to(coins, (steps, count))
        blocks = count // _CHUNK

        def blocked(v: Any) -> Any:
            return jnp.moveaxis(v.reshape(*v.shape[:-1], blocks, _CHUNK), -2, 0)

        k = run.kernels
        # m spare left directions, so that a block of new ones always fits.
        spare = ((0, 0), (0, 0), (0, m))
        memory, mix = np.pad(k.c[:steps, :, problem.k + m :], spare), np.pad(k.mix, spare)
        response, noise = _sweep(problem.network.sigma, problem.loss_function)(
            tuple(blocked(v) for v in (x, y, pairs, coins)),
            {
                "c": jnp.asarray(k.c[:steps]),
                "memory": jnp.asarray(memory) / np.sqrt(run.delta),
                "mix": jnp.asarray(mix),
                "turn": jnp.asarray(k.turn),
                "born": jnp.asarray(k.born[:steps]),
                "eta": problem.step_size,
                "a": jnp.asarray(problem.layer[0]),
                "b": jnp.asarray(problem.layer[1]),
            },
        )
    shape = (steps, m, steps, m, r, r)
    order = (0, 2, 1, 4, 3, 5)
    full = [np.asarray(v).reshape(shape).transpose(order).reshape(steps, steps, size, size) for v in (response, noise)]
    return Growth(full[0] / count, full[1] / (count * run.delta))


@functools.lru_cache(maxsize=64)
def _sweep(sigma: functions.ScalarFunction, loss: functions.ScalarFunction) -> Callable[..., tuple[Any, Any]]:
    form = pointwise(sigma, loss)

    def chunk(sample: tuple[Any, ...], p: dict[str, Any]) -> tuple[Any, Any]:
        x, y, pairs, coins = sample
        steps, m, rank = p["mix"].shape

        def one(v: Any, y: Any) -> Any:
            return p["eta"] * form.factor(v[:, None], y[None], p["a"], p["b"])[:, 0]

        slope = jax.vmap(jax.jacfwd(one), in_axes=(1, 0), out_axes=2)
        unit = jnp.eye(steps * m).reshape(steps, m, steps * m)

        def step(df: Any, now: dict[str, Any]) -> tuple[Any, tuple[Any, Any]]:
            v = now["c"] @ x
            g = p["eta"] * form.factor(v, y, p["a"], p["b"]) * now["coin"]
            j = slope(v, y) * now["coin"]
            dv = now["unit"][:, :, None] - jnp.tensordot(now["memory"], df, 1)
            dg = jnp.einsum("ilb,lqb->iqb", j, dv)
            new = jnp.tensordot(now["turn"], dg - jnp.tensordot(now["mix"], df, 1), 1)
            df = jax.lax.dynamic_update_slice(df, new, (now["born"], 0, 0))
            return df, (jnp.einsum("iqb,pb->iqp", dg, pairs), g)

        over = {name: p[name] for name in ("c", "memory", "mix", "turn", "born")} | {"coin": coins, "unit": unit}
        _, (response, g) = jax.lax.scan(step, jnp.zeros((rank, steps * m, y.size)), over)
        g = g.reshape(steps * m, -1)
        noise = jnp.einsum("ub,vb,pb->uvp", g, g, pairs)
        return response.reshape(steps, m, steps * m, -1), noise

    def run(samples: tuple[Any, ...], p: dict[str, Any]) -> tuple[Any, Any]:
        steps, m, _ = p["mix"].shape

        def add(total: tuple[Any, Any], sample: tuple[Any, ...]) -> tuple[tuple[Any, Any], None]:
            return jax.tree.map(jnp.add, total, chunk(sample, p)), None

        pairs = samples[2].shape[1]
        zero = (jnp.zeros((steps, m, steps * m, pairs)), jnp.zeros((steps * m, steps * m, pairs)))
        return jax.lax.scan(add, zero, samples)[0]

    return jax.jit(run)


def propagate(problem: Problem, kernels: Growth) -> Escape:
    """Gain and covariance of xi over time."""
    steps, _, size, _ = kernels.response.shape
    keep = 1.0 - problem.step_size * problem.weight_decay
    beta = problem.momentum
    # xi(t) = gain(t) xi(0) - sum_s push(t, s) zeta(s): both follow the recursion of xi.
    paths = np.zeros((steps + 1, size, size * (steps + 1)))
    paths[0, :, :size] = np.eye(size)
    for t in range(steps):
        paths[t + 1] = keep * paths[t] - np.einsum("sij,sjk->ik", kernels.response[t, : t + 1], paths[: t + 1])
        if t:
            paths[t + 1] += beta * (paths[t] - paths[t - 1])
        paths[t + 1, :, size * (t + 1) : size * (t + 2)] -= np.eye(size)
    flat = kernels.noise.transpose(0, 2, 1, 3).reshape(steps * size, steps * size)
    gain, push = paths[:, :, :size], paths[:, :, size:]
    covariance = gain @ gain.transpose(0, 2, 1) + push @ flat @ push.transpose(0, 2, 1)
    shared = np.einsum("uv,tiv->uti", flat, push).reshape(steps, size, steps + 1, size)
    return Escape(gain, covariance, shared)


def mean_growth(parts: list[Growth]) -> Growth:
    """The average over replicas."""
    return Growth(
        np.mean([g.response for g in parts], axis=0),
        np.mean([g.noise for g in parts], axis=0),
    )
