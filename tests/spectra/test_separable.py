"""Inputs with a covariance: identities, the sample covariance, other routes to the same numbers, finite matrices."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

import bulkedge as be
from bulkedge.foundation.roots import bracketed
from bulkedge.spectra import bulk, outliers, separable, separable_density
from bulkedge.spectra.law import WeightLaw
from bulkedge.spectra.separable import Population

SEEDS, DELTAS = st.integers(0, 10**6), st.floats(-1, 2).map(lambda u: 10**u)


def random_law(rng, q, n=40):
    c = rng.standard_normal((n, q)) * 10 ** rng.uniform(-0.3, 0.5)
    g = rng.standard_normal(n) + rng.standard_normal() - rng.uniform(0, 1) * c[:, 0] ** 2
    return WeightLaw(g, c, rng.dirichlet(np.ones(n)))


def random_population(rng, q, p=5):
    """Random eigenvalues, masses, and a matrix-valued spectral measure that sums to the identity."""
    vectors = np.linalg.qr(rng.standard_normal((p * q, q)))[0].reshape(p, q, q)
    return Population(
        10 ** rng.uniform(-1, 1, p), rng.dirichlet(np.ones(p)), np.einsum("pia,pib->pab", vectors, vectors)
    )


@settings(max_examples=60, deadline=None)
@given(SEEDS, st.integers(1, 3), DELTAS, st.floats(0.1, 10))
def test_a_multiple_of_the_identity_is_the_isotropic_formula(seed, q, delta, c):
    """Sigma = c I, in pieces: c times the spectrum for Sigma = I."""
    rng = np.random.default_rng(seed)
    law = random_law(rng, q)
    some = random_population(rng, q)
    population = Population(np.full(5, c), some.mass, some.measure)
    for ours, known in ((separable.left_edge, bulk.left_edge), (separable.right_edge, bulk.right_edge)):
        assert ours(law, population, delta).value == pytest.approx(c * known(law, delta).value, rel=1e-9, abs=1e-12)
    found, known = separable.below(law, population, delta), outliers.below(law, delta)
    assert [s.value for s in found] == pytest.approx([c * s.value for s in known], rel=1e-8, abs=1e-10)
    assert [s.overlap2 for s in found] == pytest.approx([s.overlap2 for s in known], rel=1e-5, abs=1e-6)
    scale = bulk.edge_scale(law, delta, bulk.left_edge(law, delta))
    ours = separable.edge_scale(law, population, delta, separable.left_edge(law, population, delta))
    assert (ours is None) == (scale is None)
    assert scale is None or ours == pytest.approx(c * scale, rel=1e-5)


@settings(max_examples=60, deadline=None)
@given(SEEDS, DELTAS)
def test_the_branch_left_of_the_edge(seed, delta):
    """z rises up to the edge and not beyond it; u > 0 and E[u] = 1; the equations hold as they are first written."""
    rng = np.random.default_rng(seed)
    law, population = random_law(rng, 1), random_population(rng, 1)
    edge = separable.left_edge(law, population, delta)
    if edge.thin or np.isinf(edge.beta):
        return
    for factor in np.geomspace(1e-3, 1, 12):
        p = separable.at(law, population, delta, factor * edge.beta)
        kappa = float(law.mean(law.g / (1 + p.beta * law.g)))
        a = population.mean(population.tau / (kappa * population.tau - p.z))
        assert a == pytest.approx(delta * p.beta, rel=1e-9)
        assert np.all(p.u > 0)
        assert p.residual < 1e-12
        assert p.z <= edge.value + 1e-9 * (1 + abs(edge.value))
    charts = np.linspace(-12, 12, 200)
    excess = np.array([separable.edge_excess(law, population, delta, c) for c in charts])
    assert np.count_nonzero(np.diff(np.sign(excess))) <= 1


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 2), st.floats(0, 1.5).map(lambda u: 10**u))
def test_every_outlier_is_a_zero_of_the_resolvent(seed, q, delta):
    """det(I + E[(c c^T - I) G/(1 + beta G)] E_rho[tau/(kappa tau - z)]) = 0 with beta from above the real axis."""
    rng = np.random.default_rng(seed)
    law, population = random_law(rng, q), random_population(rng, q)
    edge = separable.left_edge(law, population, delta)
    size = abs(edge.value) + np.abs(law.g).max()
    found = separable.below(law, population, delta, edge)
    assert [s.value for s in found] == sorted(s.value for s in found)
    for spike in found:
        assert 0 <= spike.overlap2 <= 1 + 1e-9
        assert spike.value <= edge.value + 1e-9 * size
        if edge.value - spike.value < 1e-3 * size:
            continue
        z = np.array([spike.value + 1e-9j * size])
        m = separable_density.stieltjes(law, population, delta, z)
        assert m.certified.all()
        kappa = float(law.mean(law.g / (1 + spike.beta * law.g)))
        assert population.mean(1 / (kappa * population.tau - spike.value)) == pytest.approx(m.alpha[0].real, rel=1e-5)
        n = population.along(population.tau / (kappa * population.tau - spike.value))
        block = law.tensor(law.g / (1 + spike.beta * law.g))
        assert abs(np.linalg.det(np.eye(q) + block @ n)) < 1e-6 * (1 + np.linalg.norm(block @ n)) ** q


def test_the_overlap_is_the_slope_of_the_eigenvalue():
    """H + t v v^T, v the unit input direction of one revealed coordinate, moves its outlier at the rate overlap2.

    v v^T = Sigma^(1/2) phi phi^T Sigma^(1/2)/tau where phi lies in one eigenspace, and in general
    Sigma^(-1/2) phi phi^T Sigma^(-1/2)/E_rho[1/tau]: the resolvent's determinant is formed with that block.
    """
    rng = np.random.default_rng(3)
    law = random_law(rng, 1)
    law = WeightLaw(law.g - 1.5 * law.s[:, 0] ** 2, law.s, law.p)
    population, delta = random_population(rng, 1), 6.0
    (spike,) = separable.below(law, population, delta)
    assert spike.overlap2 > 0.05
    rho, tau = population.measure[:, 0, 0], population.tau

    def moved(t):
        def gap(v):
            p = separable.at(law, population, delta, np.exp(v))
            kappa = float(law.mean(law.g / (1 + p.beta * law.g)))
            block = float(law.tensor(law.g / (1 + p.beta * law.g))[0, 0])
            r = 1 / (kappa * tau - p.z)
            # Two vectors, Sigma^(1/2) phi and v: 2 x 2 Gram matrix of the bare resolvent between them.
            size = rho @ (1 / tau)
            a, b, c = rho @ (tau * r), rho @ r / np.sqrt(size), rho @ (r / tau) / size
            return float(np.linalg.det(np.eye(2) + np.array([[a, b], [b, c]]) @ np.diag([block, t])))

        low, high = np.log(0.9 * spike.beta), np.log(1.02 * spike.beta)
        return separable.at(law, population, delta, np.exp(bracketed(gap, low, high))).z

    h = 1e-5 * abs(spike.value)
    assert moved(0.0) == pytest.approx(spike.value, rel=1e-10)
    assert (moved(h) - moved(-h)) / (2 * h) == pytest.approx(spike.overlap2, rel=1e-4)


@pytest.mark.parametrize("delta", [2.0, 20.0])
def test_the_sample_covariance(delta):
    """G = 1: edges are critical values of -1/m + E[tau/(1 + tau m)]/delta (Silverstein and Choi 1995)."""
    one, mass, tau = WeightLaw(np.ones(2), np.zeros((2, 0))), np.array([0.6, 0.4]), np.array([1.0, 5.0])
    population = Population(tau, mass, np.zeros((2, 0, 0)))

    def value(m):
        return -1 / m + np.sum(mass * tau / (1 + tau * m)) / delta

    def slope(m):
        return 1 / m**2 - np.sum(mass * tau**2 / (1 + tau * m) ** 2) / delta

    left, right = value(brentq(slope, -1e6, -1 - 1e-9)), value(brentq(slope, -0.2 + 1e-9, -1e-6))
    assert separable.left_edge(one, population, delta).value == pytest.approx(left, rel=1e-9)
    assert separable.right_edge(one, population, delta).value == pytest.approx(right, rel=1e-9)


def test_a_spiked_covariance_of_weight_one():
    """G = 1 and a direction of vanishing mass in Sigma: the eigenvalue that the spiked covariance model gives.

    Sigma = I + (spike - 1) phi phi^T is, in whitened terms, G = 1 with E[c c^T] = spike along phi and Sigma = I.
    """
    delta, spike = 4.0, 3.0
    law = WeightLaw(np.ones(2), np.full((2, 1), np.sqrt(spike)))
    (found,) = separable.above(law, Population(np.ones(1), np.ones(1), np.ones((1, 1, 1))), delta)
    assert found.value == pytest.approx(spike * (1 + 1 / (delta * (spike - 1))), rel=1e-9)
    overlap2 = (1 - 1 / (delta * (spike - 1) ** 2)) / (1 + 1 / (delta * (spike - 1)))
    assert found.overlap2 == pytest.approx(overlap2, rel=1e-9)


def test_whether_all_is_positive_does_not_depend_on_the_covariance():
    """Sylvester: H = Sigma^(1/2) W Sigma^(1/2) has as many negative eigenvalues as W."""
    rng = np.random.default_rng(0)
    g, s = rng.uniform(0.2, 2.0, 4000), rng.standard_normal((4000, 1))
    law = WeightLaw(g - 0.35 * (s[:, 0] ** 2 > 1), s)
    flat, other = (
        Population(np.array(t), np.array([0.5, 0.5]), np.array([[[0.1]], [[0.9]]])) for t in ([1, 1], [0.2, 4])
    )
    for delta in (30.0, 100.0, 300.0):
        assert separable.left_edge(law, other, delta).value > 0
        a, b = (separable.margins(law, population, delta, negative=True) for population in (flat, other))
        assert a == pytest.approx(b, rel=1e-9)


@pytest.mark.parametrize(("delta", "tolerance"), [(0.5, 0.004), (3.0, 2e-4), (10.0, 2e-4)])
def test_the_density_integrates_to_one_and_has_the_right_moments(delta, tolerance, law_at_start):
    law = law_at_start("gelu", "squared", "2*(abs(z) > 0.6744897501960817)")
    tau, mass = np.array([0.1, 3.0]), np.array([0.7, 0.3])
    population = Population(tau, mass, np.ones((2, 1, 1)) * 0.5)
    x, y, status, missing = separable_density.density(law, population, delta, 100)
    assert status.value == "converged"
    assert abs(missing) < tolerance
    g1, g2 = float(law.mean(law.g)), float(law.mean(law.g**2))
    first, second = g1 * (mass @ tau), g1**2 * (mass @ tau**2) + g2 * (mass @ tau) ** 2 / delta
    moment = [float(np.sum(0.5 * (f[1:] + f[:-1]) * np.diff(x))) for f in (x * y, x * x * y)]
    assert moment == pytest.approx([first, second], rel=2e-3, abs=2e-3 * np.sqrt(second))


@pytest.mark.parametrize(
    ("tau", "weights"),
    [
        (np.repeat([0.5, 1.5], 200), np.repeat([0.0, 1.0], 200)),
        (np.repeat([0.1, 1.9], 200), np.repeat([0.9, 0.1], 200)),
        (be.Covariance.power_law(0.5, 400).tau, np.ones(400)),
    ],
    ids=["in the upper half", "mostly in the lower", "power law"],
)
def test_matrices(tau, weights, law_at_start):
    """Hessians at the start: lowest eigenvalue and its overlap with theta_*, at d = 400."""
    d, delta, seeds = tau.size, 14.0, 8
    problem = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu")
    inputs = be.Covariance(tau, target=weights)
    law = law_at_start("gelu", "squared", "2*(abs(z) > 0.6744897501960817)")
    population = Population(inputs.tau, inputs.mass, inputs.measure(1))
    edge = separable.left_edge(law, population, delta)
    (spike,) = separable.below(law, population, delta)
    width = separable.edge_scale(law, population, delta, edge) * d ** (-2 / 3)
    measured = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 31])
        x = rng.standard_normal((round(delta * d), d)) * np.sqrt(tau)
        theta, start = rng.standard_normal((2, d))
        theta, start = theta * np.sqrt(weights), start / np.linalg.norm(start)
        theta /= np.linalg.norm(theta)
        y = problem.labels((x @ theta / np.sqrt(theta**2 @ tau))[:, None], np.zeros(len(x)))
        g = np.asarray(problem.pointwise.block((x @ start)[None], y, *problem.layer))[0].astype(float)
        values, vectors = np.linalg.eigh(x.T @ (g[:, None] * x) / len(x))
        measured.append((values[0], (vectors[:, 0] @ theta) ** 2, values[1]))
    value, overlap2, second = np.mean(measured, axis=0)
    error = np.std(measured, axis=0, ddof=1) / np.sqrt(seeds)
    assert value == pytest.approx(spike.value, abs=4 * error[0] + 0.02 * abs(spike.value))
    assert overlap2 == pytest.approx(spike.overlap2, abs=4 * error[1] + 0.03)
    assert second == pytest.approx(edge.value + 1.2065 * width, abs=4 * error[2] + 0.5 * width)
