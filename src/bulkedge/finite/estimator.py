"""The conventions of scikit-learn for the estimators here, without needing it: parameters are set by the constructor
and kept unchanged, `fit` returns the estimator, and what it learned has names that end with an underscore.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian.lazy import LazyGaussian
from bulkedge.spectra.law import numbers


class Estimator:
    """Parameters by name, so that `sklearn.base.clone` and searches over parameters work."""

    @classmethod
    def _names(cls) -> list[str]:
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters of the constructor."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters of the constructor."""
        for name, value in params.items():
            if name not in self._names():
                raise BadInput(name, f"is no parameter of {type(self).__name__}: {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn wants to know; only it asks, so it is there."""
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True, one_d_labels=True),
            transformer_tags=TransformerTags() if hasattr(self, "transform") else None,
            input_tags=InputTags(),
        )

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.get_params().items())})"


@dataclass(frozen=True, eq=False)
class Data:
    """n samples in d dimensions as products: forward (.., d) -> (.., n), v X^T; backward (.., n) -> (.., d), v X."""

    n: int
    d: int
    labels: np.ndarray
    forward: Callable[[np.ndarray], np.ndarray]
    backward: Callable[[np.ndarray], np.ndarray]


def products(X: Any, y: Any) -> Data:
    """Of samples X (n, d), used in their own floating precision, or of a `LazyGaussian`, with labels y (n,)."""
    if isinstance(X, LazyGaussian):
        return Data(X.n, X.d, labels(y, X.n), X.times, X.transposed_times)
    matrix = np.asarray(X)
    if matrix.ndim != 2 or matrix.size == 0:
        raise BadInput("X", f"must have shape (samples, features), not {matrix.shape}")
    if matrix.dtype not in (np.float32, np.float64):
        matrix = numbers("X", matrix)
    if not np.all(np.isfinite(matrix)):
        raise BadInput("X", "must be finite")

    def forward(v: np.ndarray) -> np.ndarray:
        return (matrix @ v.T.astype(matrix.dtype)).T

    def backward(v: np.ndarray) -> np.ndarray:
        # Not X.T @ v: a row vector on the left reads X as it lies in memory.
        return v.astype(matrix.dtype) @ matrix

    n, d = matrix.shape
    return Data(n, d, labels(y, n), forward, backward)


def labels(y: Any, n: int) -> np.ndarray:
    """One finite number a sample."""
    found = numbers("y", y)
    if found.shape != (n,):
        raise BadInput("y", f"must hold one label a sample ({n}), not shape {found.shape}")
    return found
