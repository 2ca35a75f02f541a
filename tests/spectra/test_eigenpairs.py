"""Matrix-free eigenpairs against dense ones."""

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, eigsh

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.spectra.eigenpairs import eigenpairs


def symmetric(values, seed=0):
    q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))
    return (q * values) @ q.T


def check(h, found, expected, tolerance):
    norm = np.max(np.abs(np.linalg.eigvalsh(h)))
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.values, expected, atol=tolerance * norm)
    np.testing.assert_allclose(found.vectors.T @ found.vectors, np.eye(found.values.size), atol=1e-10)
    gap = np.linalg.norm(h @ found.vectors - found.vectors * found.values, axis=0)
    np.testing.assert_allclose(gap / norm, found.residual, rtol=0.05, atol=1e-12)
    assert np.all(found.residual <= tolerance)


@pytest.mark.parametrize("which", ["lowest", "highest"])
@pytest.mark.parametrize("count", [1, 4, 9])
@pytest.mark.parametrize("space", [None, 24])
def test_against_a_dense_eigensolver(which, count, space):
    rng = np.random.default_rng(3)
    x = rng.standard_normal((900, 300))
    h = (x.T * np.sin(3 * x[:, 0])) @ x / 900
    found = eigenpairs(lambda v: h @ v, 300, count, which=which, tolerance=1e-6, space=space)
    exact = np.linalg.eigvalsh(h)
    check(h, found, exact[:count] if which == "lowest" else exact[::-1][:count], 1e-6)
    assert found.norm == pytest.approx(np.max(np.abs(exact)), rel=1e-3)


def test_agrees_with_arpack_in_float32():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((4000, 600), dtype=np.float32)
    g = np.where(np.abs(x[:, 0]) > 1.0, -1.0, 0.4).astype(np.float32)
    product = lambda v: (g * (x @ v.astype(np.float32))) @ x / np.float32(4000)  # noqa: E731
    found = eigenpairs(product, 600, 3)
    operator = LinearOperator((600, 600), matvec=product, dtype=np.float32)
    start = np.random.default_rng(0).standard_normal(600).astype(np.float32)
    reference = np.sort(eigsh(operator, k=3, which="SA", v0=start, tol=1e-5)[0])
    np.testing.assert_allclose(found.values, reference, atol=1e-4)


@pytest.mark.parametrize(
    "values",
    [
        np.zeros(30),
        np.full(30, -2.0),
        np.repeat([-1.0, 0.0, 3.0], 10),
        np.concatenate([np.linspace(-1, 1, 29), [50.0]]),
        -np.geomspace(1e-6, 1, 30),
    ],
    ids=["zero", "multiple of one", "three values", "one large", "geometric"],
)
@pytest.mark.parametrize("count", [1, 3])
def test_degenerate_spectra(values, count):
    h = symmetric(values)
    found = eigenpairs(lambda v: h @ v, 30, count, tolerance=1e-8)
    np.testing.assert_allclose(found.values, np.sort(values)[:count], atol=1e-8 * 50)
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize("dimension", [1, 2, 5])
def test_small_dimensions(dimension):
    h = symmetric(np.arange(dimension) - 2.0)
    found = eigenpairs(lambda v: h @ v, dimension, dimension)
    np.testing.assert_allclose(found.values, np.arange(dimension) - 2.0, atol=1e-12)


def test_a_start_orthogonal_to_the_answer_does_not_hide_it():
    diagonal = np.linspace(0, 1, 200)
    diagonal[0] = -3.0
    start = np.zeros(200)
    start[1:] = 1.0
    found = eigenpairs(lambda v: diagonal * v, 200, 1, start=start)
    assert found.values[0] == pytest.approx(-3.0, abs=1e-6)


def test_a_good_start_saves_products():
    diagonal = np.linspace(0, 1, 4000)
    diagonal[0] = -0.05
    plain = eigenpairs(lambda v: diagonal * v, 4000, 1)
    helped = eigenpairs(lambda v: diagonal * v, 4000, 1, start=np.eye(4000)[0])
    assert helped.products < plain.products


def test_exhausted_budget_is_told():
    diagonal = np.linspace(0, 1, 3000) ** 2
    found = eigenpairs(lambda v: diagonal * v, 3000, 4, tolerance=1e-10, most_products=40)
    assert found.status is Status.NOT_CONVERGED
    assert found.products == 40
    assert np.max(found.residual) > 1e-10


def test_function_of_its_seed():
    h = symmetric(np.sin(np.arange(120.0)))
    first, second, other = (eigenpairs(lambda v: h @ v, 120, 2, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.vectors, second.vectors)
    assert not np.array_equal(first.vectors, other.vectors)


@pytest.mark.parametrize(
    ("kwargs", "argument"),
    [
        ({"count": 0}, "eigenpairs"),
        ({"count": 11}, "eigenpairs"),
        ({"which": "middle"}, "which"),
        ({"tolerance": 0.0}, "tolerance"),
        ({"most_products": 3}, "most_products"),
        ({"start": np.zeros(10)}, "start"),
        ({"start": np.ones(9)}, "start"),
    ],
)
def test_bad_input(kwargs, argument):
    with pytest.raises(BadInput) as caught:
        eigenpairs(lambda v: v, 10, **{"count": 1, **kwargs})
    assert caught.value.argument == argument


@pytest.mark.parametrize("product", [lambda v: v[:5], lambda v: np.nan * v])
def test_bad_products(product):
    with pytest.raises(BadInput, match=r"^product: "):
        eigenpairs(product, 10)
