"""Thresholds against independent values, closed forms, brute force; and the reasons where there is none."""

import json
import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

import bulkedge as be
from bulkedge.foundation.answers import Threshold
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.roots import bracketed
from bulkedge.foundation.status import Status
from bulkedge.learnability import late, laws, windows
from bulkedge.learnability.floor import bounded_below
from bulkedge.spectra import bulk
from bulkedge.spectra.law import WeightLaw

Q = 0.6744897501960817
IND, TWO, SIGNS = f"abs(z) > {Q}", f"2*(abs(z) > {Q})", f"2*(abs(z) > {Q}) - 1"
ROWS = {
    ("gelu", "squared", IND): (7.92967, -0.16402),
    ("gelu", "squared", TWO): (5.10622, -0.82205),
    ("gelu", "squared", "tanh(z^2)"): (5.22391, -0.21305),
    ("gelu", "logistic", SIGNS): (3.24287, -0.23284),
    ("gelu", "pseudo-huber", "z^2"): (1.69276, -0.78668),
    ("quad", "pseudo-huber", "z^2"): (0.92303, -3.25829),
}


@pytest.mark.parametrize("key", ROWS, ids="-".join)
def test_at_the_start_to_all_printed_digits(key):
    activation, loss, target = key
    delta, edge = ROWS[key]
    found = be.threshold(be.Problem(target, activation, loss))
    assert found.delta == pytest.approx(delta, abs=0.6e-5)
    assert found.edge == pytest.approx(edge, abs=0.6e-5)
    assert (found.status, found.method, found.stderr, found.reason) == (Status.CONVERGED, "quadrature", 0.0, None)
    assert found.residual < 1e-6
    assert found.windows[0][0] == found.delta
    assert found.warnings == []
    if target in (IND, TWO, SIGNS):
        assert found.delta_alg == pytest.approx(1.36046, abs=0.6e-5)
    assert found.efficiency == found.delta_alg / found.delta < 1


def test_one_more_row():
    found = be.threshold(be.Problem("2*tanh(z^2)", "gelu"))
    assert found.delta == pytest.approx(3.0835, abs=0.6e-4)
    assert found.edge == pytest.approx(-0.978, abs=0.6e-3)


def test_two_hard_directions_against_samples(quick):
    """2 tanh(z1 z2): quadrature with binned labels, and plain samples of (v, z1, z2)."""
    problem = be.Problem("2*tanh(z1*z2)", "gelu")
    found = be.threshold(problem)
    own = [windows.of_fixed_law(law)[0][0] for law in laws.sampled(problem, 1.0, 0, quick).laws(0)]
    assert found.method == "quadrature"
    assert abs(np.mean(own) - found.delta) < 4 * np.std(own, ddof=1) / 2 + 1e-3
    assert found.residual < 1e-3
    assert found.stderr <= found.residual * found.delta


@pytest.mark.parametrize(
    ("activation", "loss", "target"),
    [
        ("swish", "squared", "tanh(z^2)"),
        ("he2", "pseudo-huber", "z^2"),
        ("tanh", "pseudo-huber", "cos(2*z)"),
        ("gelu", "log(exp(u) + exp(-u))", "z1 + z2^2"),
    ],
)
def test_never_below_the_best_first_order_method(activation, loss, target):
    """Cauchy and Schwarz: delta >= delta_alg, and margins at single deltas have the same windows."""
    problem = be.Problem(target, activation, loss)
    found = be.threshold(problem)
    law = laws.initial(problem, 0)
    outside = [0.2, 5e3]
    for low, high in found.windows:
        assert low >= found.delta_alg
        for end, sign in ((low, 1), (high, -1)):
            if end is not None:
                assert sign * windows.margin_at(law, 0.999 * end) > 0 > sign * windows.margin_at(law, 1.001 * end)
        assert windows.margin_at(law, math.sqrt(low * (high or 100 * low))) < 0
        outside = [d for d in outside if d < low or (high is not None and d > high)]
    assert all(windows.margin_at(law, d) > 0 for d in outside)


def test_a_loss_whose_kink_moves_with_the_label(quick):
    """Huber: nodes of (v, z) split along the curve |f - y| = 1; against plain samples."""
    problem = be.Problem("2*tanh(z^2)", "gelu", "huber")
    law, some = laws.initial(problem, 0), laws.sampled(problem, 1.0, 0, quick).laws(0)
    for value in (windows.margin_at, lambda law, delta: bulk.left_edge(law, delta).value):
        own = [value(w, 4.0) for w in some]
        assert abs(np.mean(own) - value(law, 4.0)) < 4 * np.std(own, ddof=1) / 2


