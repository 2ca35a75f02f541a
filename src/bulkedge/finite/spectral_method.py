"""The spectral method on data: eigenvectors of D = (1/n) sum_i T(y_i) x_i x_i^T, by products alone (theory 02, 2a)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from bulkedge.finite.estimator import Estimator, products
from bulkedge.foundation.checks import choice, integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.spectra.eigenpairs import eigenpairs
from bulkedge.spectra.law import numbers


class SpectralMethod(Estimator):
    """Directions on which labels depend, from the eigenvectors of D = (1/n) sum_i T(y_i) x_i x_i^T.

    Args:
        preprocessing: T, labels (n,) -> weights (n,); `bulkedge.preprocessing(target, delta)` is the best one.
        n_components: how many directions.
        which: "highest" or "lowest" eigenvalues.
        tol: accepted residual |D v - value v| over the norm of D.
        max_products: budget of products with D.
        random_state: seed of the search.

    Attributes:
        components_: (n_components, d) unit eigenvectors, the end of the spectrum first; each up to its sign.
        eigenvalues_: (n_components,).
        residual_: (n_components,) |D v - value v|/|D|.
        n_products_: how often D was applied.
        n_features_in_: d.
    """

    def __init__(
        self,
        preprocessing: Callable[[np.ndarray], Any],
        n_components: int = 1,
        which: str = "highest",
        tol: float = 1e-5,
        max_products: int = 3000,
        random_state: int = 0,
    ) -> None:
        self.preprocessing = preprocessing
        self.n_components = n_components
        self.which = which
        self.tol = tol
        self.max_products = max_products
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Find the directions. X: (n, d) standard Gaussian samples, or a `LazyGaussian` (whose labels you formed)."""
        if not callable(self.preprocessing):
            raise BadInput("preprocessing", "must be a function of the labels")
        data = products(X, y)
        n, d = data.n, data.d
        weights = numbers("preprocessing", self.preprocessing(data.labels))
        if weights.shape != (n,):
            raise BadInput("preprocessing", f"must return one weight a label ({n}), not shape {weights.shape}")
        if not np.any(weights):
            raise BadInput("preprocessing", "vanishes at every label")
        found = eigenpairs(
            lambda v: np.asarray(data.backward(weights * data.forward(v)), float) / n,
            d,
            integer("n_components", self.n_components, low=1, high=d),
            which=choice("which", self.which, ("highest", "lowest")),
            tolerance=positive("tol", self.tol),
            seed=integer("random_state", self.random_state, low=0),
            most_products=self.max_products,
        )
        self.components_ = found.vectors.T
        self.eigenvalues_ = found.values
        self.residual_ = found.residual
        self.n_products_ = found.products
        self.status_ = found.status
        self.n_features_in_ = d
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Coordinates of samples along the directions found, (n, n_components)."""
        matrix = numbers("X", X)
        if matrix.ndim != 2 or matrix.shape[1] != self.components_.shape[1]:
            raise BadInput("X", f"must have {self.components_.shape[1]} features, as in `fit`")
        return matrix @ self.components_.T
