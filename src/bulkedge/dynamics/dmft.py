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

from bulkedge.dynamics import paths as tables
from bulkedge.dynamics.paths import coins, power_of_two
from bulkedge.models import functions
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem, pointwise

RANK_TOLERANCE = 1e-3
PRECISION = "double"
"""Of what is kept of every sample. "single": half the time; its rounding, some 1e-6, is below the sampling error."""
_ROOM = 8
"""Left directions there is room for at first, per neuron. Room doubles when it is used up: few sizes to compile."""
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
    with jax.enable_x64(True):
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
        form = _compiled(problem.network.sigma, problem.loss_function)
        table = tables.table(n // 2 if paired else n, seed)

        def draw(first: int, number: int) -> np.ndarray:
            rows = table.rows(first, number)
            return np.concatenate([rows, rows], axis=1) if paired else rows

        latent = draw(0, k + 1)
        if paired:
            latent[:k, n // 2 :] -= 2.0 * still @ latent[:k, n // 2 :]
        z, y = latent[:k], problem.labels(latent[:k].T, latent[k])
        samples = Samples(*(jnp.asarray(v, dtype) for v in (z, y, draw(k + 1, m))))
        layer = Layer(*(jnp.asarray(v, dtype) for v in (*problem.layer, problem.step_size)))
        born_at = k + 1 + 2 * m
        shrink = 1.0 - problem.step_size * problem.weight_decay
        root_delta = float(np.sqrt(delta))

        length = np.sqrt(np.maximum(0.0, 1.0 - np.sum(start**2, axis=1)))
        c = before = np.concatenate([start, np.diag(length)], axis=1)
        x = jnp.concatenate([samples.z, jnp.asarray(draw(k + 1 + m, m), dtype)])
        f = jnp.zeros((0, n), dtype)
        count, diverged_at, history = 0, None, _History()
        for t in range(steps + 1):
            if t < steps and count + m > f.shape[0]:
                room = max(_ROOM * m, 2 * f.shape[0])
                x, f, c, before = _widened(room - f.shape[0], x, f, c, before)
            coin = None if batch is None or t == steps else jnp.asarray(batch[t], dtype)
            big, seen = form.look(c, _root(c[:, k:]), x, f, samples, coin, layer)
            seen = jax.device_get(seen)
            if not seen["size"] < _BOUND:
                diverged_at = t
                break
            history.look(c, count, seen)
            if t == steps or (until is not None and until(c)):
                break
            mix, slope = seen["mix"].copy(), seen["slope"].copy()
            if np.linalg.eigvalsh(seen["left"])[-1] > (rank_tolerance**2 - 1e-12) * seen["power"]:
                xi = jnp.asarray(draw(born_at + count, m), dtype)
                x, f, new = form.extend(big, xi, x, f, count, rank_tolerance, memory / root_delta)
                new = jax.device_get(new)
                mix += new["mix"]
                mix[:, count : count + m] = new["along"]
                slope[:, k + m + count : 2 * m + k + count] = new["slope"]
                count += int(new["kept"])
            # X_u holds minus f_u/sqrt(delta) twice over: as memory in V, and here as the noise of the gradient.
            slope[:, k + m :] += (float(memory) - 1.0) * mix / root_delta
            slope[:, :k] -= slope[:, :k] @ frozen
            c, before = shrink * c - slope + problem.momentum * (c - before), c
            c[:, :k] += push[t]
            history.mix.append(mix)
        return history.run(problem, delta, (x, f, z, y), batch, diverged_at)


class Samples(NamedTuple):
    """What a sample brings with it: latent z (k, N), label y (N,), and spare (m, N) for its fresh double."""

    z: Any
    y: Any
    spare: Any


class Layer(NamedTuple):
    """Second layer a (m,), biases b (m,) and the step size."""

    a: Any
    b: Any
    eta: Any


def _root(rest: np.ndarray) -> np.ndarray:
    """A square root of the Gram matrix of the rows, which may be singular or, once diverged, not finite."""
    gram = rest @ rest.T
    if not np.all(np.isfinite(gram)):
        return np.full(gram.shape, np.nan)
    value, vector = np.linalg.eigh(gram)
    return vector * np.sqrt(np.maximum(value, 0.0))


def _widened(more: int, x: Any, f: Any, c: np.ndarray, before: np.ndarray) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """The same with room for `more` left directions."""
    room = jnp.zeros((more, x.shape[1]), x.dtype)
    c, before = (np.pad(v, [(0, 0), (0, more)]) for v in (c, before))
    return jnp.concatenate([x, room]), jnp.concatenate([f, room]), c, before


class _History:
    """What is recorded while a run goes on."""

    def __init__(self) -> None:
        self.c: list[np.ndarray] = []
        self.born: list[int] = []
        self.train: list[float] = []
        self.test: list[float] = []
        self.mix: list[np.ndarray] = []

    def look(self, c: np.ndarray, count: int, seen: dict[str, Any]) -> None:
        self.c.append(c)
        self.born.append(count)
        self.train.append(float(seen["train"]))
        self.test.append(float(seen["test"]))

    def run(
        self,
        problem: Problem,
        delta: float,
        paths: tuple[Any, Any, np.ndarray, np.ndarray],
        batch: np.ndarray | None,
        diverged_at: int | None,
    ) -> Run:
        """Times before a divergence, and the directions that were used."""
        m, last = problem.m, len(self.c) - 1
        used = self.born[last] if last >= 0 else 0
        q = problem.k + m + used
        x, f, z, y = paths

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
        return Run(problem, delta, kernels, x[:q], f[:used], z, y, *losses, coins, diverged_at)


class _Compiled(NamedTuple):
    """Jitted: what a step sees of the samples, and what a new left direction adds."""

    look: Callable[..., tuple[Any, dict[str, Any]]]
    extend: Callable[..., tuple[Any, Any, dict[str, Any]]]


@functools.lru_cache(maxsize=64)
def _compiled(sigma: functions.ScalarFunction, loss: functions.ScalarFunction) -> _Compiled:
    form = pointwise(sigma, loss)

    def inner(g: Any, rows: Any) -> Any:
        """E[g row] over the samples, (m, rows). Row by row: on a CPU a product of two matrices is slower here."""
        return jnp.stack([rows @ one for one in g]).astype(float) / g.shape[1]

    def look(
        c: Any, root: Any, x: Any, f: Any, samples: Samples, coin: Any, layer: Layer
    ) -> tuple[Any, dict[str, Any]]:
        """(F(t) and what is new in it, each (m, N)), and averages over the samples."""
        dtype, k = x.dtype, samples.z.shape[0]
        v = c.astype(dtype) @ x
        fresh = c[:, :k].astype(dtype) @ samples.z + root.astype(dtype) @ samples.spare
        g = layer.eta * form.factor(v, samples.y, layer.a, layer.b)
        if coin is not None:
            g = g * coin
        mix = inner(g, f) if f.shape[0] else jnp.zeros((g.shape[0], 0))
        r = g - mix.astype(dtype) @ f
        seen = {
            "train": jnp.mean(form.risk(v, samples.y, layer.a, layer.b), dtype=float),
            "test": jnp.mean(form.risk(fresh, samples.y, layer.a, layer.b), dtype=float),
            "size": jnp.mean(v * v, dtype=float),
            "power": jnp.mean(g * g, dtype=float),
            "left": inner(r, r),
            "mix": mix,
            "slope": inner(g, x),
        }
        return (g, r), seen

    def extend(
        gradient: tuple[Any, Any], xi: Any, x: Any, f: Any, count: Any, tolerance: Any, memory: Any
    ) -> tuple[Any, Any, dict[str, Any]]:
        """The samples x and f with the left directions new in F(t) and the right ones they bring."""
        (g, r), dtype = gradient, x.dtype
        m, first = g.shape[0], x.shape[0] - f.shape[0]
        # In the limit the fresh noise xi is orthogonal to every f so far; among N samples it is made so.
        left, mix = jnp.concatenate([r, xi]), jnp.zeros((m, f.shape[0]))
        # Again, twice: what one pass leaves grows from step to step by the inverse of what is new in a gradient.
        for _ in range(2):
            along = inner(left, f)
            mix, left = mix + along[:m], left - along.astype(dtype) @ f
        r, xi = jnp.split(left, 2)
        value, vector = jnp.linalg.eigh(inner(r, r))
        value, vector = value[::-1], vector[:, ::-1]
        keep = value > tolerance**2 * jnp.mean(g * g, dtype=float)
        turn = jnp.where(keep, 1.0 / jnp.sqrt(jnp.where(keep, value, 1.0)), 0.0)[:, None] * vector.T
        new = turn.astype(dtype) @ r
        xi = jnp.where(keep[:, None], xi - inner(xi, new).astype(dtype) @ new, 0.0)
        born = xi - jnp.asarray(memory, dtype) * new
        x = jax.lax.dynamic_update_slice(x, born, (first + count, 0))
        f = jax.lax.dynamic_update_slice(f, new, (count, 0))
        added = {
            "mix": mix,
            "kept": jnp.sum(keep),
            "along": inner(g, new),
            "slope": inner(g, born),
        }
        return x, f, added

    return _Compiled(jax.jit(look), jax.jit(extend, donate_argnums=(2, 3)))
