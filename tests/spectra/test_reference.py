"""Published and independently computed values, by quadrature: thresholds, edges, outliers, overlaps."""

import jax
import numpy as np
import pytest

from bulkedge.foundation.roots import bracketed
from bulkedge.gaussian import quadrature
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.law import WeightLaw

Q = 0.6744897501960817
IND, TWO, SIGNS = f"abs(z) > {Q}", f"2*(abs(z) > {Q})", f"2*(abs(z) > {Q}) - 1"
ROWS = {
    ("gelu", "squared", IND): (7.92967, -0.16402, [(12, -0.08557, -0.08888, 0.20566)]),
    ("gelu", "squared", TWO): (
        5.10622,
        -0.82205,
        [(6, -0.73973, -0.74192, 0.10253), (10, -0.53241, -0.56169, 0.39137)],
    ),
    ("gelu", "squared", "tanh(z^2)"): (5.22391, -0.21305, [(8, -0.12185, -0.12354, 0.12245)]),
    ("gelu", "logistic", SIGNS): (3.24287, -0.23284, [(12, -0.06426, -0.11109, 0.79507)]),
    ("gelu", "pseudo-huber", "z^2"): (1.69276, -0.78668, [(12, -0.19307, -0.28210, 0.72958)]),
    ("quad", "pseudo-huber", "z^2"): (0.92303, -3.25829, [(12, -0.07979, -0.44614, 0.71375)]),
}


def threshold(law, low, high):
    """Where the margin of the lowest hidden outlier at the edge changes its sign."""
    margin = lambda delta: float(outliers.margins(law, delta, bulk.left_edge(law, delta), negative=True)[0])  # noqa: E731
    return bracketed(margin, low, high, xtol=1e-9)


def five_digits(value):
    return pytest.approx(value, abs=0.6e-5)


@pytest.mark.parametrize("key", ROWS, ids="-".join)
def test_one_direction_at_the_start(law_at_start, key):
    delta_star, edge_star, rows = ROWS[key]
    law = law_at_start(*key)
    delta = threshold(law, 0.9 * delta_star, 1.1 * delta_star)
    assert delta == five_digits(delta_star)
    assert bulk.left_edge(law, delta).value == pytest.approx(edge_star, abs=1.1e-5)
    for at, edge, value, overlap2 in rows:
        found = bulk.left_edge(law, at)
        assert found.value == five_digits(edge)
        assert not found.thin
        (spike,) = outliers.below(law, at, found)
        assert (spike.value, spike.overlap2) == (five_digits(value), five_digits(overlap2))


def test_one_smooth_target_more(law_at_start):
    law = law_at_start("gelu", "squared", "2*tanh(z^2)")
    delta = threshold(law, 2.5, 4.0)
    assert delta == pytest.approx(3.0835, abs=1e-4)
    assert bulk.left_edge(law, delta).value == pytest.approx(-0.978, abs=1e-3)
    (spike,) = outliers.below(law, 5.0)
    assert bulk.left_edge(law, 5.0).value == pytest.approx(-0.6991, abs=1e-4)
    assert (spike.value, spike.overlap2) == (pytest.approx(-0.7099, abs=1e-4), pytest.approx(0.1845, abs=1e-4))


def test_the_transition_condition_in_closed_form(law_at_start):
    """E[T^2] = -E[T (s^2 - 1)] and delta = 1/E[T^2] (theory 1.4): a second route to the threshold."""
    law = law_at_start("gelu", "squared", TWO)

    def gap(u):
        t = bulk.transform(law, bulk.beta_of(law, u))
        return float(law.mean(t * t) + law.tensor(t)[0, 0])

    t = bulk.transform(law, bulk.beta_of(law, bracketed(gap, -2.0, 20.0)))
    assert 1 / float(law.mean(t * t)) == five_digits(5.10622)


def test_the_window_closes_where_the_outlier_turns_positive(law_at_start):
    law = law_at_start("gelu", "squared", "tanh(z^2)")
    assert outliers.below(law, 10.0)[0].value == pytest.approx(-0.086, abs=1e-3)
    assert outliers.below(law, 20.0)[0].value == pytest.approx(0.0013, abs=1e-4)
    for delta, inside in ((4.0, False), (10.0, True), (20.0, False)):
        edge = bulk.left_edge(law, delta)
        assert (outliers.margins(law, delta, edge, negative=True)[0] < 0) == inside


