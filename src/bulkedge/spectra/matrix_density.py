"""The density of the bulk of the md x md Hessian: tr Im alpha(x + i0)/(pi m) (theory 1.6).

Above the real axis the solution of alpha = (-z I + E[G (I + alpha G/delta)^{-1}])^{-1} with positive definite imaginary
part is unique, so that a small residual there certifies it. Source: Helton, Rashidi Far and Speicher (2007).
"""

from __future__ import annotations

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.spectra.matrix import left_edge, right_edge
from bulkedge.spectra.matrix_law import MatrixLaw

_HEIGHT = 1e-6  # of the evaluation above the axis, in units of the bulk's width


def stieltjes(
    law: MatrixLaw, delta: float, z: complex, start: np.ndarray | None = None, tolerance: float = 1e-10
) -> tuple[np.ndarray, float]:
    """alpha(z), shape (m, m), for Im z > 0, and its residual; the residual is infinite where it is not certified.

    Newton's method from `start` if that works; else down from high above the axis, where the fixed point contracts.
    """
    if not z.imag > 0:
        raise BadInput("z", "must lie above the real axis")
    if start is not None:
        alpha, residual = _settle(law, delta, z, start, tolerance, attempts=12)
        if residual <= tolerance:
            return alpha, residual
    size = 4.0 * (law.size * (1.0 + 1.0 / np.sqrt(delta)) ** 2 + abs(z))
    height = max(size, z.imag)
    alpha = -np.eye(law.m) / (z.real + 1j * height)
    while True:
        alpha, residual = _settle(law, delta, z.real + 1j * height, alpha, tolerance, attempts=300)
        if height <= z.imag:
            break
        height = max(z.imag, height / 8.0)
    return alpha, residual if residual <= tolerance else np.inf


def _settle(
    law: MatrixLaw, delta: float, z: complex, alpha: np.ndarray, tolerance: float, attempts: int
) -> tuple[np.ndarray, float]:
    m = law.m
    residual = np.inf
    for attempt in range(attempts):
        mean, gram = _moments(law, delta, alpha)
        fixed = np.linalg.inv(mean - z * np.eye(m))
        gap = fixed - alpha
        residual = float(np.abs(gap).max() / np.abs(alpha).max())
        if residual <= 0.01 * tolerance:
            break
        # d fixed = fixed E[M d M] fixed/delta
        slope = np.einsum("ia,ablk,lj->ijbk", fixed, gram.reshape(m, m, m, m), fixed).reshape(m * m, m * m) / delta
        newton = alpha + np.linalg.solve(np.eye(m * m) - slope, gap.ravel()).reshape(m, m)
        newton = 0.5 * (newton + newton.T)
        near = np.abs(newton - alpha).max() < 0.5 * np.abs(alpha).max()
        inside = near and np.linalg.eigvalsh(newton.imag)[0] > 0
        # The averaged fixed point stays in the half plane wherever Newton's step leaves it.
        alpha = newton if inside and attempt % 8 != 7 else 0.5 * (alpha + fixed)
    return alpha, residual


def _moments(law: MatrixLaw, delta: float, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[M], shape (m, m), and E[M_ab M_kl] as [a, b, l, k]: M = (I + G alpha/delta)^{-1} G."""
    m = law.m
    mean, gram = np.zeros(m * m, complex), np.zeros((m * m, m * m), complex)
    for part, p in law.chunks():
        g = law.g[part]
        if m == 1:
            solved = g / (1.0 + g * (alpha / delta))
        else:
            solved = np.linalg.solve(np.eye(m) + g @ (alpha / delta), g.astype(complex))
        flat = solved.reshape(-1, m * m)
        weighted = flat * p[:, None]
        mean += weighted.sum(axis=0)
        gram += weighted.T @ flat
    return mean.reshape(m, m), gram.reshape(m, m, m, m).transpose(0, 1, 3, 2)


def atom(law: MatrixLaw, delta: float) -> float:
    """The mass of the spectrum at zero: the rank of H is at most n E[rank G]; neurons that G leaves alone have none."""
    touched = np.any(law.g != 0.0, axis=(0, 2))
    active = int(touched.sum())
    g = law.g[:, touched][:, :, touched]
    p = np.full(len(g), 1.0 / len(g)) if law.p is None else law.p
    rank = float(p @ np.any(g != 0.0, axis=(1, 2)))  # at least 1 wherever G is not zero
    if delta * rank < active:
        rank = float(p @ np.linalg.matrix_rank(g, hermitian=True))
    return (law.m - active + max(0.0, active - delta * rank)) / law.m


def density(
    law: MatrixLaw, delta: float, points: int = 200, nodes: int = 1000
) -> tuple[np.ndarray, np.ndarray, Status, float]:
    """(x, density) of the absolutely continuous part, the status, and what its integral misses of 1 - atom.

    The law is represented by `nodes` equally likely samples. Points crowd at the edges; intervals where the
    trapezoidal rule is not accurate are halved.
    """
    small = law.represented(nodes)
    low, high = left_edge(small, delta).value, right_edge(small, delta).value
    height = _HEIGHT * (high - low)
    hole = atom(law, delta)
    worst = 0.0

    def values(x: np.ndarray) -> np.ndarray:
        nonlocal worst
        out, alpha = np.empty(x.size), None
        for i, at in enumerate(x):
            alpha, residual = stieltjes(small, delta, complex(at, height), alpha)
            worst = max(worst, residual)
            out[i] = np.trace(alpha).imag / (np.pi * law.m)
        # The Lorentzian of the atom is not part of the density.
        return np.maximum(out - hole * height / (np.pi * (x * x + height * height)), 0.0)

    x = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(np.linspace(0.0, np.pi, max(points // 2, 9)))
    y = values(x)
    todo = np.arange(x.size - 1)
    for _ in range(12):
        middle = 0.5 * (x[todo] + x[todo + 1])
        ym = values(middle)
        whole = 0.5 * (y[todo] + y[todo + 1])
        coarse = np.abs(0.5 * (whole + ym) - whole) * (x[todo + 1] - x[todo]) > 1e-3 / points
        todo, middle, ym = todo[coarse], middle[coarse], ym[coarse]
        if todo.size == 0:
            break
        x, y = np.insert(x, todo + 1, middle), np.insert(y, todo + 1, ym)
        left = todo + np.arange(todo.size)
        todo = np.sort(np.concatenate([left, left + 1]))
    missing = 1.0 - hole - float(np.sum(0.5 * (y[1:] + y[:-1]) * np.diff(x)))
    return x, y, Status.CONVERGED if np.isfinite(worst) else Status.NOT_CONVERGED, missing
