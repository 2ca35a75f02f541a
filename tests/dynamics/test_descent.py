"""Descent and Hessian products, stored and lazy, against plain NumPy and automatic differentiation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bulkedge.dynamics.descent import descend, initial
from bulkedge.dynamics.lazy_data import LazyData
from bulkedge.dynamics.stored_data import StoredData
from bulkedge.foundation.errors import BadInput
from bulkedge.models import Network, Problem
from bulkedge.spectra.eigenpairs import eigenpairs

D, N = 30, 90
WIDE = Network("gelu", second_layer=[1.0, -0.7, 2.0], bias=[0.1, 0.0, -0.4])


def problem(**changes):
    given = {"target": "z1 + z2^2 + 0.3*e", "network": WIDE, "loss": "pseudo-huber", "step_size": 0.7}
    return Problem(**{**given, **changes})


def stored(p, n=N, d=D, key=(1, 2)):
    return StoredData.drawn(p, n, d, key)


def lazy(p, n=N, d=D, key=(1, 2)):
    return LazyData(p, n, d, key, steps=40, hessian="full")


def risk(p, x, y, theta):
    """The mean loss from its definition, traceable in theta (m, d)."""
    a, b = p.layer
    f = jnp.mean(a * jax.vmap(jax.vmap(p.network.sigma))(x @ theta.T + b), axis=1)
    return jnp.mean(jax.vmap(p.loss_function)(y, f))


def exact(data):
    return np.asarray(data.matrix(), float), np.asarray(data.labels, float)


def weights(p, seed=5):
    return initial(p, D, (seed,))


@pytest.mark.parametrize("make", [stored, lazy])
@pytest.mark.parametrize("network", [WIDE, Network("tanh"), Network("relu", second_layer=[1.0, -1.0])])
def test_gradient_is_that_of_the_risk(make, network):
    p = problem(network=network)
    data, theta = make(p), weights(p)
    slope, loss = data.gradient(theta, 0)
    x, y = exact(data)
    with jax.enable_x64(True):
        value, expected = jax.value_and_grad(lambda w: risk(p, x, y, w))(jnp.asarray(theta))
    np.testing.assert_allclose(slope, expected, atol=2e-6)
    assert loss == pytest.approx(float(value), rel=1e-5)
    assert data.risk(theta) == pytest.approx(float(value), rel=1e-5)


@pytest.mark.parametrize("make", [stored, lazy])
def test_labels_are_those_of_the_first_coordinates(make):
    p = problem(target="z1*z2 + 3*z2")
    x, y = exact(make(p))
    np.testing.assert_allclose(y, x[:, 0] * x[:, 1] + 3 * x[:, 1], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("make", [stored, lazy])
@pytest.mark.parametrize("loss", ["squared", "pseudo-huber"])
def test_hessian_products(make, loss):
    p = problem(loss=loss)
    data, theta = make(p), weights(p)
    x, y = exact(data)
    with jax.enable_x64(True):
        whole = np.asarray(jax.hessian(lambda w: p.m * risk(p, x, y, w))(jnp.asarray(theta)))
    u = np.random.default_rng(2).standard_normal(p.m * D)
    with data.curvature(theta, None) as product:
        expected = whole.reshape(p.m * D, p.m * D) @ u
        np.testing.assert_allclose(product(u), expected, atol=1e-5 * np.abs(expected).max())
    for j in range(p.m):
        with data.curvature(theta, j, j) as product:
            expected = whole[j, :, j] @ u[:D]
            np.testing.assert_allclose(product(u[:D]), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("make", [stored, lazy])
@pytest.mark.parametrize("changes", [{"momentum": 0.8}, {"momentum": 0.5, "weight_decay": 0.1}], ids=str)
def test_descent_against_a_plain_loop(make, changes):
    p = problem(**changes)
    data, steps = make(p), 12
    run = descend(data, weights(p), steps)
    x, y = exact(data)
    theta, before = weights(p), weights(p)
    with jax.enable_x64(True):
        slope = jax.jit(jax.grad(lambda w: risk(p, x, y, w)))
        for t in range(steps + 1):
            np.testing.assert_allclose(run.gram[t], theta @ theta.T, atol=1e-5)
            np.testing.assert_allclose(run.overlap[t], theta[:, :2], atol=1e-5)
            assert run.train_loss[t] == pytest.approx(float(risk(p, x, y, jnp.asarray(theta))), rel=1e-5)
            push = np.asarray(slope(jnp.asarray(theta))) + p.weight_decay * theta
            theta, before = theta - p.step_size * push + p.momentum * (theta - before), theta
    assert run.diverged_at is None


@pytest.mark.parametrize("make", [stored, lazy])
def test_mini_batches_are_independent_bernoulli_masks(make):
    p = problem(network=Network("tanh"), batch=0.3)
    data, theta, draws = make(p, d=4), initial(p, 4, (5,)), 600
    if make is lazy:
        # Each mask is a new left vector until all of R^n is spanned.
        data = LazyData(p, N, 4, (1, 2), steps=N)
    got = np.array([data.gradient(theta, step)[0][0] for step in range(draws)])
    x, y = exact(data)
    with jax.enable_x64(True):
        single = jax.vmap(jax.grad(lambda w, x, y: risk(p, x[None], y[None], w)), (None, 0, 0))
        each = np.asarray(single(jnp.asarray(theta), jnp.asarray(x), jnp.asarray(y)))[:, 0]
    # Mean and covariance over masks: sum_i g_i / n and (1/batch - 1) sum_i g_i g_i^T / n^2.
    covariance = (1 / p.batch - 1) * each.T @ each / N**2
    z = (got.mean(axis=0) - each.mean(axis=0)) / np.sqrt(np.diag(covariance) / draws)
    assert np.all(np.abs(z) < 4)
    np.testing.assert_allclose(np.var(got, axis=0), np.diag(covariance), rtol=4 * np.sqrt(2 / draws))
    # The loss reported is over all samples, whatever the mask.
    assert data.gradient(theta, 3)[1] == pytest.approx(data.risk(theta), rel=1e-5)


@pytest.mark.parametrize("make", [stored, lazy])
def test_divergence_stops_and_is_dated(make):
    p = problem(target="z1^2 + z2^2", network="quad", loss="squared", step_size=30.0)
    run = descend(make(p), weights(p), 40)
    assert run.diverged_at is not None
    assert 1 <= run.diverged_at < 40
    assert np.all(np.isfinite(run.train_loss[: run.diverged_at]))
    assert np.all(np.isnan(run.train_loss[run.diverged_at :]))
    assert np.all(np.isnan(run.gram[run.diverged_at :]))


@pytest.mark.parametrize("make", [stored, lazy])
def test_identical_neurons_stay_identical(make):
    p = problem(network=Network("gelu", width=2))
    theta = np.repeat(weights(p)[:1], 2, axis=0)
    run = descend(make(p), theta, 10)
    np.testing.assert_allclose(run.theta[0], run.theta[1], atol=1e-6)
    # Together they are one neuron that feels the step divided by their number.
    one = descend(make(problem(network=Network("gelu"), step_size=p.step_size / 2)), weights(p)[:1], 10)
    np.testing.assert_allclose(run.theta[0], one.theta[0], atol=1e-5)
    np.testing.assert_allclose(run.train_loss, one.train_loss, rtol=1e-5)


@pytest.mark.parametrize("kind", ["stored", "lazy"])
def test_linear_descent_with_weight_decay(kind):
    """Overlap of ridge-regularised linear descent, exact by a Marchenko-Pastur integral; n/d = 3, start at 0.2.

    The reference's gradient is sum_i (..) x_i / d with ridge 1/2 and step 0.1: n/d = 3 turns it into ours.
    """
    expected = {6: 0.73558, 12: 0.79290, 18: 0.80689, 24: 0.81128, 30: 0.81284, 49: 0.81379}
    p = Problem("z", network="v", loss="squared", step_size=0.3, weight_decay=0.5 / 3)
    d, seeds = (20_000, 6) if kind == "lazy" else (1000, 6)
    curves = []
    for seed in range(seeds):
        data = LazyData(p, 3 * d, d, (seed,), 49) if kind == "lazy" else StoredData.drawn(p, 3 * d, d, (seed,))
        theta = initial(p, d, (seed, 1))
        theta[:, 0] = 0.2
        theta[:, 1:] *= np.sqrt(1 - 0.04) / np.linalg.norm(theta[:, 1:])
        curves.append(descend(data, theta, 49).overlap[:, 0, 0])
    mean, error = np.mean(curves, axis=0), np.std(curves, axis=0, ddof=1) / np.sqrt(seeds)
    for t, value in expected.items():
        assert abs(mean[t] - value) < 4 * error[t] + 1e-5
        assert error[t] < 0.01


def test_given_samples_and_their_hessian():
    """Eigenvalues of a Hessian computed elsewhere, for mean squared error without the half."""
    x = np.random.Generator(np.random.PCG64(0)).standard_normal((600, 60))
    data = StoredData.of(Problem("z^2", network="gelu", loss="(y - f)^2"), x, x[:, 0] ** 2)
    theta = np.full((1, 60), 1 / np.sqrt(60))
    with data.curvature(theta, 0) as product:
        dense = np.stack([product(e) for e in np.eye(60)])
        low = eigenpairs(product, 60, 2, tolerance=1e-6)
        high = eigenpairs(product, 60, 2, which="highest", tolerance=1e-6)
    np.testing.assert_allclose(low.values, [-2.32673164, -2.1961364], rtol=2e-6)
    np.testing.assert_allclose(high.values, [1.39401755, 1.27753371], rtol=2e-6)
    assert np.trace(dense) == pytest.approx(6.34058519, rel=1e-5)
    assert abs(low.vectors[0, 0]) == pytest.approx(0.19632390, rel=1e-4)


def test_stored_blocks_do_not_matter(monkeypatch):
    from bulkedge.dynamics import stored_data

    p = problem()
    x, y = exact(stored(p))
    whole = StoredData.of(p, x, y)
    monkeypatch.setattr(stored_data, "_BLOCK_BYTES", 7 * 4 * D)
    parts = StoredData.of(p, x, y)
    np.testing.assert_array_equal(parts.matrix(), whole.matrix())
    np.testing.assert_allclose(parts.gradient(weights(p), 0)[0], whole.gradient(weights(p), 0)[0], atol=1e-6)


@pytest.mark.parametrize("make", [StoredData.drawn, lambda *a: LazyData(*a, steps=5)])
def test_memory_is_refused_before_it_is_taken(make):
    with pytest.raises(BadInput, match=r"^data: .* GB of memory and .* GB are free$"):
        make(problem(), 10**12, 10**7, (0,))