def test_two_directions(law_at_start):
    law = law_at_start("gelu", "squared", "2*tanh(z1*z2)")
    (spike,) = outliers.below(law, 8.0)
    assert bulk.left_edge(law, 8.0).value == pytest.approx(-0.0819, abs=1e-4)
    assert spike.value == pytest.approx(-0.1473, abs=1e-4)
    assert np.abs(spike.direction @ np.array([1, 1])) / np.sqrt(2) == pytest.approx(1, abs=1e-6)


def test_the_outlier_formula_alone():
    """H = -(1/n) sum tanh(z^2 - 1) x x^T."""
    z, p = quadrature.nodes()
    law = WeightLaw(-np.tanh(z * z - 1), z[:, None], p, infimum=-1.0)
    delta = threshold(law, 0.5, 0.8)
    assert delta == five_digits(0.63874)
    assert bulk.left_edge(law, delta).value == pytest.approx(-2.4280, abs=1e-4)
    for at, edge, value, overlap2 in ((1.0, -1.6859, -1.7097, 0.1438), (4.0, -0.5564, -0.8088, 0.6924)):
        (spike,) = outliers.below(law, at)
        assert bulk.left_edge(law, at).value == pytest.approx(edge, abs=1e-4)
        assert (spike.value, spike.overlap2) == (pytest.approx(value, abs=1e-4), pytest.approx(overlap2, abs=1e-4))


def test_a_spectral_method_s_weights():
    """G = -(y - 1)/(y + 0.5), y = z^2, delta = 2; the values quoted come from samples (A = 2.110; 2 in the limit)."""
    z, p = quadrature.nodes(np.linspace(-1, 1, 9))
    y = z * z
    law = WeightLaw(-(y - 1) / (y + 0.5), z[:, None], p, infimum=-1.0, supremum=2.0)
    edge = bulk.left_edge(law, 2.0)
    (spike,) = outliers.below(law, 2.0, edge)
    assert edge.value == pytest.approx(-0.4823, abs=1e-3)
    assert 2.0 * edge.beta == pytest.approx(1.800, abs=1e-3)
    assert (spike.value, spike.overlap2) == (pytest.approx(-0.6139, abs=1e-3), pytest.approx(0.5427, abs=1e-4))


def test_taking_the_edge_at_the_end_of_the_interval_would_be_wrong():
    """Mutation check: with alpha_max = A in place of argmax psi the values above are missed."""
    z, p = quadrature.nodes(np.linspace(-1, 1, 9))
    y = z * z
    law = WeightLaw(-(y - 1) / (y + 0.5), z[:, None], p)
    end = bulk.reach(law)
    right = bulk.left_edge(law, 2.0).beta
    assert right < 0.9 * end
    wrong = bulk.psi(law, 2.0, end * (1 - 1e-9))
    assert abs(wrong - -0.4823) > 0.01
    grid = end * np.linspace(0.01, 0.999, 2000)
    values = np.array([bulk.psi(law, 2.0, b) for b in grid])
    assert grid[values.argmax()] == pytest.approx(right, rel=1e-3)
    assert values.max() <= bulk.left_edge(law, 2.0).value + 1e-12


def test_a_weight_outlier_above_the_bulk(law_at_start):
    """The revealed coordinate here is the neuron's own pre-activation: one outlier above, none along the target."""
    key = ("gelu", "squared", TWO)
    law = law_at_start(*key)
    v, _ = quadrature.split_nodes(jax.nn.gelu)
    own = np.repeat(v, law.g.size // v.size)[:, None]
    both = WeightLaw(law.g, np.concatenate([own, law.s], axis=1), law.p)
    (spike,) = outliers.above(both, 10.0)
    assert bulk.right_edge(law, 10.0).value == pytest.approx(0.657, abs=6e-4)
    assert spike.value == pytest.approx(0.692, abs=6e-4)
    assert spike.overlap2 * spike.direction[0] ** 2 == pytest.approx(0.468, abs=1e-3)  # simulated below
    assert abs(spike.direction[1]) < 1e-6
