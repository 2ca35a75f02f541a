"""Kinked activations: the Stein form of every response, which the DMFT uses, against the pathwise form with its delta
functions, at t <= 1 (theory 1.5).
"""

import numpy as np
import pytest
from scipy.special import ndtr

import bulkedge as be
from bulkedge.dynamics import dmft

ETA, DELTA = 0.7, 3.0
SLOPES = {"relu": (0.0, 1.0), "leaky-relu": (0.01, 1.0), "abs": (-1.0, 1.0)}


def density(x):
    return np.exp(-0.5 * x * x) / np.sqrt(2 * np.pi)


def stein(activation, count=6):
    """R_l(0, 0), R_l(1, 0), R_l(1, 1) = E[F W^T] C_W^{-1}/eta, from what the DMFT projects its gradients on."""
    found = []
    for seed in range(count):
        problem = be.Problem("tanh(z^2)", activation, step_size=ETA)
        run = dmft.solve(problem, DELTA, 2, paths=1 << 16, seed=(seed,))
        c, mix = run.kernels.c[:, 0, 1:3], run.kernels.mix[:, 0, 0]
        pull = -np.diff(c, axis=0)  # E[F(t) X_u]
        pull[1, 1] += mix[1] / np.sqrt(DELTA)  # E[F(1) xi]: X_u = xi - f/sqrt(delta)
        w = c[1]  # W(1) = w_0 X_0 + w_1 xi
        with_w = np.array([pull[1, 0], w @ pull[1]])
        covariance = np.array([[1.0, w[0]], [w[0], w @ w]])
        found.append([pull[0, 0], *np.linalg.solve(covariance, with_w)])
    found = np.array(found) / ETA
    return found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(count)


def pathwise(activation, delta_term, count=4_000_000):
    """The same by differentiation along paths V(1) = W(1) - F(0)/delta, F = eta (f - y) f' with f = |v| or so.

    f' jumps at v = 0, where f = 0: F jumps by -eta y J there, a delta function of its argument in dF. A jump of F(0) at
    W(0) = 0 moves V(1) by a finite amount, so that there F(1) changes by a difference and not by a derivative.
    """
    low, high = SLOPES[activation]
    rng = np.random.default_rng(1)
    w0, g, z = rng.standard_normal((3, count))
    y = np.tanh(z * z)

    def force(v):
        slope = np.where(v > 0, high, low)
        return ETA * (slope * v - y) * slope, ETA * slope**2

    f0, d0 = force(w0)
    jump = -ETA * y * (high - low)
    r00 = d0 + delta_term * density(0.0) * jump
    c01, spread = 1 - np.mean(f0 * w0), np.sqrt(np.mean(f0 * f0) / DELTA)
    w1 = c01 * w0 + spread * g
    _, d1 = force(w1 - f0 / DELTA)
    # The density of V(1) at 0 given W(0) and the label.
    at_zero = density((f0 / DELTA - c01 * w0) / spread) / spread
    r11 = d1 + delta_term * jump * at_zero
    r10 = -(d1 + 0.0) * d0 / DELTA - delta_term * jump * at_zero * d0 / DELTA
    sides = [force(spread * g + ETA * y * slope / DELTA)[0] for slope in (high, low)]
    r10 = r10 + delta_term * density(0.0) * (sides[0] - sides[1])
    each = np.array([r00, r10, r11]) / ETA
    return each.mean(axis=1), each.std(axis=1) / np.sqrt(count)


@pytest.mark.parametrize("activation", list(SLOPES))
def test_stein_and_pathwise_with_its_delta_term_agree(activation):
    (a, ea), (b, eb) = stein(activation), pathwise(activation, 1.0)
    # Sampling W(1) from its own kernels costs the pathwise route a little more: c01 and the spread are estimates.
    assert np.all(np.abs(a - b) < 4 * np.hypot(ea, eb) + 5e-4), (a, b, ea, eb)
    without, _ = pathwise(activation, 0.0, 400_000)
    assert np.all(np.abs(a - without)[[0, 2]] > 0.05)


def test_two_relus_at_the_start():
    """R1's remark: delta R_l(0, 0) is .511 on the diagonal, and would be .750 without the delta function."""
    problem = be.Problem("tanh(z1 + he3(z2))", be.Network("relu", 2, (2**0.5, -(2**0.5))), step_size=0.6)
    run = dmft.solve(problem, 3.0, 1, paths=1 << 17, seed=(0,))
    response = (run.kernels.c[0] - run.kernels.c[1])[:, 2:4] / 0.6
    assert 3 * np.diag(response) == pytest.approx([0.511, 0.511], abs=2e-3)
    # Off the diagonal there is no kink: (1/m^2) a_0 a_1 E[sigma'_0 sigma'_1] = -2/16.
    assert response[0, 1] == pytest.approx(-0.125, abs=2e-3)


def test_a_kinked_link_has_its_overlap_in_closed_form():
    """sign(z): E[F V_*] at t = 0 is -(eta) E|z| E[sigma'], with no derivative of the link anywhere."""
    problem = be.Problem("sign(z)", "relu", step_size=0.4)
    first = be.trajectory(problem, 3.0, 1, numerics=be.Numerics(paths=8192, replicas=2)).overlap[1]
    assert first == pytest.approx(0.4 * np.sqrt(2 / np.pi) * ndtr(0.0), abs=1e-4)
