"""The phenomena about where learning begins, at tiny sizes: what they compute, and that every part fits together."""

import math

import numpy as np
import pytest

import bulkedge as be
from bulkedge.phenomena import _onset, _training, activations, inputs, losses, mini_batches

INDICATOR = "2*(abs(z) > 0.6744897501960817)"


def run(name, tmp_path, **knobs):
    outcome = be.run(name, store=tmp_path, **knobs)
    assert outcome.failures == []
    assert outcome.done == outcome.total
    assert outcome.plot().axes
    return outcome


# --- activations ---


def test_activations_tiny(tmp_path):
    found = run(
        "activations",
        tmp_path,
        target=("z**2",),
        activation=("gelu", "relu"),
        dimension=(30,),
        delta=(2.0, 20.0),
        steps=20,
        time=(0,),
        paths=512,
        draws=4,
        seeds=2,
        step=(1.0,),
        theory=("gelu",),
    )
    at = found.dataset.sel(target="z**2", step=1.0, time=0)
    assert math.isfinite(at["limit"].sel(activation="gelu"))
    assert math.isnan(at["limit"].sel(activation="relu"))
    assert any("never negative" in line for line in found.sentences)
    assert any(line.startswith("number quoted from the paper") for line in found.sentences)


def test_threshold_of_so_many_samples_drifts_for_an_unbounded_target_only():
    rows = activations.counted(target="z**2", activation="gelu", step_size=0.5)
    assert rows["samples"].tolist() == [1024, 16384, 131072]
    assert rows["counted"][2] > 1.5 * rows["counted"][0]
    rows = activations.counted(target=INDICATOR, activation="gelu", step_size=0.5)
    assert abs(rows["counted"][2] - 5.10622) < 4.5 * rows["counted_stderr"][2]


def test_loss_scale_is_step_size():
    half = be.simulate(be.Problem("z**2", "gelu", "squared", 0.5), 6, 40, 12, seeds=1)
    whole = be.simulate(be.Problem("z**2", "gelu", "(f - y)**2", 0.25), 6, 40, 12, seeds=1)
    np.testing.assert_allclose(whole.cosine, half.cosine, rtol=1e-4, atol=1e-6)
    thresholds = [be.threshold(be.Problem(INDICATOR, "gelu", loss)).delta for loss in ("squared", "(f - y)**2")]
    assert thresholds[0] == pytest.approx(thresholds[1], rel=1e-6)


def test_distances_rank_the_alternatives():
    seen = {"a": 4.0, "b": 8.0, "c": math.nan}
    lines = _onset.distances(seen, {"half": {"a": 2.0, "b": 4.0}, "near": {"a": 4.4, "b": 8.8}, "one": {"a": 4.0}})
    assert lines[0].startswith("Of 2 measured onsets")
    assert [line.partition(":")[0] for line in lines[1:]] == ["near", "half", "one"]
    assert "factor 1.10 at 2 of them" in lines[1]
    assert "0.50 times" in lines[2]
    assert "no number at 1" in lines[3]


# --- losses ---


@pytest.mark.parametrize(
    ("target", "activation", "loss", "expected", "best"),
    [
        ("z**2", "quad", "pseudo-huber", 0.92303, 0.5),
        ("z**2", "gelu", "pseudo-huber", 1.69276, 0.5),
        (losses.SIGNS, "gelu", "logistic", 3.24287, 1.36046),
    ],
)
def test_thresholds_of_losses_at_the_start(target, activation, loss, expected, best):
    found = losses.threshold(target=target, activation=activation, loss=loss, time=0, step_size=0.5, paths=1024)
    assert found["threshold"] == pytest.approx(expected, rel=2e-4)
    assert found["best"] == pytest.approx(best, rel=1e-4)
    assert found["bounded"] == 1.0


def test_logistic_takes_part_only_with_labels_of_two_signs(tmp_path):
    assert losses.fits(losses.SIGNS, "logistic")
    assert not losses.fits("z**2", "logistic")
    found = run(
        "losses",
        tmp_path,
        target=("z**2", losses.SIGNS),
        loss=("pseudo-huber", "logistic"),
        activation=("gelu",),
        dimension=(30,),
        delta=(2.0, 20.0),
        steps=10,
        time=(0,),
        paths=512,
        seeds=2,
        theory=("none",),
    )
    runs = found.dataset["learned_runs"].sel(target="z**2", activation="gelu", dimension=30)
    assert runs.sel(loss="logistic").sum() == 0
    assert runs.sel(loss="pseudo-huber").sum() == 4
    assert sum("logistic on" in line for line in found.sentences) == 1


# --- mini-batches ---


def test_mini_batches_tiny(tmp_path):
    found = run("mini-batches", tmp_path, dimension=(40,), delta=(6.0, 30.0), steps=10, batch=(0.3, 1.0), seeds=2)
    assert found.dataset["learning_probability"].shape == (2, 1, 2)
    assert len([line for line in found.sentences if line.startswith("b = ")]) == 2


def test_the_whole_batch_is_descent_and_a_part_of_it_is_not():
    learner = {"target": INDICATOR, "activation": "gelu", "loss": "squared", "step_size": 0.5}
    whole = mini_batches.training(batch=1.0, dimension=60, deltas=[30.0], steps=80, seed=1, **learner)
    plain = _training.trained(delta=30.0, dimension=60, steps=80, seed=1, **learner)
    assert whole["learned_at"][0] == plain["learned_at"]
    norms = {}
    for b in (1.0, 0.2):
        task = _training.problem(INDICATOR, "gelu", "squared", 0.5, batch=b)
        seen, said = be.simulate(task, 20, 100, 5, seeds=40), be.trajectory(task, 20, 5)
        norms[b], error = seen.norm2[-1], np.hypot(seen.stderr["norm2"][-1], said.stderr["norm2"][-1])
        assert abs(norms[b] - said.norm2[-1]) < 4.5 * error + 2.0 / 100
    assert norms[0.2] > norms[1.0] + 4.5 * np.sqrt(2.0) * error


# --- inputs ---


def test_inputs_tiny(tmp_path):
    found = run(
        "inputs",
        tmp_path,
        inputs=("gaussian", "elliptic-5", "digits"),
        dimension=(30, 80),
        delta=(20.0,),
        steps=10,
        seeds=4,
    )
    runs = found.dataset["lowest_runs"].sel(delta=20.0)
    assert runs.sel(inputs="digits", dimension=80) == 0
    assert runs.sel(inputs="digits", dimension=30) == 4
    lines = [line for line in found.sentences if "against the Gaussian prediction" in line]
    assert [line.split()[0] for line in lines] == ["gaussian", "elliptic-5", "digits"]


def test_inputs_are_checked_before_anything_runs(tmp_path):
    with pytest.raises(be.BadInput, match="gaussian"):
        be.run("inputs", store=tmp_path, inputs=("gausian",))


def test_the_plan_leaves_out_what_a_table_does_not_have():
    there = {"inputs": "digits", "dimension": 48, "delta": 24.0}
    assert inputs._there(**there)
    assert not inputs._there(**{**there, "delta": 38.0})
    assert not inputs._there(**{**there, "dimension": 62})
