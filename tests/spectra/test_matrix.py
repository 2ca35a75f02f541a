"""The whole Hessian at finite width against the scalar route, fixed points, finite differences and real matrices."""

import jax
import numpy as np
import pytest

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.spectra import bulk, matrix, matrix_density, matrix_outliers, outliers
from bulkedge.spectra.law import WeightLaw
from bulkedge.spectra.matrix_law import MatrixLaw


def scalar_law(seed=0, n=300, weighted=False):
    rng = np.random.default_rng(seed)
    s = 1.3 * rng.standard_normal((n, 2))
    g = rng.standard_normal(n) - 0.3 - 0.5 * s[:, 0] ** 2
    return WeightLaw(g, s, rng.dirichlet(np.ones(n)) if weighted else None)


def network_law(n, second_layer, r=1, seed=0):
    """Weights with the structure of a network: diagonal and rank one parts that depend on the hidden coordinates."""
    rng = np.random.default_rng(seed)
    m = len(second_layer)
    a = np.asarray(second_layer)
    v, s = rng.standard_normal((n, m)), rng.standard_normal((n, r))
    push = a * np.tanh(v)
    G = push[:, :, None] * push[:, None, :] / m
    G[:, range(m), range(m)] -= a * (np.abs(s[:, :1]) - 0.6) * np.exp(-(v**2) / 2) * 2
    return MatrixLaw(G, s)


