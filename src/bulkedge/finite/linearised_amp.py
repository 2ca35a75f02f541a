"""The two matrices of linearised AMP on data, by products alone (see `bulkedge.learnability.linearised`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse.linalg

from bulkedge.finite.estimator import Data
from bulkedge.spectra.eigenpairs import eigenpairs

_ARPACK: Any = scipy.sparse.linalg  # its stubs know neither LinearOperator's matvec nor what eigs returns
_LEAST = 1e-3
"""Eigenvalues of E[z z^T | y] below this are taken for it: T = I - E[z z^T | y]^{-1} would have no bound."""


@dataclass(frozen=True, eq=False)
class Pair:
    """values: those of largest real part. estimate: (d, k), of the first one. converged: whether all of them are."""

    values: Any
    estimate: np.ndarray
    converged: bool


def asymmetric(data: Data, second: np.ndarray, count: int, seed: int = 0, most: int = 3000) -> Pair:
    """Eigenvalues of omega -> (A A^T - I)(omega_i E_i), E = second - I (n, k, k); the estimate is A^T (omega_i E_i)."""
    n, d, k = data.n, data.d, second.shape[1]
    e = second - np.eye(k)

    def weighted(omega: np.ndarray) -> np.ndarray:
        return np.einsum("na,nab->nb", omega.reshape(n, k), e)

    def step(omega: np.ndarray) -> np.ndarray:
        g = weighted(omega)
        back = np.asarray(data.backward(np.ascontiguousarray(g.T)), float)
        return (np.asarray(data.forward(back), float).T / d - g).ravel()

    start = np.random.default_rng(seed).standard_normal(n * k)
    operator = _ARPACK.LinearOperator((n * k, n * k), matvec=step, dtype=float)
    try:
        value, vector = _ARPACK.eigs(
            operator, count, which="LR", v0=start, ncv=max(40, 4 * count), tol=1e-6, maxiter=most
        )
        converged = True
    except scipy.sparse.linalg.ArpackNoConvergence as error:
        value, vector, converged = error.eigenvalues, error.eigenvectors, False
    order = np.argsort(-value.real, kind="stable")
    value, vector = value[order], vector[:, order]
    if not value.size:
        return Pair(np.full(count, np.nan), np.zeros((d, k)), False)
    leading = vector[:, 0].real if np.linalg.norm(vector[:, 0].real) > 1e-6 else vector[:, 0].imag
    estimate = np.asarray(data.backward(np.ascontiguousarray(weighted(leading).T)), float).T
    return Pair(value, estimate, converged)


def symmetric(data: Data, second: np.ndarray, seed: int = 0) -> Pair:
    """Top eigenvalue of b -> A^T ((A b)_i T_i), T = I - second^{-1}, on (d, k)."""
    d, k = data.d, second.shape[1]
    value, basis = np.linalg.eigh(second)
    t = np.einsum("nab,nb,ncb->nac", basis, 1.0 - 1.0 / np.maximum(value, _LEAST), basis)

    def product(v: np.ndarray) -> np.ndarray:
        omega = np.asarray(data.forward(np.ascontiguousarray(v.reshape(d, k).T)), float).T
        g = np.einsum("na,nab->nb", omega, t)
        return np.asarray(data.backward(np.ascontiguousarray(g.T)), float).T.ravel() / d

    found = eigenpairs(product, d * k, 1, which="highest", tolerance=1e-6, seed=seed, most_products=3000)
    return Pair(found.values.astype(complex), found.vectors[:, 0].reshape(d, k), str(found.status) == "converged")
