"""The covariance of the inputs, x ~ N(0, Sigma), as seen from a target's directions.

The latent variables are standardised, z_a = theta_a . x / sqrt(theta_a . Sigma theta_a), so that the law of the labels
does not depend on Sigma. The network starts, as ever, on the unit sphere: V = theta(0) . x ~ N(0, tr Sigma/d).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bulkedge.foundation.checks import positive
from bulkedge.foundation.errors import BadInput

_INDEPENDENT = 1e-6


@dataclass(frozen=True, eq=False)
class Covariance:
    """A spectrum, and where in it the target's directions lie.

    eigenvalues: (p,) of Sigma, positive. masses: (p,), the share of the d dimensions that each has; equal by default.
    target: (p,), spectral weights of theta_*: the squared length of its part in each eigenspace. (k, p) for k
    directions that are orthogonal within every eigenspace; one row means the same weights for all. Default: theta_* is
    a generic direction, and the weights are the masses. Masses and weights are normalised to sum to one.
    """

    eigenvalues: Any
    masses: Any = None
    target: Any = None
    tau: np.ndarray = field(init=False, repr=False)
    mass: np.ndarray = field(init=False, repr=False)
    given: np.ndarray | None = field(init=False, repr=False)
    """Whitened spectral measures (p, k, k) where they are known as matrices, or (1 or k, p) weights of theta_*."""

    def __post_init__(self) -> None:
        tau = _numbers("eigenvalues", self.eigenvalues)
        if tau.ndim != 1 or tau.size == 0 or np.any(tau <= 0):
            raise BadInput("eigenvalues", "must be positive numbers; leave out directions in which inputs do not vary")
        mass = np.ones(tau.size) if self.masses is None else _numbers("masses", self.masses)
        target = None if self.target is None else np.atleast_2d(_numbers("target", self.target))
        for name, values in (("masses", mass[None]), ("target", target)):
            if values is None:
                continue
            if values.ndim != 2 or values.shape[1] != tau.size or np.any(values < 0) or np.any(values.sum(axis=1) <= 0):
                raise BadInput(
                    name, f"must be {tau.size} numbers, one for each eigenvalue, none negative, not all zero"
                )
        if np.any(mass <= 0):
            raise BadInput("masses", "must be positive; leave out eigenvalues without mass")
        object.__setattr__(self, "tau", tau)
        object.__setattr__(self, "mass", mass / mass.sum())
        object.__setattr__(self, "given", None if target is None else target / target.sum(axis=1, keepdims=True))

    @classmethod
    def of(cls, matrix: Any, directions: Any = None) -> Covariance:
        """Of a matrix Sigma (d, d), and directions (d,) or (d, k), uncorrelated: theta_a . Sigma theta_b = 0."""
        sigma = _numbers("matrix", matrix)
        if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1] or not np.allclose(sigma, sigma.T, atol=1e-10):
            raise BadInput("matrix", "must be square and symmetric")
        tau, basis = np.linalg.eigh(sigma)
        if tau[0] <= 0:
            raise BadInput("matrix", f"must be positive definite; its least eigenvalue is {tau[0]:.3g}")
        out = cls(tau)
        if directions is None:
            return out
        theta = _numbers("directions", directions)
        theta = theta[:, None] if theta.ndim == 1 else theta
        if theta.ndim != 2 or len(theta) != len(sigma):
            raise BadInput("directions", f"must have {len(sigma)} rows, one for each dimension")
        white = np.sqrt(tau)[:, None] * (basis.T @ theta)
        size = np.linalg.norm(white, axis=0)
        if np.any(size == 0):
            raise BadInput("directions", "must not be zero")
        white = white / size
        if np.max(np.abs(white.T @ white - np.eye(theta.shape[1]))) > _INDEPENDENT:
            raise BadInput(
                "directions", "must be uncorrelated under Sigma, so that the latent variables are independent"
            )
        object.__setattr__(out, "given", white[:, :, None] * white[:, None, :])
        return out

    @classmethod
    def power_law(cls, exponent: float, points: int, target: Any = None) -> Covariance:
        """Eigenvalues i^(-exponent), i = 1..points, scaled to mean one (tr Sigma = d)."""
        tau = np.arange(1, points + 1.0) ** -positive("exponent", exponent)
        return cls(tau / tau.mean(), None, target)

    @property
    def variance(self) -> float:
        """The variance tr Sigma/d of V at the start."""
        return float(self.mass @ self.tau)

    def measure(self, k: int) -> np.ndarray:
        """Spectral measure (p, k, k) of the whitened directions Sigma^(1/2) theta_a / |.|; its sum is the identity."""
        weights = self.mass[None] if self.given is None else self.given
        if weights.ndim == 3:
            if weights.shape[1] != k:
                raise BadInput("covariance", f"describes {weights.shape[1]} directions, but the target has {k}")
            return weights
        if len(weights) not in (1, k):
            raise BadInput("covariance", f"has spectral weights of {len(weights)} directions, but the target has {k}")
        rows = np.broadcast_to(weights, (k, self.tau.size)) * self.tau
        rows = rows / rows.sum(axis=1, keepdims=True)
        return rows.T[:, :, None] * np.eye(k)

    def to_dict(self) -> dict[str, Any]:
        return {"eigenvalues": self.tau.tolist(), "masses": self.mass.tolist(), "target": _listed(self.given)}


def _listed(values: np.ndarray | None) -> Any:
    return None if values is None else values.tolist()


def _numbers(argument: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values, float)
    except (TypeError, ValueError):
        raise BadInput(argument, "must be an array of numbers") from None
    if not np.all(np.isfinite(array)):
        raise BadInput(argument, "must be finite")
    return array