@pytest.mark.parametrize("delta", [0.3, 3.0, 40.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_one_neuron_is_the_scalar_route(delta, weighted):
    law = scalar_law(weighted=weighted)
    one = MatrixLaw(law.g[:, None, None], law.s, law.p)
    for mine, theirs in ((matrix.left_edge, bulk.left_edge), (matrix.right_edge, bulk.right_edge)):
        edge, expected = mine(one, delta), theirs(law, delta)
        assert edge.value == pytest.approx(expected.value, rel=1e-10)
        assert edge.beta == pytest.approx(expected.beta, rel=1e-6)
        assert edge.share == pytest.approx(expected.share, rel=1e-5)
    for mine, theirs in ((matrix_outliers.below, outliers.below), (matrix_outliers.above, outliers.above)):
        found, expected = mine(one, delta), theirs(law, delta)
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            assert a.value == pytest.approx(b.value, rel=1e-9)
            assert a.overlap2 == pytest.approx(b.overlap2, rel=1e-6, abs=1e-9)
            assert abs(a.direction[0] @ b.direction) == pytest.approx(1, abs=1e-8)


@pytest.mark.parametrize("delta", [0.4, 20.0])
def test_equal_blocks_are_the_scalar_route_with_multiplicity(delta):
    law = scalar_law(1)
    m = 3
    equal = MatrixLaw(law.g[:, None, None] * np.eye(m), law.s)
    assert matrix.left_edge(equal, delta).value == pytest.approx(bulk.left_edge(law, delta).value, rel=1e-9)
    expected = outliers.below(law, delta)
    found = matrix_outliers.below(equal, delta)
    assert len(found) == m * len(expected)
    values = np.repeat([s.value for s in expected], m)
    assert [s.value for s in found] == pytest.approx(values, rel=1e-8)
    assert [s.overlap2 for s in found] == pytest.approx(np.repeat([s.overlap2 for s in expected], m), rel=1e-5)
    for i in range(len(expected)):  # the m directions of one root are orthonormal
        flat = np.array([s.direction.ravel() for s in found[i * m : (i + 1) * m]])
        assert flat @ flat.T == pytest.approx(np.eye(m), abs=1e-7)


def test_different_blocks_are_independent_and_rotations_do_not_matter():
    one, other, delta = scalar_law(2), scalar_law(3), 12.0
    G = np.zeros((300, 2, 2))
    G[:, 0, 0], G[:, 1, 1] = one.g, other.g + 0.4
    other = WeightLaw(other.g + 0.4, one.s)
    Q = np.linalg.qr(np.random.default_rng(0).standard_normal((2, 2)))[0]
    rotated = MatrixLaw(Q @ G @ Q.T, one.s)
    edge = min(bulk.left_edge(law, delta).value for law in (one, other))
    expected = sorted((s for law in (one, other) for s in outliers.below(law, delta)), key=lambda s: s.value)
    expected = [s for s in expected if s.value < edge]
    for law in (MatrixLaw(G, one.s), rotated):
        assert matrix.left_edge(law, delta).value == pytest.approx(edge, rel=1e-8)
        found = matrix_outliers.below(law, delta)
        assert [s.value for s in found] == pytest.approx([s.value for s in expected], rel=1e-8)
        assert [s.overlap2 for s in found] == pytest.approx([s.overlap2 for s in expected], rel=1e-6)


def fixed_point(law, delta, z, steps=6000):
    """The equation iterated naively from far away."""
    m = law.m
    alpha = np.eye(m) / -z
    for _ in range(steps):
        inner = np.linalg.solve(np.eye(m) + law.g @ alpha / delta, law.g)
        new = np.linalg.inv(-z * np.eye(m) + inner.mean(axis=0))
        if np.abs(new - alpha).max() < 1e-14 * np.abs(new).max():
            break
        alpha = 0.5 * (alpha + new)
    return alpha


@pytest.mark.parametrize("delta", [1.5, 15.0])
def test_alpha_solves_its_equation_by_plain_iteration(delta):
    law = network_law(200, [1.0, -0.7])
    edge = matrix.left_edge(law, delta)
    assert not edge.thin
    for z in (1.02 * edge.value, 1.5 * edge.value, 20 * edge.value):
        alpha = matrix.solve_real(law, delta, z)
        assert np.linalg.eigvalsh(alpha)[0] > 0
        assert alpha == pytest.approx(fixed_point(law, delta, z), rel=1e-8, abs=1e-10)
    with pytest.raises(BadInput, match="must lie below the bulk"):
        matrix.solve_real(law, delta, 0.99 * edge.value)


def test_the_edge_is_where_the_transform_becomes_complex():
    """Independent of the spectral radius: Im alpha just above the axis, left and right of the edge."""
    law, delta = network_law(200, [1.0, -0.7]), 5.0
    edge = matrix.left_edge(law, delta).value
    size = abs(edge)
    left, right = (
        matrix_density.stieltjes(law, delta, complex(edge + side * 1e-4 * size, 1e-9 * size))[0] for side in (-1, 1)
    )
    assert np.trace(left.imag) < 1e-4 * np.trace(left.real)
    assert np.trace(right.imag) > 1e-3 * np.trace(right.real)


def test_overlap_by_finite_differences_of_the_resolvent():
    """The hidden block of (H - z)^{-1} is N(z)^{-1}, N = -z + E[M (x) s s^T]: overlap2 is the residue along w."""
    law, delta = network_law(400, [1.0, -0.7], r=2, seed=4), 25.0
    found = matrix_outliers.below(law, delta)
    assert found

    def block(z):
        alpha = matrix.solve_real(law, delta, z)
        inner = np.linalg.solve(np.eye(2) + law.g @ alpha / delta, law.g)
        return np.einsum("nij,na,nb->iajb", inner, law.s, law.s).reshape(4, 4) / 400 - z * np.eye(4)

    for spike in found:
        w = spike.direction.ravel()
        h = 1e-4 * abs(spike.value)
        slope = (block(spike.value + h) - block(spike.value - h)) / (2 * h)
        assert np.abs(block(spike.value) @ w).max() < 1e-8 * np.abs(block(spike.value)).max()
        assert 0 < spike.overlap2 < 1
        assert spike.overlap2 == pytest.approx(-1 / (w @ slope @ w), rel=1e-5)


@pytest.mark.parametrize(
    ("network", "target", "loss", "delta"),
    [
        (be.Network("gelu", second_layer=[2.0, -1.0]), "2*(abs(z) > 0.6744897501960817)", "squared", 12.0),
        (be.Network("gelu", second_layer=[2.0, 1.0]), "2*tanh(z1*z2)", "squared", 20.0),
    ],
    ids=["r=1", "r=2"],
)
def test_real_matrices_of_two_neurons(network, target, loss, delta):
    problem = be.Problem(target, network, loss)
    d, k, m = 500, problem.k, 2
    n = round(delta * d)
    gaps = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((n, d))
        y = problem.labels(X[:, :k], np.zeros(n))
        with jax.enable_x64(True):
            G = np.asarray(problem.pointwise.full(X[:, k : k + m].T, y, *problem.layer)).transpose(2, 0, 1)
        H = np.block([[X.T @ (G[:, i, j, None] * X) / n for j in range(m)] for i in range(m)])
        values, vectors = np.linalg.eigh(H)
        law = MatrixLaw.of(G, X[:, :k])
        found, edge, right = (
            matrix_outliers.below(law, delta),
            matrix.left_edge(law, delta),
            matrix.right_edge(law, delta),
        )
        assert found
        overlap2 = np.sum(vectors[:, 0].reshape(m, d)[:, :k] ** 2)
        inner = values[len(found)]
        assert right.value < values[-1] + 0.05 * np.ptp(values)
        gaps.append((values[0] - found[0].value, overlap2 - found[0].overlap2, inner - edge.value))
    value, overlap2, lowest = np.mean(gaps, axis=0)
    stderr = np.std(gaps, axis=0, ddof=1) / np.sqrt(3)
    assert abs(value) < 4 * stderr[0] + 0.02 * abs(found[0].value)
    assert abs(overlap2) < 4 * stderr[1] + 0.02
    assert abs(lowest) < 4 * stderr[2] + 0.05 * abs(edge.value)


@pytest.mark.parametrize("delta", [0.3, 4.0])
def test_density_integrates_to_one_and_counts_eigenvalues(delta):
    d = 400
    n = round(delta * d)
    law = network_law(n, [1.0, -0.7], seed=5)
    X = np.random.default_rng(6).standard_normal((n, d))
    H = np.block([[X.T @ (law.g[:, i, j, None] * X) / n for j in range(2)] for i in range(2)])
    values = np.linalg.eigvalsh(H)
    x, y, status, missing = matrix_density.density(law, n / d, points=100, nodes=500)
    assert status is Status.CONVERGED
    assert abs(missing) < 0.01
    atom = matrix_density.atom(law, n / d)
    assert np.mean(np.abs(values) < 1e-9) == pytest.approx(atom, abs=1e-12)
    mass = np.concatenate([[0], np.cumsum(0.5 * (y[1:] + y[:-1]) * np.diff(x))])
    for at in np.quantile(values, [0.1, 0.25, 0.75, 0.9]) + 1e-7:
        predicted = np.interp(at, x, mass) + (atom if at > 0 else 0)
        assert np.mean(values <= at) == pytest.approx(predicted, abs=0.015)


def test_density_of_equal_blocks_is_the_scalar_one():
    law = scalar_law(1)
    x, y, _, _ = matrix_density.density(MatrixLaw(law.g[:, None, None] * np.eye(2), law.s), 3.0)
    expected = bulk.density(law, 3.0)
    assert y[5:-5] == pytest.approx(np.interp(x[5:-5], expected[0], expected[1]), abs=2e-3 * y.max())


def test_atoms():
    G = np.zeros((10, 3, 3))
    G[:, 0, 0] = 1.0  # rank one, two neurons left alone
    law = MatrixLaw(G, np.zeros((10, 0)))
    assert matrix_density.atom(law, 2.0) == pytest.approx(2 / 3)
    assert matrix_density.atom(law, 0.5) == pytest.approx(2 / 3 + 1 / 6)
    assert matrix.left_edge(law, 2.0).value == 0.0
    assert matrix_outliers.below(MatrixLaw(G, np.ones((10, 1))), 2.0) == []
    assert matrix.right_edge(law, 2.0).value == pytest.approx((1 + 2**-0.5) ** 2, rel=1e-9)
    full = MatrixLaw(np.broadcast_to(np.eye(3), (10, 3, 3)), np.zeros((10, 0)))
    assert matrix.left_edge(full, 2.0).value == pytest.approx((1 - 2**-0.5) ** 2, rel=1e-9)
    assert matrix_density.atom(full, 2.0) == 0.0
    assert matrix_density.atom(full, 0.25) == pytest.approx(0.75)


def test_sixteen_neurons():
    law = scalar_law(7, n=100)
    wide = MatrixLaw(law.g[:, None, None] * np.eye(16), law.s[:, :0])
    assert matrix.left_edge(wide, 2.0).value == pytest.approx(bulk.left_edge(law, 2.0).value, rel=1e-8)


def test_a_subset_represents_the_law():
    law = network_law(5000, [1.0, -0.7])
    small = law.represented(400)
    assert small.g.shape == (400, 2, 2)
    assert np.abs(small.g.mean(axis=0) - law.g.mean(axis=0)).max() < 0.1
    assert law.represented(10**4).g is law.g


def test_laws_from_outside_are_checked():
    for weights, s, message in (
        (np.zeros((3, 2)), None, r"weights: must have shape \(n, m, m\)"),
        (np.zeros((3, 2, 2)), None, "weights: are all zero"),
        (np.arange(12.0).reshape(3, 2, 2), None, "weights: must be symmetric"),
        (np.full((3, 1, 1), np.nan), None, "weights: must be finite"),
        (np.ones((3, 1, 1)), np.ones(2), "s: must have one row per weight"),
    ):
        with pytest.raises(BadInput, match=message):
            MatrixLaw.of(weights, s)
    assert MatrixLaw.of(np.ones((3, 1, 1)), np.ones(3)).r == 1
    with pytest.raises(BadInput, match="above the real axis"):
        matrix_density.stieltjes(network_law(10, [1.0]), 1.0, 1.0 + 0j)


def test_neurons_that_come_to_the_edge_almost_together():
    """Eight neurons alike, but for sampling: a little beyond the edge there is no solution to be found."""
    problem = be.Problem("2*tanh(z^2)", be.Network("gelu", 8, 2.0), "pseudo-huber")
    rng = np.random.default_rng(0)
    v, z = rng.standard_normal((8, 2048)), rng.standard_normal((2048, 1))
    with jax.enable_x64(True):
        G = np.asarray(problem.pointwise.full(v, problem.labels(z, np.zeros(2048)), *problem.layer)).transpose(2, 0, 1)
    for delta in (5.0, 10.0, 20.0):
        edge = matrix.left_edge(MatrixLaw(G, z), delta)
        alike = matrix.left_edge(MatrixLaw(G, z, alike=(0,) * 8), delta)
        assert edge.value == pytest.approx(alike.value, rel=0.06)
        assert edge.value < alike.value  # an average over exchanges is less extreme
