"""The threshold at t = 0 as a differentiable function of a network's continuous choices (theory 1.4).

With T = beta G/(1 + beta G) and D = max(E[T^2], E[T]), a window of delta begins where
    F(beta, p) = 1 + lambda_min(E[T (s s^T - I)])/D = 0,   delta = 1/D(beta, p),
p the parameters inside the law of G. By the implicit function theorem d beta/dp = -F_p/F_beta, and
    d log delta/dp = -(D_p + D_beta d beta/dp)/D.
The law is a set of nodes that do not move with p. For one or two neurons they are nodes of U = V + b, whose Gaussian
density carries the biases: the kinks of an activation then stay where they are, and nothing is lost by differentiating
under the sum. For more neurons they are samples.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import minimize_scalar

from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian import quadrature
from bulkedge.learnability import windows
from bulkedge.learnability.labels import label_law
from bulkedge.models import functions
from bulkedge.models.directions import directions
from bulkedge.models.family import Family
from bulkedge.models.problem import Problem
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.law import WeightLaw

_TAIL = 8.5
_MOST_NODES = 1_000_000


@dataclass(frozen=True, eq=False)
class Nodes:
    """u: (m, n), values of V + b if `tilted` (their mass then depends on b), else of V. y: (n,). mass: (n,), of the
    rest. moments: (r(r+1)/2, n), E[s_a s_b | node], a <= b.
    """

    u: np.ndarray
    y: np.ndarray
    mass: np.ndarray
    moments: np.ndarray
    tilted: bool


@dataclass(frozen=True, eq=False)
class Point:
    """The first window at one vector of parameters.

    delta: where it begins, None if there is none; margin: the least value of F then. slope: of log delta, or of the
    margin (then a guide for a search only: the least F may lie where E[T^2] = E[T] and its slope jumps). neuron: whose
    block it is. beta, direction: where and along what it begins. law: of that neuron's weight.
    """

    delta: float | None
    margin: float
    slope: np.ndarray
    neuron: int
    beta: float
    direction: np.ndarray
    law: WeightLaw


@functools.lru_cache(maxsize=8)
def _compiled(members: Family, tilted: bool) -> tuple[Any, Any]:
    """(nodes, p, j) -> (g, mass) of neuron j; (nodes, p, beta, tilt, j) -> (F, log D) and derivatives in p and beta.

    lambda_min is taken along a fixed direction w: tilt = (w.s)^2 - 1 at every node.
    """

    def law_of(nodes: tuple[jax.Array, ...], vector: jax.Array, neuron: int) -> tuple[jax.Array, jax.Array]:
        u, y, mass = nodes
        a, b = map(jnp.asarray, members.layer(vector))
        form = members.forms(vector)
        if not tilted:
            return form.block(u, y, a, b)[neuron], mass
        g = form.block(u, y, a, jnp.zeros_like(b))[neuron]
        density = jnp.exp(-0.5 * jnp.sum((u - b[:, None]) ** 2, axis=0)) / (2.0 * np.pi) ** (0.5 * len(u))
        return g, mass * density

    def slopes(
        nodes: tuple[jax.Array, ...], vector: jax.Array, beta: jax.Array, tilt: jax.Array, neuron: int
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        def ends(vector: jax.Array, beta: jax.Array) -> tuple[jax.Array, jax.Array]:
            g, p = law_of(nodes, vector, neuron)
            t = beta * g / (1.0 + beta * g)
            size = jnp.maximum(jnp.sum(p * t * t), jnp.sum(p * t))
            both = jnp.stack([1.0 + jnp.sum(p * t * tilt) / size, jnp.log(size)])
            return both, both

        (by_p, by_beta), both = jax.jacrev(ends, argnums=(0, 1), has_aux=True)(vector, beta)
        return both, by_p, by_beta

    return jax.jit(law_of, static_argnums=2), jax.jit(slopes, static_argnums=4)


class Surface:
    """The threshold over a family. refinement: of the nodes; samples: how many where there is no quadrature."""

    def __init__(self, members: Family, refinement: float = 1.0, samples: int = 65536, seed: int = 0) -> None:
        check_smooth(members)
        self.family = members
        self.nodes = _nodes(members, refinement, samples, seed)
        self._weights, self._slopes = _compiled(members, self.nodes.tilted)
        with jax.enable_x64(True):
            self._arrays = tuple(map(jnp.asarray, (self.nodes.u, self.nodes.y, self.nodes.mass)))

    def law(self, vector: np.ndarray, neuron: int) -> WeightLaw:
        """The law of one neuron's weight."""
        with jax.enable_x64(True):
            g, p = map(np.asarray, self._weights(self._arrays, jnp.asarray(vector), neuron))
        r = directions(self.family.problem.link).hard.shape[1]
        return WeightLaw(g, np.zeros((g.size, r)), p / p.sum(), moments=self.nodes.moments)

    def at(self, vector: np.ndarray) -> Point:
        """The first window over all neurons, and its slope."""
        found = [self._of_neuron(np.asarray(vector, float), j) for j in range(self.family.problem.m)]
        return min(found, key=lambda q: (q.delta is None, q.margin if q.delta is None else q.delta))

    def _of_neuron(self, vector: np.ndarray, j: int) -> Point:
        law = self.law(vector, j)
        inside = True
        windows_here = windows.of_fixed_law(law) if law.low < 0 else []
        if windows_here:
            delta = windows_here[0][0]
            edge = bulk.left_edge(law, delta)
            beta = outliers.search_end(law, delta, edge, negative=True)
        else:
            delta, (beta, inside) = None, _closest(law)
        w = np.linalg.eigh(law.tensor(bulk.transform(law, beta)))[1][:, 0]
        i, k = np.triu_indices(law.r)
        tilt = (w[i] * w[k] * np.where(i == k, 1.0, 2.0)) @ self.nodes.moments - 1.0
        with jax.enable_x64(True):
            found = self._slopes(self._arrays, jnp.asarray(vector), jnp.asarray(beta), jnp.asarray(tilt), j)
        (f, size), by_p, by_beta = map(np.asarray, found)
        if delta is None:
            # At an end of the range of delta, which is where D has a given value, beta moves along.
            slope = by_p[0] if inside else by_p[0] - by_beta[0] * by_p[1] / by_beta[1]
            return Point(None, float(f), slope, j, beta, w, law)
        slope = -(by_p[1] - by_beta[1] * by_p[0] / by_beta[0])
        return Point(math.exp(-float(size)), 0.0, slope, j, beta, w, law)


