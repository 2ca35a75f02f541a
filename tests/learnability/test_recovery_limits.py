"""Preprocessing, limiting spectra, state evolution and linearised AMP against closed forms and against each other."""

import numpy as np
import pytest
from scipy.special import k0, k1

import bulkedge as be
from bulkedge import BadInput
from bulkedge.gaussian.posterior import Posterior
from bulkedge.learnability.label_spectrum import label_spectrum
from bulkedge.learnability.linearised import linearised
from bulkedge.learnability.preprocessing import best_direction
from bulkedge.models.target import target

INDICATOR = "2*(abs(z) > 0.6744897501960817)"
Y = np.array([-9.0, -1.5, -0.3, -1e-3, 0.01, 0.5, 1.0, 2.0, 7.0])


def test_best_preprocessing_of_phase_retrieval():
    y = Y[Y > 0]
    assert be.preprocessing("z^2")(y) == pytest.approx(1 - 1 / y, rel=1e-9, abs=1e-12)
    for delta in (0.6, 2.0, 30.0):
        found = be.preprocessing("z^2", delta)
        assert found(y) == pytest.approx((y - 1) / (y + np.sqrt(2 * delta) - 1), rel=1e-9, abs=1e-12)
        assert found.delta_c == pytest.approx(0.5, rel=1e-9)
        # The same number from the modulus: T is a function of what the label says, not of how it says it.
        assert be.preprocessing("abs(z)", delta)(np.sqrt(y)) == pytest.approx(found(y), rel=1e-9, abs=1e-12)


def test_best_preprocessing_of_a_product_has_bessel_functions():
    found = be.preprocessing("z1*z2")
    expected = 1 - k0(abs(Y)) / (Y * k0(abs(Y)) + abs(Y) * k1(abs(Y)))
    assert found(Y) == pytest.approx(expected, rel=1e-6)
    assert found.direction == pytest.approx((0.5**0.5, 0.5**0.5))
    assert found.delta_c == pytest.approx(0.593751, abs=4 * max(found.delta_c_stderr, 1e-6))


def test_best_preprocessing_of_noisy_labels_by_quadrature():
    # y = z^2 + sigma e: E[z^2 | y] from the joint density on a fine grid.
    sigma, y = 0.7, np.array([-1.0, 0.3, 4.0])
    z = np.linspace(-9, 9, 200_001)
    weight = np.exp(-0.5 * z**2 - 0.5 * ((y[:, None] - z**2) / sigma) ** 2)
    m = (weight * z**2).sum(axis=1) / weight.sum(axis=1)
    assert be.preprocessing(f"z^2+{sigma}*e")(y) == pytest.approx(1 - 1 / m, rel=1e-6)


def test_label_zero_is_a_label():
    # Labels 0 and 2: one of them once went missing among the atoms.
    assert best_direction(target(INDICATOR))[0] == pytest.approx(best_direction(target(f"1+{INDICATOR}"))[0], rel=1e-9)


@pytest.mark.parametrize(("delta", "overlap2"), [(0.6, 0.041), (1.0, 0.206), (2.0, 0.486), (3.6, 0.678), (6.0, 0.790)])
def test_predicted_overlap_of_phase_retrieval(delta, overlap2):
    assert be.spectral_method("z^2", delta).predicted_overlap2[0] == pytest.approx(overlap2, abs=6e-4)


@pytest.mark.parametrize("link", ["z^2", INDICATOR, "tanh(z^2)"])
def test_no_outlier_below_the_threshold_and_one_above(link):
    delta_c = be.preprocessing(link).delta_c
    below, above = (be.spectral_method(link, factor * delta_c) for factor in (0.9, 1.05))
    assert below.predicted_overlap2 == [0.0]
    assert 0 < above.predicted_overlap2[0] < 0.1
    assert "No T sees the target" in below.warnings[0]
    assert not above.warnings


def test_no_neighbour_of_the_best_preprocessing_has_more_overlap():
    link, delta = target("z^2"), 2.0
    best = be.preprocessing(link)

    def overlap2(function):
        return label_spectrum(link, function, delta, points=16).outliers[-1].overlap2

    top = overlap2(best)
    for change in (lambda y: 0.1 * np.tanh(y), lambda y: 0.1 * (y < 0.5), lambda y: 0.05 * np.minimum(y, 3)):
        for sign in (1, -1):
            assert overlap2(lambda y, c=change, s=sign: best(y) + s * c(y)) < top - 1e-5
    # The bounded one is no maximum.
    assert overlap2(be.preprocessing(link, delta)) == pytest.approx(0.486, abs=6e-4)
    assert top == pytest.approx(0.639, abs=1e-3)


@pytest.mark.parametrize("link", ["z^2", INDICATOR, "z^2+0.7*e"])
def test_state_evolution_starts_at_the_algorithmic_threshold(link):
    # One step from a small M multiplies it by delta/delta_alg.
    start = 1e-4
    threshold = be.delta_alg(link).delta
    for delta in (0.8 * threshold, 1.3 * threshold):
        found = be.state_evolution(link, delta, start=start, iterations=1)
        assert found.overlap[1] / start == pytest.approx(delta / threshold, rel=5e-3)


