"""Independently computed values through the public functions, and mutations of the theory that these values notice.

A reference is a function that raises AssertionError where the package is wrong. Each passes as the package is, and must
fail once the memory term of the dynamics is dropped, the edge taken at the end of its interval, or the antithetic pairs
are taken away: what a test cannot notice it does not test.
"""

import functools
import math

import numpy as np
import pytest
from scipy.special import ndtri

import bulkedge as be
from bulkedge.dynamics import dmft, escape
from bulkedge.learnability import laws
from bulkedge.spectra import bulk

Q = 0.6744897501960817
TWO = f"2*(abs(z) > {Q})"
NUMERICS = be.Numerics(paths=32768, replicas=4)
# time: train, test, norm2, edge, hidden outlier, its overlap2; from lazily revealed descent at d = 150,000, two seeds:
# one percent on the first four, two on outliers, .02 on overlap2 (.04 near criticality).
TABLES = {
    ("squared", TWO, 10.0): {
        2: (0.8685, 0.929, 0.957, -0.4730, -0.4895, 0.309),
        5: (0.8040, 0.9345, 1.100, -0.3697, -0.3719, 0.123),
        10: (0.7461, 0.9486, 1.373, -0.2628, None, None),
        20: (0.7004, 0.972, 1.699, -0.1727, None, None),
    },
    ("pseudo-huber", "z^2", 4.0): {
        2: (0.571, 0.6067, 0.900, -0.387, -0.407, 0.311),
        5: (0.527, 0.6096, 0.939, -0.3325, -0.341, 0.213),
        10: (0.480, 0.619, 1.182, -0.261, -0.261, 0.034),
        20: (0.430, 0.6457, 1.716, -0.1837, None, None),
    },
}
NEAR_CRITICAL = {5: 0.04, 10: 0.04}


def close(value, stderr, expected, tolerance):
    assert abs(value - expected) <= tolerance + 4 * stderr, (value, stderr, expected)


def curves(loss, target, delta, times):
    problem = be.Problem(target, "gelu", loss, step_size=0.5)
    found = be.trajectory(problem, delta, max(times), numerics=NUMERICS)
    for t in times:
        for name, expected in zip(("train_loss", "test_loss", "norm2"), TABLES[loss, target, delta][t], strict=False):
            close(found[name][t], found.stderr[name][t], expected, 0.01 * expected)


def spectra(loss, target, delta, times):
    problem = be.Problem(target, "gelu", loss, step_size=0.5)
    for t in sorted(times, reverse=True):
        *_, edge, value, overlap2 = TABLES[loss, target, delta][t]
        found = be.spectrum(problem, delta, t, numerics=NUMERICS, points=32)
        close(found.edge, found.edge_stderr, edge, 0.01 * abs(edge))
        hidden = [o for o in found.outliers if o.kind == "hidden" and o.probability > 0.5]
        assert len(hidden) == (value is not None)
        for o in hidden:
            close(o.value, o.stderr, value, 0.02 * abs(value))
            close(o.overlap2, o.overlap2_stderr, overlap2, NEAR_CRITICAL.get(t, 0.02))


@pytest.mark.parametrize("case", TABLES, ids=lambda c: c[0])
def test_after_two_to_twenty_steps(case):
    curves(*case, (2, 5, 10, 20))
    spectra(*case, (2, 5, 10, 20))


def start():
    """One neuron at t = 0, to five digits, through the public function."""
    found = be.spectrum(be.Problem(TWO, "gelu"), 10.0, points=32, numerics=NUMERICS)
    hidden, weight = found.outliers
    assert found.edge == pytest.approx(-0.53241, abs=0.6e-5)
    assert (hidden.kind, hidden.probability, hidden.stderr) == ("hidden", 1.0, 0.0)
    assert hidden.value == pytest.approx(-0.56169, abs=0.6e-5)
    assert hidden.overlap2 == pytest.approx(0.39137, abs=0.6e-5)
    assert found.right_edge == pytest.approx(0.657, abs=1e-3)
    assert (weight.kind, weight.value) == ("weight", pytest.approx(0.692, abs=1e-3))