def first_step_law(eta, delta):
    """The law of (G, z) after one step of one gelu neuron on 2 tanh(z^2), squared loss, in closed form (R3):
    V(1) = W(1) - (eta/delta) f(V(0)), W(1) Gaussian, C(0,1) = 1 - eta E[f z], C(1,1) = C(0,1)^2 + eta^2 E[f^2]/delta.
    """
    u = qmc.Sobol(3, scramble=True, rng=np.random.default_rng(5)).random(1 << 18)
    v, n, z = ndtri(u.T)

    def gelu(v):
        cdf, phi = ndtr(v), np.exp(-v * v / 2) / math.sqrt(2 * math.pi)
        return v * cdf, cdf + v * phi, (2 - v * v) * phi

    y = 2 * np.tanh(z * z)
    value, slope, _ = gelu(v)
    f = (value - y) * slope
    c01 = 1 - eta * np.mean(f * v)
    noise = eta**2 * np.mean(f * f) / delta
    # E[f z] and E[f^2] as quoted.
    assert (np.mean(f * v), np.mean(f * f)) == (pytest.approx(0.0854, abs=3e-4), pytest.approx(0.4355, abs=3e-4))
    value, slope, bend = gelu(c01 * v + math.sqrt(noise) * n - eta / delta * f)
    return WeightLaw(slope**2 + (value - y) * bend, z[:, None])


@pytest.mark.parametrize(("eta", "expected"), [(0.3, 3.54), (1.0, 4.53)])
def test_after_one_step(eta, expected):
    """One step raises the threshold: the quoted value, the closed form, and the dynamics."""
    exact = bracketed(lambda d: windows.margin_at(first_step_law(eta, d), d), 3.0, 6.0, xtol=1e-4)
    assert exact == pytest.approx(expected, abs=0.03)
    # Eight replicas: the standard error of four is itself too uncertain for a bound of four of them.
    found = be.threshold(be.Problem("2*tanh(z^2)", "gelu", step_size=eta), 1)
    assert 0 < found.stderr < 0.005
    assert abs(found.delta - exact) < 4 * found.stderr
    assert found.delta == pytest.approx(expected, abs=0.03 + 4 * found.stderr)
    assert found.method.startswith("DMFT")
    assert found.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("activation", "window"), [("gelu", {1024: (2.2, 3.3), 16384: (5.1, 7.2)}), ("quad", {1024: (1.4, 2.5)})]
)
def test_an_unbounded_weight_is_told_with_its_dependence_on_the_number_of_samples(activation, window, quick):
    problem = be.Problem("z^2", activation)
    assert not bounded_below(problem, 0)
    found = be.threshold(problem, numerics=quick)
    assert any("unbounded below" in w and "drifts with N" in w for w in found.warnings)
    counts, values, _ = (np.array(column, float) for column in zip(*found.dependence, strict=True))
    assert np.all(np.diff(values) > 0)
    assert values[-1] > 2 * values[0]
    for count, (low, high) in window.items():
        assert low < values[counts == count][0] < high
    later = be.threshold(problem, 1, numerics=be.Numerics(paths=2048, replicas=2))
    assert later.dependence
    assert any("unbounded below" in w for w in later.warnings)


@pytest.mark.parametrize(
    ("target", "activation", "loss", "bounded"),
    [
        ("z^2", "gelu", "squared", False),
        ("exp(z^2)", "gelu", "squared", False),
        ("z^2", "gelu", "pseudo-huber", True),
        ("tanh(z^2)", "gelu", "squared", True),
        ("sign(z^2 - 1)", "gelu", "logistic", True),
        ("z^2", "he3", "pseudo-huber", False),
        ("tanh(z^2) + e", "gelu", "squared", False),
        ("-z^2", "quad", "squared", True),
        ("z^2", "quad", "squared", False),
        ("z^2", "relu", "squared", True),
    ],
)
def test_which_weights_are_bounded_below(target, activation, loss, bounded):
    assert bounded_below(be.Problem(target, activation, loss), 0) == bounded


@pytest.mark.parametrize("activation", ["relu", "leaky-relu", "abs"])
@pytest.mark.parametrize("time", [0, 1])
def test_a_piecewise_linear_neuron_has_no_threshold(activation, time):
    found = be.threshold(be.Problem(TWO, activation, step_size=0.5), time, numerics=be.Numerics(paths=1024, replicas=2))
    assert (found.delta, found.reason, found.windows) == (None, "none", [])
    assert found.efficiency is None
    assert found.stderr is None
    text = " ".join(found.warnings)
    assert "kink" in text
    assert "never negative" in text
    assert found.status is Status.CONVERGED


