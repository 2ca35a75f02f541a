"""The law of the m x m weights of the whole Hessian, with the hidden coordinates of the same samples (theory 1.6)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.spectra.law import numbers

_CHUNK = 1 << 17  # numbers held at once


@dataclass(frozen=True, eq=False)
class MatrixLaw:
    """Nodes of (G, s): g (n, m, m) symmetric weights, s (n, r) hidden coordinates, p (n,) probabilities or None.

    alike: a label for each neuron; the law does not change when neurons with the same label change places. None: all
    differ. What is averaged over the nodes is then averaged over these exchanges too, which the nodes themselves need
    not respect.
    """

    g: np.ndarray
    s: np.ndarray
    p: np.ndarray | None = None
    alike: tuple[int, ...] | None = None

    @classmethod
    def of(cls, weights: Any, s: Any = None) -> MatrixLaw:
        """The empirical law of a user's own weights (n, m, m) and coordinates (n,) or (n, r)."""
        g = numbers("weights", weights)
        if g.ndim != 3 or g.shape[1] != g.shape[2] or len(g) < 2:
            raise BadInput("weights", f"must have shape (n, m, m) with n at least 2, not {g.shape}")
        if np.abs(g - g.transpose(0, 2, 1)).max() > 1e-9 * np.abs(g).max():
            raise BadInput("weights", "must be symmetric matrices")
        if not np.any(g):
            raise BadInput("weights", "are all zero")
        given = np.zeros((len(g), 0)) if s is None else numbers("s", s)
        c = given[:, None] if given.ndim == 1 else given
        if c.ndim != 2 or len(c) != len(g):
            raise BadInput("s", f"must have one row per weight ({len(g)}), not shape {given.shape}")
        return cls(g, c)

    @property
    def m(self) -> int:
        return self.g.shape[1]

    @property
    def r(self) -> int:
        return self.s.shape[1]

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal symmetric matrices, (c, m, m), that span those which commute with exchanges of alike neurons."""
        labels = range(self.m) if self.alike is None else self.alike
        kinds: dict[tuple[int, int, bool], np.ndarray] = {}
        for i, a in enumerate(labels):
            for j, b in enumerate(labels):
                key = (min(a, b), max(a, b), i == j)
                kinds.setdefault(key, np.zeros((self.m, self.m)))[i, j] = 1.0
        return np.stack([kind / np.linalg.norm(kind) for kind in kinds.values()])

    def invariant(self, matrix: np.ndarray) -> np.ndarray:
        """The average of m x m matrices (m, m, ...) over exchanges of alike neurons, and its symmetric part."""
        return np.einsum("cij,cab,ab...->ij...", self.basis, self.basis, matrix, optimize=True)

    @cached_property
    def size(self) -> float:
        """A bound on |G|: the largest Frobenius norm."""
        return float(np.sqrt(np.einsum("nij,nij->n", self.g, self.g).max()))

    @cached_property
    def mirrored(self) -> MatrixLaw:
        """The law of -G: its left edge is minus the right edge of G's."""
        return MatrixLaw(-self.g, self.s, self.p, self.alike)

    def chunks(self) -> list[tuple[slice, np.ndarray]]:
        """Slices of the samples with their probabilities."""
        n, step = len(self.g), max(64, _CHUNK // self.m**2)
        p = np.full(n, 1.0 / n) if self.p is None else self.p
        return [(slice(i, i + step), p[i : i + step]) for i in range(0, n, step)]

    def represented(self, nodes: int) -> MatrixLaw:
        """At most `nodes` equally likely samples, without s: every so many in the order of their trace."""
        if len(self.g) <= nodes:
            return MatrixLaw(self.g, self.s[:, :0], self.p, self.alike)
        order = np.argsort(np.trace(self.g, axis1=1, axis2=2))
        p = np.full(len(order), 1.0 / len(order)) if self.p is None else self.p[order]
        at = np.searchsorted(np.cumsum(p), (np.arange(nodes) + 0.5) / nodes * p.sum())
        return MatrixLaw(self.g[order[np.minimum(at, len(order) - 1)]], np.zeros((nodes, 0)), alike=self.alike)
