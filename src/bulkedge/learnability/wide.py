"""The limit of many neurons at t = 0: blocks without the term that vanishes, and an output that no longer fluctuates.

For iid initial directions f = (1/m) sum_j a_j sigma(v_j + b_j) tends to its mean, and the weight of block j to
    G_j = a_j l'(y, E f) sigma''(v_j + b_j),
a function of two independent variables (theory 1.2). The whole md x md Hessian has the same bulk and the same hidden
outliers then: what couples its blocks has rank one in the m neurons at every sample, and moves one direction of m.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian import quadrature
from bulkedge.learnability import windows
from bulkedge.learnability.labels import label_law
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra.law import WeightLaw

_WIDTH = 0.75


def wide_law(problem: Problem, neuron: int) -> WeightLaw | None:
    """The law of (G_j, s) for infinitely many neurons with the given second layers and biases; None: too many nodes."""
    labels = label_law(problem.link)
    if labels is None:
        return None
    sigma, l0 = problem.network.sigma.call, problem.loss_function.call
    a, b = problem.layer
    bend = jax.vmap(jax.grad(jax.grad(sigma)))
    with jax.enable_x64(True):
        mean = float(np.mean([aj * _mean(sigma, bj) for aj, bj in zip(a, b, strict=True)]))
        rule = quadrature.tensor_nodes(lambda v: jax.grad(jax.grad(sigma))(v[0] + b[neuron]), 1, _WIDTH)
        assert rule is not None  # one dimension
        v, p = rule[0][:, 0], rule[1]
        push = jax.vmap(jax.grad(l0, argnums=1), (0, None))(jnp.asarray(labels.y), jnp.asarray(mean))
        g = a[neuron] * np.multiply.outer(np.asarray(push), np.asarray(bend(jnp.asarray(v + b[neuron]))))
    moments = np.repeat(labels.moments, p.size, axis=1)
    empty = np.zeros((g.size, directions(problem.link).hard.shape[1]))
    return WeightLaw(g.ravel(), empty, np.multiply.outer(labels.p, p).ravel(), moments=moments)


def wide_threshold(problem: Problem) -> float | None:
    """The least delta at which some block of many neurons has a negative hidden outlier; None where there is none."""
    layers = list(zip(*map(tuple, problem.layer), strict=True))
    lows = []
    for pair in dict.fromkeys(layers):
        law = wide_law(problem, layers.index(pair))
        if law is None:
            raise BadInput("target", "has a law of labels that needs too many quadrature nodes")
        found = windows.of_fixed_law(law) if law.low < 0 else []
        lows += [found[0][0]] if found else []
    return min(lows, default=None)


def _mean(sigma: Callable[..., Any], b: float) -> float:
    """E sigma(v + b)."""
    found = quadrature.tensor_nodes(lambda v: sigma(v[0] + b), 1, _WIDTH)
    assert found is not None  # one dimension
    v, p = found
    return float(p @ np.asarray(jax.vmap(sigma)(jnp.asarray(v[:, 0] + b))))
