"""The bulk: Marchenko and Pastur's law, random laws by independent routes, simulated matrices."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.spectra import bulk
from bulkedge.spectra.law import WeightLaw, pooled


def law_of(g, p=None, s=None):
    g = np.asarray(g, float)
    s = np.zeros((g.size, 0)) if s is None else np.asarray(s, float)
    return WeightLaw(g, s, None if p is None else np.asarray(p, float))


ONE = law_of([1.0, 1.0])


def marchenko_pastur(ratio, x):
    low, high = (1 - ratio**0.5) ** 2, (1 + ratio**0.5) ** 2
    return np.sqrt(np.maximum((high - x) * (x - low), 0)) / (2 * np.pi * ratio * x)


@pytest.mark.parametrize(("ratio", "low", "high"), [(0.5, 0.08578644, 2.91421356), (2.0, 0.0, 5.82842712)])
def test_marchenko_pastur(ratio, low, high):
    delta = 1 / ratio
    assert bulk.left_edge(ONE, delta).value == pytest.approx(low, abs=1e-8)
    assert bulk.right_edge(ONE, delta).value == pytest.approx(high, abs=1e-8)
    assert bulk.atom(ONE, delta) == pytest.approx(max(0.0, 1 - 1 / ratio), abs=1e-14)
    x, y, status, missing = bulk.density(ONE, delta)
    assert status is Status.CONVERGED
    assert abs(missing) < 1e-4
    assert y == pytest.approx(marchenko_pastur(ratio, x), abs=1e-6)
    if ratio == 2.0:
        assert x[0] == pytest.approx(0.17157288, abs=1e-8)  # the bulk proper starts above the atom


def test_published_marchenko_pastur_values():
    z = np.array([1 + 1e-9j])
    assert bulk.stieltjes(ONE, 2.0, z).alpha.imag / np.pi == pytest.approx(0.4210844, abs=1e-7)
    for delta, cdf in ((2.0, 0.57600422), (0.5, 0.65915494)):
        x, y, _, _ = bulk.density(ONE, delta, points=4000)
        inside = x <= 1
        partial = np.trapezoid(np.append(y[inside], np.interp(1, x, y)), np.append(x[inside], 1.0))
        assert partial + bulk.atom(ONE, delta) == pytest.approx(cdf, abs=2e-6)


def test_the_hard_edge_at_delta_one():
    x, y, status, missing = bulk.density(ONE, 1.0)
    assert status is Status.CONVERGED
    assert abs(missing) < 1e-3
    assert np.all(np.isfinite(y))
    middle = (x > 0.01) & (x < 3.9)
    assert y[middle] == pytest.approx(marchenko_pastur(1.0, x[middle]), rel=1e-6)


WEIGHTS = st.lists(
    st.floats(-10, 10, allow_subnormal=False).map(lambda g: 0.0 if abs(g) < 1e-3 else g), min_size=1, max_size=6
).filter(any)
DELTAS = st.floats(-2, 2).map(lambda u: 10**u)


@settings(max_examples=150, deadline=None)
@given(WEIGHTS, DELTAS, st.integers(0, 2**32))
def test_density_and_atom_make_one(g, delta, seed):
    p = np.random.default_rng(seed).dirichlet(np.full(len(g), 0.7)) + 1e-4
    law = law_of(g, p / p.sum())
    near_hard_edge = abs(delta * (1 - law.mass_at_zero) - 1) < 1e-3
    x, y, status, missing = bulk.density(law, delta, points=200)
    assert status is Status.CONVERGED
    assert abs(missing) < (2e-2 if near_hard_edge else 2e-3)
    assert np.all(y >= 0)
    assert np.all(np.isfinite(y))
    size = np.ptp(x) + np.abs(x).max()
    left, right = bulk.left_edge(law, delta).value, bulk.right_edge(law, delta).value
    assert left - 1e-6 * size <= x[0]
    assert x[-1] <= right + 1e-6 * size
    if bulk.atom(law, delta) == 0 and not near_hard_edge:
        assert x[0] == pytest.approx(left, abs=1e-6 * size)
        assert x[-1] == pytest.approx(right, abs=1e-6 * size)


@pytest.mark.parametrize("delta", [0.01, 0.1, 1.0, 10.0, 1000.0])
@pytest.mark.parametrize("kind", ["heavy tails", "gaussian", "positive", "scales"])
def test_density_of_sampled_laws(kind, delta):
    rng = np.random.default_rng(1)
    g = {
        "heavy tails": rng.standard_t(3, 20000),
        "gaussian": rng.standard_normal(20000),
        "positive": np.abs(rng.standard_normal(20000)),
        "scales": np.repeat([1e-3, 1.0, 1000.0], [18000, 1800, 200]),
    }[kind]
    _, _, status, missing = bulk.density(law_of(g), delta, points=300)
    assert status is Status.CONVERGED
    assert abs(missing) < 1e-3


def test_separate_pieces_have_their_masses():
    """Far apart and few: each atom of G carries delta times its probability."""
    law = law_of([-50.0, 0.0, 1.0, 50.0], [0.2, 0.3, 0.4, 0.1])
    delta = 0.02
    x, y, _, _ = bulk.density(law, delta)
    for low, high, mass in ((-1e5, -500, 0.2), (0, 500, 0.4), (500, 1e5, 0.1)):
        part = (x > low) & (x < high)
        assert np.trapezoid(y[part], x[part]) == pytest.approx(delta * mass, rel=1e-3)
    assert bulk.atom(law, delta) == pytest.approx(1 - 0.7 * delta)


def test_density_agrees_with_the_transform_above_the_axis():
    rng = np.random.default_rng(2)
    law = law_of(rng.standard_normal(300) + 0.3)
    x, y, _, _ = bulk.density(law, 3.0)
    inner = slice(20, -20, 7)
    size = np.ptp(x)
    solution = bulk.stieltjes(law, 3.0, x[inner] + 1e-9j * size)
    assert solution.status is Status.CONVERGED
    assert solution.alpha.imag / np.pi == pytest.approx(y[inner], rel=1e-5)


def polynomial_route(g, p, delta, z):
    """All solutions alpha of z + 1/alpha = E[G/(1 + alpha G/delta)] as roots of a polynomial; those above the axis."""
    factors = [np.poly1d([gi / delta, 1.0]) for gi in g]
    product = math.prod(factors, start=np.poly1d([1.0]))
    rest = np.poly1d([0.0])
    for i, (gi, pi) in enumerate(zip(g, p, strict=True)):
        rest += math.prod(factors[:i] + factors[i + 1 :], start=np.poly1d([pi * gi]))
    alpha = np.poly1d([1.0, 0.0])
    roots = (np.roots((alpha * product * complex(zi) + product - alpha * rest).c) for zi in z)
    return [r[r.imag > 1e-13 * np.abs(r)] for r in roots]


def test_ten_thousand_random_equations_on_the_right_branch():
    """Random atoms of G, z from far away to very near the axis: certified, and equal to the root of a polynomial."""
    rng = np.random.default_rng(0)
    pairs = 0
    for _ in range(500):
        n = int(rng.integers(1, 5))
        g = rng.standard_normal(n) * 10 ** rng.uniform(-1, 1, n)
        g[rng.random(n) < 0.1] = 0.0
        g[0] = g[0] or 1.0
        p, delta = rng.dirichlet(np.ones(n)), 10 ** rng.uniform(-2, 2)
        size = np.abs(g).max() * (1 + delta**-0.5) ** 2
        z = rng.uniform(-1.5, 1.5, 20) * size + 1j * size * 10 ** rng.uniform(-4, 0.5, 20)
        solution = bulk.stieltjes(law_of(g, p), delta, z)
        assert solution.status is Status.CONVERGED
        for alpha, roots in zip(solution.alpha, polynomial_route(g, p, delta, z), strict=True):
            assert roots.size == 1  # the solution above the axis is unique
            assert alpha == pytest.approx(roots[0], rel=1e-7)
            pairs += 1
    assert pairs == 10_000


def test_the_transform_of_a_long_law_against_the_damped_fixed_point():
    rng = np.random.default_rng(3)
    law, delta = law_of(rng.standard_t(4, 500)), 0.7
    z = rng.uniform(-5, 5, 30) + 1j * rng.uniform(0.05, 2, 30)
    alpha = np.full(z.shape, 1j)
    for _ in range(1500):
        new = 1 / (np.mean(law.g / (1 + alpha[:, None] * law.g / delta), axis=1) - z)
        alpha = 0.5 * (alpha + new)
    assert bulk.stieltjes(law, delta, z).alpha == pytest.approx(alpha, rel=1e-9)


def test_the_certificate_refuses_what_is_not_solved(monkeypatch):
    monkeypatch.setattr(bulk, "_settle", lambda law, delta, z, alpha, tolerance: (-alpha, np.zeros(alpha.shape)))
    solution = bulk.stieltjes(ONE, 2.0, np.array([0.1 + 0.5j]))
    assert solution.status is Status.NOT_CONVERGED
    with pytest.raises(BadInput, match="above the real axis"):
        bulk.stieltjes(ONE, 2.0, np.array([1.0 + 0j]))


@settings(max_examples=50, deadline=None)
@given(WEIGHTS, DELTAS, st.floats(0.01, 100))
def test_scaling_and_mirroring(g, delta, c):
    law, scaled = law_of(g), law_of(c * np.asarray(g))
    left, right = bulk.left_edge(law, delta), bulk.right_edge(law, delta)
    size = abs(left.value) + abs(right.value)
    assert bulk.left_edge(scaled, delta).value == pytest.approx(c * left.value, rel=1e-7, abs=1e-9 * c * size)
    assert bulk.right_edge(scaled, delta).value == pytest.approx(c * right.value, rel=1e-7, abs=1e-9 * c * size)
    assert bulk.left_edge(law.mirrored, delta).value == pytest.approx(-right.value, rel=1e-12, abs=1e-12 * size)
    assert bulk.left_edge(law.mirrored.mirrored, delta) == left
    assert left.value <= right.value


@settings(max_examples=100, deadline=None)
@given(WEIGHTS, DELTAS)
def test_the_edge_is_the_maximum_of_psi(g, delta):
    law = law_of(g)
    edge = bulk.left_edge(law, delta)
    u = np.linspace(-25, 25, 101)
    values = np.array([bulk.psi(law, delta, bulk.beta_of(law, v)) for v in u])
    size = 1e-8 * max(abs(edge.value), np.abs(law.g).max())
    assert np.all(values <= edge.value + size)


def test_a_law_that_thins_out_is_said_to():
    """Density proportional to (G + 1)^4 near the infimum: at small delta psi rises up to the end of its interval."""
    x, w = np.polynomial.legendre.leggauss(1500)
    g = 0.5 * (x - 1)
    p = w * (g + 1) ** 4
    law = WeightLaw(g, np.zeros((g.size, 0)), p / p.sum(), infimum=-1.0)
    assert bulk.left_edge(law, 0.05).thin
    assert not bulk.left_edge(law, 12.0).thin  # beyond 6 = 1/E[T^2] at the end
    exact = quad(lambda g: 5 * (g + 1) ** 4 * g / (1 + g), -1, 0)[0]
    assert bulk.left_edge(law, 0.05).value == pytest.approx(exact - 1 / 0.05, rel=1e-6)


def test_one_sample_can_hold_the_edge():
    g = np.concatenate([np.linspace(-1, 1, 1000), [-50.0]])
    assert bulk.left_edge(law_of(g), 5.0).share > 0.9
    assert bulk.left_edge(law_of(g[:-1]), 5.0).share < 0.05


@pytest.mark.parametrize(("delta", "zero"), [(0.5, 0.0), (0.5, 0.4), (3.0, 0.4), (1.5, 0.5)])
def test_edges_and_atom_of_simulated_matrices(delta, zero):
    d, n = 600, round(600 * delta)
    rng = np.random.default_rng(7)
    g = rng.choice([-1.0, 0.5, 2.0], n)
    g[: round(zero * n)] = 0.0
    X = rng.standard_normal((n, d))
    eigenvalues = np.linalg.eigvalsh(X.T @ (g[:, None] * X) / n)
    law = law_of(g)
    size = np.ptp(eigenvalues)
    assert eigenvalues[0] == pytest.approx(bulk.left_edge(law, n / d).value, abs=0.06 * size)
    assert eigenvalues[-1] == pytest.approx(bulk.right_edge(law, n / d).value, abs=0.06 * size)
    assert np.mean(np.abs(eigenvalues) < 1e-9) == pytest.approx(bulk.atom(law, n / d), abs=1e-12)
    x, y, _, _ = bulk.density(law, n / d)
    mass = np.concatenate([[0], np.cumsum(0.5 * (y[1:] + y[:-1]) * np.diff(x))])
    for at in np.quantile(eigenvalues, [0.1, 0.3, 0.7, 0.9]) + 1e-6:
        predicted = np.interp(at, x, mass) + (bulk.atom(law, n / d) if at > 0 else 0)
        assert np.mean(eigenvalues <= at) == pytest.approx(predicted, abs=6 / d + 1e-3)


def test_laws_from_outside_are_checked():
    for weights, s, message in (
        ([1.0], None, "weights: must be a one-dimensional"),
        ([[1.0, 2.0]], None, "weights: must be a one-dimensional"),
        ([1.0, np.nan], None, "weights: must be finite"),
        (["a", "b"], None, "weights: must be an array of numbers"),
        ([0.0, 0.0], None, "weights: are all zero"),
        ([1.0, 2.0], [1.0], "s: must have one row per weight"),
        ([1.0, 2.0], [1.0, np.inf], "s: must be finite"),
        ([1.0, 2.0], np.zeros((2, 1, 1)), "s: must have one row per weight"),
    ):
        with pytest.raises(BadInput, match=message):
            WeightLaw.of(weights, s)
    assert WeightLaw.of([1, 2], [3, 4]).s.shape == (2, 1)


def test_pooled_laws_are_mixtures():
    a, b = law_of([1.0, 2.0], s=[[1.0], [2.0]]), law_of([3.0, 4.0, 5.0, 6.0], s=np.ones((4, 1)))
    mixture = pooled([a, b])
    assert mixture.mean(mixture.g) == pytest.approx(0.5 * (1.5 + 4.5))
    assert pooled([a]) is a
    assert pooled([a, a]).p is None
    known = WeightLaw(a.g, a.s, infimum=-7.0)
    assert (pooled([a, known]).low, pooled([a, known]).high) == (-7.0, 2.0)
    weighted = law_of([1.0, 2.0], [0.9, 0.1], [[1.0], [2.0]])
    assert pooled([a, weighted]).mean(pooled([a, weighted]).g) == pytest.approx(0.5 * (1.5 + 1.1))