def _closest(law: WeightLaw) -> tuple[float, bool]:
    """The beta of the least value of F, and whether it lies inside the range of delta that is searched."""
    chart = windows.Chart(law)
    grid = chart.grid
    least = int(np.argmin([chart.margin(float(u)) for u in grid]))
    if least in (0, grid.size - 1):
        return bulk.beta_of(law, float(grid[least])), False
    ends = float(grid[least - 1]), float(grid[least + 1])
    u = minimize_scalar(chart.margin, bounds=ends, method="bounded", options={"xatol": 1e-7}).x
    return bulk.beta_of(law, float(u)), True


@functools.lru_cache(maxsize=8)
def check_smooth(members: Family) -> None:
    """Refuse what would make the derivative under the sum wrong."""
    some = probes(members)
    for vector in some if members.loss_names else some[:1]:
        l1 = jax.grad(members.member(members.values(vector)).loss_function.call, argnums=1)
        for y in (-1.0, 0.7):
            if functions.derivative_jump(lambda f, y=y, l1=l1: l1(jnp.asarray(y), f), 1) is not None:
                raise BadInput("loss", "its second derivative jumps, and so would the derivative of the threshold")
    found = [_kinks(members, vector) for vector in (some if members.activation_names else some[:1])]
    if any(k.size != found[0].size or not np.allclose(k, found[0], atol=1e-9) for k in found):
        raise BadInput("activation", "its kinks move with the parameters, where the derivative misses a term")
    if found[0].size and members.problem.m > 2 and "bias" in members.names:
        raise BadInput("over", "bias cannot vary for more than two neurons whose activation has a kink")


def probes(members: Family) -> list[np.ndarray]:
    """Some vectors of parameters: the given one, and two from the inside of the box."""
    low, high = members.bounds.T
    return [members.given, low + 0.31 * (high - low), low + 0.83 * (high - low)]


def _kinks(members: Family, vector: np.ndarray) -> np.ndarray:
    """Where the second derivative of the activation is not smooth."""
    sigma = members.member(members.values(vector)).network.sigma
    return quadrature.one_dimensional_splits(lambda v: jax.grad(jax.grad(sigma.call))(v))


def _nodes(members: Family, refinement: float, samples: int, seed: int) -> Nodes:
    problem, m = members.problem, members.problem.m
    labels = label_law(problem.link, refinement) if m <= 2 else None
    if labels is None:
        return _samples(problem, samples, seed)
    low = high = problem.network.b
    if "bias" in members.names:
        low, high = members.bounds[members.places("bias")].T
    kinks = _kinks(members, members.given)
    axes = []
    for j in range(m):
        ends = (float(low[j]) - _TAIL, float(high[j]) + _TAIL)
        inside = kinks[(kinks > ends[0]) & (kinks < ends[1])]
        u, gaussian = quadrature.on_panels([*ends, *inside], (0.75 if m == 1 else 1.5) / refinement, 10)
        axes.append((u, gaussian * np.exp(0.5 * u * u) * math.sqrt(2.0 * math.pi)))
    u = np.stack([x.ravel() for x in np.meshgrid(*(u for u, _ in axes), indexing="ij")])
    mass = functools.reduce(np.multiply.outer, [w for _, w in axes]).ravel()
    if mass.size * labels.p.size > _MOST_NODES:
        return _samples(problem, samples, seed)
    return Nodes(
        np.tile(u, labels.p.size),
        np.repeat(labels.y, mass.size),
        np.multiply.outer(labels.p, mass).ravel(),
        np.repeat(labels.moments, mass.size, axis=1),
        True,
    )


def _samples(problem: Problem, samples: int, seed: int) -> Nodes:
    rng = np.random.default_rng([seed, 5])
    z, e = rng.standard_normal((samples, problem.k)), rng.standard_normal(samples)
    s = z @ directions(problem.link).hard
    i, j = np.triu_indices(s.shape[1])
    u = rng.standard_normal((problem.m, samples))
    return Nodes(u, problem.labels(z, e), np.full(samples, 1.0 / samples), (s[:, i] * s[:, j]).T, False)


def needs_hard(problem: Problem) -> None:
    """Refuse a target without hard directions."""
    if directions(problem.link).hard.shape[1] == 0:
        raise BadInput("target", f"has no hard direction ({directions(problem.link).kinds}): there is no threshold")
