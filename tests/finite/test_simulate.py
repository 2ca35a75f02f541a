"""Simulations: their fields, their reproducibility, and known answers."""

import json

import numpy as np
import pytest

from bulkedge.finite import simulate
from bulkedge.finite.choice import choose
from bulkedge.finite.test_loss import TestLoss
from bulkedge.foundation import memory
from bulkedge.foundation.answers import Simulation
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.models import Network, Problem

INDICATOR = Problem("2*(abs(z) > 0.6744897501960817)", network="gelu", step_size=0.5)
PAIR = Problem("z1 + z2^2", network=Network("tanh", second_layer=[1.0, -2.0], bias=[0.3, 0.0]), step_size=0.5)
CURVES = ("train_loss", "test_loss", "norm2", "overlap", "cosine", "hidden_variance")


def within(measured, error, expected, slack=0.0):
    assert np.all(np.abs(np.asarray(measured) - expected) <= 4 * np.asarray(error) + slack)


@pytest.mark.parametrize("data", ["stored", "lazy"])
def test_fields_of_one_neuron(data):
    r = simulate(INDICATOR, delta=6, dimension=100, steps=5, seeds=3, data=data, spectrum_times=(0, 5), eigenpairs=2)
    assert isinstance(r, Simulation)
    assert (r.status, r.data, r.delta, r.dimension, r.samples) == (Status.CONVERGED, data, 6.0, 100, 600)
    np.testing.assert_array_equal(r.time, np.arange(6))
    for name in CURVES:
        assert r[name].shape == (6,)
        assert r.stderr[name].shape == (6,)
        assert np.all(np.isfinite(r[name]))
    assert len(r.success) == len(r.seeds) == 3
    np.testing.assert_allclose(r.norm2[0], 1.0, rtol=1e-12)
    np.testing.assert_allclose(np.mean([s["train_loss"] for s in r.seeds], axis=0), r.train_loss)
    np.testing.assert_allclose(100 * np.mean([s["overlap"] ** 2 for s in r.seeds], axis=0), r.hidden_variance)
    spread = np.std([s["norm2"] for s in r.seeds], axis=0, ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(r.stderr["norm2"], spread)
    for part in (r.eigenvalues, r.overlap2, r.residual, r.stderr["eigenvalues"], r.stderr["overlap2"]):
        assert list(part) == [0, 5]
        assert np.shape(part[5]) == (2,)
    assert r.eigenvalues[0][0] <= r.eigenvalues[0][1]
    assert np.max(r.residual[5]) < 1e-4
    again = Simulation.from_dict(json.loads(json.dumps(r.to_dict())))
    np.testing.assert_array_equal(again.train_loss, r.train_loss)


@pytest.mark.parametrize("hessian", ["block", "full"])
@pytest.mark.parametrize("data", ["stored", "lazy"])
def test_fields_of_several_neurons_and_directions(data, hessian):
    r = simulate(
        PAIR, delta=5, dimension=60, steps=3, seeds=2, data=data, spectrum_times=2, eigenpairs=3, hessian=hessian
    )
    shapes = {"train_loss": (4,), "test_loss": (4,), "norm2": (4, 2), "overlap": (4, 2, 2), "cosine": (4, 2, 2)}
    for name, shape in {**shapes, "hidden_variance": (4, 2, 2)}.items():
        assert r[name].shape == r.stderr[name].shape == shape
    for part in (r.eigenvalues, r.overlap2, r.residual, r.stderr["overlap2"]):
        assert np.shape(part[2]) == ((2, 3) if hessian == "block" else (3,))
    # The second direction is the hard one; neurons run slowest.
    hidden = np.mean([60 * np.multiply.outer(s["overlap"][3][:, 1], s["overlap"][3][:, 1]) for s in r.seeds], axis=0)
    np.testing.assert_allclose(r.hidden_variance[3], hidden)
    assert np.all(np.asarray(r.overlap2[2]) <= 1.0)


def test_one_run_has_no_error_and_an_easy_target_no_hidden_variance():
    r = simulate(Problem("z", network="tanh", step_size=1.0), delta=20, dimension=80, steps=15, seeds=1)
    assert r.hidden_variance is None
    assert r.stderr["hidden_variance"] is None
    assert np.all(np.isnan(r.stderr["train_loss"]))
    # Success is along the easy direction where nothing is hard.
    assert r.success == [True]
    assert r.to_dict()["stderr"]["norm2"][0] is None


@pytest.mark.parametrize("data", ["stored", "lazy", "auto"])
def test_no_step_at_all(data):
    r = simulate(INDICATOR, delta=4, dimension=50, steps=0, seeds=2, data=data)
    assert r.train_loss.shape == (1,)
    assert r.norm2 == pytest.approx([1.0])


def test_reproducible_and_runs_do_not_depend_on_their_number():
    settings = {"delta": 4, "dimension": 50, "steps": 4, "spectrum_times": (4,), "eigenpairs": 1}
    for data in ("stored", "lazy"):
        few, many = (simulate(INDICATOR, seeds=s, seed=7, data=data, **settings) for s in (1, 3))
        other = simulate(INDICATOR, seeds=1, seed=8, data=data, **settings)
        for name in ("train_loss", "test_loss", "overlap"):
            np.testing.assert_array_equal(few.seeds[0][name], many.seeds[0][name])
            assert not np.array_equal(few.seeds[0][name], other.seeds[0][name])
        assert few.seeds[0]["eigenvalues"] == many.seeds[0]["eigenvalues"]
        # Looking at the spectrum changes nothing.
        blind = simulate(INDICATOR, seeds=1, seed=7, data=data, **{**settings, "spectrum_times": ()})
        np.testing.assert_allclose(blind.train_loss, few.train_loss, rtol=1e-6)


@pytest.mark.parametrize("problem", [INDICATOR, PAIR], ids=["one", "several"])
def test_lazy_and_stored_agree(problem):
    settings = {"delta": 5, "dimension": 120, "steps": 6, "seeds": 40, "spectrum_times": (3,), "eigenpairs": 2}
    a, b = (simulate(problem, data=data, seed=s, **settings) for data, s in (("stored", 1), ("lazy", 2)))
    for name in CURVES:
        within(a[name], np.hypot(a.stderr[name], b.stderr[name]), b[name], 1e-12)
    for name in ("eigenvalues", "overlap2"):
        x, y = np.asarray(a[name][3]), np.asarray(b[name][3])
        within(x, np.hypot(a.stderr[name][3], b.stderr[name][3]), y)


def test_curves_and_spectrum_of_the_limit():
    """Losses, norms and the lowest eigenpair of one GeLU neuron on 2 * indicator at delta = 10."""
    r = simulate(INDICATOR, delta=10, dimension=6000, steps=10, seeds=2, spectrum_times=(0, 2), eigenpairs=1)
    assert r.data == "lazy"
    for t, train, test, norm2 in ((2, 0.8685, 0.929, 0.957), (5, 0.8040, 0.9345, 1.100), (10, 0.7461, 0.9486, 1.373)):
        np.testing.assert_allclose([r.train_loss[t], r.test_loss[t], r.norm2[t]], [train, test, norm2], rtol=0.015)
    for t, value, overlap2 in ((0, -0.56169, 0.39137), (2, -0.4895, 0.309)):
        assert r.eigenvalues[t][0] == pytest.approx(value, rel=0.03)
        assert r.overlap2[t][0] == pytest.approx(overlap2, abs=0.06)


def test_committee_with_kinks():
    """Two ReLU neurons with opposite signs: published simulation at d = 5000, standard error 1e-3."""
    network = Network("relu", second_layer=[np.sqrt(2), -np.sqrt(2)])
    problem = Problem("tanh(z1 + he3(z2))", network=network, step_size=0.6)
    r = simulate(problem, delta=3, dimension=3000, steps=6, seeds=6, data="lazy")
    expected = {
        "m11": (r.overlap[1:, 0, 0], [0.07572, 0.12384, 0.15618, 0.17998, 0.19887, 0.21468]),
        "m12": (r.overlap[1:, 0, 1], [-0.06258, -0.10184, -0.12758, -0.14607, -0.16036, -0.17219]),
        "q11": (r.norm2[1:, 0], [0.8550, 0.8058, 0.7917, 0.7929, 0.8017, 0.8146]),
    }
    errors = {"m11": r.stderr["overlap"][1:, 0, 0], "m12": r.stderr["overlap"][1:, 0, 1]}
    for name, (measured, reference) in expected.items():
        within(measured, np.hypot(errors.get(name, r.stderr["norm2"][1:, 0]), 1e-3), reference)
    within(r.test_loss[:4], np.hypot(r.stderr["test_loss"][:4], 1e-3), [0.4917, 0.4202, 0.3859, 0.3683])


@pytest.mark.parametrize("problem", [INDICATOR, PAIR], ids=["quadrature", "quasi-random"])
def test_test_loss_is_the_mean_over_fresh_samples(problem):
    rng = np.random.default_rng(0)
    overlap = 0.4 * rng.standard_normal((1, problem.m, problem.k))
    root = 0.6 * rng.standard_normal((problem.m, problem.m))
    gram = overlap[0] @ overlap[0].T + root @ root.T
    value, error = TestLoss(problem)(gram[None], overlap)
    z, xi = rng.standard_normal((400_000, problem.k)), rng.standard_normal((400_000, problem.m))
    v = z @ overlap[0].T + xi @ root.T
    f = np.mean(problem.network.a * np.asarray(problem.network.sigma(v + problem.network.b)), axis=1)
    losses = 0.5 * (problem.labels(z, np.zeros(400_000)) - f) ** 2
    assert abs(value[0] - losses.mean()) < 4 * np.hypot(losses.std() / np.sqrt(losses.size), error[0])
    assert error[0] < 2e-3


def test_divergence_is_told():
    wild = Problem("z^2", network="quad", step_size=20.0)
    r = simulate(wild, delta=3, dimension=40, steps=30, seeds=2, spectrum_times=(0, 30), eigenpairs=1)
    assert r.status is Status.DIVERGED
    assert r.diverged_at == min(s["diverged_at"] for s in r.seeds)
    assert np.all(np.isfinite(r.train_loss[: r.diverged_at]))
    assert np.all(np.isnan(r.train_loss[r.diverged_at :]))
    assert r.success == [False, False]
    assert np.isfinite(r.eigenvalues[0]).all()
    assert np.isnan(r.eigenvalues[30]).all()
    assert "diverged" in r.warnings[0]


def test_success_is_half_of_the_norm_along_hard_directions():
    strong = Problem("z^2", network="quad", loss="pseudo-huber", step_size=0.3)
    r = simulate(strong, delta=12, dimension=60, steps=80, seeds=3)
    final = [abs(s["cosine"][-1]) for s in r.seeds]
    assert r.success == [c > 0.5 for c in final]
    assert any(r.success)


def test_choice_of_data(monkeypatch):
    big = (INDICATOR, 60_000, 6000, 10, 0, None)
    assert choose("auto", *big) == "lazy"
    assert choose("stored", *big) == "stored"
    assert choose("auto", INDICATOR, 500, 50, 2000, 0, None) == "stored"
    monkeypatch.setattr(memory, "available_bytes", lambda: 10**8)
    assert choose("auto", INDICATOR, 60_000, 6000, 2, 0, None) == "lazy"


def test_progress_and_interruption():
    seen = []
    simulate(INDICATOR, delta=2, dimension=20, steps=3, seeds=2, progress=lambda *a: seen.append(a))
    assert seen[-1] == ("training", 8, 8)
    assert [s[1] for s in seen] == list(range(1, 9))

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simulate(INDICATOR, delta=2, dimension=20, steps=3, progress=stop)


@pytest.mark.parametrize(
    ("changes", "argument"),
    [
        ({"delta": None}, "delta"),
        ({"samples": 100}, "delta"),
        ({"delta": -1.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"delta": 0.001}, "delta"),
        ({"dimension": 0}, "dimension"),
        ({"dimension": 2.5}, "dimension"),
        ({"steps": -1}, "steps"),
        ({"seeds": 0}, "seeds"),
        ({"seed": -1}, "seed"),
        ({"data": "cloud"}, "data"),
        ({"hessian": "diagonal"}, "hessian"),
        ({"eigenpairs": 0}, "eigenpairs"),
        ({"eigenpairs": 51}, "eigenpairs"),
        ({"spectrum_times": (0, 9)}, "spectrum_times"),
        ({"spectrum_times": "now"}, "spectrum_times"),
        ({"data": "stored", "dimension": 10**9}, "data"),
        ({"data": "lazy", "dimension": 10**12}, "data"),
        ({"problem": Problem("z^2", network="relu"), "spectrum_times": (0,)}, "spectrum_times"),
    ],
    ids=str,
)
def test_bad_input_is_one_line(changes, argument):
    settings = {"problem": INDICATOR, "delta": 4, "dimension": 50, "steps": 5, **changes}
    with pytest.raises(BadInput) as caught:
        simulate(**settings)
    assert caught.value.argument == argument
    assert "\n" not in str(caught.value)
