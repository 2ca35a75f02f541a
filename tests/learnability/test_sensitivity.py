"""Implicit gradients against finite differences of the threshold, scaling laws, and the dynamics' closed form."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.roots import bracketed
from bulkedge.learnability import laws, windows
from bulkedge.learnability.surface import Surface
from bulkedge.models.family import family
from bulkedge.spectra.law import WeightLaw

Q = 0.6744897501960817
TWO = f"2*(abs(z) > {Q})"


def slope_of(f, x, h=0.02):
    """Central differences at two spacings, extrapolated: error of order h^4."""
    wide, fine = ((f(x + s) - f(x - s)) / (2 * s) for s in (h, h / 2))
    return (4 * fine - wide) / 3


def start_of(problem, neuron=0):
    """The threshold of one block on the nodes that `threshold` takes."""
    return windows.of_fixed_law(laws.initial(problem, neuron))[0][0]


@pytest.mark.parametrize(
    ("target", "network", "loss", "name", "entry"),
    [
        (TWO, be.Network("gelu"), "squared", "second_layer", 0),
        ("tanh(z^2)", be.Network("swish"), "squared", "bias", 0),
        (f"{TWO} - 1", be.Network("gelu", bias=0.2), "logistic", "bias", 0),
        ("2*tanh(z1*z2)", be.Network("gelu"), "squared", "second_layer", 0),
        ("tanh(z1^2 + z2)", be.Network("gelu", bias=-0.2), "squared", "bias", 0),
        (TWO, be.Network("gelu", second_layer=[1.0, 2.0]), "pseudo-huber", "second_layer", 1),
    ],
)
def test_the_implicit_gradient_is_the_slope_of_the_threshold(target, network, loss, name, entry):
    """`threshold` takes another set of nodes: one and two neurons, one and two directions."""
    problem = be.Problem(target, network, loss)
    found = be.sensitivity(problem, name)
    assert found.method == "quadrature"
    start = np.array(getattr(network, name), float)

    def delta(x):
        moved = start.copy()
        moved[entry] = x
        return start_of(replace(problem, network=replace(network, **{name: moved.tolist()})), found.neuron)

    expected = slope_of(delta, start[entry])
    assert np.ravel(found.gradient[name])[entry] == pytest.approx(expected, rel=1e-4)
    assert found.delta == pytest.approx(delta(start[entry]), rel=1e-5)


def test_parameters_of_an_activation_and_of_a_loss_together():
    problem = be.Problem("z^2", "gelu", "pseudo-huber")
    names = {"activation": "gelu(v) + c*v^2", "loss": "sqrt(q^2 + (f-y)^2)"}
    found = be.sensitivity(problem, {"c": 0.3, "q": 0.8}, **{f"{k}_family": v for k, v in names.items()})
    members = family(problem, {"c": (0, 1), "q": (0.5, 1)}, **names)

    def delta(c, q):
        return start_of(members.exact([c, q]))

    assert found.gradient["c"] == pytest.approx(slope_of(lambda x: delta(x, 0.8), 0.3), rel=1e-4)
    assert found.gradient["q"] == pytest.approx(slope_of(lambda x: delta(0.3, x), 0.8), rel=1e-4)


def test_a_scale_of_any_loss():
    """c^2 l(y/c, f/c) with pseudo-Huber is sqrt(c^4 + c^2 u^2) - c^2."""
    problem = be.Problem("z^2", "gelu", "pseudo-huber")
    found = be.sensitivity(problem, {"loss_scale": 1.5})
    assert found.delta == pytest.approx(start_of(replace(problem, loss="sqrt(1.5^4 + (1.5*u)^2)")), rel=1e-6)
    assert be.sensitivity(problem, "loss_scale").delta == pytest.approx(1.69276, abs=1e-5)


@pytest.mark.parametrize(("activation", "a"), [("tanh", -0.3), ("swish", 3.0)])
def test_where_there_is_no_threshold_the_least_margin_leads_towards_one(activation, a):
    members = family(be.Problem(TWO, be.Network(activation, second_layer=a)), {"second_layer": (-4, 4)})
    surface = Surface(members, 0.5)
    point = surface.at(np.array([a]))
    assert point.delta is None
    step = 0.02 * np.sign(point.slope[0])
    down, up = (surface.at(np.array([a - sign * step])).margin for sign in (1, -1))
    assert down < point.margin < up


def test_scaling_labels_and_output_together_changes_nothing():
    """Squared loss, (y, a) -> (c y, c a): G -> c^2 G. So delta(a, y) is a function of a/scale, and slopes follow."""
    slopes = [
        be.sensitivity(
            be.Problem(f"{scale}*(abs(z) > {Q})", be.Network("gelu", second_layer=0.5 * scale)), "second_layer"
        )
        for scale in (1.0, 3.0)
    ]
    assert slopes[0].delta == pytest.approx(slopes[1].delta, rel=1e-9)
    assert slopes[0].gradient["second_layer"] == pytest.approx(3.0 * slopes[1].gradient["second_layer"], rel=1e-7)


def test_more_than_two_neurons_by_samples():
    """The least block's threshold moves with every neuron's choices; differences on the same nodes."""
    few = be.Numerics(paths=2048, replicas=2)
    problem = be.Problem("2*tanh(z^2)", be.Network("gelu", second_layer=[2.0, 1.0, 3.0]), "pseudo-huber")
    found = be.sensitivity(problem, "second_layer,bias", numerics=few)
    assert "samples" in found.method
    members = family(problem, {"second_layer": (0.5, 4.0), "bias": (-1, 1)})

    def delta(i, x):
        vector = np.array([2.0, 1.0, 3.0, 0.0, 0.0, 0.0])
        vector[i] = x
        points = [Surface(members, 1.0, 2048, seed) for seed in (0, 1)]
        return np.mean([s.at(vector).delta for s in points])

    gradient = np.concatenate([found.gradient["second_layer"], found.gradient["bias"]])
    for i, x in ((0, 2.0), (4, 0.0)):
        assert gradient[i] == pytest.approx(slope_of(lambda x, i=i: delta(i, x), x), rel=1e-4)
    assert np.all(np.array(found.stderr["second_layer"]) > 0)


def law_after_one_step(eta, a, delta):
    """(G, z) after one step of one gelu neuron on 2 tanh(z^2) with squared loss, in closed form:
    V(1) = W(1) - (eta/delta) f(V(0)), W(1) Gaussian, C(0,1) = 1 - eta E[f v], C(1,1) = C(0,1)^2 + eta^2 E[f^2]/delta.
    """
    v, n, z = ndtri(_POINTS.T)
    y = 2 * np.tanh(z * z)

    def gelu(v):
        cdf, phi = ndtr(v), np.exp(-v * v / 2) / math.sqrt(2 * math.pi)
        return v * cdf, cdf + v * phi, (2 - v * v) * phi

    value, slope, _ = gelu(v)
    f = a * (a * value - y) * slope
    moved = (1 - eta * np.mean(f * v)) * v + eta * math.sqrt(np.mean(f * f) / delta) * n - eta / delta * f
    value, slope, bend = gelu(moved)
    return WeightLaw(a * a * slope**2 + a * (a * value - y) * bend, z[:, None])


_POINTS = qmc.Sobol(3, scramble=True, rng=np.random.default_rng(5)).random(1 << 16)


def test_after_one_step_against_the_closed_form():
    """Slopes in the step size and the second layer at t = 1: differences of the closed form's own threshold."""

    def exact(eta, a):
        return bracketed(lambda d: windows.margin_at(law_after_one_step(eta, a, d), d), 2.5, 6.0, xtol=1e-7)

    problem = be.Problem("2*tanh(z^2)", "gelu", step_size=0.3)
    found = be.sensitivity(problem, "step_size,second_layer", 1, numerics=be.Numerics(paths=4096, replicas=8))
    assert abs(found.delta - exact(0.3, 1.0)) < 4 * found.stderr_delta + 0.01
    for name, slope in (
        ("step_size", slope_of(lambda x: exact(x, 1.0), 0.3)),
        ("second_layer", slope_of(lambda x: exact(0.3, x), 1.0)),
    ):
        error = found.stderr[name]
        assert 0 < error < 0.1 * abs(slope)
        assert abs(found.gradient[name] - slope) < 4 * error + 0.01 * abs(slope)


