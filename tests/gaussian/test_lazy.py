"""The lazily revealed matrix has the law of a stored one, and never contradicts itself."""

import numpy as np
import pytest

from bulkedge.foundation import memory
from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian import streams
from bulkedge.gaussian.lazy import LazyGaussian

N, D = 5, 4
FIRST = np.array([1.0, -0.5, 0.25, 2.0])


class Stored:
    """The same interface over a matrix that exists."""

    def __init__(self, seed):
        self.x = np.random.default_rng(seed).standard_normal((N, D))

    def times(self, u):
        return self.x @ u

    def transposed_times(self, q):
        return q @ self.x


def conversation(matrix):
    """Products in both orders, each asked in the light of the last; numbers that depend on all of them."""
    a = matrix.times(FIRST)
    b = matrix.transposed_times(np.tanh(a))
    c = matrix.times(np.sin(b) + FIRST)
    d = matrix.transposed_times(np.maximum(c, 0.0) - a)
    e = matrix.times(d)
    return np.array([a @ a, a @ c, b @ b, b @ d, np.abs(d).sum(), np.log1p(e @ e), b[0] * d[1], c[0] * a[1]])


@pytest.fixture(scope="module")
def revealed():
    """(statistics of conversations, matrices read off afterwards)."""
    numbers, matrices = [], []
    for seed in range(3000):
        lazy = LazyGaussian(N, D, seed, left=N, right=D)
        numbers.append(conversation(lazy))
        matrices.append(np.stack([lazy.times(axis) for axis in np.eye(D)], axis=1))
    return np.array(numbers), np.array(matrices)


def test_adaptive_products_have_the_law_of_stored_ones(revealed):
    numbers = revealed[0]
    stored = np.array([conversation(Stored(s)) for s in range(20000)])
    # First and second moments, and the middle of the distribution.
    for f in (lambda v: v, lambda v: np.log1p(np.abs(v)), lambda v: v > np.median(stored, axis=0)):
        a, b = f(numbers).astype(float), f(stored).astype(float)
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        assert np.all(np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * error)


def test_entries_are_independent_standard_normal(revealed):
    x = revealed[1].reshape(-1, N * D)
    count = len(x)
    assert np.sum((np.sqrt(count) * x.mean(axis=0)) ** 2) == pytest.approx(N * D, abs=4 * np.sqrt(2 * N * D))
    i, j = np.triu_indices(N * D, 1)
    z2 = count * np.mean(x[:, i] * x[:, j], axis=0) ** 2
    assert z2.sum() == pytest.approx(i.size, abs=4 * np.sqrt(2 * i.size))
    for power, moment, variance in ((2, 1.0, 2.0), (4, 3.0, 96.0)):
        assert np.mean(x**power) == pytest.approx(moment, abs=4 * np.sqrt(variance / x.size))


def test_products_agree_from_both_sides():
    lazy, rng = LazyGaussian(200_000, 3000, (5, 1), left=12, right=12), np.random.default_rng(0)
    for _ in range(10):
        u, q = rng.standard_normal(3000), rng.standard_normal(200_000)
        right, left = q @ lazy.times(u), u @ lazy.transposed_times(q)
        # float32 storage: relative to |u| |q| times the size of a product.
        assert abs(right - left) < 1e-6 * np.linalg.norm(u) * np.linalg.norm(q) * np.sqrt(200_000)


def test_products_are_linear_and_spanned_vectors_reveal_nothing():
    lazy, rng = LazyGaussian(5000, 700, 3, left=8, right=8, together=3), np.random.default_rng(1)
    u = rng.standard_normal((3, 700))
    x = lazy.times(u)
    assert lazy.known == (0, 3)
    mix = rng.standard_normal((2, 3))
    np.testing.assert_allclose(lazy.times(mix @ u), mix @ x, atol=2e-5 * np.abs(x).max())
    assert lazy.known == (0, 3)
    # Nearly parallel vectors do count as new, and nothing is lost of the difference.
    near = u[0] + 1e-3 * rng.standard_normal(700)
    step = (lazy.times(near) - x[0]) / 1e-3
    assert lazy.known == (0, 4)
    assert step @ step / 5000 == pytest.approx(np.sum(((near - u[0]) / 1e-3) ** 2), rel=0.15)
    assert np.all(lazy.times(np.zeros(700)) == 0.0)


