"""delta_alg (theory 02) against closed forms, published values and histograms of samples."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special
from scipy.stats import norm

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.limits import DeltaAlg
from bulkedge.learnability.algorithmic import _rank_one, staircase
from bulkedge.learnability.second_moments import _by_regression, of_one, second_moments
from bulkedge.models import latent
from bulkedge.models.directions import complement
from bulkedge.models.target import target

Q = float(norm.ppf(0.75))


def bessel(y):
    """E[z1^2 | z1 z2 = y] = |y| K1/K0, the density of y being K0/pi."""
    return y * special.k1(y) / special.k0(y) - 1.0


def product_rate():
    return 2 * integrate.quad(lambda y: special.k0(y) / np.pi * bessel(y) ** 2, 0, 50, limit=400)[0]


def two_signs():
    """Given c, the sum of two signs tells whether |s| < |c|: E[4 c^2 phi(c)^2/(p (1 - p))], p = erf(c/sqrt 2)."""

    def rate(c):
        p = special.erf(c / math.sqrt(2))
        return norm.pdf(c) * 4 * c * c * norm.pdf(c) ** 2 / (p * special.erfc(c / math.sqrt(2)))

    return 2 * integrate.quad(rate, 1e-9, 9)[0]


def indicator(a):
    """y = 1{|z| > a}: E[z^2 - 1; y] = +-2 a phi(a)."""
    p = 2 * norm.sf(a)
    return (2 * a * norm.pdf(a)) ** 2 / (p * (1 - p))


PHI = math.exp(-0.75)
EXACT = {
    "z^2": 0.5,
    "abs(z)": 0.5,
    "log(abs(z))": 0.5,
    f"abs(z) > {Q!r}": 1 / indicator(Q),
    "max(z1,z2)": 0.5,
    "z1 + z2^2": 0.5,
    "z1^2*(z2 > 0)": 1.0,
    "z1*z2": 1 / (1 + product_rate()),
    "z1^2 - z2^2": 1 / (1 + product_rate()),
    "z*e": 1 / product_rate(),
    "z1^2 + z2^2 > 1.5": (1 - PHI) / (0.75**2 * PHI),
    "sign(z1*z2)": math.pi**2 / 4,
    "sign(z1*z2) + sign(z3*z4)": math.pi**2 / 2,
    # y = A - B with exponential A and B: E[z1^2|y] = (|y| + 1)/2, E[z1 z2|y] = y/2
    "z1*z2 + z3*z4": 4 / 3,
    "z1^2 + z2^2 + z3^2 + z4^2": 2.0,
    "sign(z1) + sign(z2)": 1 / two_signs(),
}


@pytest.mark.parametrize("link", EXACT)
def test_closed_forms(link):
    found = be.delta_alg(link)
    assert found.stderr < 5e-4 * found.delta
    assert found.delta == pytest.approx(EXACT[link], abs=4.5 * found.stderr + 2e-6)
    assert found.rank_one >= found.delta


@pytest.mark.parametrize(
    ("link", "value", "tolerance"),
    [
        ("z1*z2", 0.593751, 1e-5),
        ("z1*z2*z3", 2.5652, 3e-4),
        ("z^2 + 0.1*e", 0.5021, 6e-5),  # noise variance .01
        ("z^2 + sqrt(0.1)*e", 0.5181, 6e-5),
        ("z^2 + sqrt(0.5)*e", 0.5780, 6e-5),
        ("z^2 + e", 0.6466, 6e-5),
        ("tanh(z^2) + 0.1*e", 0.8134, 6e-5),
        ("tanh(z^2) + sqrt(0.1)*e", 1.3903, 6e-5),
        ("tanh(z^2) + e", 7.1765, 6e-5),
        ("z1^2 + sign(z1*z2*z3)", 0.575166, 8e-5),
        ("sign(z1)+sign(z2)+sign(z3)", 4.05, 1e-2),
    ],
)
def test_published_values(link, value, tolerance):
    assert be.delta_alg(link).delta == pytest.approx(value, abs=tolerance)


def test_the_staircase_after_the_first_hard_direction():
    """With z1 known, sign(z1 z2 z3) is the parity of z2 and z3: pi^2/4."""
    found = be.delta_alg("z1^2 + sign(z1*z2*z3)")
    (first, one), (second, two) = found.stages
    np.testing.assert_allclose(one, [[1, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(np.abs(two), [[0, 1, 0], [0, 0, 1]], atol=1e-12)
    assert first == found.delta
    assert second == pytest.approx(math.pi**2 / 4, abs=4.5 * found.stderrs[1])


def test_directions_of_unequal_strength_become_visible_together():
    """y = sign(z1 z2) + z1^2: M is not diagonal but has full rank."""
    (delta, basis), *more = be.delta_alg("sign(z1*z2) + z1^2").stages
    assert (len(basis), more) == (2, [])
    assert delta == pytest.approx(0.53125, abs=3e-4)


@pytest.mark.parametrize("link", ["sign(z1*z2*z3)", "sign(z1*z2*z3*z4)", "z^2*exp(-z^2)", "z^2*exp(-z^2) + 0.3*e"])
def test_infinity_is_recognised(link):
    found = be.delta_alg(link)
    assert found.delta is None
    assert found.rank_one is None
    assert found.reason.startswith("delta_alg is infinite")
    assert found.stages[-1][0] is None


def test_trivial_is_said_to_be_trivial():
    for link in ("z", "he3(z)", "relu(z1)*z2", "z1 + z1*z2 + z1*z2*z3", "sign(z) + 0.3*e"):
        found = be.delta_alg(link)
        assert found.delta is None
        assert found.reason.startswith("trivial")
        assert all(delta == 0 for delta, _ in found.stages)


# --- by samples ---


def labels_of(y, bins):
    """Bin numbers: atoms on their own, the rest by quantiles."""
    values, count = np.unique(y, return_counts=True)
    atoms = values[count > y.size // 5000]
    label = np.full(y.shape, -1)
    for i, atom in enumerate(atoms):
        label[y == atom] = i
    rest = label < 0
    edges = np.quantile(y[rest], np.linspace(0, 1, bins + 1)[1:-1]) if rest.any() else []
    label[rest] = atoms.size + np.searchsorted(edges, y[rest])
    return label


def histogram_moments(link, unknown, bins, n, seed):
    """E[E_ij E_kl] from two independent halves of samples, so that it has no bias but that of the bins' width."""
    rng = np.random.default_rng(seed)
    z, e = rng.standard_normal((n, link.latent_dim)), rng.standard_normal(n)
    label = labels_of(latent.evaluate(link, z, e), bins)
    s, count = z @ unknown, label.max() + 1
    r = s.shape[1]
    halves = []
    for part in (slice(0, None, 2), slice(1, None, 2)):
        mass = np.maximum(np.bincount(label[part], minlength=count), 1)
        products = [
            np.bincount(label[part], s[part, i] * s[part, j] - (i == j), count) for i in range(r) for j in range(r)
        ]
        halves.append((np.array(products) / mass).T.reshape(count, r, r))
    t = np.einsum("n,nij,nkl->ijkl", np.bincount(label) / n, *halves)
    return 0.5 * (t + t.transpose(2, 3, 0, 1))


