"""compare, phase-diagram, spectroscopy and grokking at tiny sizes: every part against the function it stands for."""

import numpy as np
import pytest
import xarray as xr

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.phenomena import _training, compare, grokking, phase_diagram, spectroscopy

INDICATOR = "2*(abs(z) > 0.6744897501960817)"
TINY = be.Numerics(paths=512, replicas=2)


def run(name, tmp_path, **knobs):
    outcome = be.run(name, store=tmp_path, **knobs)
    assert outcome.failures == []
    assert outcome.done == outcome.total
    assert outcome.plot().axes
    return outcome


# --- compare --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("problem", "times", "hessian"),
    [
        (be.Problem(INDICATOR, be.Network("gelu"), "squared", 0.5), (0, 2), "block"),
        (be.Problem("z", be.Network("tanh", bias=0.3), "squared", 0.5), (), "block"),
        (
            be.Problem("z1*z2 + 0.5*z1", be.Network("erf", second_layer=(1.0, -1.0), bias=0.4), "huber", 0.4),
            (0,),
            "full",
        ),
    ],
)
def test_compare_through_the_store_is_what_compare_computes(tmp_path, problem, times, hessian):
    """The same predictions, the same networks, the same points judged."""
    sizes = {"delta": 20.0, "dimension": 120, "steps": 4}
    there = be.compare(problem, seeds=3, spectrum_times=times, hessian=hessian, numerics=TINY, **sizes)
    knobs = {**compare.knobs(problem), **sizes, "spectrum_times": times, "hessian": hessian, "seeds": 3}
    found = run("compare", tmp_path, paths=512, replicas=2, **knobs)
    one = be.simulate(problem, seeds=1, seed=1, spectrum_times=times, hessian=hessian, eigenpairs=1, **sizes)
    table = found.dataset.sel(delta=20.0, dimension=120)
    for name in ("train_loss", "test_loss", "norm2", "overlap"):
        limit = np.reshape(getattr(there.trajectory, name), table[f"limit_{name}"].shape)
        assert table[f"limit_{name}"].values == pytest.approx(limit)
        each = table[f"{name}_each"].sel(seed=1)
        assert each.values == pytest.approx(np.reshape(getattr(one, name), each.shape), abs=1e-6)
    if times:
        expected = np.atleast_1d(one.eigenvalues[times[-1]])[..., 0] if hessian == "block" else one.eigenvalues[0][0]
        seen = table["lowest_eigenvalue_each"].sel(seed=1, time=times[-1]).values
        assert seen == pytest.approx(np.ravel(expected), rel=1e-4)
    mine = sorted((row["point"]["time"], row["predicted"]) for row in found.rows if row["quantity"] != "norm2")
    theirs = sorted((row["time"], row["predicted"]) for row in there.rows if not row["quantity"].startswith("norm2"))
    assert np.asarray(mine) == pytest.approx(np.asarray(theirs))
    assert sum(row["quantity"] == "norm2" for row in found.rows) == sum(
        row["quantity"].startswith("norm2") for row in there.rows
    )


def test_compare_says_at_once_what_is_wrong(tmp_path):
    for knobs, argument in (
        ({"activation": "relu"}, "spectrum_times"),
        ({"spectrum_times": (0, 11)}, "spectrum_times"),
        ({"target": "z +"}, "target"),
        ({"width": 3, "bias": (0.0, 1.0)}, "bias"),
        ({"loss": "logistic"}, "loss"),
        ({"batch": 2.0}, "batch"),
    ):
        with pytest.raises(BadInput) as error:
            be.run("compare", store=tmp_path / "s", **knobs)
        assert error.value.argument == argument
    assert not (tmp_path / "s").exists()


def test_the_knobs_of_a_problem_make_the_problem():
    network = be.Network("swish", width=2, second_layer=(1.0, -0.5), bias=(0.1, 0.2))
    problem = be.Problem("z1*z2 + e", network, "pseudo-huber", 0.3, momentum=0.5, weight_decay=0.1, batch=0.5)
    settings = compare.PHENOMENON.settings("quick", compare.knobs(problem))
    assert compare._problem(settings).to_dict() == problem.to_dict()


# --- grokking -------------------------------------------------------------------------------------------------------


def test_grokking_tiny(tmp_path, monkeypatch):
    monkeypatch.setattr(_training, "SHARP_PATHS", 1024)
    found = run(
        "grokking",
        tmp_path,
        target=INDICATOR,
        delta=(4.0, 40.0),
        dimension=60,
        steps=20,
        seeds=3,
        early=6,
        paths=1024,
        replicas=2,
        task=("pseudo-huber",),
        scaling_dimension=(30, 60),
        scaling_delta=40.0,
        scaling_steps=12,
        scaling_seeds=5,
    )
    table = found.dataset
    task = _training.problem(INDICATOR, "gelu", "squared", 0.5)
    one = be.simulate(task, 40.0, 60, 20, seeds=1, seed=2)
    at = table["time"].values.astype(int)
    assert at.tolist() == grokking.followed(20).tolist()
    for name in ("train_loss", "test_loss"):
        seen = table[f"{name}_each"].sel(delta=40.0, seed=2).values
        assert seen == pytest.approx(getattr(one, name)[at], abs=1e-6)
    limit = be.trajectory(task, 4.0, 6, numerics=be.Numerics(paths=1024, replicas=2))
    assert table["early_test"].sel(delta=4.0, time=5).item() == pytest.approx(limit.test_loss[5])
    grown = limit.hidden_variance / (60 * limit.norm2)
    drift = table["early_drift"].sel(delta=4.0, time=slice(0, 6)).values
    assert np.isnan(drift).tolist() == (grown >= 0.02).tolist()
    assert drift[0] == pytest.approx(2 * grown[0] + 2 / 60)
    assert set(found.verdicts) >= {"early training loss", "early loss on new data"}
    assert sum("delta = " in line for line in found.sentences) == 2


