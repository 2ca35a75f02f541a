"""Lowest or highest eigenpairs of a symmetric operator of which only products are known.

Lanczos with full orthogonalisation and thick restarts: with an orthonormal basis V of the search space, the Ritz pairs
(theta, V s) of T = V^T H V have residuals |H V s - theta V s| = |r| |s_last|, where r is the part of the last product
outside the space; when the space is full it shrinks to the best Ritz vectors and r. Every product enlarges the space
by exactly one vector, and convergence is looked at every few products, which is what counts where one product is a
pass over all data. Source: K. Wu and H. Simon, "Thick-restart Lanczos method for large symmetric eigenvalue problems",
SIAM J. Matrix Anal. Appl. 22 (2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bulkedge.foundation.checks import choice, integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status

_LOOK_EVERY, _LOOK_SHARE = 4, 0.1
"""Ritz values are computed after this many products, or this share of the space if that is more."""
_GUARD = 8
"""Ritz vectors kept at a restart beyond those asked for: they carry the next eigenvalues, which decide the rate."""


@dataclass(frozen=True, eq=False)
class Eigenpairs:
    """The answer: values (count,), the asked-for end of the spectrum first; vectors (dimension, count) of unit length.

    residual: |H v - value v| / norm of each pair, formed from one more product each. norm: the largest |Ritz value|,
    which approaches |H| from below. products: how often H was applied. status: NOT_CONVERGED if a residual exceeds
    the tolerance.
    """

    values: np.ndarray
    vectors: np.ndarray
    residual: np.ndarray
    norm: float
    products: int
    status: Status


def eigenpairs(
    product: Callable[[np.ndarray], np.ndarray],
    dimension: int,
    count: int = 1,
    *,
    which: str = "lowest",
    tolerance: float = 1e-4,
    seed: int = 0,
    start: np.ndarray | None = None,
    most_products: int = 1000,
    space: int | None = None,
) -> Eigenpairs:
    """Eigenpairs at one end of the spectrum of a symmetric operator.

    Args:
        product: v (dimension,) -> H v, in any floating dtype.
        dimension: of the space on which H acts.
        count: how many pairs.
        which: "lowest" or "highest" (not the largest in magnitude).
        tolerance: accepted residual |H v - value v| over the norm of H.
        seed: of the random start.
        start: a vector to start from; the random one is added at a tenth of its length, so that an eigenvector
            orthogonal to `start` is not missed.
        most_products: budget of products; a search that exhausts it says so by its status.
        space: vectors kept at once; chosen from `count` and `dimension` if None.
    """
    dimension = integer("dimension", dimension, low=1)
    count = integer("eigenpairs", count, low=1, high=dimension)
    choice("which", which, ("lowest", "highest"))
    tolerance = positive("tolerance", tolerance)
    most_products = integer("most_products", most_products, low=2 * count + 2)
    sign = 1.0 if which == "lowest" else -1.0
    width = min(dimension, max(160, 6 * count + _GUARD) if space is None else integer("space", space, low=count + 2))

    def apply(v: np.ndarray) -> np.ndarray:
        out = np.asarray(product(v), float)
        if out.shape != (dimension,):
            raise BadInput("product", f"must return {dimension} numbers, not shape {out.shape}")
        if not np.all(np.isfinite(out)):
            raise BadInput("product", "must be finite; the operator returned a NaN or an infinity")
        return sign * out

    basis = np.zeros((width, dimension))
    projected = np.zeros((width, width))
    basis[0] = _start(dimension, seed, start)
    rng = np.random.default_rng([seed, 1])
    size, used, look, norm, mix = 0, 0, _LOOK_EVERY, 0.0, np.zeros((0, 0))
    # One product per pair is set aside for the residuals of the answer.
    while used < most_products - count:
        w = apply(basis[size])
        used += 1
        size += 1
        coefficients = basis[:size] @ w
        w -= coefficients @ basis[:size]
        again = basis[:size] @ w
        w -= again @ basis[:size]
        projected[:size, size - 1] = projected[size - 1, :size] = coefficients + again
        beta = float(np.linalg.norm(w))
        last = size == dimension or used == most_products - count
        invariant = beta <= 1e-7 * float(np.max(np.abs(projected[:size, :size]), initial=1e-300))
        if last or size == width or (size >= count and size >= look):
            look = size + max(_LOOK_EVERY, int(_LOOK_SHARE * size))
            values, mix = np.linalg.eigh(projected[:size, :size])
            norm = max(norm, float(np.max(np.abs(values))))
            # Half the tolerance leaves room for the rounding of a float32 product.
            ready = bool(np.all(beta * np.abs(mix[-1, :count]) <= 0.5 * tolerance * norm))
            if last or (ready and not invariant):
                break
            if size == width:
                size = min(count + _GUARD, width - 2)
                look = size + _LOOK_EVERY
                basis[:size] = mix[:, :size].T @ basis
                projected[:] = 0.0
                projected[np.arange(size), np.arange(size)] = values[:size]
        if invariant:
            # The space is invariant: other eigenvectors, of repeated eigenvalues too, need a new direction.
            w = rng.standard_normal(dimension)
            for _ in range(2):
                w -= (basis[:size] @ w) @ basis[:size]
            beta = float(np.linalg.norm(w))
        basis[size] = w / beta
    vectors = (mix[:, :count].T @ basis[: mix.shape[0]]).T
    vectors /= np.linalg.norm(vectors, axis=0)
    images = np.stack([apply(v) for v in vectors.T], axis=1)
    values = np.sum(vectors * images, axis=0)
    residual = np.linalg.norm(images - values * vectors, axis=0) / max(norm, 1e-300)
    status = Status.CONVERGED if np.all(residual <= tolerance) else Status.NOT_CONVERGED
    return Eigenpairs(sign * values, vectors, residual, norm, used + count, status)


def _start(dimension: int, seed: int, start: np.ndarray | None) -> np.ndarray:
    v = np.random.default_rng([seed, 0]).standard_normal(dimension)
    v /= np.linalg.norm(v)
    if start is not None:
        given = np.asarray(start, float)
        if given.shape != (dimension,) or not np.all(np.isfinite(given)) or not np.any(given):
            raise BadInput("start", f"must be {dimension} finite numbers, not all zero")
        v = given / np.linalg.norm(given) + 0.1 * v
        v /= np.linalg.norm(v)
    return v
