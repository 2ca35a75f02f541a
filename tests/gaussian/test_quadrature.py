"""Kinked and discontinuous integrands against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.special import erf

from bulkedge.gaussian import quadrature

PDF, CDF = stats.norm.pdf, stats.norm.cdf
Q = 0.6744897501960817


def mean(f, rule):
    z, p = rule
    with jax.enable_x64(True):
        return float(p @ np.asarray(jax.vmap(f)(jnp.asarray(z))))


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda z: z**8, 105.0),
        (jnp.cos, np.exp(-0.5)),
        (jnp.abs, np.sqrt(2 / np.pi)),
        (jax.nn.relu, PDF(0)),
        (lambda z: jnp.where(jnp.abs(z) > Q, 1.0, 0.0), 0.5),
        (lambda z: jnp.maximum(z - 0.3, 0.0), PDF(0.3) - 0.3 * CDF(-0.3)),
        (lambda z: jnp.clip(z, -1.0, 2.0), PDF(1) - PDF(2) - CDF(-1) + 2 * CDF(-2)),
        (lambda z: jnp.sign(z - 1) * z, 2 * PDF(1)),
        (lambda z: jnp.floor(z), sum(k * (CDF(k + 1) - CDF(k)) for k in range(-12, 12))),
        (lambda z: jnp.where((z > -1) & (z < 0.5), z * z, 0.0), CDF(0.5) - CDF(-1) - 0.5 * PDF(0.5) - PDF(1)),
        (lambda z: jnp.max(jnp.stack([z, 1 - z])), 1 + 2 * (PDF(0.5) - 0.5 * CDF(-0.5))),
        (lambda z: jnp.sum(jnp.abs(jnp.stack([z, z - 1]))), np.sqrt(2 / np.pi) + 2 * PDF(1) + erf(np.sqrt(0.5))),
        (lambda z: jax.nn.leaky_relu(z), 0.99 * PDF(0)),
        (lambda z: jnp.sign(jnp.sin(jnp.abs(z) * 3)), None),
    ],
)
def test_one_dimension_to_twelve_digits(f, expected):
    got = mean(f, quadrature.split_nodes(f))
    if expected is None:
        k = np.arange(0, 20) * np.pi / 3
        expected = 2 * np.sum((-1.0) ** np.arange(19) * (CDF(k[1:]) - CDF(k[:-1])))
    assert got == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_without_the_split_it_is_not_twelve_digits():
    f = lambda z: jnp.where(jnp.abs(z) > Q, 1.0, 0.0)  # noqa: E731
    assert abs(mean(f, quadrature.nodes()) - 0.5) > 1e-4


@pytest.mark.parametrize(
    ("f", "places"),
    [
        (jnp.tanh, []),
        (lambda z: jax.nn.relu(z - 1) + jnp.abs(z + 2), [-2, 1]),
        (lambda z: jnp.abs(jax.nn.relu(z)), [0]),
        (lambda z: jnp.abs(z * z - 2), [-np.sqrt(2), np.sqrt(2)]),
        (jax.jit(lambda z: jax.nn.gelu(jnp.where(z > 0.5, z, -z))), [0.5]),
        (lambda z: jnp.sqrt(jnp.abs(z - 3)), [3]),
        (lambda z: jnp.linalg.norm(jnp.stack([z, 2 * z])), [0]),
        (lambda z: jnp.argmax(jnp.stack([z, 1 - z])) * 1.0, [0.5]),
        (lambda z: 1.0 / (1 + jnp.round(z) ** 2), np.arange(-9, 9) + 0.5),
        (lambda z: jax.lax.cond(z > 0.3, jnp.sin, jnp.cos, z), [0.3]),
    ],
)
def test_breakpoints_of_compositions(f, places):
    assert quadrature.one_dimensional_splits(f) == pytest.approx(np.asarray(places, float), abs=1e-8)


def test_probabilities_and_moments():
    z, p = quadrature.nodes([0.1, 0.1, 55.0])
    assert p.sum() == pytest.approx(1, abs=1e-14)
    assert np.all(p > 0)
    assert p @ z**4 == pytest.approx(3, rel=1e-13)


@pytest.mark.parametrize(
    ("f", "k", "expected"),
    [
        (lambda z: z[0] * z[1] * z[0] * z[1], 2, 1.0),
        (lambda z: jnp.abs(z[0] * z[1]), 2, 2 / np.pi),
        (lambda z: jnp.where(jnp.abs(z[1]) > Q, z[0] ** 2, jnp.abs(z[0])), 2, 0.5 + np.sqrt(0.5 / np.pi)),
        (lambda z: jnp.maximum(z[0], z[1]), 2, 1 / np.sqrt(np.pi)),
        (lambda z: jnp.where(z[0] ** 2 + z[1] ** 2 > 1, 1.0, 0.0), 2, np.exp(-0.5)),
        (lambda z: jnp.abs(z[0] + 2 * z[1] - 0.5), 2, None),
        (lambda z: jnp.sign(z[0] * z[1] * z[2]) * z[0], 3, 0.0),
        (lambda z: jnp.abs(z[0]) * jnp.abs(z[1]) * z[2] ** 2, 3, 2 / np.pi),
    ],
)
def test_two_and_three_dimensions(f, k, expected):
    rule = quadrature.tensor_nodes(f, k, order=12 if k == 2 else 8)
    assert rule is not None
    if expected is None:  # |N(-0.5, 5)|
        m, s = 0.5, np.sqrt(5)
        expected = 2 * s * PDF(m / s) + m * (1 - 2 * CDF(-m / s))
    assert mean(f, rule) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_too_many_nodes_are_refused_not_thinned():
    assert quadrature.tensor_nodes(lambda z: z[0] * z[1] * z[2], 3, limit=10**6) is None
    assert quadrature.tensor_nodes(lambda z: jnp.abs(z[0] + z[1] + z[2]), 3) is None
