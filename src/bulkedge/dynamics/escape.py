"""How an overlap too small to be seen grows: the linear stage of learning a hard direction (theory 1.7).

theta_j(t) = sum_u c_ju(t) e_u over the right directions of the DMFT, so that xi(t) = sqrt(d) U_H^T theta_j(t) is
    xi_j(t) = sum_u c_ju(t) eta_u,   eta_u = sqrt(d) U_H^T e_u in R^r,
and only the eta are to be found. Those of the initial directions are N(0, I). The direction e_v that the left direction
f_v brought satisfies (1/n) X^T f_v = sum_{u < v} E[f_v X_u] e_u - e_v/sqrt(delta); along a hard direction the left
side is, times sqrt(d), a fluctuation omega_v plus the response of f_v to the overlaps so far. With s the hard
coordinates of a sample and X0_u the Gaussian in X_u (X_u itself, or xi_u), that response is E[f_v s s^T X0_u] by
Stein's lemma, and
    eta_v = -sqrt(delta) (sum_{u < v} E[f_v (s s^T - I) X0_u] eta_u + omega_v),
    Cov(omega_v, omega_w) = E[f_v f_w s s^T]/delta.
By the symmetry s -> -s this is exact to leading order, until xi is of order sqrt(d). It is theory 1.7 in the basis of
the DMFT: M(t, .) acts on the history of xi through its coordinates, zeta(t) = sum_v E[F(t) f_v] omega_v, and kinks of
sigma need no delta-function terms. Momentum, weight decay and mini-batches enter through c and f alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bulkedge.dynamics.dmft import Run
from bulkedge.models.directions import directions

_CHUNK = 1 << 14
"""Samples at once."""


@dataclass(frozen=True, eq=False)
class Escape:
    """The law of xi in one replica, through xi(0) ~ N(0, I) and omega ~ N(0, noise), p = K r of them.

    gain: (T + 1, mr, mr) and push: (T + 1, mr, p), xi(t) = gain(t) xi(0) + push(t) omega.
    kick: (T, mr, p), the noise of a step, zeta(t) = kick(t) omega. noise: (p, p).
    covariance: (T + 1, mr, mr), of xi(t). Indices run over neuron x hard direction, the neuron slowest.
    """

    gain: np.ndarray
    push: np.ndarray
    kick: np.ndarray
    noise: np.ndarray
    covariance: np.ndarray


def escape(run: Run) -> Escape:
    """The linear process of one replica."""
    hard = directions(run.problem.link).hard
    m, r, count = run.problem.m, hard.shape[1], run.rank
    response, noise = _averages(run, hard)
    before = np.searchsorted(run.kernels.born, np.arange(count), side="right") - 1
    root = np.sqrt(run.delta)
    # eta as a linear function of xi(0), (m + K, r, m r), and of omega, (m + K, r, K r).
    start, push = np.zeros((m + count, r, m * r)), np.zeros((m + count, r, count * r))
    start[:m] = np.eye(m * r).reshape(m, r, m * r)
    for v in range(count):
        # Directions born at the same step do not act on each other.
        known = m + int(run.kernels.born[before[v]])
        for part in (start, push):
            part[m + v] = -root * np.einsum("uab,ubi->ai", response[v, :known], part[:known])
        push[m + v, :, v * r : (v + 1) * r] -= root * np.eye(r)
    c = run.kernels.c[:, :, run.problem.k :]
    gain, noisy = (np.einsum("tju,uai->tjai", c, part).reshape(len(c), m * r, part.shape[2]) for part in (start, push))
    covariance = gain @ gain.transpose(0, 2, 1) + noisy @ noise @ noisy.transpose(0, 2, 1)
    kick = np.einsum("sjv,ab->sjavb", run.kernels.mix, np.eye(r)).reshape(len(run.kernels.mix), m * r, count * r)
    return Escape(gain, noisy, kick, noise, covariance)


def _averages(run: Run, hard: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E[f_v (s s^T - I) X0_u], (K, m + K, r, r), and E[f_v f_w s s^T]/delta, (K r, K r)."""
    m, k, r, count = run.problem.m, run.problem.k, hard.shape[1], run.rank
    response, noise = np.zeros((r, r, count, m + count)), np.zeros((r, r, count, count))
    size = run.z.shape[1]
    for i in range(0, size, _CHUNK):
        part = slice(i, i + _CHUNK)
        s = hard.T @ run.z[:, part]
        x, f = run.coordinates(part)
        x = x[k:]
        x[m:] += f / np.sqrt(run.delta)
        for a in range(r):
            for b in range(a, r):
                product = s[a] * s[b]
                response[a, b] += (f * (product - (a == b))) @ x.T
                noise[a, b] += (f * product) @ f.T
    for a in range(r):
        for b in range(a):
            response[a, b], noise[a, b] = response[b, a], noise[b, a]
    flat = noise.transpose(2, 0, 3, 1).reshape(count * r, count * r)
    return response.transpose(2, 3, 0, 1) / size, flat / (size * run.delta)