def test_state_evolution_of_two_directions_starts_at_the_algorithmic_threshold():
    start, delta = 1e-3, 1.0
    found = be.state_evolution("z1*z2", delta, start=start * np.eye(2), iterations=1)
    error = 4 * found.stderr[1][0, 0] / start
    assert found.overlap[1][0, 0] / start == pytest.approx(delta / 0.593751, abs=error + 0.02)
    assert error < 0.15


def test_state_evolution_by_brute_force():
    # One step at M = 0.4: E[g^2] with g from the two solutions of y = z^2.
    m, delta = 0.4, 1.2
    rng = np.random.default_rng(0)
    w, u = rng.standard_normal((2, 4_000_000))
    w *= np.sqrt(m)
    size = np.abs(w + np.sqrt(1 - m) * u)
    g2 = ((size * np.tanh(size * w / (1 - m)) - w) / (1 - m)) ** 2
    x = delta * g2.mean()
    error = delta * g2.std() / np.sqrt(g2.size) / (1 + x) ** 2
    assert be.state_evolution("z^2", delta, start=m, iterations=1).overlap[1] == pytest.approx(
        x / (1 + x), abs=4 * error + 1e-9
    )


def test_fixed_points_are_self_consistent_and_ordered():
    ends = [
        be.state_evolution("z^2", delta, start=0.05, iterations=400).fixed_point for delta in (0.45, 0.55, 1.0, 1.5)
    ]
    assert ends[0] < 1e-6
    assert np.all(np.diff(ends) > 0)
    assert ends[-1] > 0.999
    # The spectral method is one algorithm among those AMP is better than.
    assert ends[2] > be.spectral_method("z^2", 1.0).predicted_overlap2[0]


def test_conditional_moments_of_a_product_with_correlated_prior():
    law = Posterior(target("z1*z2").call, 2, False)
    mean, cov, y = np.array([0.3, 0.2]), np.array([[0.5, 0.2], [0.2, 0.4]]), -0.8
    t = np.linspace(-14, 3, 400_001)
    u = np.concatenate([np.exp(t), -np.exp(t)])
    z = np.stack([u, y / u], axis=1) - mean
    p = np.exp(-0.5 * np.einsum("na,ab,nb->n", z, np.linalg.inv(cov), z))  # dz1/|z1| = dt
    p /= p.sum()
    found = law.given(np.array([y])).moments(mean[None], cov)
    assert found.shift[0] == pytest.approx(p @ z, abs=1e-6)
    assert found.second[0] == pytest.approx(np.einsum("n,na,nb->ab", p, z, z), abs=1e-6)


def test_linearised_amp_of_phase_retrieval_in_closed_form():
    found = linearised(target("z^2"))
    # E = y - 1: E[E^2] = 2, E[E^3] = 8.
    assert found.rates == pytest.approx((2.0,), rel=1e-9)
    assert found.third == pytest.approx(8.0, rel=1e-9)
    assert found.outliers(2.0) == pytest.approx([4.0])
    assert found.radius(2.0) == pytest.approx(2.0)
    assert found.overlap2(2.0) == pytest.approx(3 / 8)
    assert found.outliers(0.4) == []


def test_symmetric_matrix_has_its_outlier_at_one():
    # The symmetric matrix is delta D with T = T*.
    link = target("z^2")
    for delta in (0.7, 2.0, 5.0):
        top = label_spectrum(link, be.preprocessing(link), delta, points=16).outliers[-1]
        assert delta * top.value == pytest.approx(1.0, rel=1e-9)


def test_linearised_amp_of_a_product_and_of_many_equal_directions():
    product = linearised(target("z1*z2"))
    # On span{1, sigma_x} and span{sigma_z, i sigma_y}: diagonal part .68423 plus, or minus, off-diagonal part 1.
    assert product.rates == pytest.approx((1.68423, 1.68423, 0.68423 - 1, 0.68423 - 1), abs=2e-3)
    assert product.commute
    length = linearised(target("(z1^2+z2^2)/2"))
    assert length.rates == pytest.approx((1.0,) * 4, abs=1e-3)


def test_bad_input_is_one_sentence():
    with pytest.raises(BadInput, match=r"must be above 0\.5"):
        be.preprocessing("z^2", 0.4)
    with pytest.raises(BadInput, match="no spectral threshold"):
        be.preprocessing("sign(z1*z2*z3)")
    with pytest.raises(BadInput, match="delta"):
        be.spectral_method("z^2", -1.0)
    with pytest.raises(BadInput, match="for one or two"):
        be.state_evolution("z1*z2*z3", 3.0)
    with pytest.raises(BadInput, match="start"):
        be.state_evolution("z^2", 1.0, start=1.0)
    with pytest.raises(BadInput, match="easy directions"):
        be.linearised_amp("z", 1.0)
    with pytest.raises(BadInput, match="must return one weight"):
        be.spectral_method("z^2", 1.0, preprocess=lambda y: 1.0)
