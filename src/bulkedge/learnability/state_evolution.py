"""State evolution of Bayes-optimal approximate message passing: the overlap matrix M of its estimate (theory 02, 2a).

    M <- G(delta E[g g^T]),   G(X) = (I + X)^{-1} X,   g = V^{-1}(E[z | y, w] - w),   V = I - M,
where z ~ N(w, V) given what is known, w ~ N(0, M). Labels are drawn once: z ~ N(0, I), y = h(z, e) and then
w = M z + (M (I - M))^{1/2} zeta have this law for every M, so that level sets are found once and all iterations share
their random numbers. Source: Aubin et al. (2018); Troiani et al. (2025).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import integer, number, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import Numerics
from bulkedge.foundation.recovery import StateEvolution
from bulkedge.foundation.status import Status
from bulkedge.gaussian import quadrature
from bulkedge.gaussian.cloud import cloud
from bulkedge.gaussian.posterior import Given, posterior
from bulkedge.models.target import Target, target

ACCURACY = Numerics(paths=2048, replicas=4)
_FULL = 1e-5
"""Uncertainty I - M below which recovery counts as full and the iteration ends."""


@dataclass(frozen=True, eq=False)
class _Replica:
    """Points (z, zeta) (N, k) with probabilities (N,), and the likelihood of their labels."""

    z: np.ndarray
    zeta: np.ndarray
    p: np.ndarray
    given: Given

    def information(self, overlap: np.ndarray) -> np.ndarray:
        """E[g g^T] at an overlap matrix."""
        k = len(overlap)
        v = np.eye(k) - overlap
        value, basis = np.linalg.eigh(overlap @ v)
        spread = (basis * np.sqrt(np.maximum(value, 0.0))) @ basis.T
        shift = self.given.shift(self.z @ overlap + self.zeta @ spread, v)
        g = shift @ np.linalg.inv(v)
        return np.einsum("n,na,nb->ab", self.p, g, g)


@over_arrays("delta")
def state_evolution(
    given: Any,
    delta: float,
    *,
    start: Any = 1e-3,
    iterations: int = 200,
    tolerance: float = 1e-6,
    latent_dim: int | None = None,
    numerics: Numerics = ACCURACY,
) -> StateEvolution:
    """Overlap of Bayes-optimal AMP after each iteration, from the overlap `start`.

    given: the target. start: M at t = 0, a number (times the identity) or a matrix: small for an algorithm that knows
    nothing, near 1 for the best that could be known. Stops where M changes by less than `tolerance` (relative to
    its size), after `iterations`, or at full recovery.
    """
    link = target(given, latent_dim)
    delta = positive("delta", delta)
    steps = integer("iterations", iterations, low=1, high=100_000)
    tolerance = positive("tolerance", tolerance)
    replicas = _replicas(link, numerics)
    paths = [[start_matrix(start, link.latent_dim)] for _ in replicas]
    change = np.inf
    for _ in range(steps):
        for path, replica in zip(paths, replicas, strict=True):
            path.append(_step(replica, path[-1], delta))
        last, new = (np.mean([path[i] for path in paths], axis=0) for i in (-2, -1))
        change = float(np.linalg.norm(new - last) / max(np.linalg.norm(new), 1e-12))
        if change < tolerance or np.linalg.eigvalsh(np.eye(len(new)) - new)[-1] < 2 * _FULL:
            break
        if np.linalg.norm(new) < 1e-9:  # it decays geometrically: nothing is recovered
            change = 0.0
            break
    stack = np.array(paths)
    overlap, r = stack.mean(axis=0), len(stack)
    stderr = stack.std(axis=0, ddof=1) / np.sqrt(r) if r > 1 else np.zeros(overlap.shape)
    if link.latent_dim == 1:
        overlap, stderr = overlap[:, 0, 0], stderr[:, 0, 0]
    full = float(np.min(np.linalg.eigvalsh(np.atleast_2d(overlap[-1])))) > 1.0 - 3 * _FULL
    return StateEvolution(
        target=link.name,
        delta=delta,
        time=np.arange(len(overlap)),
        overlap=overlap,
        stderr=stderr,
        fixed_point=overlap[-1].tolist(),
        residual=change,
        numerics=numerics.to_dict(),
        status=Status.CONVERGED if change < tolerance or full else Status.NOT_CONVERGED,
    )


def start_matrix(start: Any, k: int) -> np.ndarray:
    """An overlap matrix: symmetric, with eigenvalues in [0, 1)."""
    m = number("start", start) * np.eye(k) if np.ndim(start) == 0 else np.asarray(start, float)
    if m.shape != (k, k) or not np.allclose(m, m.T):
        raise BadInput("start", f"must be a number or a symmetric {k} x {k} matrix")
    value = np.linalg.eigvalsh(m)
    if value[0] < 0 or value[-1] >= 1:
        raise BadInput("start", "must have eigenvalues of at least 0 and below 1")
    return m


def _step(replica: _Replica, overlap: np.ndarray, delta: float) -> np.ndarray:
    k = len(overlap)
    known = delta * replica.information(overlap)
    # Never quite full: the uncertainty must stay invertible.
    value, basis = np.linalg.eigh(np.linalg.solve(np.eye(k) + known, known))
    return (basis * np.clip(value, 0.0, 1.0 - _FULL)) @ basis.T


@functools.lru_cache(maxsize=4)
def _replicas(link: Target, numerics: Numerics) -> list[_Replica]:
    """Quasi-random points in several scramblings; one quadrature rule for a single noiseless direction."""
    k = link.latent_dim
    law = posterior(link)
    if k == 1 and not link.noisy:
        splits = quadrature.one_dimensional_splits(lambda z: link.call(z[None], jnp.zeros(())))
        (z, p), (zeta, q) = quadrature.nodes(splits, 0.3, 8), quadrature.nodes((), 3.0, 12)
        near, close = p > 1e-17, q > 1e-14
        z, p, zeta, q = z[near, None], p[near], zeta[close], q[close]
        y = np.repeat(law.label(z, np.zeros(len(z))), zeta.size)
        both = np.repeat(z, zeta.size, axis=0), np.tile(zeta, len(z))[:, None]
        return [_Replica(*both, np.multiply.outer(p, q).ravel(), law.given(y))]
    noise = int(link.noisy)
    log2 = max(6, round(np.log2(numerics.paths)))
    found = cloud(2 * k + noise, log2, numerics.replicas, numerics.seed)
    out = []
    for x, p in zip(found.points, found.p, strict=True):
        z, zeta = x[:, :k], x[:, k : 2 * k]
        y = law.label(z, x[:, -1] if noise else np.zeros(len(z)))
        out.append(_Replica(z, zeta, p, law.given(y)))
    return out
