"""The network, the problem, and its pointwise functions against derivatives of the whole risk."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bulkedge as be
from bulkedge.foundation.errors import BadInput


def test_width_is_read_off_or_repeated():
    assert be.Network("gelu", second_layer=[1, -1]).width == 2
    assert be.Network(width=3, second_layer=2.0).a.tolist() == [2.0, 2.0, 2.0]
    assert be.Network(width=2, bias=[0.5]).b.tolist() == [0.5, 0.5]
    assert be.Network("gelu").to_dict() == {
        "activation": "gelu",
        "width": 1,
        "second_layer": [1.0],
        "bias": [0.0],
    }
    assert be.Network("relu").kink == pytest.approx(0, abs=1e-6)
    assert be.Network("gelu").kink is None
    assert hash(be.Network("gelu", second_layer=[1, 2])) == hash(be.Network("GELU", 2, (1.0, 2.0)))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 0}, "width"),
        ({"width": 2.5}, "width"),
        ({"width": 3, "second_layer": [1, 2]}, "second_layer: must be one number or 3"),
        ({"second_layer": [1, 2], "bias": [1, 2, 3]}, "second_layer"),
        ({"second_layer": [1.0] * 5000}, "width"),
        ({"second_layer": []}, "width"),
        ({"second_layer": 0.0}, "all entries are zero"),
        ({"second_layer": "a"}, "second_layer"),
        ({"bias": [np.nan]}, "bias: must be finite"),
        ({"bias": [[1.0]]}, "bias"),
        ({"activation": "relux"}, "did you mean relu"),
    ],
)
def test_bad_networks(arguments, message):
    with pytest.raises(BadInput, match=message):
        be.Network(**arguments)


def test_problems_are_values():
    one = be.Problem("z^2", "gelu", step_size=0.5)
    assert one == be.Problem("z^2", be.Network("gelu"), "squared", 0.5)
    assert hash(one) == hash(be.Problem("z^2", "gelu", step_size=0.5))
    assert one != be.Problem("z^2", "gelu", step_size=0.4)
    assert (one.k, one.m) == (1, 1)
    assert one.to_dict()["target"] == "z^2"
    assert one.labels([[2.0], [-3.0]], [0.0, 0.0]).tolist() == [4.0, 9.0]
    assert one.labels([[2.0]], [0.0]).dtype == np.float64
    assert be.Problem("z1*z2", latent_dim=3).k == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"loss": "logistic"}, "loss: logistic needs labels -1 and \\+1"),
        ({"target": "log(z)"}, "target: is not finite at z"),
        ({"target": "1/(z > 5)"}, "target: is not finite"),
        ({"step_size": 0}, "step_size"),
        ({"step_size": np.inf}, "step_size"),
        ({"momentum": 1.0}, "momentum"),
        ({"momentum": -0.1}, "momentum"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"batch": 0}, "batch"),
        ({"batch": 1.5}, "batch"),
        ({"network": "gellu"}, "activation"),
        ({"network": 7}, "activation"),
        ({"loss": "hubber"}, "did you mean huber"),
        ({"latent_dim": "two"}, "latent_dim"),
    ],
)
def test_bad_problems(arguments, message):
    with pytest.raises(BadInput, match=message) as caught:
        be.Problem(**{"target": "z^2", **arguments})
    assert "\n" not in str(caught.value)


def test_logistic_takes_signs():
    assert be.Problem("2*(abs(z) > 0.6) - 1", "gelu", "logistic").loss == "logistic"


@pytest.mark.parametrize("loss", ["squared", "pseudo-huber", "logistic", "u^4/12 + f^2/3"])
@pytest.mark.parametrize(
    "network",
    [
        be.Network("gelu"),
        be.Network("tanh", second_layer=-1.7, bias=0.4),
        be.Network("swish", 3, [1.0, -0.5, 2.0], [0.0, 0.3, -0.2]),
    ],
    ids=["one", "negative", "three"],
)
def test_pointwise_functions_are_derivatives_of_the_risk(loss, network):
    """Factor, block and full against jax.grad and jax.hessian of the risk as a function of the weights."""
    d, n, m = 4, 6, network.width
    rng = np.random.default_rng(5)
    with jax.enable_x64(True):
        X, theta = jnp.asarray(rng.standard_normal((n, d))), jnp.asarray(rng.standard_normal((m, d)))
        problem = be.Problem("sign(z)", network, loss)
        y = jnp.sign(X[:, 0])
        a, b = (jnp.asarray(v) for v in problem.layer)

        def risk(theta):
            f = (a * problem.network.sigma(X @ theta.T + b)).sum(axis=1) / m
            return jnp.mean(jax.vmap(problem.loss_function)(y, f))

        V = (X @ theta.T).T
        gradient = problem.pointwise.factor(V, y, a, b) @ X / n
        full = jnp.einsum("ijs,sa,sb->iajb", problem.pointwise.full(V, y, a, b), X, X) / n
        block = jnp.einsum("is,sa,sb->iab", problem.pointwise.block(V, y, a, b), X, X) / n
        hessian = m * jax.hessian(risk)(theta)
        np.testing.assert_allclose(jnp.mean(problem.pointwise.risk(V, y, a, b)), risk(theta), rtol=1e-13)
        np.testing.assert_allclose(gradient, jax.grad(risk)(theta), rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(full, hessian, rtol=1e-10, atol=1e-12)
        for j in range(m):
            np.testing.assert_allclose(block[j], hessian[j, :, j, :], rtol=1e-10, atol=1e-12)


def test_pointwise_functions_keep_single_precision():
    problem = be.Problem("z", be.Network("gelu", 2))
    V, y = jnp.zeros((2, 5), jnp.float32), jnp.ones(5, jnp.float32)
    layer = [jnp.asarray(v, jnp.float32) for v in problem.layer]
    assert problem.pointwise.full(V, y, *layer).dtype == jnp.float32
    assert problem.pointwise.full(V, y, *layer).shape == (2, 2, 5)
