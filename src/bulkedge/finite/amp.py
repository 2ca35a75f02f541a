"""Bayes-optimal approximate message passing on data (theory 02, 2a).

With A = X/sqrt(d), the estimate B (d, k) of sqrt(d) Theta_*, its uncertainty V (k, k), and
g(y, w, V) = V^{-1}(E[z | y] - w) for z ~ N(w, V):
    Omega = A B - G V,         G_i = g(y_i, Omega_i, V),        L = (1/d) sum_i G_i G_i^T,
    B <- (A^T G + B L)(I + L)^{-1},   V <- (I + L)^{-1}.
In the limit L is also the mean response -(1/d) sum_i dg_i/dw. That one has heavy tails (its off-diagonal entries for
z1 z2, say) and need not be positive; and to take it in one of the two places of L only is unstable at finite size: AMP
then grows overconfident and loses what it has found. With L in both it follows its state evolution.
Source: Rangan (2011); Aubin et al. (2018); Troiani et al. (2025).
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from bulkedge.finite.estimator import Data, Estimator, products
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.gaussian.posterior import Given, posterior
from bulkedge.models.target import target
from bulkedge.spectra.law import numbers

_FULL = 1e-5
_KNOWS = 0.3
_FAINT = 0.3
"""Length of a random start times d^(1/2): noise and signal both grow, their ratio from 1/d on, and the start must be
short enough for the iteration to stay linear until the signal leads."""


class AMP(Estimator):
    """The hidden directions of a known link, from standard Gaussian samples.

    Args:
        target: the link, as everywhere: an expression, a name, or a callable (z, e) -> y.
        latent_dim: number of directions, where the target does not say.
        max_iter: most iterations.
        tol: relative change of the estimate below which they stop.
        start: (k, d) a first estimate, whose rows are as long as it is sure of itself: an estimate that has overlap q
            with a true direction (of unit length) has squared length q. Random and faint if None.
        random_state: seed of random starts.
        restarts: how often a random start is tried anew where AMP has lost itself: at finite size it may come to
            believe in an overlap I - V that its estimate, of squared length B^T B/d, no longer has.

    Attributes:
        components_: (k, d) posterior means of the directions (unit vectors), up to symmetries of the link.
        overlap_: (k, k) what AMP believes their overlap with the true ones to be, I - V.
        path_: (n_iter_ + 1, k, k) the same at each iteration.
        n_iter_: iterations made, of the last start. n_starts_: starts made.
        status_: converged, not converged, or diverged (also if every start was lost).
        n_features_in_: d.
    """

    def __init__(
        self,
        target: Any,
        latent_dim: int | None = None,
        max_iter: int = 200,
        tol: float = 1e-5,
        start: Any = None,
        random_state: int = 0,
        restarts: int = 4,
    ) -> None:
        self.target = target
        self.latent_dim = latent_dim
        self.max_iter = max_iter
        self.tol = tol
        self.start = start
        self.random_state = random_state
        self.restarts = restarts

    def fit(self, X: Any, y: Any, *, truth: np.ndarray | None = None) -> Self:
        """Estimate the directions.

        truth: (k, d); if given, `overlaps_` (n_iter_ + 1, k, k), components x truth, is kept.
        """
        link = target(self.target, self.latent_dim)
        k = link.latent_dim
        data = products(X, y)
        steps, tol = integer("max_iter", self.max_iter, low=1), positive("tol", self.tol)
        given = posterior(link).given(data.labels)
        d, scale = data.d, 1.0 / np.sqrt(data.d)
        most = 1 if self.start is not None else 1 + integer("restarts", self.restarts, low=0)
        self.n_starts_, lost = 0, True
        b, v, path, overlaps = np.zeros((d, k)), np.eye(k), [], []
        while lost and self.n_starts_ < most:
            b, v, path, overlaps = self._iterate(data, given, self._first(k, d, self.n_starts_), steps, tol, truth)
            self.n_starts_ += 1
            lost = _lost(b, v)
        if lost:
            self.status_ = Status.DIVERGED
        self.components_ = scale * b.T
        self.overlap_, self.path_ = np.eye(k) - v, np.array(path)
        self.n_iter_, self.n_features_in_ = len(path) - 1, d
        if truth is not None:
            self.overlaps_ = np.array(overlaps)
        return self

    def _iterate(
        self,
        data: Data,
        given: Given,
        first: tuple[np.ndarray, np.ndarray],
        steps: int,
        tol: float,
        truth: np.ndarray | None,
    ) -> tuple[np.ndarray, np.ndarray, list[np.ndarray], list[np.ndarray]]:
        """From (B, V): the last B and V, I - V and the overlaps after each iteration; sets the status."""
        (b, v), k, d = first, len(first[1]), data.d
        scale = 1.0 / np.sqrt(d)
        g = np.zeros((data.n, k))
        path, overlaps = [np.eye(k) - v], [_against(b, truth)]
        self.status_ = Status.NOT_CONVERGED
        for _ in range(steps):
            omega = scale * data.forward(b.T).T - g @ v
            g = given.shift(omega, v) @ np.linalg.inv(v)
            gained = g.T @ g / d
            new_v = np.linalg.inv(np.eye(k) + gained)
            new = (scale * data.backward(g.T).T + b @ gained) @ new_v
            if not np.all(np.isfinite(new)):
                self.status_ = Status.DIVERGED
                break
            change = np.linalg.norm(new - b) / max(np.linalg.norm(new), 1e-300)
            b, v = new, _floored(new_v)
            path.append(np.eye(k) - v)
            overlaps.append(_against(b, truth))
            if self.start is None and _lost(b, v):
                break
            if change < tol or np.linalg.eigvalsh(v)[-1] <= 2 * _FULL:
                self.status_ = Status.CONVERGED
                break
        return b, v, path, overlaps

    def _first(self, k: int, d: int, attempt: int) -> tuple[np.ndarray, np.ndarray]:
        """(B, V) to begin with."""
        if self.start is None:
            rng = np.random.default_rng([integer("random_state", self.random_state, low=0), attempt])
            return _FAINT / np.sqrt(d) * rng.standard_normal((d, k)), np.eye(k)
        rows = numbers("start", self.start)
        if rows.shape != (k, d):
            raise BadInput("start", f"must have shape ({k}, {d}), not {rows.shape}")
        known = rows @ rows.T
        if np.linalg.eigvalsh(known)[-1] >= 1:
            raise BadInput("start", "must have rows shorter than 1: their squared length is the overlap they claim")
        return np.sqrt(d) * rows.T, np.eye(k) - known


def _lost(b: np.ndarray, v: np.ndarray) -> bool:
    """Whether the estimate has much less length than what it is believed to know."""
    believed, held = len(v) - float(np.trace(v)), float(np.sum(b * b)) / len(b)
    return believed > _KNOWS * len(v) and held < 0.5 * believed


def _floored(v: np.ndarray) -> np.ndarray:
    value, basis = np.linalg.eigh(0.5 * (v + v.T))
    return (basis * np.maximum(value, _FULL)) @ basis.T


def _against(b: np.ndarray, truth: np.ndarray | None) -> np.ndarray:
    """Overlaps of the unit-normalised estimate with the truth, (k, k)."""
    k = b.shape[1]
    return np.zeros((k, k)) if truth is None else b.T @ truth.T / np.sqrt(len(b))
