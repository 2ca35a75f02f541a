"""A design is verified by training: what is predicted, measured and said; and how the facade reads its arguments."""

import json

import numpy as np
import pytest

import bulkedge as be
from bulkedge.cli import main
from bulkedge.cli.text import text
from bulkedge.foundation.answers import Design
from bulkedge.foundation.errors import BadInput
from bulkedge.phenomena import _design

RETRIEVAL = be.Problem("z^2", "gelu", "pseudo-huber", step_size=0.5)
FAMILY = {"activation_family": "gelu(v) + c*v^2"}


@pytest.fixture(scope="module")
def verified():
    return be.design(RETRIEVAL, "c=0:1", **FAMILY, delta=4.8, dimension=150, steps=100, seeds=60)


def test_more_runs_of_the_winner_succeed_by_the_predicted_margin(verified):
    found = verified.verified
    assert found["more_succeed"] is True
    assert (found["delta"], found["dimension"], found["steps"], found["seeds"]) == (4.8, 150, 100, 60)
    for kind in ("predicted", "measured"):
        assert found[kind]["gain"] == pytest.approx(found[kind]["after"] - found[kind]["before"])
    assert found["predicted"]["gain"] > 0.3
    for name in ("before", "after", "gain"):
        error = found["measured_stderr"][name] + found["predicted_stderr"][name]
        assert abs(found["measured"][name] - found["predicted"][name]) < 4 * error
    assert found["verdict"] in ("agrees", "undecided")
    assert "more runs of the winner" in found["sentence"]


def test_first_steps_are_equally_long(verified):
    """|theta(1) - theta(0)| of real networks, which the gradient factor decides up to its drift along theta."""
    winner = be.Problem(
        "z^2",
        be.Network(verified.winner["network"]["activation"]),
        "pseudo-huber",
        step_size=verified.winner["step_size"],
    )
    assert winner.step_size == verified.verified["step_size"]["after"]
    products = [p.step_size * _design.first_gradient(p) for p in (RETRIEVAL, winner)]
    assert products[0] == pytest.approx(products[1], rel=1e-5)
    rng = np.random.default_rng(2)
    v, z = rng.standard_normal((2, 200_000))
    for p in (RETRIEVAL, winner):
        # |theta(1)|^2 = (1 - E[F v])^2 + E[F^2]/delta, F with its step size: the second term is that of the noise.
        factor = np.asarray(p.pointwise.factor(v[None], p.labels(z[:, None], 0 * z), *p.layer)[0])
        noise = (p.step_size * _design.first_gradient(p)) ** 2 / 0.5
        run = be.simulate(p, 0.5, 1500, 1, seeds=6)
        expected = (1 - p.step_size * np.mean(factor * v)) ** 2 + noise
        assert run.norm2[1] == pytest.approx(expected, abs=4 * run.stderr["norm2"][1] + 0.05 * noise)


def test_it_survives_json_and_is_drawn_and_told(verified):
    again = Design.from_dict(json.loads(json.dumps(verified.to_dict(), allow_nan=False)))
    assert again.to_dict() == verified.to_dict()
    told = text(verified)
    assert "default" in told
    assert f"verdict: {verified.verified['verdict']}" in told
    assert max(map(len, told.splitlines())) <= 110
    assert len(verified.plot().axes) == 3


def test_the_step_size_follows_the_first_gradient_within_its_bounds():
    found = be.design(RETRIEVAL, {"c": (0.7, 0.8), "step_size": (0.3, 0.4)}, **FAMILY, verify=False)
    assert found.parameters["step_size"] == found.winner["step_size"] == 0.3
    assert any("step_size does not move" in w for w in found.warnings)
    assert found.verified is None
    with pytest.raises(BadInput, match="only step_size"):
        be.design(RETRIEVAL, "step_size", verify=False)


@pytest.mark.parametrize("kwargs", [{"delta": -1}, {"dimension": 1}, {"steps": 0}, {"seeds": 1}])
def test_bad_training_is_refused_before_the_search(kwargs):
    with pytest.raises(BadInput) as caught:
        be.design(RETRIEVAL, "bias", **kwargs)
    assert caught.value.argument == next(iter(kwargs))


def test_the_command_line(capsys):
    problem = ["--target", "2*(abs(z) > 0.67449)", "--step-size", "0.5"]
    assert main(["design", *problem, "--over", "second_layer=0.5:0.8", "--verify", "no", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == {"second_layer": 0.5}
    assert found["verified"] is None
    assert main(["sensitivity", *problem, "--over", "second_layer,step_size", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gradient"]["second_layer"] == pytest.approx(1.5812, abs=1e-3)
    assert found["gradient"]["step_size"] == 0
    assert main(["sensitivity", *problem, "--over", "second_layer"]) == 0
    assert "1.58" in capsys.readouterr().out
    for words in (["--over", "bias=2:1"], ["--over", "bias", "--verify", "perhaps"], []):
        assert main(["design", *problem, *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.count("\n") == 1