@pytest.mark.parametrize(
    "link",
    ["abs(z) + e > 1", "(z + 0.5*e)^2", "z^2*exp(0.3*e)", "abs(abs(z) - 1)", "max(abs(z), 1)", "z^4 - 3*z^2",
     "relu(z1*z2)", "max(z1*z2, 0.3)", "abs(z1) - abs(z2)", "z1*z2 + 0.5*e", "he3(z1)*z2", "sign(z1^2 + z2^2 - z3^2)"],
)  # fmt: skip
def test_second_moments_of_samples(link):
    """F at the matrix the theory calls best, by histograms: within 4.5 standard errors and the width of the bins."""
    given = target(link)
    basis = latent.active(given)
    moments = second_moments(given, np.zeros((given.latent_dim, 0)), basis)
    t = moments.mean
    r = len(t)
    value, vector = np.linalg.eigh(t.transpose(0, 3, 1, 2).reshape(r * r, r * r))
    best = vector[:, -1].reshape(r, r)
    coarse, fine = ([float(np.einsum("ijkl,il,jk->", histogram_moments(given, basis, bins, 200_000, seed), best, best))
                     for seed in range(6)] for bins in (100, 400))  # fmt: skip
    width = max(np.mean(fine) - np.mean(coarse), 0.0)
    error = 4.5 * np.std(fine, ddof=1) / math.sqrt(6)
    assert np.mean(fine) - error <= value[-1] <= np.mean(fine) + error + width
    assert error + width < 0.12 * value[-1]


