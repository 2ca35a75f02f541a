"""The density of the bulk for inputs with a covariance (see `separable`), from the equation above the real axis.

beta(z) is the fixed point, in the upper half plane, of the self-map beta -> E_tau[tau/(kappa(beta) tau - z)]/delta. It
is unique: Im beta > 0 and a small residual are the certificate. It is reached from far above the axis by continuation,
with Newton steps and, where one leaves the half plane, averaged steps of the map itself.
"""

from __future__ import annotations

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.spectra import bulk, separable
from bulkedge.spectra.law import WeightLaw
from bulkedge.spectra.separable import Population

_HEIGHT = 1e-7
"""Of the points above the axis, over the width of the bulk."""
_TOLERANCE = 1e-10
_CHUNK = 2_000_000


def stieltjes(law: WeightLaw, population: Population, delta: float, z: np.ndarray) -> bulk.Stieltjes:
    """The Stieltjes transform tr (H - z)^{-1}/d for Im z > 0."""
    z = np.atleast_1d(np.asarray(z, np.complex128))
    real, imag = np.real(z), np.imag(z)
    if np.any(imag <= 0):
        raise BadInput("z", "must lie above the real axis")
    scale = max(abs(law.low), abs(law.high)) * float(population.tau.max()) * (1.0 + delta**-0.5) ** 2 + np.abs(z)
    height = np.maximum(imag, 4.0 * scale)
    beta = -population.mean(population.tau) / (delta * (real + 1j * height))
    while True:
        here = real + 1j * height
        beta, residual = _settle(law, population, delta, here, beta)
        if np.all(height <= imag):
            break
        height = np.maximum(imag, height / 8.0)
    kappa = _kappa(law, beta)[0]
    alpha = (1.0 / (kappa[:, None] * population.tau - z[:, None])) @ population.mass
    return bulk.Stieltjes(alpha, (residual <= _TOLERANCE) & (np.imag(beta) > 0) & (np.imag(alpha) > 0), residual)


def _kappa(law: WeightLaw, beta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[G/(1 + beta G)] and its derivative."""
    value, slope = np.empty_like(beta), np.empty_like(beta)
    step = max(1, _CHUNK // law.g.size)
    for i in range(0, beta.size, step):
        part = slice(i, i + step)
        m = law.g / (1.0 + beta[part, None] * law.g)
        value[part], slope[part] = law.mean(m), -law.mean(m * m)
    return value, slope


def _settle(
    law: WeightLaw, population: Population, delta: float, z: np.ndarray, beta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Solve at z from a nearby beta; the residual is relative to |beta|."""
    beta, residual = beta.copy(), np.full(beta.shape, np.inf)
    todo, tau, w = np.arange(beta.size), population.tau, population.mass * population.tau
    for attempt in range(400):
        b = beta[todo]
        kappa, slope = _kappa(law, b)
        v = 1.0 / (kappa[:, None] * tau - z[todo, None])
        image, change = (v @ w) / delta, -slope * ((v * v) @ (w * tau)) / delta
        gap = image - b
        residual[todo] = np.abs(gap / b)
        newton = b - gap / (change - 1.0)
        good = (newton.imag > 0) & (np.abs(newton - b) < 0.5 * np.abs(b)) & np.isfinite(newton)
        good &= attempt % 8 != 7
        ready = residual[todo] <= 0.01 * _TOLERANCE
        beta[todo] = np.where(ready, b, np.where(good, newton, 0.5 * (b + image)))
        todo = todo[~ready]
        if todo.size == 0:
            break
    return beta, residual


def density(
    law: WeightLaw, population: Population, delta: float, points: int = 400, nodes: int = 1000
) -> tuple[np.ndarray, np.ndarray, Status, float]:
    """(x, mu(x)) between the edges, the status, and what its integral misses of 1 - atom.

    Points crowd at both edges; intervals are halved where the trapezoidal rule is not yet exact to 1e-4 in all.
    """
    left, right = (edge(law, population, delta).value for edge in (separable.left_edge, separable.right_edge))
    small = bulk.compress(law, nodes)
    width = max(right - left, 1e-300)
    sound = True

    def mu(x: np.ndarray) -> np.ndarray:
        nonlocal sound
        found = stieltjes(small, population, delta, x + 1j * height)
        sound = sound and found.status is Status.CONVERGED
        # Above the axis the atom at zero is a narrow peak.
        peak = hole * height / (x * x + height * height)
        return np.maximum(np.imag(found.alpha) - peak, 0.0) / np.pi

    hole, height = bulk.atom(law, delta), _HEIGHT * width
    x = left + width * (0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, points)))
    y = mu(x)
    todo = np.arange(x.size - 1)
    for _ in range(24):
        middle = 0.5 * (x[todo] + x[todo + 1])
        ym = mu(middle)
        whole = (y[todo] + y[todo + 1]) * (x[todo + 1] - x[todo])
        halves = (y[todo] + ym) * (middle - x[todo]) + (ym + y[todo + 1]) * (x[todo + 1] - middle)
        coarse = np.abs(halves - whole) > 1e-4 / points
        todo, middle, ym = todo[coarse], middle[coarse], ym[coarse]
        if todo.size == 0:
            break
        x, y = np.insert(x, todo + 1, middle), np.insert(y, todo + 1, ym)
        after = todo + np.arange(todo.size)
        todo = np.sort(np.concatenate([after, after + 1]))
    missing = 1.0 - hole - float(np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)))
    return x, y, Status.CONVERGED if sound else Status.NOT_CONVERGED, missing
