"""Bayes-AMP linearised where it knows nothing (theory 02, 2a): spectra of its two matrices in the limit.

With E_i = E[z z^T | y_i] - I and A = X/sqrt(d), one step of AMP multiplies omega (n, k) by the matrix
    omega <- (A A^T - I)(omega_i E_i)_i,
not symmetric, n k x n k. On estimates a (k, k) of the directions it acts as delta F, F(a) = E[E a E]: outliers are
delta times the eigenvalues of F, and the bulk fills the disk of radius sqrt(delta |F|) = sqrt(delta/delta_alg). A fixed
point b (d, k) of the step solves b = A^T (A b)_i T_i with T = E (I + E)^{-1}: the symmetric d k x d k matrix on the
right has an eigenvalue at 1 above delta_alg where all E(y) commute. Source: Defilippis et al. (2025).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.learnability.preprocessing import conditional, second_moments
from bulkedge.learnability.second_moments import second_moments as moments_of
from bulkedge.models import latent
from bulkedge.models.directions import directions
from bulkedge.models.target import Target

_LABELS = 64
_COMMUTES = {True: 1e-6, False: 0.05}
"""Of |[E, E']| over |E| |E'|, for conditional moments that are exact, or interpolated."""


@dataclass(frozen=True)
class Linearised:
    """rates: eigenvalues of F, by size; largest_stderr: of the largest. commute: whether all E(y) do.

    third: E[E(y)^3] for one direction, else None.
    """

    rates: tuple[float, ...]
    largest_stderr: float
    commute: bool
    third: float | None

    def outliers(self, delta: float) -> list[float]:
        """Eigenvalues outside the disk, the largest first."""
        return [delta * r for r in self.rates if delta * abs(r) > self.radius(delta)]

    def radius(self, delta: float) -> float:
        """Of the bulk's disk."""
        return float(np.sqrt(delta * self.rates[0]))

    def overlap2(self, delta: float) -> float | None:
        """Squared overlap of the outlier's estimate A^T (omega_i E_i)_i with the truth, for one direction.

        Its noise tau m^2 has tau (1 - 1/(delta nu)) = (nu + E[E^3])/(delta nu^2), nu = F: overlap2 = 1/(1 + tau).
        """
        if self.third is None:
            return None
        nu = self.rates[0]
        return max(0.0, (delta * nu - 1.0) / (delta * nu + self.third / nu))


def linearised(link: Target) -> Linearised:
    """Refused where AMP does not begin at zero: for links with easy directions."""
    found = directions(link)
    if found.easy.shape[1]:
        raise BadInput("target", "has easy directions: AMP finds them at once and is not linear at zero")
    k = link.latent_dim
    moments = moments_of(link, np.zeros((k, 0)), np.eye(k))

    def rates(t: np.ndarray) -> np.ndarray:
        f = t.transpose(0, 3, 1, 2).reshape(k * k, k * k)
        value = np.linalg.eigvalsh(0.5 * (f + f.T))
        return value[np.argsort(-np.abs(value), kind="stable")]

    _, error = moments.estimate(lambda t: float(rates(t)[0]))
    values = rates(moments.mean)
    if values[0] <= max(5.0 * error, 1e-9):
        raise BadInput("target", "has no second-order statistic of (y, z): the linearised AMP is zero")
    nodes = latent.nodes(link)
    y, p = nodes.y[-1], nodes.p[-1]
    each = second_moments(link, y[np.argsort(p)[-_LABELS:]]) - np.eye(k)
    commutator = each[:, None] @ each[None] - each[None] @ each[:, None]
    size = np.linalg.norm(each, axis=(1, 2))
    share = np.linalg.norm(commutator, axis=(2, 3)) / np.maximum(size[:, None] * size[None], 1e-12)
    commute = bool(share.max() < _COMMUTES[conditional(link) is not None])
    third = None
    if k == 1:
        used = p > 0
        third = float(np.sum(p[used] * (second_moments(link, y[used])[:, 0, 0] - 1.0) ** 3))
    return Linearised(tuple(values.tolist()), error, commute, third)
