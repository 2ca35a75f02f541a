"""The best member of a family: never worse than its start, never below delta_alg, and confirmed by `threshold`."""

import numpy as np
import pytest

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.learnability.design import optimise
from bulkedge.learnability.surface import Surface
from bulkedge.models.family import family

Q = 0.6744897501960817
TWO = f"2*(abs(z) > {Q})"


@pytest.fixture(scope="module")
def scale():
    """Output scale and bias of one gelu neuron on 2 * 1{|z| > median}."""
    return optimise(be.Problem(TWO, "gelu"), "second_layer,bias")


def test_it_is_a_minimum_and_confirmed(scale):
    found, winner = scale
    assert found.status is Status.CONVERGED
    assert found.delta_alg < found.after["delta"] < found.before["delta"]
    assert found.before["delta"] == pytest.approx(5.10622, abs=1e-5)
    assert be.threshold(winner).delta == pytest.approx(found.after["delta"], rel=1e-9)
    assert found.winner == winner.to_dict()
    for name in ("second_layer", "bias"):
        assert abs(found.gradient[name]) < 1e-4
    # Around the winner the threshold is higher, on all sides.
    a, b = found.parameters["second_layer"], found.parameters["bias"]
    surface = Surface(family(be.Problem(TWO, "gelu"), "second_layer,bias"))
    best = surface.at(np.array([a, b])).delta
    for step in ((0.03, 0), (-0.03, 0), (0, 0.1), (0, -0.1)):
        assert surface.at(np.array([a, b]) + step).delta > best
    assert all(end is None or end >= best * (1 - 1e-4) for _, end in found.starts)


def test_efficiency_factors_into_steadiness_and_shape(scale):
    found, winner = scale
    assert found.efficiency == found.delta_alg / found.after["delta"]
    assert found.steadiness * found.shape == pytest.approx(found.efficiency, rel=1e-4)
    # The two by brute force, from samples of (v, z) at the threshold's own beta.
    rng = np.random.default_rng(0)
    v, z = rng.standard_normal((2, 400_000))
    y = winner.labels(z[:, None], np.zeros(z.size))
    a, b = winner.layer
    g = np.asarray(winner.pointwise.block(v[None], y, a, b)[0])
    high = y > 1
    target = 1.0 - np.where(high, np.mean(z[high] ** 2), np.mean(z[~high] ** 2))
    best = 0.0
    for beta in np.geomspace(0.01, 0.999, 60) / -g.min():
        t = beta * g / (1 + beta * g)
        if np.mean(t**2) * found.after["delta"] > 1:
            own = np.where(high, t[high].mean(), t[~high].mean())
            best = (np.mean(own**2) / np.mean(t**2), np.mean(own * target) ** 2 / np.mean(own**2) / np.mean(target**2))
            break
    assert best == pytest.approx((found.steadiness, found.shape), rel=0.05)


def test_the_preprocessing_it_realises(scale):
    """Two labels, each with probability one half: E[z^2 | y] of the two are known, and the best T follows."""
    found, _ = scale
    seen = found.preprocessing
    assert seen["y"] == [0.0, 2.0]
    assert seen["mass"] == pytest.approx([0.5, 0.5], abs=1e-9)
    density = np.exp(-Q * Q / 2) / np.sqrt(2 * np.pi)
    second = np.array([1 - 4 * Q * density, 1 + 4 * Q * density])
    assert seen["optimal"] == pytest.approx(1 - 1 / second, rel=1e-6)
    low, high = seen["realised"]
    assert low < 0 < high


def test_only_the_output_scale_and_the_squared_loss_follow_the_scaling_law(scale):
    """(y, a) -> (c y, c a) leaves the threshold where it is: labels of half the size, half the second layer."""
    half, _ = optimise(be.Problem(f"abs(z) > {Q}", "gelu"), "second_layer=0.02:5")
    full, _ = optimise(be.Problem(TWO, "gelu"), "second_layer=0.04:10")
    assert half.after["delta"] == pytest.approx(full.after["delta"], rel=1e-7)
    assert half.parameters["second_layer"] == pytest.approx(full.parameters["second_layer"] / 2, rel=1e-3)
    assert scale[0].after["delta"] <= full.after["delta"] * (1 + 1e-6)


def bent(v, c):
    return be.models.functions.activation("gelu").call(v) + c * v * v


def test_a_family_in_python_is_the_same_as_in_text():
    problem = be.Problem(TWO, "gelu")
    texts, calls = (family(problem, {"c": (0, 1)}, given) for given in ("gelu(v) + c*v^2", bent))
    points = [Surface(members).at(np.array([0.2])) for members in (texts, calls)]
    assert points[0].delta == pytest.approx(points[1].delta, rel=1e-9)
    assert points[0].slope == pytest.approx(points[1].slope, rel=1e-7)
    assert be.threshold(calls.exact([0.2])).delta == pytest.approx(points[1].delta, rel=1e-5)


def test_a_winner_at_its_bounds_is_told():
    found, _ = optimise(be.Problem(TWO, "gelu"), {"second_layer": (0.5, 0.8)})
    assert found.parameters == {"second_layer": 0.5}
    assert "bounds of second_layer" in " ".join(found.warnings)


@pytest.mark.parametrize(
    ("target", "loss", "over", "kwargs", "argument", "word"),
    [
        (TWO, "squared", "nonsense=0:1", {}, "over", "neither"),
        (TWO, "squared", "c", {"activation": "gelu(v)+c*v"}, "over", "needs bounds"),
        (TWO, "squared", {"bias": (1, -1)}, {}, "over", "must increase"),
        (TWO, "squared", {"bias": (0, 0)}, {}, "over", "must increase"),
        (TWO, "squared", {"bias": 3}, {}, "over", "two finite numbers"),
        (TWO, "squared", {"bias": (0, float("inf"))}, {}, "over", "finite"),
        (TWO, "squared", "bias,bias", {}, "over", "twice"),
        (TWO, "squared", {}, {}, "over", "names no parameter"),
        (TWO, "squared", "v=0:1", {}, "over", "variable"),
        (TWO, "squared", "bias,c=0:1", {"activation": "gelu(v)"}, "over", "neither"),
        (TWO, "squared", "loss_scale", {}, "over", "nothing to the squared loss"),
        ("z^2", "squared", "bias", {}, "over", "unbounded below"),
        ("z^2", "pseudo-huber", "c=0.1:1", {"activation": "c*v^3"}, "over", "unbounded below"),
        (TWO, "squared", {"second_layer": (-3, -1)}, {"activation": None}, "over", ""),
        ("z", "squared", "bias", {}, "target", "no hard direction"),
    ],
)
def test_bad_input(target, loss, over, kwargs, argument, word):
    problem = be.Problem(target, "relu" if over == {"second_layer": (-3, -1)} else "gelu", loss)
    with pytest.raises(BadInput) as caught:
        optimise(problem, over, **kwargs)
    assert caught.value.argument == argument
    assert word in caught.value.message
