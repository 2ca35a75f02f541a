"""The threshold and the spectrum at the start for inputs with a covariance."""

import json

import jax
import numpy as np
import pytest
from scipy import optimize

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.learnability import laws
from bulkedge.learnability.anisotropic import AnisotropicSpectrum

INDICATOR = "2*(abs(z) > 0.6744897501960817)"
TANH = "tanh(z^2)"
TWO_MASS = be.Covariance([0.5, 1.5], target=[0.0, 1.0])


@pytest.mark.parametrize(
    ("target", "activation", "loss"),
    [(INDICATOR, "gelu", "squared"), (TANH, "swish", "squared")],
)
def test_the_identity_reproduces_the_isotropic_answers(target, activation, loss):
    """Both ends of every window, edges, outlier, overlap; swish on tanh z^2 has a window that closes again."""
    problem, identity = be.Problem(target, activation, loss), be.Covariance([1.0, 1.0, 1.0])
    known, found = be.threshold(problem), be.anisotropic_threshold(problem, identity)
    assert found.delta == pytest.approx(known.delta, rel=1e-8)
    assert np.array(found.windows, float) == pytest.approx(np.array(known.windows, float), rel=1e-8, nan_ok=True)
    assert found.edge == pytest.approx(known.edge, rel=1e-8)
    assert found.isotropic == pytest.approx(known.delta, rel=1e-8)
    assert found.delta_alg == known.delta_alg
    few = be.Numerics(paths=2048, replicas=2)
    at = known.delta * 1.4
    known, found = (
        be.spectrum(problem, at, numerics=few),
        be.anisotropic_spectrum(problem, identity, at, points=50, numerics=few),
    )
    assert (found.edge, found.right_edge) == pytest.approx((known.edge, known.right_edge), rel=1e-8)
    for a, b in zip(found.outliers, known.outliers, strict=True):
        assert a.kind == b.kind
        assert (a.value, a.overlap2) == pytest.approx((b.value, b.overlap2), rel=1e-7)


def test_a_covariance_four_times_the_identity_is_a_steeper_neuron():
    """V ~ N(0, 4), and labels that do not notice."""
    network = be.Network("gelu", bias=0.3)
    found = be.anisotropic_threshold(be.Problem(INDICATOR, network), be.Covariance([4.0]))
    steep = be.Problem(INDICATOR, lambda v: jax.nn.gelu(2.0 * v + 0.3, approximate=False))
    assert found.delta == pytest.approx(be.threshold(steep).delta, rel=1e-8)


def test_a_direction_of_large_variance_needs_less_data():
    problem = be.Problem(INDICATOR, "gelu")
    high, low, generic = (
        be.anisotropic_threshold(problem, be.Covariance([0.5, 1.5], target=t)).delta for t in ([0, 1], [1, 0], None)
    )
    assert high < generic < low


def test_the_equations_as_they_are_first_written():
    """(beta, delta, z) at the threshold from the resolvent's own equations, by a general root finder."""
    problem = be.Problem(INDICATOR, "gelu")
    law = laws.initial(problem, 0)
    tau, mass, weights = np.array([0.5, 1.5]), np.array([0.5, 0.5]), np.array([0.2, 0.8])
    rho = tau * weights / (tau @ weights)

    def gaps(x):
        beta, delta, z = x
        kappa = float(law.mean(law.g / (1 + beta * law.g)))
        v = 1 / (kappa * tau - z)
        second = float(law.mean((law.g / (1 + beta * law.g)) ** 2))
        block = float(law.tensor(law.g / (1 + beta * law.g))[0, 0])
        return [
            mass @ (tau * v) - delta * beta,
            second * (mass @ (tau * v) ** 2) - delta,
            1 + block * (rho @ (tau * v)),
        ]

    found = be.anisotropic_threshold(problem, be.Covariance(tau, mass, weights))
    root = optimize.root(gaps, [0.18, found.delta * 1.02, found.edge * 1.02], tol=1e-12)
    assert root.success
    assert root.x[1:] == pytest.approx([found.delta, found.edge], rel=1e-7)


def test_the_end_of_a_window_with_a_positive_edge_does_not_depend_on_the_covariance():
    """There the whole spectrum turns positive, and a congruence keeps signs: Sylvester."""
    problem = be.Problem(TANH, "gelu")
    known, found = be.threshold(problem), be.anisotropic_threshold(problem, TWO_MASS)
    assert found.windows[0][1] == pytest.approx(known.windows[0][1], rel=1e-8)
    assert found.windows[0][0] < known.windows[0][0]


def test_spectra_have_all_kinds_of_outliers_and_survive_json():
    problem = be.Problem("z1 + 2*tanh(z2^2)", "gelu")
    inputs = be.Covariance([0.5, 1.5], target=[[0.0, 1.0], [1.0, 1.0]])
    few = be.Numerics(paths=8192, replicas=4)
    found = be.anisotropic_spectrum(problem, inputs, 40.0, points=50, numerics=few)
    assert {o.kind for o in found.outliers} >= {"hidden", "weight"}
    again = AnisotropicSpectrum.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.outliers == found.outliers
    table = be.anisotropic_spectrum(problem, inputs, [30.0, 40.0], points=50, numerics=few)
    assert float(table.edge[1]) == found.edge


