"""The contract other programs rely on: every command's JSON, field by field, for answers that are and that diverge."""

import json

import numpy as np
import pytest

from bulkedge.cli import main
from bulkedge.foundation import answers

FIELDS = {
    "threshold": "delta reason stderr edge time windows delta_alg efficiency method status residual warnings",
    "spectrum": "delta time edge right_edge atom outliers density status warnings",
    "trajectory": "time train_loss test_loss norm2 overlap cosine hidden_variance stderr status warnings",
    "learning-time": "delta dimension steps time quartiles success_probability hidden_variance status warnings",
    "simulate": "time train_loss test_loss norm2 overlap cosine hidden_variance success seeds stderr eigenvalues "
    "overlap2 data seconds status",
    "compare": "verdict sentence rows trajectory simulation spectra status warnings",
}
KINDS = {
    "threshold": answers.Threshold,
    "spectrum": answers.Spectrum,
    "trajectory": answers.Trajectory,
    "learning-time": answers.LearningTime,
    "simulate": answers.Simulation,
    "compare": answers.Comparison,
}
CURVES = ("train_loss", "test_loss", "norm2", "overlap", "cosine", "hidden_variance")
FEW = "--paths 512 --replicas 2"
TRAIN = "--delta 4 --dimension 24 --steps 2 --seeds 2"
LOOK = "--spectrum-times 0,2 --eigenpairs 2"
OPTIONS = {
    "threshold": FEW,
    "spectrum": f"--delta 10 --points 32 {FEW}",
    "trajectory": f"--delta 4 --steps 2 {FEW}",
    "learning-time": f"--delta 30 --dimension 100 --steps 4 {FEW}",
    "simulate": f"{TRAIN} {LOOK}",
    "compare": f"{TRAIN} {LOOK} {FEW}",
}
ONE = ["--target", "2*(abs(z) > 0.6744897501960817)", "--step-size", "0.5"]
TWO = ["--target", "z1 + cos(2*z2)", "--activation", "tanh", "--second-layer", "1,-2", "--loss", "pseudo-huber"]
WILD = ["--target", "z^2", "--activation", "quad", "--step-size", "30"]


def no_constants(name):
    raise AssertionError(f"{name} in JSON")


def ask(capsys, command, *words, expected=0):
    assert main([command, *words, *OPTIONS[command].split(), "--json"]) == expected
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    found = json.loads(out, parse_constant=no_constants)
    assert set(FIELDS[command].split()) <= found.keys()
    again = KINDS[command].from_dict(found)
    assert json.loads(json.dumps(again.to_dict(), allow_nan=False)) == found
    return found


def shape(value):
    """Of nested lists, None for a missing number."""
    return np.shape(np.array(value, dtype=object))


@pytest.mark.parametrize("command", FIELDS)
def test_one_neuron_and_one_direction(capsys, command):
    found = ask(capsys, command, *ONE)
    assert found["status"] == "converged"
    check(command, found, (), ())


@pytest.mark.parametrize("command", FIELDS)
def test_several_neurons_and_directions(capsys, command):
    found = ask(capsys, command, *TWO)
    check(command, found, (2,), (2, 2))
    if command == "spectrum":
        assert [b["neuron"] for b in found["blocks"]] == [0, 1]


@pytest.mark.parametrize("command", FIELDS)
def test_what_diverges_is_printed_with_its_step_and_exits_with_3(capsys, command):
    more = ["--time", "2"] if command in ("threshold", "spectrum") else []
    found = ask(capsys, command, *WILD, *more, expected=3)
    assert found["status"] == "diverged"
    assert found["warnings"]
    if command != "learning-time":
        assert 1 <= found["diverged_at"] <= 2


def check(command, found, neurons, directions):
    r = len(neurons) + 1  # hidden entries of theta U_H: one direction is hard in both problems
    if command == "threshold":
        assert found["time"] == 0
        assert found["reason"] in (None, "none", "outside the searched range", "nothing hard")
        assert (found["delta"] is None) == (found["reason"] is not None)
        for low, high in found["windows"]:
            assert high is None or low < high
    elif command == "spectrum":
        assert found["edge"] < found["right_edge"]
        assert 0 <= found["atom"] <= 1
        for o in found["outliers"]:
            assert {"value", "overlap2", "kind", "stderr", "probability"} <= o.keys()
            assert o["kind"] in ("hidden", "easy", "weight")
            assert 0 <= o["overlap2"] <= 1
            assert 0 <= o["probability"] <= 1
        x, y = found["density"]["x"], found["density"]["y"]
        assert np.trapezoid(y, x) == pytest.approx(1 - found["atom"], abs=5e-3)
    elif command in ("trajectory", "simulate"):
        assert found["time"] == [0, 1, 2]
        shapes = dict(zip(CURVES, ((), (), neurons, directions, directions, (r, r) if neurons else ()), strict=True))
        for name, inner in shapes.items():
            assert shape(found[name]) == shape(found["stderr"][name]) == (3, *inner)
        assert np.allclose(np.array(found["norm2"])[0], 1.0)
    elif command == "learning-time":
        assert len(found["quartiles"]) == 3
        assert found["quartiles"][1] == found["time"]
        assert 0 <= found["success_probability"] <= 1
    if command == "simulate":
        assert found["data"] in ("stored", "lazy")
        assert found["seconds"] > 0
        assert len(found["seeds"]) == len(found["success"]) == 2
        assert {"train_loss", "test_loss", "norm2", "overlap", "cosine"} <= found["seeds"][0].keys()
        for name in ("eigenvalues", "overlap2"):
            assert list(found[name]) == ["0", "2"]
            assert shape(found[name]["0"]) == (*neurons, 2)
    if command == "compare":
        for row in found["rows"]:
            assert row.keys() >= {"quantity", "time", "predicted", "measured", "verdict"}
            assert row["verdict"] in ("agrees", "disagrees", "undecided")
        assert found["verdict"] in ("agrees", "disagrees", "undecided")
        check("trajectory", found["trajectory"], neurons, directions)
        check("simulate", found["simulation"], neurons, directions)


def test_lists_and_infinity(capsys):
    words = [*ONE, "--delta", "8,10", "--time", "0", "--points", "32", *FEW.split(), "--json"]
    assert main(["spectrum", *words]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=no_constants)["results"]
    assert [r["delta"] for r in found] == [8, 10]
    relu = ["--target", "z^2", "--activation", "relu", "--time", "inf", *FEW.split(), "--json"]
    assert main(["threshold", *relu]) == 0
    found = json.loads(capsys.readouterr().out, parse_constant=no_constants)
    assert (found["delta"], found["reason"], found["time"]) == (None, "none", None)
