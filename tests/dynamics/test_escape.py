"""The growth of overlaps too small to be seen (theory 1.7)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

import bulkedge as be
from bulkedge.dynamics import dmft, escape

IND = "2*(abs(z) > 0.6744897501960817)"


def variances(problem, delta, steps, paths=1 << 16, count=4):
    v = np.array(
        [escape.escape(dmft.solve(problem, delta, steps, paths=paths, seed=(i,))).covariance for i in range(count)]
    )
    return v.mean(axis=0), v.std(axis=0, ddof=1) / np.sqrt(count)


@pytest.mark.parametrize(
    ("target", "loss", "delta", "expected"),
    [
        (IND, "squared", 10.0, {5: (4.11, 0.13), 10: (9.28, 0.30), 20: (18.1, 0.6)}),  # simulated, d = 800, 1800 seeds
        ("z^2", "pseudo-huber", 4.0, {5: (3.7, 0.74), 10: (9.2, 1.84), 20: (22.5, 4.5)}),  # 40 seeds
    ],
)
def test_hidden_variance_matches_simulation(target, loss, delta, expected):
    v, error = variances(be.Problem(target, "gelu", loss=loss, step_size=0.5), delta, 20)
    for t, (value, spread) in expected.items():
        assert abs(v[t, 0, 0] - value) < 4.0 * np.hypot(spread, error[t, 0, 0])


def erf_neuron(x):
    from scipy.special import erf

    slope = 2 / np.sqrt(np.pi) * np.exp(-x * x)
    return erf(x), slope, -2 * x * slope


def relu_neuron(x):
    return np.maximum(x, 0.0), np.heaviside(x, 0.5), np.zeros_like(x)


@pytest.mark.parametrize(("activation", "neuron", "kink"), [("erf", erf_neuron, 0.0), ("relu", relu_neuron, 1.0)])
def test_the_first_step_pathwise_with_its_delta_term(activation, neuron, kink):
    """v(1) = (1 - E[F' z^2])^2 + E[F^2 z^2]/delta, F = eta (f - y) sigma'; a jump of sigma' at 0 adds
    -eta phi(0) E[y z^2] to E[F' z^2].
    """
    v, error = variances(be.Problem("tanh(z^2)", activation, step_size=0.7), 3.0, 1)
    x, z = np.random.default_rng(0).standard_normal((2, 4_000_000))
    value, slope, bend = neuron(x)
    gap = value - np.tanh(z * z)
    change = 0.7 * (slope**2 + bend * gap) * z * z - 0.7 * kink / np.sqrt(2 * np.pi) * np.tanh(z * z) * z * z
    noise = (0.7 * gap * slope * z) ** 2
    expected = (1 - change.mean()) ** 2 + noise.mean() / 3.0
    sampling = 2 * change.std() / 2000 + noise.std() / 6000
    assert abs(v[1, 0, 0] - expected) < 4 * (error[1, 0, 0] + sampling)


def test_the_second_step_pathwise():
    """xi(2) = xi(1) - M(1,0) xi(0) - M(1,1) xi(1) - zeta(1), with the responses of a smooth neuron by differentiation.

    V(1) = W(1) - F(V(0))/delta, so that F(1) responds to a field on W(0) as -F'(1) F'(0)/delta and on W(1) as F'(1).
    """
    problem, delta, eta = be.Problem("tanh(z^2)", "gelu", step_size=0.5), 3.0, 0.5
    v, error = variances(problem, delta, 2, paths=1 << 17)
    rng = np.random.default_rng(1)
    x, xi, z = rng.standard_normal((3, 4_000_000))

    def force(x):
        cdf, density = ndtr(x), np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
        gap, slope, bend = x * cdf - np.tanh(z * z), cdf + x * density, (2 - x * x) * density
        return eta * gap * slope, eta * (slope**2 + gap * bend)

    f0, d0 = force(x)
    c01, noise = 1 - np.mean(f0 * x), np.sqrt(np.mean(f0**2) / delta)
    f1, d1 = force(c01 * x + noise * xi - f0 / delta)
    m00, m11, m10 = np.mean(d0 * z * z), np.mean(d1 * z * z), -np.mean(d1 * d0 * z * z) / delta
    q = np.array([[np.mean(f * g * z * z) for g in (f0, f1)] for f in (f0, f1)]) / delta
    gain, push = (1 - m11) * (1 - m00) - m10, np.array([-(1 - m11), -1.0])
    expected = gain**2 + push @ q @ push
    assert abs(v[2, 0, 0] - expected) < 4 * error[2, 0, 0] + 4e-3


def test_a_kinked_neuron_against_simulation():
    problem = be.Problem(IND, "relu", step_size=0.5)
    v, error = variances(problem, 10.0, 6)
    simulated = be.simulate(problem, 10.0, 600, 6, seeds=400, data="lazy")
    gap = np.abs(v[:, 0, 0] - simulated.hidden_variance)
    # A variance from 400 runs is known to 7 percent; 10/d of it is finite-size drift.
    assert np.all(gap < 4 * np.hypot(simulated.stderr["hidden_variance"], error[:, 0, 0]) + 10 / 600 * v[:, 0, 0])


def test_a_nonlinear_run_from_a_tiny_overlap_grows_as_the_linear_theory_says():
    problem = be.Problem(IND, "gelu", step_size=0.5)
    run = dmft.solve(problem, 30.0, 10, paths=1 << 16, seed=(0,))
    gain = escape.escape(run).gain[:, 0, 0]
    tiny = dmft.solve(problem, 30.0, 10, paths=1 << 17, seed=(0,), overlap=np.array([[1e-4]]))
    np.testing.assert_allclose(tiny.overlap[:, 0, 0] / 1e-4, gain, rtol=0.02)


def test_several_neurons_have_a_covariance():
    problem = be.Problem("tanh(z^2)", be.Network("gelu", 2, (1.0, -1.0)), step_size=1.0)
    v, error = variances(problem, 5.0, 4, paths=1 << 14)
    assert v.shape == (5, 2, 2)
    np.testing.assert_allclose(v[0], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(v, v.transpose(0, 2, 1), atol=1e-9)
    simulated = be.simulate(problem, 5.0, 200, 4, seeds=300)
    spread = simulated.stderr["hidden_variance"][4]
    # At d = 200 there is a finite-size part of a few over d.
    assert np.all(np.abs(v[4] - simulated.hidden_variance[4]) < 4 * np.hypot(spread, error[4]) + 10 / 200 * v[4, 0, 0])


def test_no_step_and_a_divergence_at_the_first_one():
    few = be.Numerics(paths=512, replicas=2)
    still = be.trajectory(be.Problem("z^2", "gelu"), 3.0, 0, numerics=few)
    assert still.hidden_variance == pytest.approx([1.0])
    lost = be.trajectory(be.Problem("z^2", "quad", step_size=1e6), 3.0, 4, numerics=few)
    assert lost.diverged_at == 1
    assert np.isnan(lost.hidden_variance[1:]).all()
