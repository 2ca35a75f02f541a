"""The law of a scalar Hessian weight together with the latent coordinates of the same sample."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bulkedge.foundation.errors import BadInput


@dataclass(frozen=True, eq=False)
class WeightLaw:
    """Nodes of (G, s) with probabilities: quadrature nodes or samples.

    g: (n,) weights. s: (n, r) hidden coordinates of the same sample. p: (n,) probabilities, None for equal ones.
    infimum, supremum: of the support of G where they are known better than from the nodes.
    moments: (r(r+1)/2, n), E[s_a s_b | node] for a <= b where a node stands for many samples; s_a s_b if not given.
    """

    g: np.ndarray
    s: np.ndarray
    p: np.ndarray | None = None
    infimum: float | None = None
    supremum: float | None = None
    moments: np.ndarray | None = None

    @classmethod
    def of(cls, weights: Any, s: Any = None) -> WeightLaw:
        """The empirical law of a user's own weights (n,) and coordinates (n,) or (n, r)."""
        g = numbers("weights", weights)
        if g.ndim != 1 or g.size < 2:
            raise BadInput("weights", "must be a one-dimensional array of at least two numbers")
        given = np.zeros((g.size, 0)) if s is None else numbers("s", s)
        c = given[:, None] if given.ndim == 1 else given
        if c.ndim != 2 or c.shape[0] != g.size:
            raise BadInput("s", f"must have one row per weight ({g.size}), not shape {given.shape}")
        if not np.any(g):
            raise BadInput("weights", "are all zero")
        return cls(g, c)

    @property
    def r(self) -> int:
        return self.s.shape[1]

    @cached_property
    def low(self) -> float:
        """The infimum of the support of G."""
        return float(self.g.min()) if self.infimum is None else self.infimum

    @cached_property
    def high(self) -> float:
        """The supremum of the support of G."""
        return float(self.g.max()) if self.supremum is None else self.supremum

    @cached_property
    def mirrored(self) -> WeightLaw:
        """The law of -G: its left edge is minus the right edge of G's."""
        return WeightLaw(-self.g, self.s, self.p, -self.high, -self.low, self.moments)

    @cached_property
    def mass_at_zero(self) -> float:
        """P(G = 0)."""
        return float(self.mean(self.g == 0.0))

    def mean(self, values: np.ndarray) -> Any:
        """E[values], the average over the last axis."""
        if self.p is None:
            return np.mean(values, axis=-1)
        # Not a BLAS product: its threads cost more than they give on vectors of this size.
        return np.einsum("...n,n->...", values, self.p)

    @cached_property
    def products(self) -> np.ndarray:
        """E[s_a s_b | node] - delta_ab for a <= b, shape (r(r+1)/2, n)."""
        i, j = np.triu_indices(self.r)
        if self.moments is not None:
            return self.moments - (i == j)[:, None]
        return np.ascontiguousarray((self.s[:, i] * self.s[:, j] - (i == j)).T)

    def tensor(self, values: np.ndarray) -> np.ndarray:
        """E[values (s s^T - I)], shape (r, r)."""
        out = np.zeros((self.r, self.r))
        i, j = np.triu_indices(self.r)
        weighted = values / values.size if self.p is None else values * self.p
        out[i, j] = out[j, i] = np.einsum("cn,n->c", self.products, weighted)
        return out


def numbers(argument: str, values: Any) -> np.ndarray:
    """An array of finite float64 numbers."""
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError):
        raise BadInput(argument, f"must be an array of numbers, not {str(values)[:40]!r}") from None
    if not np.all(np.isfinite(array)):
        raise BadInput(argument, "must be finite")
    return array


def pooled(laws: list[WeightLaw]) -> WeightLaw:
    """The equal mixture of laws of the same kind."""
    if len(laws) == 1:
        return laws[0]
    g = np.concatenate([law.g for law in laws])
    s = np.concatenate([law.s for law in laws])
    p = None
    if any(law.p is not None for law in laws) or len({law.g.size for law in laws}) > 1:
        parts = [np.full(law.g.size, 1 / law.g.size) if law.p is None else law.p for law in laws]
        p = np.concatenate(parts) / len(laws)
    infimum = None if all(law.infimum is None for law in laws) else min(law.low for law in laws)
    supremum = None if all(law.supremum is None for law in laws) else max(law.high for law in laws)
    return WeightLaw(g, s, p, infimum, supremum)