def test_one_neuron_at_the_start():
    start()


def test_two_hard_directions_at_the_start():
    found = be.spectrum(be.Problem("2*tanh(z1*z2)", "gelu"), 8.0, points=32, numerics=NUMERICS)
    assert found.edge == pytest.approx(-0.0819, abs=0.6e-4)
    (below,) = [o for o in found.outliers if o.value < found.edge]
    assert (below.kind, below.value) == ("hidden", pytest.approx(-0.1473, abs=0.6e-4))
    # Matrices at d = 4000.
    assert below.value == pytest.approx(-0.1452, abs=4 * 0.0013)


def test_one_smooth_neuron_before_and_after_a_step():
    """2 tanh(z^2), half squared loss: delta = 5 at the start, and delta = 8 after one step of size 1."""
    found = be.spectrum(be.Problem("2*tanh(z^2)", "gelu"), 5.0, points=32, numerics=NUMERICS)
    (hidden,) = [o for o in found.outliers if o.kind == "hidden"]
    assert (found.edge, hidden.value) == (pytest.approx(-0.6991, abs=0.6e-4), pytest.approx(-0.7099, abs=0.6e-4))
    assert hidden.overlap2 == pytest.approx(0.1845, abs=0.6e-4)
    after = be.spectrum(be.Problem("2*tanh(z^2)", "gelu", step_size=1.0), 8.0, 1, points=32, numerics=NUMERICS)
    (hidden,) = [o for o in after.outliers if o.kind == "hidden"]
    close(after.edge, after.edge_stderr, -0.4688, 1e-3)
    close(hidden.value, hidden.stderr, -0.489, 1e-3)
    close(hidden.overlap2, hidden.overlap2_stderr, 0.294, 3e-3)


def test_a_window_ends_where_the_outlier_turns_positive():
    problem = be.Problem("tanh(z^2)", "gelu")
    ((low, high),) = be.threshold(problem).windows
    assert low == pytest.approx(5.22391, abs=0.6e-5)
    assert 10 < high < 20
    for delta, value in ((10.0, -0.086), (20.0, 0.0013)):
        found = be.spectrum(problem, delta, points=32, numerics=be.Numerics(paths=1024, replicas=2))
        (hidden,) = [o for o in found.outliers if o.kind == "hidden"]
        assert hidden.value == pytest.approx(value, abs=6e-4 if delta == 10 else 6e-5)


def test_the_formula_alone_on_weights_of_one_s_own():
    """H = -(1/n) sum tanh(z^2 - 1) x x^T, z at the quantiles of a Gaussian."""
    z = ndtri((np.arange(200_000) + 0.5) / 200_000)
    weights = -np.tanh(z * z - 1)
    for delta, edge, value, overlap2 in ((1.0, -1.6859, -1.7097, 0.1438), (4.0, -0.5564, -0.8088, 0.6924)):
        found = be.outliers(weights, z, delta, points=32)
        (hidden,) = found.outliers
        assert (found.edge, hidden.value) == (pytest.approx(edge, abs=2e-4), pytest.approx(value, abs=2e-4))
        assert hidden.overlap2 == pytest.approx(overlap2, abs=2e-4)
    assert be.outliers(weights, z, 0.63, points=32).outliers == []
    (just,) = be.outliers(weights, z, 0.65, points=32).outliers
    assert just.overlap2 < 0.02


