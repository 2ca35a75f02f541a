"""Outliers along directions that training has seen, against Hessians of networks really trained."""

import numpy as np
import pytest

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.spectra import bulk, outliers, revealed
from bulkedge.spectra.law import WeightLaw

TWO = "2*(abs(z) > 0.6744897501960817)"


def trained(problem, delta, steps, d, seed):
    """Weights, coordinates, used factors, and all eigenpairs in the revealed basis, of a network after some steps."""
    rng = np.random.default_rng(seed)
    n, k = round(delta * d), problem.k
    X = rng.standard_normal((n, d))
    y = problem.labels(X[:, :k], np.zeros(n))
    theta = rng.standard_normal(d)
    thetas, factors = [theta / np.linalg.norm(theta)], []
    for _ in range(steps):
        V = (X @ thetas[-1])[None]
        factors.append(np.asarray(problem.pointwise.factor(V, y, *problem.layer))[0].astype(float))
        thetas.append(thetas[-1] - problem.step_size * X.T @ factors[-1] / n)
    g = np.asarray(problem.pointwise.block((X @ thetas[-1])[None], y, *problem.layer))[0].astype(float)
    U = np.column_stack([np.eye(d)[:, :k], *thetas])
    c, inside = revealed.coordinates(X @ U, U.T @ U)
    basis = np.linalg.lstsq(inside, U.T, rcond=None)[0].T
    values, vectors = np.linalg.eigh(X.T @ (g[:, None] * X) / n)
    return g, c, np.column_stack(factors) if factors else None, values, basis.T @ vectors


CASES = {
    "at the start": (be.Problem(TWO, "gelu"), 10.0, 0),
    "one step": (be.Problem(TWO, "gelu", step_size=0.5), 10.0, 1),
    "two long steps": (be.Problem(TWO, "gelu", step_size=1.0), 20.0, 2),
    "three steps": (be.Problem(TWO, "gelu", step_size=0.5), 20.0, 3),
    "an easy direction": (be.Problem("z + z^2/2", "gelu", "pseudo-huber", 2.0), 8.0, 1),
}


@pytest.mark.parametrize("case", CASES)
def test_against_trained_networks(case):
    problem, delta, steps = CASES[case]
    rows = []
    for seed in range(5):
        g, c, f, values, components = trained(problem, delta, steps, 400, seed)
        spikes = revealed.revealed_outliers(g, c, f, delta)
        edges = [bulk.left_edge(WeightLaw(g, c), delta).value, bulk.right_edge(WeightLaw(g, c), delta).value]
        width = edges[1] - edges[0]
        for side, order in (("below", 1), ("above", -1)):
            mine = [s for s in spikes if s.side == side][::order]
            for i, spike in enumerate(mine):
                at = i if side == "below" else len(values) - 1 - i
                overlaps = components[:, at] ** 2
                assert np.all(spike.overlaps >= 0)
                assert spike.overlaps.sum() <= 1
                distance = abs(spike.value - edges[side == "above"]) / width
                if distance > 0.02:
                    rows.append(((values[at] - spike.value) / width, overlaps.sum() - spike.overlaps.sum()))
    assert len(rows) >= 4
    mean, stderr = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(len(rows))
    assert abs(mean[0]) < 4 * stderr[0] + 0.005
    assert abs(mean[1]) < 4 * stderr[1] + 0.03


def test_the_used_gradients_matter():
    """Mutation check: without the projection off F the outlier above is wrong, far beyond its error."""
    gaps = []
    for seed in range(4):
        g, c, f, values, _ = trained(be.Problem("2*tanh(z^2)", "gelu", step_size=0.5), 20.0, 2, 400, seed)
        right = max(s.value for s in revealed.revealed_outliers(g, c, f, 20.0))
        wrong = max(s.value for s in revealed.revealed_outliers(g, c, None, 20.0))
        gaps.append((values[-1] - right, values[-1] - wrong))
    mean, stderr = np.mean(gaps, axis=0), np.std(gaps, axis=0, ddof=1) / 2
    assert abs(mean[0]) < 4 * stderr[0] + 0.003
    assert abs(mean[1]) > 4 * stderr[1] + 0.01


