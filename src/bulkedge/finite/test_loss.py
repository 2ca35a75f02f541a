"""The test loss of given weights, without a test set.

A fresh sample enters only through V = Theta x in R^m and V_* = Theta_*^T x in R^k, which are jointly Gaussian with
Cov(V) = Theta Theta^T, Cov(V, V_*) = M (the overlaps), Cov(V_*) = I: the test loss is an expectation over
m + k dimensions, V = M z + L xi with L L^T = Theta Theta^T - M M^T, plus the noise of the label.
One neuron, one direction, no noise: quadrature, split where the link is not smooth. Otherwise four independent
scramblings of a Sobol sequence, 2^14 points each, whose spread is the error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from bulkedge.gaussian.quadrature import nodes, split_nodes
from bulkedge.models.problem import Problem

_REPLICAS, _POINTS = 4, 14
_SMOOTH_WIDTH = 1.5
"""Panel width along V given V_*, where a smooth activation has no feature narrower than that."""


class TestLoss:
    """E l(y, f(x)) on a fresh sample, for a problem."""

    __test__ = False  # not a test case, whatever its name suggests to a test runner

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        with jax.enable_x64(True):
            z, e, xi, p = _rule(problem)
            # Labels do not depend on the weights: once for all times and seeds.
            y = problem.labels(z.reshape(-1, problem.k), e.ravel()).reshape(e.shape)
            self._fixed = tuple(jnp.asarray(v) for v in (np.moveaxis(z, -1, 1), y, np.moveaxis(xi, -1, 1), p))
            self._layer = tuple(jnp.asarray(v) for v in problem.layer)
            self._mean = _mean_risk(problem.pointwise.risk)

    def __call__(self, gram: np.ndarray, overlap: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (T,) and standard errors (T,) for gram (T, m, m) and overlap (T, m, k); NaN where they are NaN."""
        value, error = np.full(len(gram), np.nan), np.full(len(gram), np.nan)
        with jax.enable_x64(True):
            for t in np.flatnonzero(np.isfinite(gram).all(axis=(1, 2))):
                rest, basis = np.linalg.eigh(gram[t] - overlap[t] @ overlap[t].T)
                root = basis * np.sqrt(np.maximum(rest, 0.0))
                means = np.asarray(self._mean(*self._fixed, jnp.asarray(overlap[t]), jnp.asarray(root), *self._layer))
                value[t] = means.mean()
                error[t] = means.std(ddof=1) / np.sqrt(means.size) if means.size > 1 else 0.0
        return value, error


def _rule(problem: Problem) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Nodes z (R, N, k), e (R, N), xi (R, N, m) and probabilities (N,), for R independent repetitions."""
    m, k = problem.m, problem.k
    if m == 1 and k == 1 and not problem.link.noisy:
        z, pz = split_nodes(lambda z: problem.link.call(z[None], jnp.zeros(())), order=8)
        xi, px = nodes(width=_SMOOTH_WIDTH if problem.network.kink is None else 0.25, order=8)
        zz, xx = (v.ravel() for v in np.meshgrid(z, xi, indexing="ij"))
        return zz[None, :, None], np.zeros((1, zz.size)), xx[None, :, None], np.outer(pz, px).ravel()
    size = k + 1 + m
    points = [
        qmc.Sobol(size, scramble=True, rng=np.random.default_rng(r)).random_base2(_POINTS) for r in range(_REPLICAS)
    ]
    g = ndtri(np.clip(np.stack(points), 1e-12, 1 - 1e-12))
    return g[..., :k], g[..., k], g[..., k + 1 :], np.full(1 << _POINTS, 0.5**_POINTS)


@functools.lru_cache(maxsize=64)
def _mean_risk(risk: Callable[..., Any]) -> Callable[..., Any]:
    @jax.jit
    def mean(z: Any, y: Any, xi: Any, p: Any, overlap: Any, root: Any, a: Any, b: Any) -> Any:
        """The weighted mean loss of each repetition, (R,)."""
        one = lambda z, y, xi: jnp.sum(p * risk(overlap @ z + root @ xi, y, a, b))  # noqa: E731
        return jax.lax.map(lambda part: one(*part), (z, y, xi))

    return mean