def test_the_step_size_does_not_matter_at_the_start_but_later():
    problem = be.Problem(TWO, "gelu", step_size=0.5)
    assert be.sensitivity(problem, "step_size").gradient == {"step_size": 0.0}
    later = be.sensitivity(problem, {"step_size": 0.2}, 1, numerics=be.Numerics(paths=4096, replicas=4))
    assert later.values == {"step_size": 0.2}
    assert later.problem["step_size"] == 0.2
    assert later.gradient["step_size"] > 4 * later.stderr["step_size"]


@pytest.mark.parametrize(
    ("problem", "over", "kwargs", "argument", "word"),
    [
        (be.Problem(TWO, "gelu"), "nonsense", {}, "over", "needs a value"),
        (be.Problem(TWO, "gelu"), {"nonsense": 1.0}, {}, "over", "neither"),
        (be.Problem(TWO, "gelu"), {"bias": [1.0, 2.0]}, {}, "over", "2 values"),
        (be.Problem(TWO, "gelu"), "", {}, "over", "names no parameter"),
        (be.Problem(TWO, "gelu"), 3, {}, "over", "must be names"),
        (be.Problem(TWO, "gelu"), "loss_scale", {}, "over", "nothing to the squared loss"),
        (be.Problem(TWO, "gelu"), "bias", {"activation_family": "gelu(v) + c"}, "activation_family", ""),
        (be.Problem("z", "gelu"), "bias", {}, "target", "hard"),
        (be.Problem("z^2", "gelu"), "bias", {}, "problem", "unbounded below"),
        (be.Problem("2*tanh(z^2)", "gelu", "huber"), "bias", {}, "loss", "second derivative jumps"),
        (be.Problem(TWO, "gelu"), "bias", {"time": -1}, "time", ""),
    ],
)
def test_bad_input(problem, over, kwargs, argument, word):
    with pytest.raises(BadInput) as caught:
        be.sensitivity(problem, over, **kwargs)
    assert caught.value.argument == argument
    assert word in caught.value.message


def test_no_threshold_no_gradient():
    found = be.sensitivity(be.Problem(TWO, "relu"), "second_layer")
    assert (found.delta, found.gradient, found.stderr) == (None, {}, {})
    assert "no threshold" in found.warnings[0]