def test_norm_of_a_product_at_large_size():
    # |X u|^2 is chi-squared with n degrees of freedom for every unit u, adapted or not.
    n, d = 300_000, 2000
    lazy = LazyGaussian(n, d, 11, left=6, right=6)
    u = np.ones(d)
    for _ in range(5):
        u = u / np.linalg.norm(u)
        v = lazy.times(u).astype(float)
        assert (v @ v - n) / np.sqrt(2 * n) == pytest.approx(0.0, abs=4.5)
        u = u + 30.0 * lazy.transposed_times(np.cos(v)) / n


def test_result_does_not_depend_on_threads(monkeypatch):
    draws = []
    for threads in (1, 3):
        monkeypatch.setattr(streams, "cpu_count", lambda threads=threads: threads)
        lazy = LazyGaussian(5 * streams.BLOCK + 7, 20, 9)
        draws.append(lazy.times(np.arange(20.0)))
    np.testing.assert_array_equal(*draws)


def test_branch_leaves_no_trace():
    def run(look):
        lazy = LazyGaussian(400, 300, 2, left=8, right=8)
        lazy.times(np.ones(300))
        lazy.transposed_times(np.ones(400))
        if look:
            with lazy.branch(3):
                inside = lazy.times(np.arange(300.0))
                again = lazy.times(np.arange(300.0))
                np.testing.assert_allclose(inside, again, atol=1e-6 * np.abs(inside).max())
            assert lazy.known == (1, 1)
        return lazy.times(np.arange(300.0))

    np.testing.assert_array_equal(run(False), run(True))


def test_branch_respects_what_is_known():
    lazy = LazyGaussian(400, 300, 2, left=8, right=8)
    u, q = np.arange(300.0) / 300, np.cos(np.arange(400.0))
    xu = lazy.times(u)
    with lazy.branch(0):
        assert u @ lazy.transposed_times(q) == pytest.approx(q @ xu, rel=1e-4)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: LazyGaussian(10, 0), "d"),
        (lambda: LazyGaussian(10**12, 10**9), "data"),
        (lambda: LazyGaussian(10, 10).times(np.ones(9)), "u"),
        (lambda: LazyGaussian(10, 10).transposed_times(np.ones((2, 9))), "q"),
        (lambda: LazyGaussian(50, 50, right=2).times(np.eye(50)[:3]), "right"),
        (lambda: LazyGaussian(50, 50, right=2, left=2, together=1).times(np.eye(50)[:4]), "together"),
    ],
)
def test_bad_input_is_one_line(make, argument):
    with pytest.raises(BadInput) as caught:
        make()
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)


def test_memory_is_told_and_required(monkeypatch):
    assert 1e6 < memory.available_bytes() < 1e15
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**9)
    memory.require("data", 0.5e9, "this")
    with pytest.raises(BadInput, match=r"^data: this needs 2.5 GB of memory and 1 GB are free$"):
        memory.require("data", 2.5e9, "this")


def test_what_rounding_did_to_the_basis_does_not_grow():
    """A vector of which a few millionths are new comes out orthogonal to a basis that is so to 1e-4 only.

    Two passes leave e^2/new of it; with e = new = 1e-5 the next vectors are wrong, and after some more all is noise.
    """
    n, rng = 20_000, np.random.default_rng(0)
    x = LazyGaussian(n, 40, 0, left=12, right=4)
    x.left(rng.standard_normal((1, n)))
    for _ in range(9):
        x.left(rng.standard_normal((1, n)))
    basis = x._rows.basis
    basis[9] += np.float32(1e-4) * basis[8]
    fresh = rng.standard_normal(n)
    v = 0.7 * basis[0] + 0.5 * basis[8] - 0.5 * basis[9] + 4e-6 * fresh / np.linalg.norm(fresh)
    x.left(v[None])
    assert x.known[0] == 11
    assert np.max(np.abs(basis[:10].astype(float) @ basis[10].astype(float))) < 1e-5
