"""Outliers of the whole Hessian along all that training has seen, against trained networks and the scalar route."""

import jax
import numpy as np
import pytest

import bulkedge as be
from bulkedge.spectra import matrix, matrix_outliers, revealed
from bulkedge.spectra.matrix_law import MatrixLaw

TWO = "2*(abs(z) > 0.6744897501960817)"


def trained(problem, delta, steps, d, seed):
    """Weights (n, m, m), coordinates, used factors and all eigenpairs, components in the revealed basis (m, q, md)."""
    rng = np.random.default_rng(seed)
    n, k, m = round(delta * d), problem.k, problem.m
    X = rng.standard_normal((n, d))
    y = problem.labels(X[:, :k], np.zeros(n))
    theta = rng.standard_normal((m, d))
    thetas, factors = [theta / np.linalg.norm(theta, axis=1, keepdims=True)], []
    with jax.enable_x64(True):
        for _ in range(steps):
            factors.append(np.asarray(problem.pointwise.factor(thetas[-1] @ X.T, y, *problem.layer)))
            thetas.append(thetas[-1] - problem.step_size * factors[-1] @ X / n)
        g = np.moveaxis(np.asarray(problem.pointwise.full(thetas[-1] @ X.T, y, *problem.layer)), 2, 0)
    U = np.concatenate([np.eye(d)[:k], *thetas]).T
    c, inside = revealed.coordinates(X @ U, U.T @ U)
    basis = np.linalg.lstsq(inside, U.T, rcond=None)[0].T
    H = np.block([[X.T @ (g[:, i, j, None] * X) / n for j in range(m)] for i in range(m)])
    values, vectors = np.linalg.eigh(H)
    components = np.einsum("dq,mde->mqe", basis, vectors.reshape(m, d, -1))
    used = np.concatenate(factors).T if factors else np.zeros((n, 0))
    return g, c, used, values, components


def test_one_neuron_is_the_scalar_route():
    g, c, f, _, _ = trained(be.Problem(TWO, "gelu", step_size=0.5), 20.0, 3, 200, 0)
    expected = revealed.revealed_outliers(g[:, 0, 0], c, f, 20.0)
    law = MatrixLaw(g, c)
    found = matrix_outliers.below(law, 20.0, f) + matrix_outliers.above(law, 20.0, f)[::-1]
    assert len(found) == len(expected) >= 2
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.value == pytest.approx(theirs.value, rel=1e-8)
        assert mine.overlap2 == pytest.approx(theirs.overlaps.sum(), rel=1e-6)
        size = np.linalg.norm(mine.direction)
        assert abs(mine.direction[0] @ theirs.kernel) == pytest.approx(size, rel=1e-6)


CASES = {
    "at the start": (be.Problem(TWO, be.Network("gelu", second_layer=(2.0, -1.0)), step_size=1.0), 15.0, 0),
    "two steps": (be.Problem(TWO, be.Network("gelu", second_layer=(2.0, 1.0)), step_size=1.0), 20.0, 2),
    "an easy direction": (
        be.Problem("z1 + z2^2/2", be.Network("gelu", second_layer=(2.0, -1.0)), "pseudo-huber", 2.0),
        12.0,
        1,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_against_trained_networks(case):
    problem, delta, steps = CASES[case]
    rows = []
    for seed in range(4):
        g, c, f, values, components = trained(problem, delta, steps, 250, seed)
        law = MatrixLaw(g, c)
        edges = matrix.left_edge(law, delta).value, matrix.right_edge(law, delta).value
        width = edges[1] - edges[0]
        for side, spikes in enumerate((matrix_outliers.below(law, delta, f), matrix_outliers.above(law, delta, f))):
            for i, spike in enumerate(spikes):
                assert 0 <= spike.overlap2 <= 1
                if abs(spike.value - edges[side]) > 0.02 * width:
                    at = i if side == 0 else values.size - 1 - i
                    overlap2 = np.sum(components[:, :, at] ** 2)
                    rows.append(((values[at] - spike.value) / width, overlap2 - spike.overlap2))
    assert len(rows) >= 4
    mean, stderr = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
    assert abs(mean[0]) < 4 * stderr[0] + 0.005
    assert abs(mean[1]) < 4 * stderr[1] + 0.03


def test_used_gradients_matter_and_their_basis_does_not():
    problem, delta, steps = CASES["two steps"]
    gaps = []
    for seed in range(3):
        g, c, f, values, _ = trained(problem, delta, steps, 250, seed)
        law = MatrixLaw(g, c)
        right, wrong = (matrix_outliers.above(law, delta, used)[0].value for used in (f, None))
        turn = np.random.default_rng(9).standard_normal((f.shape[1], f.shape[1]))
        assert matrix_outliers.above(law, delta, f @ turn)[0].value == pytest.approx(right, rel=1e-7)
        gaps.append((values[-1] - right, values[-1] - wrong))
    mean = np.mean(gaps, axis=0)
    assert abs(mean[1]) > 3 * abs(mean[0])
