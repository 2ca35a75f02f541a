"""The limiting spectrum of D = (1/n) sum_i T(y_i) x_i x_i^T for any function T of the label (theory 02, 2a).

D has the form of a Hessian with the weights G = T(y) and all latent coordinates as its hidden ones, and G depends on
nothing else: `bulk` and `outliers` apply as they are. (In the notation of the spectral literature, psi_delta(a) and
R(a) are -psi(alpha) and -Phi(alpha) of G = -T at a = delta/alpha.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bulkedge.foundation.answers import Spectrum
from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian.conditional import levels
from bulkedge.learnability.hessians import limiting_spectrum
from bulkedge.learnability.preprocessing import Preprocessing, conditional, second_moments
from bulkedge.models import latent
from bulkedge.models.target import Target
from bulkedge.spectra.law import WeightLaw, numbers

_LABELS = 9
"""Base-2 logarithm of the labels in a replica whose conditional moments are computed one by one."""


def label_spectrum(link: Target, weights: Callable[[np.ndarray], Any], delta: float, *, points: int = 400) -> Spectrum:
    """Bulk, edges and outliers of D; overlap2 of an outlier is with the span of all latent directions."""
    laws = label_laws(link, weights)
    return Spectrum(delta=delta, time=None, **limiting_spectrum(laws, mixture(laws), delta, points, []))


def label_laws(link: Target, weights: Callable[[np.ndarray], Any]) -> list[WeightLaw]:
    """Replicas of the law of (T(y), z): one, by quadrature, for a single noiseless direction.

    Where the conditional moments of z given y are known, the nodes are labels and carry them; else they are points z.
    """
    k = link.latent_dim
    exact = conditional(link) is not None
    nodes = latent.nodes(link, _LABELS) if exact and k + int(link.noisy) > 1 else latent.nodes(link)
    level, atoms = levels(nodes.y)
    if k + int(link.noisy) == 1:
        used = nodes.p[-1] > 0
        z = nodes.z[-1][used]
        return [WeightLaw(_weights(weights, nodes.y[-1][used]), z, nodes.p[-1][used])]
    if atoms.size and not np.any(level < 0):
        return [_of_atoms(*parts, atoms, weights) for parts in zip(level, nodes.z, nodes.p, strict=True)]
    if not exact:
        g = _weights(weights, nodes.y.ravel()).reshape(nodes.y.shape)
        return [WeightLaw(*parts) for parts in zip(g, nodes.z, nodes.p, strict=True)]
    i, j = np.triu_indices(k)
    second = second_moments(link, nodes.y.ravel())
    moments = second[:, i, j].reshape(*nodes.y.shape, i.size)
    # The optimal T is a function of these moments: they are not computed twice.
    if isinstance(weights, Preprocessing) and weights.link == link:
        g = weights.of(second).reshape(nodes.y.shape)
    else:
        g = _weights(weights, nodes.y.ravel()).reshape(nodes.y.shape)
    return [WeightLaw(g[r], nodes.z[r], nodes.p[r], moments=moments[r].T) for r in range(len(g))]


def _of_atoms(
    level: np.ndarray, z: np.ndarray, p: np.ndarray, atoms: np.ndarray, weights: Callable[[np.ndarray], Any]
) -> WeightLaw:
    """Few labels: one node each."""
    i, j = np.triu_indices(z.shape[1])
    mass = np.bincount(level, p, atoms.size)
    products = (z[:, i] * z[:, j]).T
    moments = np.array([np.bincount(level, p * v, atoms.size) for v in products]) / np.maximum(mass, 1e-300)
    return WeightLaw(_weights(weights, atoms), np.zeros((atoms.size, z.shape[1])), mass, moments=moments)


def _weights(function: Callable[[np.ndarray], Any], y: np.ndarray) -> np.ndarray:
    g = numbers("preprocessing", function(y))
    if g.shape != y.shape:
        raise BadInput("preprocessing", f"must return one weight a label ({y.size}), not shape {g.shape}")
    return g


def mixture(laws: list[WeightLaw]) -> WeightLaw:
    """The equal mixture of replicas."""
    if len(laws) == 1:
        return laws[0]
    moments = None if laws[0].moments is None else np.concatenate([np.asarray(w.moments) for w in laws], axis=1)
    p = np.concatenate([np.full(w.g.size, 1.0 / w.g.size) if w.p is None else w.p for w in laws]) / len(laws)
    return WeightLaw(np.concatenate([w.g for w in laws]), np.concatenate([w.s for w in laws]), p, moments=moments)