def test_without_factors_it_is_the_hidden_formula():
    rng = np.random.default_rng(0)
    c = rng.standard_normal((300, 2))
    g = rng.standard_normal(300) - 0.7 * c[:, 0] ** 2 + 0.5 * c[:, 1] ** 2
    law = WeightLaw(g, c)
    below = outliers.below(law, 8.0)
    above = outliers.above(law, 8.0)
    found = revealed.revealed_outliers(g, c, None, 8.0)
    assert [s.side for s in found] == ["below"] * len(below) + ["above"] * len(above)
    assert [s.value for s in found] == pytest.approx([s.value for s in [*below, *above[::-1]]])
    assert [s.overlaps.sum() for s in found] == pytest.approx([s.overlap2 for s in [*below, *above[::-1]]])
    for spike, hidden in zip(found, below, strict=False):
        assert abs(spike.kernel @ hidden.direction) == pytest.approx(1)
        assert spike.along(hidden.direction) == pytest.approx(spike.overlaps.sum())


def test_the_basis_of_the_factors_does_not_matter_and_repeats_do_no_harm():
    rng = np.random.default_rng(1)
    c, f = rng.standard_normal((400, 2)), rng.standard_normal((400, 2))
    c = c + 0.4 * f
    g = rng.standard_normal(400) - 0.9 * c[:, 0] ** 2
    p = rng.dirichlet(np.full(400, 5.0))
    one = revealed.revealed_outliers(g, c, f, 6.0, p)
    other = revealed.revealed_outliers(g, c, np.column_stack([f @ [[1.0, 2.0], [0.5, -1.0]], 3 * f[:, 0]]), 6.0, p)
    assert len(one) == len(other) > 0
    assert [s.value for s in one] == pytest.approx([s.value for s in other])
    mirrored = revealed.revealed_outliers(-g, c, f, 6.0, p)
    assert [-s.value for s in mirrored[::-1]] == pytest.approx([s.value for s in one])


def test_overlap_is_the_slope_of_the_eigenvalue():
    """Adding h e_a e_a^T shifts c's block: the eigenvalue moves at the rate of the overlap (a second route)."""
    rng = np.random.default_rng(2)
    f = rng.standard_normal((300, 1))
    c = rng.standard_normal((300, 2)) + 0.5 * f
    g = rng.standard_normal(300) - 0.8 * c[:, 0] ** 2 + 0.3 * c[:, 1]
    delta = 10.0
    spike = revealed.revealed_outliers(g, c, f, delta)[0]
    law, factors = WeightLaw(g, c), f / np.sqrt(np.mean(f**2))

    def moved(h, a):
        shift = np.zeros((2, 2))
        shift[a, a] = h
        low, high = 0.99 * spike.beta, 1.01 * spike.beta
        for _ in range(60):
            middle = 0.5 * (low + high)
            lowest = np.linalg.eigvalsh(revealed._schur(law, factors, delta, middle)[0] + middle * shift)[0]
            low, high = (middle, high) if lowest > 0 else (low, middle)
        return bulk.psi(law, delta, 0.5 * (low + high))

    h = 1e-5 * abs(spike.value)
    for a in (0, 1):
        assert (moved(h, a) - moved(-h, a)) / (2 * h) == pytest.approx(spike.overlaps[a], abs=2e-6)


def test_coordinates_are_orthonormal_and_drop_what_is_not_new():
    rng = np.random.default_rng(3)
    U = rng.standard_normal((6, 3))
    U = np.column_stack([U[:, 0], 2 * U[:, 0], U[:, 1], U[:, 2], U[:, 1] - U[:, 2]])
    X = rng.standard_normal((50, 6))
    c, inside = revealed.coordinates(X @ U, U.T @ U)
    assert c.shape == (50, 3)
    assert inside @ inside.T == pytest.approx(U.T @ U)
    basis = np.linalg.lstsq(inside, U.T, rcond=None)[0].T
    assert basis.T @ basis == pytest.approx(np.eye(3))
    assert X @ basis == pytest.approx(c)
    assert abs(basis[:, 0] @ U[:, 0]) == pytest.approx(np.linalg.norm(U[:, 0]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"g": [0.0, 0.0, 0.0]}, "weights: are all zero"),
        ({"c": [[1.0]]}, "s: must have one row"),
        ({"f": [[1.0]]}, "f: must have one row"),
        ({"delta": 0}, "delta: must be positive"),
        ({"p": [0.5, 0.5, 0.5]}, "p: must be 3 probabilities"),
        ({"f": [1.0, np.nan, 0.0]}, "f: must be finite"),
    ],
)
def test_bad_input(change, message):
    arguments = {"g": [1.0, -1.0, 2.0], "c": [[1.0], [0.0], [1.0]], "f": None, "delta": 2.0, "p": None, **change}
    with pytest.raises(BadInput, match=message):
        revealed.revealed_outliers(**arguments)


def test_bad_coordinates():
    with pytest.raises(BadInput, match="gram: must be square"):
        revealed.coordinates(np.ones((3, 2)), np.eye(3))