def test_level_sets_and_regression_agree():
    for name in ("z^2 + 0.7*e", "abs(abs(z) - 1)", "max(abs(z), 1)", "cos(z)"):
        given = target(name)
        nothing, one = np.zeros((1, 0)), np.eye(1)
        fine, coarse = of_one(given, nothing, one, [lambda s: s * s - 1])
        other, error = _by_regression(given, nothing, one).estimate(lambda t: t.item())
        assert fine[0] == pytest.approx(coarse[0], rel=1e-5)
        assert other == pytest.approx(fine[0], abs=4.5 * error + 1e-7)
        assert error < 1e-3


def test_best_rank_one_matrix_by_a_grid_of_angles():
    given = target("he3(z1)*z2")
    t = second_moments(given, np.zeros((2, 0)), np.eye(2)).mean
    angle = np.linspace(0, np.pi, 20001)
    u = np.stack([np.cos(angle), np.sin(angle)])
    by_grid = np.max(np.einsum("ijkl,in,jn,kn,ln->n", t, u, u, u, u, optimize=True))
    assert _rank_one(t) == pytest.approx(by_grid, rel=1e-6)
    found = be.delta_alg("he3(z1)*z2")
    assert found.delta < 0.9 * found.rank_one == pytest.approx(0.9 / by_grid, rel=1e-3)


def test_rotated_coordinates():
    """Without noise an inexact hard direction would leave a trace of itself in the label."""
    r = np.linalg.qr(np.random.default_rng(5).standard_normal((2, 2)))[0]

    def turned(z, e):
        w = r.astype(z.dtype) @ z
        return jnp.where(w[0] > 0, w[0], w[1] ** 2)

    found = be.delta_alg(turned, 2)
    assert found.delta == pytest.approx(1.0, abs=1e-9)  # half of the samples are those of w2^2
    np.testing.assert_allclose(np.abs(r @ np.array(found.stages[1][1])[0]), [0, 1], atol=1e-9)


# --- interface ---


def test_a_callable_with_noise_is_the_expression():
    """Constants of a user's own function take the precision of its arguments."""
    found = be.delta_alg(lambda z, e: jnp.tanh(z[0] ** 2) + 0.3 * e, 1)
    assert found.delta == pytest.approx(be.delta_alg("tanh(z^2) + 0.3*e").delta, rel=1e-9)


def test_targets_problems_and_json():
    for given in ("z1*z2", target("z1*z2"), be.Problem("z1*z2", "gelu"), lambda z, e: z[0] * z[1]):
        found = be.delta_alg(given, 2)
        assert found.delta == pytest.approx(0.593751, abs=1e-5)
        assert found.condition.startswith("E[z | y] = 0 holds")
    assert DeltaAlg.from_dict(found.to_dict()).to_dict() == found.to_dict()
    assert {"delta", "rank_one", "condition", "stages", "stderr", "reason"} <= set(found.to_dict())
    with pytest.raises(BadInput, match="latent_dim"):
        be.delta_alg(be.Problem("z1*z2", "gelu"), 3)
    assert "troiani-2025" in found.cite()


@pytest.mark.parametrize(
    ("link", "sentence"),
    [
        ("1/z", "not square-integrable: E.y.2. diverges near a singularity"),
        ("z1/z2", "near a singularity"),
        ("tan(z)", "near a singularity"),
        ("exp(z^2)", "not square-integrable: E.y.2. diverges for large z"),
        ("exp(z^2/4)", "for large z"),
        ("0*z", "does not depend on z"),
        ("e", "does not depend on z"),
        ("sqrt(z)", "is not finite"),
        ("sin(1000*z)^2", "oscillates too fast"),
    ],
)
def test_bad_input_gets_a_sentence(link, sentence):
    for ask in (be.delta_alg, be.exponents, be.subspaces, be.delta_it):
        with pytest.raises(BadInput, match=sentence) as caught:
            ask(link)
        assert caught.value.argument == "target"


def test_complement_of_known_directions_is_what_a_stage_looks_at():
    first, second = staircase(target("z1 + z2^2"))
    assert complement(first.directions, np.eye(2)).T.tolist() == [[0.0, 1.0]]
    assert second.delta == pytest.approx(0.5)