def test_what_is_followed():
    for steps in (0, 5, 30, 400, 3000):
        at = grokking.followed(steps)
        assert (at[0], at[-1]) == (0, steps)
        assert np.all(np.diff(at) > 0)
        assert len(at) < 50
    assert set(grokking.followed(200)[:-1]) <= set(grokking.followed(400))


def test_a_delayed_fall_is_told():
    time = np.arange(101.0)
    train = 1.0 - 0.5 * (time > 3)
    test = 1.0 + 0.2 * (time > 10) - 0.9 * (time > 60)
    table = xr.Dataset(
        {"train_loss": (("delta", "time"), [train, train]), "test_loss": (("delta", "time"), [test, 1 + 0.01 * time])},
        {"delta": [10.0, 5.0], "time": time},
    )
    lines = grokking.conclude(table)
    assert lines == [
        "delta = 10: training loss half of its fall by t = 4; "
        "new data: up by 20 percent at t = 11, -70 percent at the end, half of its fall by t = 61.",
        "delta = 5: training loss half of its fall by t = 4; "
        "new data: up by 100 percent at t = 100, +100 percent at the end, no fall.",
    ]


def test_a_time_that_does_not_come_is_infinite(monkeypatch):
    monkeypatch.setattr(_training, "SHARP_PATHS", 512)
    learner = {"target": INDICATOR, "activation": "gelu", "loss": "squared", "step_size": 0.5}
    found = _training.predicted(delta=2.0, dimension=400, steps=2, **learner)
    assert found["learning_time"] == np.inf
    assert np.isnan(found["learning_time_stderr"])
    assert found["learning_probability"] < 0.1


# --- phase-diagram and spectroscopy ---------------------------------------------------------------------------------


def test_phase_diagram_tiny(tmp_path, monkeypatch):
    monkeypatch.setattr(_training, "SHARP_PATHS", 1024)
    found = run(
        "phase-diagram",
        tmp_path,
        target=INDICATOR,
        loss=("squared",),
        delta=(4.0, 60.0),
        dimension=(50,),
        steps=25,
        time=(0, 1),
        paths=1024,
        seeds=6,
    )
    table = found.dataset.sel(loss="squared", dimension=50)
    assert table["threshold"].sel(time=0).item() == pytest.approx(5.10622, rel=1e-4)
    task = _training.problem(INDICATOR, "gelu", "squared", 0.5)
    runs = [be.simulate(task, 60.0, 50, 25, seeds=1, seed=s) for s in range(6)]
    learned = [float(np.max(np.abs(r.cosine)) > 0.5) for r in runs]
    assert table["learned_each"].sel(delta=60.0).values.tolist() == learned
    assert table["learned"].sel(delta=60.0) > table["learned"].sel(delta=4.0)
    assert table["learning_probability"].sel(delta=60.0) > 0.5 > table["learning_probability"].sel(delta=4.0)
    assert 4.0 < table["expected_onset"].item() < 60.0
    assert "squared, t = 0: an outlier from 5.11 on." in found.sentences


def test_an_onset_is_derived_with_its_error():
    deltas = np.array([2.0, 4.0, 8.0, 16.0])
    p = 1 / (1 + np.exp(-3 * np.log(deltas / 6.0)))
    dims = ("loss", "dimension", "delta")
    table = xr.Dataset(
        {
            "learned": (dims, p[None, None]),
            "learned_runs": (dims, np.full((1, 1, 4), 400)),
            "learning_probability": (dims, p[None, None]),
            "learning_probability_stderr": (dims, np.full((1, 1, 4), 0.02)),
            "learning_probability_runs": (dims, np.ones((1, 1, 4))),
        },
        {"loss": ["a"], "dimension": [10], "delta": deltas},
    )
    found = phase_diagram.derive(table)
    _, value, error, runs = found["onset"]
    assert value[0, 0] == pytest.approx(6.0, rel=0.01)
    assert 0.05 < error[0, 0] < 0.4
    assert runs[0, 0] == 1600
    _, value, error, _ = found["expected_onset"]
    assert value[0, 0] == pytest.approx(6.0, rel=0.01)
    assert 0.05 < error[0, 0] < 0.5


def test_spectroscopy_tiny(tmp_path):
    found = run(
        "spectroscopy",
        tmp_path,
        delta=(3.0, 12.0),
        time=(0, 2),
        histogram_time=(0,),
        dimension=120,
        paths=1024,
        seeds=2,
        histograms=1,
        low=-3.0,
        high=3.0,
    )
    table = found.dataset
    width = float(table["eigenvalue"][1] - table["eigenvalue"][0])
    assert table["frequency"].sel(delta=12.0, time=0).sum().item() * width == pytest.approx(1.0)
    task = _training.problem(INDICATOR, "gelu", "squared", 0.5)
    assert table["edge"].sel(delta=12.0, time=0).item() == pytest.approx(be.spectrum(task, 12.0, 0).edge, rel=1e-3)
    assert np.isnan(table["outlier"].sel(delta=3.0, time=0))
    assert table["outlier"].sel(delta=12.0, time=0) < table["edge"].sel(delta=12.0, time=0)
    one = be.simulate(task, 12.0, 120, 2, seeds=1, seed=1, spectrum_times=(2,), eigenpairs=1)
    assert table["lowest_each"].sel(delta=12.0, seed=1, time=2).item() == pytest.approx(one.eigenvalues[2][0], rel=1e-4)
    assert [p.title for p in spectroscopy.PHENOMENON.panels[:2]] == ["", ""]