def test_nothing_hard():
    found = be.threshold(be.Problem("z", "gelu"))
    assert (found.delta, found.reason) == (None, "nothing hard")
    assert "no hard direction" in found.warnings[0]
    assert be.threshold(be.Problem("z", "gelu"), math.inf).reason == "nothing hard"


def test_several_neurons_report_each_and_the_least(quick):
    """Signs matter: a neuron of the wrong sign has no descent direction of its own."""
    network = be.Network("gelu", second_layer=[2.0, -2.0, 4.0])
    found = be.threshold(be.Problem("2*tanh(z^2)", network, "pseudo-huber"), numerics=quick)
    assert len(found.neurons) == 3
    assert found.neurons[1] is None
    assert found.delta == min(found.neurons[0], found.neurons[2])
    assert found.windows[0][0] == found.delta


def test_times_in_one_call_and_back_from_a_dictionary(indicator):
    few = be.Numerics(paths=4096, replicas=2)
    table = be.threshold(indicator, [0, 2], numerics=few)
    assert table.delta.dims == ("time",)
    assert float(table.delta[0]) == pytest.approx(5.10622, abs=1e-5)
    one = be.threshold(indicator, 2, numerics=few)
    assert float(table.delta[1]) == one.delta
    again = Threshold.from_dict(json.loads(json.dumps(one.to_dict())))
    assert (again.delta, again.windows, again.status) == (one.delta, one.windows, one.status)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [({"time": -1}, "time"), ({"time": 0.5}, "time"), ({"time": "now"}, "time"), ({"hessian": "half"}, "hessian")],
)
def test_bad_arguments(arguments, name, indicator):
    with pytest.raises(BadInput) as caught:
        be.threshold(indicator, **arguments)
    assert caught.value.argument == name


def test_labels_that_do_not_fit_the_loss():
    with pytest.raises(BadInput, match=r"loss.*labels -1 and \+1"):
        be.Problem(TWO, "gelu", "logistic")


def late_of(monkeypatch, values, error=1e-4):
    """delta*(inf) where delta*(t) at t = 4, 8, 16, 32 is given."""
    table = dict(zip((4, 8, 16, 32), values, strict=True))

    def fake(problem, t, **_):
        delta = table[t]
        return Threshold(delta=delta, stderr=error, time=t, windows=[[delta, None]], delta_alg=1.0, method="DMFT")

    monkeypatch.setattr(late, "threshold", fake)
    return be.threshold(be.Problem(TWO, "gelu"), math.inf)


def test_the_limit_in_time_is_extrapolated(monkeypatch):
    """5 - 4/t halves its distance at every doubling: 5 exactly, and the correction is the uncertainty."""
    found = late_of(monkeypatch, [5 - 4 / t for t in (4, 8, 16, 32)])
    assert found.delta == pytest.approx(5.0, abs=1e-9)
    assert found.stderr >= 4 / 32
    assert found.time == math.inf
    assert found.status is Status.CONVERGED
    assert found.efficiency == pytest.approx(0.2)
    still = late_of(monkeypatch, [4.9, 5.0, 5.0001, 5.0])
    assert still.delta == pytest.approx(5.0, abs=1e-3)
    assert still.status is Status.CONVERGED


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ([2.7, 3.5, 4.7, 6.2], 1e-3),  # grows without end
        ([4.0, 4.1, 4.2, 4.3], 1e-3),  # like a logarithm
        ([8.0, 10.0, 11.7, 14.9], 2.0),  # the error hides the trend
    ],
)
def test_a_limit_that_is_not_settled_is_not_given(monkeypatch, values, error):
    found = late_of(monkeypatch, values, error)
    assert found.delta is None
    assert found.status is Status.NOT_SETTLED
    assert any("t=32" in w for w in found.warnings)


def test_an_outlier_that_is_gone_at_late_times(monkeypatch):
    found = late_of(monkeypatch, [4.0, 5.0, None, None])
    assert found.delta is None
    assert found.status is Status.NOT_SETTLED
    assert "gone" in found.warnings[-1]


def test_the_limit_in_time_of_a_network_without_descent_directions():
    found = be.threshold(be.Problem(TWO, "relu"), math.inf, numerics=be.Numerics(paths=512, replicas=2))
    assert (found.delta, found.reason, found.time, found.status) == (None, "none", math.inf, Status.CONVERGED)
