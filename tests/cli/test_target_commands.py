"""The commands on a target alone, run for real on quick targets."""

import json

import pytest

from bulkedge.cli import main

FIELDS = {
    "subspaces": {"easy", "hard", "inert", "stages", "certificate"},
    "delta-alg": {"delta", "reason", "rank_one", "condition", "stages", "stderr"},
    "delta-it": {"delta", "reason", "lower", "upper", "kinds"},
    "exponents": {"information", "generative", "leap", "generative_leap", "reasons", "samples", "evidence"},
}


def no_constants(name):
    raise AssertionError(f"{name} in JSON")


@pytest.mark.parametrize("command", FIELDS)
@pytest.mark.parametrize("target", ["z^2", "z1 + z2^2", "sign(z1*z2*z3)"])
def test_json_and_text(capsys, command, target):
    assert main([command, "--target", target, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    found = json.loads(out, parse_constant=no_constants)
    assert FIELDS[command] | {"status", "warnings", "problem"} <= found.keys()
    assert main([command, "--target", target, "--quiet"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.startswith(f"target {target}")
    assert max(map(len, out.splitlines())) <= 120


def test_numbers_in_the_text(capsys):
    main(["delta-alg", "--target", "z1 + z2^2", "--quiet"])
    out = capsys.readouterr().out
    for part in ("samples per dimension  0.5\n", "stage 1                z1: at once", "z2: above 0.5"):
        assert part in out
    main(["subspaces", "--target", "max(z1,z2)", "--latent-dim", "3", "--quiet"])
    out = capsys.readouterr().out
    for part in ("easy          0.7071 z1 + 0.7071 z2", "hard          0.7071 z1 - 0.7071 z2", "inert         z3"):
        assert part in out
    main(["exponents", "--target", "he3(z)", "--quiet"])
    out = capsys.readouterr().out
    for part in ("information      3", "generative       1", "n of order d^2"):
        assert part in out
    main(["delta-it", "--target", "z^2", "--quiet"])
    assert "starts from 0" in capsys.readouterr().out


@pytest.mark.parametrize("command", FIELDS)
def test_bad_input_is_one_line_and_2(capsys, command):
    for words, line in (
        (["--target", "exp(z^2)"], "--target: is not square-integrable"),
        (["--target", "z2", "--latent-dim", "1"], "--latent-dim: "),
        (["--target", "z^2", "--activation", "gelu"], "--activation: is not an option of"),
        ([], "--target: is required"),
    ):
        assert main([command, *words]) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith(f"bulkedge: {line}")
        assert err.count("\n") == 1
