"""The growth of overlaps too small to be seen (theory 1.7)."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bulkedge as be
from bulkedge.dynamics import dmft, escape

IND = "2*(abs(z) > 0.6744897501960817)"


def variances(problem, delta, steps, paths=1 << 16, count=4):
    kernels = [escape.growth(dmft.solve(problem, delta, steps, paths=paths, seed=(i,))) for i in range(count)]
    v = np.array([escape.propagate(problem, g).covariance for g in kernels])
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


def test_the_first_step_is_a_quadrature():
    """v(1) = (1 - E[F' z^2])^2 + E[F^2 z^2]/delta with F = eta (f - y) sigma'."""
    problem = be.Problem("tanh(z^2)", "erf", step_size=0.7)
    v, error = variances(problem, 3.0, 1)
    rng = np.random.default_rng(0)
    x, z = rng.standard_normal((2, 4_000_000))
    from scipy.special import erf

    slope = 2 / np.sqrt(np.pi) * np.exp(-x * x)
    gap = erf(x) - np.tanh(z * z)
    change = 0.7 * (slope**2 - 2 * x * slope * gap) * z * z
    noise = (0.7 * gap * slope * z) ** 2
    expected = (1 - change.mean()) ** 2 + noise.mean() / 3.0
    sampling = 2 * change.std() / 2000 + noise.std() / 6000
    assert abs(v[1, 0, 0] - expected) < 4 * (error[1, 0, 0] + sampling)


def test_pathwise_and_stein_responses_agree():
    """The same M(t, 0) from E[F(t) s^2 G0], integrated by parts, where the start G0 enters all later times."""
    problem = be.Problem("tanh(z^2)", "gelu", step_size=0.5)
    steps = 3
    runs = [dmft.solve(problem, 3.0, steps, paths=1 << 17, seed=(i,)) for i in range(6)]
    gaps = []
    for run in runs:
        g = escape.growth(run)
        s = run.z[0]
        for t in (0, 1, 2):
            with jax.enable_x64(True):
                factor = problem.pointwise.factor(run.preactivations(t), run.y, *map(jnp.asarray, problem.layer))
            force = problem.step_size * np.asarray(factor)[0]
            stein = np.mean(force * s * s * np.asarray(run.x[1]))
            # dV(s)/dG0 = c(s, 0) for each s <= t.
            pathwise = sum(g.response[t, u, 0, 0] * run.kernels.c[u, 0, 1] for u in range(t + 1))
            gaps.append(stein - pathwise)
    gaps = np.array(gaps).reshape(len(runs), 3)
    assert np.all(np.abs(gaps.mean(axis=0)) < 4 * gaps.std(axis=0, ddof=1) / np.sqrt(len(runs)) + 2e-5)


def test_a_nonlinear_run_from_a_tiny_overlap_grows_as_the_linear_theory_says():
    problem = be.Problem(IND, "gelu", step_size=0.5)
    run = dmft.solve(problem, 30.0, 10, paths=1 << 16, seed=(0,))
    gain = escape.propagate(problem, escape.growth(run)).gain[:, 0, 0]
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
