"""delta_IT: the replica-symmetric formula and its bounds against closed forms and independent sums."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, xlogy
from scipy.stats import norm

import bulkedge as be
from bulkedge.foundation.limits import DeltaIT
from bulkedge.gaussian.cloud import cloud
from bulkedge.gaussian.hermite import hermite
from bulkedge.learnability.information import _hermite_bound, _identity_ratio
from bulkedge.learnability.overlap_information import coincidence, information, laws, least
from bulkedge.learnability.second_moments import of_one
from bulkedge.models.target import target

NOTHING, ONE = np.zeros((1, 0)), np.eye(1)


def entropy(p):
    return -xlogy(p, p) - xlogy(1 - p, 1 - p)


def door_information(q, edges):
    """I(w; y) for y = 1{|z| in [a, b) for some (a, b) of edges}, w = sqrt(q) z + sqrt(1 - q) xi: binary entropies."""
    w = np.linspace(-9, 9, 20001)
    centre, spread = np.sqrt(q) * w, np.sqrt(1 - q)
    inside = sum(ndtr((b - s * centre) / spread) - ndtr((a - s * centre) / spread) for a, b in edges for s in (1, -1))
    p = float(np.sum(inside * norm.pdf(w)) * (w[1] - w[0]))
    return entropy(p) - float(np.sum(entropy(np.clip(inside, 0, 1)) * norm.pdf(w)) * (w[1] - w[0]))


@pytest.mark.parametrize(
    ("link", "edges"),
    [
        ("abs(z) > 0.67449", [(0.67449, 99)]),
        ("abs(z) > 2", [(2, 99)]),
        ("(abs(z)<0.5)+(abs(z)>2)", [(0, 0.5), (2, 99)]),
    ],
)
def test_binary_labels_by_their_entropies(link, edges):
    found = laws(target(link), NOTHING, ONE, 1.0)
    for q in (0.05, 0.4, 0.9):
        assert information(found, q) == pytest.approx(door_information(q, edges), rel=2e-6)
    grid = np.linspace(0.01, 0.99, 99)
    ratio = [-(q + math.log1p(-q)) / (2 * door_information(q, edges)) for q in grid]
    answer = be.delta_it(link)
    assert answer.delta <= min(ratio) * (1 + 1e-6)
    if answer.overlap == 0.0:
        assert answer.delta == answer.delta_alg == answer.upper
    else:
        assert answer.delta == pytest.approx(min(ratio), rel=1e-3)
        assert answer.overlap == pytest.approx(grid[int(np.argmin(ratio))], abs=0.02)


def test_the_two_doors_have_a_gap_between_the_possible_and_the_efficient():
    found = be.delta_it("(abs(z)<0.5)+(abs(z)>2)")
    assert found.lower < found.delta < 0.25 * found.delta_alg


@pytest.mark.parametrize("link", ["abs(z) > 0.67449", "abs(abs(z) - 1)", "tanh(z^2) + 0.3*e", "z^2*exp(-z^2) + 0.3*e"])
def test_coincidence_is_the_sum_over_hermite_degrees(link):
    given = target(link)
    degrees = [lambda s, d=d: hermite(s[..., None], d)[..., 0] for d in range(1, 25)]
    energies, _ = of_one(given, NOTHING, ONE, degrees)
    found = laws(given, NOTHING, ONE, 1.0)
    for m in (0.1, 0.3, 0.4):
        series = 1 + sum(m**d * v for d, v in enumerate(energies, 1))
        assert coincidence(found, m) == pytest.approx(series, rel=1e-5, abs=2 * m**25)


@pytest.mark.parametrize(
    ("link", "delta"),
    [("z^2", 0.5), ("abs(z)", 0.5), ("max(z1,z2)", 0.5), ("tanh(z^2) + e", 7.1765), ("abs(z) > 0.67449", 1.36046)],
)
def test_continuous_transitions_have_no_gap(link, delta):
    found = be.delta_it(link)
    assert found.delta == pytest.approx(delta, abs=1e-4)
    assert found.delta * (1 - 2e-4) <= found.lower <= found.delta  # the share of far tails is added to f
    assert found.upper == found.delta_alg == pytest.approx(delta, abs=1e-4)
    assert found.overlap == 0.0


def test_without_noise_one_sample_per_dimension_is_enough_where_no_efficient_algorithm_works():
    found = be.delta_it("z^2*exp(-z^2)")
    assert (found.delta, found.overlap, found.delta_alg) == (1.0, 1.0, None)
    assert found.lower == pytest.approx(0.5)  # f(m) is decided by tails no quadrature reaches: that of |z| bounds it
    assert be.delta_it("z^2*exp(-z^2) + 0.1*e").delta > 1.0
    # Only labels above one fix |z|: 1/P(|z| > 1) bounds it, but recovery is efficient earlier.
    assert be.delta_it("max(abs(z), 1)").delta < 1 / (2 * norm.sf(1))


@pytest.mark.parametrize("link", ["z1*z2", "z1*z2*z3", "sign(z1*z2)", "z1^2 + sign(z1*z2*z3)", "z*e", "z1 + z2*z3"])
def test_bounds_are_labelled_and_in_order(link):
    found = be.delta_it(link)
    assert found.delta is None
    assert found.reason.startswith("between bounds")
    assert 0.1 < found.lower < found.upper <= found.delta_alg
    assert found.kinds["lower"].startswith("lower bound")
    assert found.kinds["upper"].startswith("upper bound")
    assert DeltaIT.from_dict(found.to_dict()).to_dict() == found.to_dict()


def test_parity_is_possible_where_it_is_not_efficient():
    """P(y = 1 | w) = (1 + prod_i erf(sqrt(q) w_i/sqrt(2 (1 - q))))/2."""
    given = target("sign(z1*z2*z3)")
    q = 0.8
    points = cloud(3, 14, 4)
    p = 0.5 + 0.5 * np.prod(2 * ndtr(np.sqrt(q / (1 - q)) * points.points) - 1, axis=2)
    value = float(np.mean(np.sum(points.p * (math.log(2) - entropy(p)), axis=1)))
    by_cloud = _identity_ratio(given, np.zeros((3, 0)), np.eye(3), np.array([-1.0, 1.0]), q)
    assert by_cloud == pytest.approx(-1.5 * (q + math.log1p(-q)) / value, rel=0.02)
    found = be.delta_it("sign(z1*z2*z3)")
    assert found.delta_alg is None
    assert found.lower < found.upper < 10


def test_hermite_bound_of_one_direction():
    """With all degrees possible, f <= 1/(1 - m); knowing that the link is even, 1/(1 - m^2), which gives 1/2."""
    assert _hermite_bound(1, 2.0, True, math.inf) == pytest.approx(0.5, abs=1e-6)
    assert _hermite_bound(1, 2.0, False, math.inf) < 0.5
    rate, most = 0.4, 2.0

    def ratio(m):
        return -0.5 * math.log1p(-m * m) / math.log(min(1 + 0.5 * rate * m * m + m**4 / (1 - m * m), most))

    best = min(ratio(m) for m in np.linspace(0.01, 0.999, 5000))
    assert _hermite_bound(1, rate, True, most) == pytest.approx(min(best, 1 / rate), rel=1e-3)


def test_least_finds_minima_between_grid_points():
    x, value = least(lambda x: (x - 0.437) ** 2 + 1.0, np.linspace(0.1, 0.9, 9))
    assert x == pytest.approx(minimize_scalar(lambda x: (x - 0.437) ** 2).x, abs=1e-3)
    assert value == pytest.approx(1.0, abs=1e-6)


def test_trivial():
    found = be.delta_it("sign(z) + 0.3*e")
    assert found.delta is None
    assert found.reason.startswith("trivial")
    assert (found.lower, found.upper) == (0.0, 0.0)