def test_the_weight_outlier_of_real_matrices():
    """The largest eigenvalue and its overlap with theta(0): from samples of (V, z), at d = 400."""
    problem, delta, d = be.Problem(INDICATOR, "gelu"), 12.0, 400
    few = be.Numerics(paths=16384, replicas=4)
    found = be.anisotropic_spectrum(problem, TWO_MASS, delta, points=50, numerics=few).outliers[-1]
    assert found.kind == "weight"
    measured = []
    for seed in range(6):
        rng = np.random.default_rng([seed, 7])
        tau = np.repeat([0.5, 1.5], d // 2)
        x = rng.standard_normal((round(delta * d), d)) * np.sqrt(tau)
        theta, start = rng.standard_normal((2, d))
        theta, start = theta * (tau > 1), start / np.linalg.norm(start)
        y = problem.labels((x @ theta / np.sqrt(theta**2 @ tau))[:, None], np.zeros(len(x)))
        g = np.asarray(problem.pointwise.block((x @ start)[None], y, *problem.layer))[0].astype(float)
        values, vectors = np.linalg.eigh(x.T @ (g[:, None] * x) / len(x))
        measured.append((values[-1], (vectors[:, -1] @ start) ** 2))
    value, overlap2 = np.mean(measured, axis=0)
    error = np.std(measured, axis=0, ddof=1) / np.sqrt(6)
    assert value == pytest.approx(found.value, abs=4 * error[0] + 0.01 * value)
    assert overlap2 == pytest.approx(found.overlap2, abs=4 * error[1] + 0.02)


def test_the_covariance_of_a_matrix():
    rng = np.random.default_rng(1)
    a = rng.standard_normal((6, 6))
    sigma, theta = a @ a.T / 6 + 0.3 * np.eye(6), rng.standard_normal(6)
    found = be.Covariance.of(sigma, theta)
    tau, basis = np.linalg.eigh(sigma)
    rho = found.measure(1)[:, 0, 0]
    assert rho.sum() == pytest.approx(1)
    assert rho == pytest.approx(tau * (basis.T @ theta) ** 2 / (theta @ sigma @ theta))
    same = be.Covariance(tau, target=(basis.T @ theta) ** 2)
    assert same.measure(1)[:, 0, 0] == pytest.approx(rho)
    assert found.variance == pytest.approx(np.trace(sigma) / 6)


def test_a_covariance_that_ties_hard_to_easy_directions_is_refused():
    """Of sign(z1) + sign(z2) the sum is easy, the difference hard; with z1 and z2 in different eigenspaces they mix."""
    inputs = be.Covariance([0.5, 1.5], target=[[1, 0], [0, 1]])
    with pytest.raises(BadInput, match="ties hard directions to easy ones"):
        be.anisotropic_threshold(be.Problem("sign(z1) + sign(z2)", "gelu"), inputs)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: be.Covariance([]), "eigenvalues"),
        (lambda: be.Covariance([1.0, 0.0]), "eigenvalues"),
        (lambda: be.Covariance([1.0, np.nan]), "eigenvalues"),
        (lambda: be.Covariance([1.0, 2.0], [1.0]), "masses"),
        (lambda: be.Covariance([1.0, 2.0], [1.0, 0.0]), "masses"),
        (lambda: be.Covariance([1.0, 2.0], target=[0.0, 0.0]), "target"),
        (lambda: be.Covariance([1.0, 2.0], target=[-1.0, 2.0]), "target"),
        (lambda: be.Covariance([1.0], target=np.ones((2, 1))).measure(3), "covariance"),
        (lambda: be.Covariance.of([[1.0, 2.0], [2.0, 1.0]]), "matrix"),
        (lambda: be.Covariance.of(np.diag([1.0, 2.0]), np.array([[1.0, 1.0], [0.0, 1.0]])), "directions"),
        (lambda: be.Covariance.power_law(-1.0, 10), "exponent"),
        (lambda: be.anisotropic_threshold(be.Problem("z^2", "gelu"), [1.0]), "covariance"),
        (lambda: be.anisotropic_spectrum(be.Problem("z^2", "gelu"), TWO_MASS, -1.0), "delta"),
    ],
)
def test_bad_arguments(make, argument):
    with pytest.raises(BadInput) as caught:
        make()
    assert caught.value.argument == argument


def test_nothing_hard_and_nothing_negative():
    assert be.anisotropic_threshold(be.Problem("z", "gelu"), TWO_MASS).reason == "nothing hard"
    few = be.Numerics(paths=256, replicas=2)
    found = be.anisotropic_threshold(be.Problem(INDICATOR, "relu"), TWO_MASS, numerics=few)
    assert (found.delta, found.reason) == (None, "none")
    assert any("never negative" in w for w in found.warnings)