def committee():
    """Two ReLU neurons of opposite sign: published simulations at D = 5000, to 2e-3."""
    problem = be.Problem("tanh(z1 + he3(z2))", be.Network("relu", 2, (2**0.5, -(2**0.5))), step_size=0.6)
    found = be.trajectory(problem, 3.0, 6, numerics=be.Numerics(paths=65536, replicas=4))
    m11 = np.array([0.07572, 0.12384, 0.15618, 0.17998, 0.19887, 0.21468])
    m12 = np.array([-0.06258, -0.10184, -0.12758, -0.14607, -0.16036, -0.17219])
    q11 = np.array([0.8550, 0.8058, 0.7917, 0.7929, 0.8017, 0.8146])
    for neuron, sign in enumerate((1, -1)):
        for direction, expected in enumerate((m11, m12)):
            got, error = (v[1:, neuron, direction] for v in (found.overlap, found.stderr["overlap"]))
            # The limit of m12 at t = 6 is -.1741: two standard errors (.001) of the simulation from its value.
            assert np.all(np.abs(sign * got - expected) < 2e-3 + 4 * error)
        assert np.all(np.abs(found.norm2[1:, neuron] - q11) < 2e-3 + 4 * found.stderr["norm2"][1:, neuron])
    np.testing.assert_allclose(found.overlap[1, 0], [0.0759, -0.0633], atol=3e-4)
    np.testing.assert_allclose(found.test_loss[:4], [0.4917, 0.4202, 0.3859, 0.3683], atol=1e-3)


def test_a_committee_of_relus():
    committee()


def growth_of_an_overlap():
    """A nonlinear run from a tiny overlap follows the linear theory, and its mirror image is exact."""
    problem = be.Problem(TWO, "gelu", step_size=0.5)
    gain = escape.escape(dmft.solve(problem, 30.0, 8, paths=1 << 14, seed=(0,))).gain[:, 0, 0]
    for m0 in (1e-4, -1e-4):
        run = dmft.solve(problem, 30.0, 8, paths=1 << 15, seed=(0,), overlap=np.array([[m0]]))
        np.testing.assert_allclose(run.overlap[:, 0, 0] / m0, gain, rtol=0.03)


def test_growth_of_an_overlap():
    growth_of_an_overlap()


def hidden_overlap_stays_hidden():
    found = be.trajectory(be.Problem(TWO, "gelu", step_size=0.5), 30.0, 8, numerics=be.Numerics(paths=4096, replicas=2))
    assert np.all(np.abs(found.overlap) < 1e-9)


def test_a_hidden_overlap_stays_hidden():
    hidden_overlap_stays_hidden()


def at_the_end(law, delta):
    """The left edge taken at A, the end of the interval of beta, in place of the maximum of psi."""
    end = bulk.reach(law)
    if math.isinf(end):
        return _true_edge(law, delta)
    beta = (1 - 1e-6) * end
    return bulk.Edge(bulk.psi(law, delta, beta), beta, False, 0.0)


_true_edge = bulk.left_edge
_true_solve = dmft.solve

MUTATIONS = {
    "no memory term": (dmft, "solve", functools.partial(_true_solve, memory=False)),
    "edge at A": (bulk, "left_edge", at_the_end),
    "no antithetic pairs": (dmft, "solve", functools.partial(_true_solve, mirror=False)),
}
FIRST = next(iter(TABLES))
NOTICED = [
    ("no memory term", functools.partial(curves, *FIRST, (5,))),
    ("no memory term", functools.partial(spectra, *FIRST, (5,))),
    ("no memory term", committee),
    ("edge at A", start),
    ("edge at A", functools.partial(spectra, *FIRST, (2,))),
    ("no antithetic pairs", growth_of_an_overlap),
    ("no antithetic pairs", hidden_overlap_stays_hidden),
]


@pytest.mark.parametrize(("mutation", "reference"), NOTICED, ids=lambda x: x if isinstance(x, str) else "")
def test_every_mutation_is_noticed(monkeypatch, mutation, reference):
    place, name, wrong = MUTATIONS[mutation]
    monkeypatch.setattr(place, name, wrong)
    laws._LAST.clear()
    try:
        with pytest.raises(AssertionError):
            reference()
    finally:
        laws._LAST.clear()
