"""The law of a label and what it says of the hard coordinates: (y, E[s s^T | y]) with s = U_H^T V_*."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.gaussian import quadrature
from bulkedge.models.directions import directions
from bulkedge.models.target import Target

MOST_NODES = 3_000_000
_BINS = 1500
_DISCRETE = 64


@dataclass(frozen=True, eq=False)
class LabelLaw:
    """Nodes of y with probabilities p and moments E[s_a s_b | y], a <= b, shape (r(r+1)/2, n).

    discrete: y takes only these values. exact: every node is one value of y, or one latent point; otherwise nodes are
    bins that keep mass, mean of y and moments.
    """

    y: np.ndarray
    p: np.ndarray
    moments: np.ndarray
    discrete: bool
    exact: bool


@functools.lru_cache(maxsize=32)
def label_law(link: Target, refinement: float = 1.0) -> LabelLaw | None:
    """By quadrature over (z, e), split at the kinks and jumps of h; None where that needs too many nodes.

    refinement: below 1 for coarser panels and bins, to estimate the error.
    """
    k, noise = link.latent_dim, int(link.noisy)
    unit = jnp.zeros(())
    width = {1: 0.75, 2: 0.25, 3: 1.8}.get(k + noise)
    if width is None:
        return None

    def label(point: jax.Array) -> jax.Array:
        return link(point[:k], point[k] if noise else unit)

    found = quadrature.tensor_nodes(label, k + noise, width / refinement, limit=MOST_NODES)
    if found is None:
        return None
    point, p = found
    with jax.enable_x64(True):
        y = np.asarray(jax.jit(jax.vmap(label))(jnp.asarray(point)))
    s = point[:, :k] @ directions(link).hard
    i, j = np.triu_indices(s.shape[1])
    moments = (s[:, i] * s[:, j]).T
    values = np.unique(np.round(y, 12))
    if values.size <= _DISCRETE:
        return _binned(y, p, moments, np.searchsorted(values, np.round(y, 12)), discrete=True)
    if k + noise == 1:
        return LabelLaw(y, p, moments, False, True)
    return _binned(y, p, moments, _bins(y, p, int(_BINS * refinement)), discrete=False)


def _bins(y: np.ndarray, p: np.ndarray, count: int) -> np.ndarray:
    """Labels of bins: of equal mass where mass is, of equal width in the tails."""
    order = np.argsort(y)
    level = np.empty(y.size)
    level[order] = np.cumsum(p[order])
    spread = (y - y.min()) / np.ptp(y)
    return np.floor((0.5 * level + 0.5 * spread) * (count - 1)).astype(int)


def _binned(y: np.ndarray, p: np.ndarray, moments: np.ndarray, label: np.ndarray, *, discrete: bool) -> LabelLaw:
    mass = np.bincount(label, p)
    keep = mass > 0
    sums = [np.bincount(label, p * values)[keep] / mass[keep] for values in (y, *moments)]
    return LabelLaw(sums[0], mass[keep], np.array(sums[1:]).reshape(len(moments), -1), discrete, discrete)
