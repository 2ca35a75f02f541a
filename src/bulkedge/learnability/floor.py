"""Is the Hessian weight bounded below? If not there is, read literally, no threshold at all (theory 1.9)."""

from __future__ import annotations

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.models.problem import Problem

_RADII = (8.0, 16.0, 32.0, 64.0, 128.0)
_POINTS = 1 << 15


def bounded_below(problem: Problem, neuron: int) -> bool:
    """Whether the weight G_j(V, y) of theory 1.2 has a finite infimum.

    V(t) has full support at every finite t, so that only the function counts, not the law: unbounded if its minimum
    over boxes of growing radius still falls, by more than a tenth of itself at each doubling, when boxes are far beyond
    anything a sample shows.
    """
    lowest = _minima(problem, neuron)
    drops = [b < 1.1 * a - 1e-9 or b == -np.inf for a, b in itertools.pairwise(lowest)]
    return not all(drops[-2:])


def never_negative(problem: Problem, neuron: int) -> bool:
    """Whether the weight is non-negative at every point looked at, of boxes of every radius."""
    return min(_minima(problem, neuron)) >= 0.0


@functools.lru_cache(maxsize=64)
def _minima(problem: Problem, neuron: int) -> tuple[float, ...]:
    """The least G over random points of boxes of growing radius, in V, z and e together."""
    rng = np.random.default_rng(11)
    m, k = problem.m, problem.k
    lowest = []
    with jax.enable_x64(True):
        a, b = (jnp.asarray(v) for v in problem.layer)
        for radius in _RADII:
            # Coordinates at every scale up to the radius: the lowest weight may need a small V and a large label.
            box = rng.uniform(-1.0, 1.0, (m + k + 1, _POINTS)) * radius ** rng.uniform(-0.5, 1.0, (m + k + 1, _POINTS))
            box *= rng.random((m + k + 1, _POINTS)) < 0.9
            y = problem.labels(box[m : m + k].T, box[m + k] if problem.link.noisy else np.zeros(_POINTS))
            g = np.asarray(problem.pointwise.block(jnp.asarray(box[:m]), jnp.asarray(y), a, b)[neuron])
            lowest.append(float(np.min(g[~np.isnan(g)], initial=0.0)))
    return tuple(lowest)
