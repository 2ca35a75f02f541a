import sys

import numpy as np
import pytest
from scipy.special import ndtr

import bulkedge as be
from bulkedge import BadInput
from bulkedge.dynamics.stored_data import DATA, START
from bulkedge.finite import inputs
from bulkedge.gaussian.streams import stream
from bulkedge.learnability.lowest import lowest

INDICATOR = "2*(abs(z) > 0.6744897501960817)"
FOURTH = {
    "gaussian": 3.0,
    "rademacher": 1.0,
    "student-9": 3.0 + 6.0 / (9.0 - 4.0),
    "sparse-0.25": 3.0 / 0.25,
    "elliptic-12": 3.0 * 10.0 / 8.0,
}


@pytest.mark.parametrize("name", FOURTH)
def test_laws_have_unit_variance_and_their_fourth_moment(name):
    x = np.stack([inputs.draw(name, 400, 50, np.random.default_rng(i)) for i in range(40)])
    for power, expected in ((2, 1.0), (4, FOURTH[name])):
        means = np.mean(x**power, axis=(1, 2))
        assert abs(means.mean() - expected) < 4.5 * means.std(ddof=1) / np.sqrt(40) + 1e-12


def test_elliptic_radii_are_shared_within_a_sample_and_student_entries_are_not():
    spread = {
        name: np.std(np.mean(inputs.draw(name, 4000, 400, np.random.default_rng(0)) ** 2, axis=1))
        for name in ("elliptic-12", "student-12")
    }
    # Var of (nu - 2)/chi^2_nu is 2/(nu - 4); independent entries average to (kurtosis - 1)/d.
    assert spread["elliptic-12"] == pytest.approx(np.sqrt(2.0 / 8.0 + 2.0 / 400), rel=0.15)
    assert spread["student-12"] == pytest.approx(np.sqrt((3.0 + 6.0 / 8.0 - 1.0) / 400), rel=0.1)


def test_correlated_inputs_have_a_spectrum_of_trace_d_and_whitened_ones_none():
    x = inputs.draw("correlated-1", 20000, 20, np.random.default_rng(0))
    variances = np.mean(x**2, axis=0)
    expected = np.arange(1, 21) ** -1.0
    np.testing.assert_allclose(variances, expected * 20 / expected.sum(), rtol=4.5 * np.sqrt(2 / 20000))
    w = inputs.draw("whitened", 60, 20, np.random.default_rng(0))
    np.testing.assert_allclose(w.T @ w / 60, np.eye(20), atol=1e-10)


def test_digits_are_white_over_the_whole_table():
    x = inputs.draw("digits", 1797, 61, np.random.default_rng(0))
    np.testing.assert_allclose(x.T @ x / 1797, np.eye(61), atol=1e-10)
    np.testing.assert_allclose(x.mean(axis=0), 0.0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "n", "d", "words"),
    [
        ("gausian", 10, 5, "gaussian"),
        ("student", 10, 5, "needs a number above 2"),
        ("student-2", 10, 5, "needs a number above 2"),
        ("sparse-1.5", 10, 5, "between 0 and 1"),
        ("gaussian-3", 10, 5, "takes no number"),
        ("whitened", 5, 5, "more samples than dimensions"),
        ("digits", 1798, 5, "too many"),
        ("digits", 10, 62, "too many"),
    ],
)
def test_refused_in_a_sentence(name, n, d, words):
    with pytest.raises(BadInput, match=words):
        inputs.draw(name, n, d, np.random.default_rng(0))


def test_a_table_without_its_package_is_refused_in_a_sentence(monkeypatch):
    inputs._table.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(BadInput, match="needs scikit-learn"):
        inputs.draw("digits", 10, 5, np.random.default_rng(0))


def test_training_on_rotated_samples_is_training_on_the_samples():
    n, d, steps, eta = 90, 12, 8, 0.5
    run = inputs.train(be.Problem("z**2", "gelu", step_size=eta), "sparse-0.3", n, d, steps, 5)
    x = inputs.draw("sparse-0.3", n, d, stream(5, 0, DATA))
    frame, _ = np.linalg.qr(stream(5, 0, inputs._FRAME).standard_normal((d, d)))
    feature = frame[:, 0]
    start = stream(5, 0, START).standard_normal(d)
    theta = frame @ (start / np.linalg.norm(start))
    y, cosine, density = (x @ feature) ** 2, [], lambda v: np.exp(-0.5 * v * v) / np.sqrt(2 * np.pi)
    for t in range(steps + 1):
        v = x @ theta
        slope = ndtr(v) + v * density(v)
        if t == 0:
            g = slope**2 + (v * ndtr(v) - y) * density(v) * (2 - v * v)
            values, vectors = np.linalg.eigh((x * g[:, None]).T @ x / n)
        cosine.append(abs(theta @ feature) / np.linalg.norm(theta))
        theta = theta - eta * x.T @ ((v * ndtr(v) - y) * slope) / n
    np.testing.assert_allclose(run.cosine, cosine, rtol=2e-4, atol=1e-5)
    assert run.lowest == pytest.approx(values[0], abs=1e-3 * np.ptp(values))
    assert run.overlap2 == pytest.approx((vectors[:, 0] @ feature) ** 2, abs=0.02)
    assert run.radius_spread == pytest.approx(np.std(np.sum(x**2, axis=1) / d), rel=1e-6)


def test_independent_entries_obey_the_gaussian_limit_and_elliptic_ones_do_not():
    problem = be.Problem(INDICATOR, "gelu", step_size=0.5)
    d, delta = 200, 16.0
    expected = lowest(be.spectrum(problem, delta, 0), d)
    assert expected is not None

    assert expected.outlier is not None

    def misses(name):
        """Of the eigenvalue and of its overlap, beyond what a finite dimension explains, in standard errors."""
        runs = [inputs.train(problem, name, round(delta * d), d, 0, seed) for seed in range(8)]
        values = np.array([[run.lowest, run.overlap2] for run in runs])
        allowed = np.array([expected.drift, 4.0 / d])
        gaps = np.abs(values.mean(axis=0) - [expected.value, expected.outlier.overlap2]) - allowed
        return gaps / (values.std(axis=0, ddof=1) / np.sqrt(8))

    assert np.all(misses("gaussian") < 6)
    assert np.all(misses("rademacher") < 6)
    assert misses("elliptic-8")[1] > 6


def test_several_directions():
    run = inputs.train(be.Problem("tanh(z1*z2)", "gelu", step_size=0.5), "rademacher", 200, 20, 3, 0)
    assert run.cosine.shape == (4,)
    assert np.all((run.cosine > 0) & (run.cosine < 1))
    assert 0 <= run.overlap2 <= 1
