"""The law of the Hessian weights together with the hard coordinates of the same sample: (G, s = U_H^T V_*).

At t = 0 the pre-activations V(0) ~ N(0, I_m) are independent of V_*, so that low-dimensional laws are quadrature nodes;
otherwise, and at t > 0, they are samples of the DMFT.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.dynamics import dmft
from bulkedge.foundation.numerics import Numerics
from bulkedge.gaussian import quadrature
from bulkedge.learnability.labels import MOST_NODES, label_law
from bulkedge.learnability.room import require_room
from bulkedge.models.directions import directions
from bulkedge.models.functions import ScalarFunction
from bulkedge.models.network import Network
from bulkedge.models.problem import Problem, pointwise
from bulkedge.spectra.law import WeightLaw


@dataclass(frozen=True, eq=False)
class Sampled:
    """The DMFT at one delta up to one time: its replicas, and for each the law of every neuron's weight."""

    runs: list[dmft.Run]
    time: int

    @property
    def diverged_at(self) -> int | None:
        """The first step at which some replica left every bound."""
        return min((r.diverged_at for r in self.runs if r.diverged_at is not None), default=None)

    def laws(self, neuron: int) -> list[WeightLaw]:
        """The law of the weight of one neuron, in each replica."""
        hard = directions(self.runs[0].problem.link).hard
        return [WeightLaw(r.weights(self.time)[neuron], r.z.T @ hard) for r in self.runs]


def sampled(problem: Problem, delta: float, time: int, numerics: Numerics) -> Sampled:
    """Independent replicas of the DMFT up to `time`; the same random numbers at every delta.

    The runs of the last call are kept: an earlier time of the same problem is read off them.
    """
    key = (problem, delta, numerics)
    if key not in _LAST or _LAST[key].time < time:
        require_room(problem, time, numerics, kept=True)
        # One entry only: the samples of all replicas may be large.
        _LAST.clear()
        _LAST[key] = Sampled(
            [
                dmft.solve(problem, delta, time, paths=numerics.paths, seed=(numerics.seed, i))
                for i in range(numerics.replicas)
            ],
            time,
        )
    runs = _LAST[key].runs
    if any(r.diverged_at is not None and r.diverged_at <= time for r in runs):
        return Sampled(runs, time)
    return Sampled([replace(r, diverged_at=None) for r in runs], time)


_LAST: dict[tuple[Problem, float, Numerics], Sampled] = {}


@functools.lru_cache(maxsize=16)
def initial(problem: Problem, neuron: int, refinement: float = 1.0) -> WeightLaw | None:
    """The law of (G_j, s) at t = 0 as quadrature nodes, split where G is not smooth; None if there would be too many.

    refinement: below 1 for coarser panels, to estimate the error.
    """
    m = problem.m
    labels = label_law(problem.link, refinement)
    if labels is None or m > 2:
        return None
    a, b = (jnp.asarray(v) for v in problem.layer)
    form = problem.pointwise
    width = (0.75 if m == 1 else 1.5) / refinement
    with jax.enable_x64(True):
        if _moves(_weight(problem.network, problem.loss_function, neuron), m, labels.y):
            return _along_curves(problem, neuron, width)
        at_label = _weight(problem.network, problem.loss_function, neuron, float(labels.y[0]))
        rule = quadrature.tensor_nodes(at_label, m, width, limit=MOST_NODES)
        if rule is None or rule[1].size * labels.p.size > MOST_NODES:
            return None
        v = np.tile(rule[0].T, labels.p.size)
        y = np.repeat(labels.y, rule[1].size)
        g = np.asarray(form.block(jnp.asarray(v), jnp.asarray(y), a, b)[neuron])
    p = np.multiply.outer(labels.p, rule[1]).ravel()
    moments = np.repeat(labels.moments, rule[1].size, axis=1)
    return WeightLaw(g, np.zeros((p.size, directions(problem.link).hard.shape[1])), p, moments=moments)


@functools.lru_cache(maxsize=64)
def _weight(
    network: Network, loss: ScalarFunction, neuron: int, label: float | None = None
) -> Callable[[jax.Array], jax.Array]:
    """G_j as a function of (v_1, .., v_m), or of (v_1, .., v_m, y) where no label is given.

    The same function for the same network and loss, so that what is compiled for it serves again.
    """
    m, form = network.width, pointwise(network.sigma, loss)

    def weight(x: jax.Array) -> jax.Array:
        y = x[m] if label is None else jnp.asarray(label, x.dtype)
        a, b = (jnp.asarray(v, x.dtype) for v in (network.a, network.b))
        return form.block(x[:m, None], y[None], a, b)[neuron, 0]

    return weight


def _along_curves(problem: Problem, neuron: int, width: float) -> WeightLaw | None:
    """For one neuron and one latent variable: nodes in (v, z) split along the curve where l'' jumps."""
    if problem.m + problem.k + int(problem.link.noisy) != 2:
        return None
    a, b = (jnp.asarray(v) for v in problem.layer)
    form, link = problem.pointwise, problem.link

    def weight(x: jax.Array) -> jax.Array:
        return form.block(x[:1, None], link(x[1:], jnp.zeros(()))[None], a, b)[neuron, 0]

    found = quadrature.tensor_nodes(weight, 2, width, limit=MOST_NODES)
    if found is None:
        return None
    x, p = found
    g = np.asarray(jax.jit(jax.vmap(weight))(jnp.asarray(x)))
    return WeightLaw(g, x[:, 1:] @ directions(link).hard, p)


def _moves(weight: Callable[[jax.Array], jax.Array], m: int, y: np.ndarray) -> bool:
    """Whether the places where G is not smooth in v depend on the label, as for a loss whose l'' jumps."""
    some = np.quantile(y, [0.05, 0.3, 0.5, 0.8, 0.95], method="nearest")
    # A point is (v_1, .., v_m, y); lines run along v_1.
    points = np.column_stack([np.zeros(some.size), np.full((some.size, m - 1), 0.3), some])
    first, *rest = quadrature.splits_on_lines(weight, points)
    return any(x.size != first.size or not np.allclose(x, first, atol=1e-9) for x in rest)
