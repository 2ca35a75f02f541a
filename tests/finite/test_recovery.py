"""Spectral method, AMP and linearised AMP on data: conventions, exactness, the data they take."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

import bulkedge as be
from bulkedge import BadInput
from bulkedge.finite import data
from bulkedge.finite.amp import AMP
from bulkedge.finite.estimator import products
from bulkedge.finite.linearised_amp import asymmetric, symmetric
from bulkedge.finite.spectral_method import SpectralMethod
from bulkedge.finite.spherical_sgd import expected_samples, quiet_step, recovery_times
from bulkedge.models.target import target

LINK = target("z^2")
ESTIMATORS = [SpectralMethod(np.tanh, n_components=2), AMP("z^2", max_iter=5)]


@pytest.fixture(scope="module")
def sample():
    x, y = data.stored(LINK, 400, 60, (0, 1))
    return x.astype(float), y


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_conventions_of_scikit_learn(estimator, sample):
    x, y = sample
    given = estimator.get_params()
    copy = clone(estimator)
    assert copy is not estimator
    assert copy.get_params() == given
    assert copy.set_params(random_state=3) is copy
    assert copy.get_params()["random_state"] == 3
    assert estimator.get_params()["random_state"] == given["random_state"]
    before = dict(vars(copy))
    assert copy.fit(x, y) is copy
    check_is_fitted(copy)
    # Parameters are kept as they were given; what was learned ends with an underscore; the data are not touched.
    assert {k: v for k, v in vars(copy).items() if not k.endswith("_")} == before
    assert copy.n_features_in_ == 60
    assert x == pytest.approx(data.stored(LINK, 400, 60, (0, 1))[0])
    again = clone(copy).fit(x, y)
    np.testing.assert_array_equal(again.components_, copy.components_)
    assert "random_state=3" in repr(copy)
    with pytest.raises(BadInput, match="no parameter"):
        copy.set_params(steps=3)


def test_spectral_method_in_a_pipeline_is_a_transformer(sample):
    x, y = sample
    line = make_pipeline(SpectralMethod(np.tanh, 2)).fit(x, y)
    assert line.transform(x[:7]).shape == (7, 2)
    with pytest.raises(BadInput, match="60 features"):
        line.transform(x[:, :5])


def test_eigenpairs_are_those_of_the_dense_matrix(sample):
    x, y = sample
    best = be.preprocessing("z^2", 6.0)
    found = SpectralMethod(best, 3, tol=1e-9).fit(x, y)
    value, vector = np.linalg.eigh((x * best(y)[:, None]).T @ x / len(x))
    assert found.eigenvalues_ == pytest.approx(value[::-1][:3], rel=1e-8)
    assert abs(found.components_ @ vector[:, ::-1][:, :3]) == pytest.approx(np.eye(3), abs=1e-5)
    low = SpectralMethod(best, 1, which="lowest", tol=1e-9).fit(x, y)
    assert low.eigenvalues_[0] == pytest.approx(value[0], rel=1e-8)


def test_matrices_of_linearised_amp_are_those_written_down(sample):
    x, y = sample[0][:150], sample[1][:150]
    d, second = 60, y[:, None, None]  # E[z^2 | y] = y
    found = asymmetric(products(x, y), second, 3)
    dense = (x @ x.T / d - np.eye(150)) @ np.diag(y - 1)
    value = np.linalg.eigvals(dense)
    assert np.sort(found.values.real) == pytest.approx(np.sort(value.real)[-3:], rel=1e-6)
    top = symmetric(products(x, y), np.maximum(second, 0.01))
    other = x.T @ np.diag(1 - 1 / np.maximum(y, 0.01)) @ x / d
    assert top.values[0].real == pytest.approx(np.linalg.eigvalsh(other)[-1], rel=1e-5)


def test_linearised_amp_is_the_derivative_of_amp(sample):
    # From a faint start the first step of AMP is linear, with weights E[z^2 | y] - 1 = y - 1.
    x, y = sample
    b = 1e-4 * np.random.default_rng(0).standard_normal(60)
    machine = AMP("z^2", max_iter=1, tol=1e-9, start=b[None] / np.sqrt(60)).fit(x, y)
    expected = x.T @ ((y - 1) * (x @ b)) / 60
    assert machine.components_[0] * np.sqrt(60) == pytest.approx(expected, rel=1e-4, abs=1e-8)


def test_lazy_data_have_the_law_of_stored_data():
    link, best, runs = LINK, be.preprocessing("z^2", 3.0), 24
    overlap2 = {"stored": [], "lazy": []}
    for i in range(runs):
        for kind in overlap2:
            drawn = data.stored(link, 240, 80, (5, i)) if kind == "stored" else data.lazy(link, 240, 80, (6, i), 161)
            found = SpectralMethod(best, max_products=160).fit(*drawn)
            overlap2[kind].append(found.components_[0, 0] ** 2)
    means = [np.mean(v) for v in overlap2.values()]
    error = np.hypot(*(np.std(v, ddof=1) / np.sqrt(runs) for v in overlap2.values()))
    assert abs(means[0] - means[1]) < 4 * error
    assert error < 0.06


def test_amp_on_lazy_data_finds_the_direction():
    x, y = data.lazy(LINK, 900, 300, (1, 2), 101)
    found = AMP("z^2", max_iter=100, tol=1e-4, random_state=1).fit(x, y)
    assert found.components_[0, 0] ** 2 > 0.9


def test_amp_believes_what_is_true():
    # Nishimori: I - V, the squared length of the estimate and its overlap with the truth agree.
    link, rows, status = target("z^2+0.7*e"), [], []
    for i in range(6):
        x, y = data.stored(link, 1000, 400, (0, 10 + i))
        found = AMP(link, max_iter=60, tol=1e-3, random_state=i).fit(x, y, truth=np.eye(1, 400))
        rows.append([found.overlap_[0, 0], np.sum(found.components_**2), abs(found.overlaps_[-1, 0, 0])])
        status.append(str(found.status_))
    # On one of these training sets AMP believes in what it does not hold, from every start: its status says so.
    calm = np.array(status) == "converged"
    assert calm.sum() >= 4
    assert not calm.all()
    assert found.n_starts_ == 1
    good = np.array(rows)[calm]
    assert good[:, 0].mean() == pytest.approx(be.state_evolution(link, 2.5, start=0.1).fixed_point, abs=0.02)
    for other in (1, 2):
        gap = good[:, other] - good[:, 0]
        assert abs(gap.mean()) < 4 * gap.std(ddof=1) / np.sqrt(calm.sum()) + 0.005
        assert gap.std(ddof=1) < 0.05


def test_bad_input_is_one_sentence(sample):
    x, y = sample
    for call, word in (
        (lambda: SpectralMethod(3).fit(x, y), "function of the labels"),
        (lambda: SpectralMethod(lambda v: v[:2]).fit(x, y), "one weight a label"),
        (lambda: SpectralMethod(np.zeros_like).fit(x, y), "vanishes"),
        (lambda: SpectralMethod(np.tanh, 0).fit(x, y), "n_components"),
        (lambda: SpectralMethod(np.tanh, which="both").fit(x, y), "which"),
        (lambda: SpectralMethod(np.tanh).fit(x[0], y), "samples, features"),
        (lambda: SpectralMethod(np.tanh).fit(x, y[:-1]), "one label a sample"),
        (lambda: SpectralMethod(np.tanh).fit(x * np.nan, y), "finite"),
        (lambda: AMP("z^2", max_iter=0).fit(x, y), "max_iter"),
        (lambda: AMP("z^2", start=np.ones((1, 60))).fit(x, y), "shorter than 1"),
        (lambda: AMP("z^2", start=np.ones((2, 60))).fit(x, y), "shape"),
        (lambda: AMP("z^2").fit(x, y - 5), "never gives"),
        (lambda: AMP("z1*z2*z3").fit(x, y), "one or two"),
        (lambda: recovery_times(target("z1*z2"), 10, 0.1, 10), "one direction"),
        (lambda: recovery_times(target("sign(z)"), 10, 0.1, 10), "piecewise constant"),
    ):
        with pytest.raises(BadInput, match=word):
            call()


def spherical_sgd(link_value, link_slope, d, eta, most, runs, seed):
    """The algorithm as it is written, with vectors of length d."""
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal((runs, d))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    theta[:, 0] = np.abs(theta[:, 0])
    times = np.full(runs, np.inf)
    for t in range(1, most + 1):
        x = rng.standard_normal((runs, d))
        u = np.sum(theta * x, axis=1)
        g = (link_value(u) - link_value(x[:, 0])) * link_slope(u)
        theta -= eta * g[:, None] * (x - u[:, None] * theta)
        theta /= np.linalg.norm(theta, axis=1, keepdims=True)
        times[(theta[:, 0] > 0.5) & np.isinf(times)] = t
    return times


def test_the_chain_has_the_law_of_the_algorithm():
    link, d = target("he2(z)"), 30
    eta = quiet_step(link, d, 0.4)
    chain = recovery_times(link, d, eta, 600, seed=1, runs=1000)
    brute = spherical_sgd(lambda v: v * v - 1, lambda v: 2 * v, d, eta, 600, 1000, 0)
    for t in (100, 250, 600):
        a, b = np.mean(chain <= t), np.mean(brute <= t)
        error = np.sqrt((a * (1 - a) + b * (1 - b)) / 1000)
        assert abs(a - b) < 4 * error
    assert 0.05 < np.mean(chain <= 250) < 0.95


@pytest.mark.parametrize(("text", "d"), [("he1(z)", 4000), ("he2(z)", 1000)])
def test_small_steps_take_the_mean_path(text, d):
    link = target(text)
    eta = quiet_step(link, d, 0.1)
    times = recovery_times(link, d, eta, 10**6, seed=0, runs=100, share=0.51)
    assert np.median(np.nan_to_num(times, nan=np.inf)) == pytest.approx(expected_samples(link, d, eta), rel=0.15)
