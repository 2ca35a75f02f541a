"""Hidden outliers: properties, and matrices of finite size."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import bulkedge as be
from bulkedge.foundation.roots import bracketed
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.law import WeightLaw


def random_law(seed, r, n=60):
    rng = np.random.default_rng(seed)
    s = rng.standard_normal((n, r)) * 10 ** rng.uniform(-0.3, 0.5)
    g = rng.standard_normal(n) + rng.standard_normal() - rng.uniform(0, 1) * s[:, 0] ** 2
    return WeightLaw(g, s, rng.dirichlet(np.ones(n)))


SEEDS, DELTAS = st.integers(0, 10**6), st.floats(-1, 2).map(lambda u: 10**u)


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.integers(1, 3), DELTAS)
def test_every_outlier_solves_its_equation(seed, r, delta):
    law = random_law(seed, r)
    edge = bulk.left_edge(law, delta)
    found = outliers.below(law, delta)
    size = np.abs(law.g).max() * (1 + 1 / delta)
    assert len(found) == np.count_nonzero(outliers.margins(law, delta, edge, negative=False) < 0)
    assert [s.value for s in found] == sorted(s.value for s in found)
    for spike in found:
        assert 0 <= spike.overlap2 <= 1
        assert spike.value <= edge.value + 1e-9 * size
        # E[delta G s s^T/(delta + G alpha)] w = z w, with alpha(z) solved independently just above the axis
        alpha = bulk.stieltjes(law, delta, np.array([spike.value + 1e-9j * size])).alpha[0].real
        phi = (law.s.T * (law.p * delta * law.g / (delta + law.g * alpha))) @ law.s
        gap = np.abs(phi @ spike.direction - spike.value * spike.direction).max()
        assert gap < 1e-4 * (np.abs(phi).max() + size) or spike.overlap2 < 1e-3


@settings(max_examples=60, deadline=None)
@given(SEEDS, DELTAS, st.floats(0.01, 100))
def test_scaling_and_mirroring(seed, delta, c):
    law = random_law(seed, 1)
    found = outliers.below(law, delta)
    assume(all(s.overlap2 > 1e-4 for s in found))
    scaled = outliers.below(WeightLaw(c * law.g, law.s, law.p), delta)
    mirrored = outliers.above(law.mirrored, delta)
    for other, factor in ((scaled, c), (mirrored, -1.0)):
        assert [s.value for s in other] == pytest.approx([factor * s.value for s in found], rel=1e-6, abs=1e-9)
        assert [s.overlap2 for s in other] == pytest.approx([s.overlap2 for s in found], rel=1e-5)


@settings(max_examples=40, deadline=None)
@given(SEEDS, DELTAS)
def test_rotating_the_hidden_directions(seed, delta):
    law = random_law(seed, 3)
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((3, 3)))[0]
    one, other = outliers.below(law, delta), outliers.below(WeightLaw(law.g, law.s @ Q, law.p), delta)
    assume(all(s.overlap2 > 1e-4 for s in one + other))
    assert len(one) == len(other)
    for a, b in zip(one, other, strict=True):
        assert (a.value, a.overlap2) == (pytest.approx(b.value, rel=1e-8), pytest.approx(b.overlap2, rel=1e-5))


def test_the_overlap_is_the_slope_of_the_eigenvalue():
    """H + t v v^T along a hidden direction v moves the outlier at the rate of the squared overlap: a second route.

    With s s^T - tilt, the kernel condition E[T (s s^T - I)] + I/delta + t beta = 0 is that of the tilted matrix.
    """
    law, delta = random_law(8, 1), 5.0
    (spike,) = outliers.below(law, delta)
    h = 1e-5 * abs(spike.value)

    def moved(t):
        f = lambda b: float(1 / delta + law.tensor(bulk.transform(law, b))[0, 0] + t * b)  # noqa: E731
        return bulk.psi(law, delta, bracketed(f, 0.9 * spike.beta, 1.1 * spike.beta, xtol=1e-16))

    assert (moved(h) - moved(-h)) / (2 * h) == pytest.approx(spike.overlap2, rel=1e-5)


def test_nothing_hidden_nothing_found():
    law = WeightLaw(np.array([-1.0, 1.0]), np.zeros((2, 0)))
    assert outliers.below(law, 3.0) == []
    positive = WeightLaw(np.array([0.0, 1.0]), np.array([[3.0], [0.0]]))
    assert outliers.below(positive, 0.5) == []


def test_the_search_stops_where_psi_is_zero():
    law = WeightLaw(np.linspace(0.5, 2, 50), np.ones((50, 1)))
    edge = bulk.left_edge(law, 10.0)
    assert edge.value > 0
    beta = outliers.search_end(law, 10.0, edge, negative=True)
    assert bulk.psi(law, 10.0, beta) == pytest.approx(0, abs=1e-12)
    assert outliers.search_end(law, 10.0, edge, negative=False) == edge.beta


@pytest.mark.parametrize(
    ("target", "activation", "loss", "delta", "d"),
    [
        ("2*(abs(z) > 0.6744897501960817)", "gelu", "squared", 14.0, 500),
        ("z^2", "gelu", "pseudo-huber", 6.0, 700),
        ("2*tanh(z1*z2)", "gelu", "squared", 16.0, 400),
    ],
)
def test_networks_at_their_start(target, activation, loss, delta, d):
    """The Hessian of a real network: lowest eigenvalue and its overlap, averaged over a few matrices."""
    problem = be.Problem(target, activation, loss)
    n, k = round(delta * d), problem.k
    measured = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, d))  # theta_* = the first k axes; theta(0) the next one: orthogonal up to 1/sqrt d
        y = problem.labels(X[:, :k], np.zeros(n))
        g = np.asarray(problem.pointwise.block(X[:, k][None], y, *problem.layer))[0].astype(float)
        values, vectors = np.linalg.eigh(X.T @ (g[:, None] * X) / n)
        law = WeightLaw.of(g, X[:, :k])
        (spike, *_) = outliers.below(law, delta)
        overlap2 = np.sum(vectors[:k, 0] ** 2)
        measured.append((values[0] - spike.value, overlap2 - spike.overlap2, values[0] / spike.value))
    drift = np.mean(measured, axis=0)
    stderr = np.std(measured, axis=0, ddof=1) / 2
    assert abs(drift[0]) < 4 * stderr[0] + 0.02 * abs(spike.value)
    assert abs(drift[1]) < 4 * stderr[1] + 0.03


def test_a_weight_outlier_of_real_matrices():
    """Overlap with theta(0) of the largest eigenvector at delta = 10: .468 by the formula."""
    problem = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu")
    d, n = 700, 7000
    measured = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, d))
        y = problem.labels(X[:, :1], np.zeros(n))
        g = np.asarray(problem.pointwise.block(X[:, 1][None], y, *problem.layer))[0].astype(float)
        values, vectors = np.linalg.eigh(X.T @ (g[:, None] * X) / n)
        measured.append((values[-1], vectors[1, -1] ** 2, vectors[0, -1] ** 2))
    value, own, hidden = np.mean(measured, axis=0)
    stderr = np.std(measured, axis=0, ddof=1) / np.sqrt(5)
    assert value == pytest.approx(0.692, abs=4 * stderr[0] + 0.01)
    assert own == pytest.approx(0.468, abs=4 * stderr[1] + 0.01)
    assert hidden < 0.01
