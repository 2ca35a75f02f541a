"""Bad input through the real command: one line that names the option, exit code 2, no traceback, nothing computed."""

import os
import subprocess
import sys

import pytest

import bulkedge
from bulkedge.cli import main

GOOD = "2*(abs(z) > 0.67449)"
TARGETS = [
    # names that are not known, with the nearest that are
    ("phase-retreival", "did you mean phase-retrieval"),
    ("indicater", "did you mean indicator"),
    ("tanhh(z)", "did you mean tanh"),
    ("zz^2", "did you mean z"),
    ("z9", "known here are"),
    # what is not arithmetic
    ("z.real", "cannot be used|attribute access"),
    ("z.__class__.__mro__", "attribute access|cannot be used"),
    ("().__class__.__bases__", "attribute access|cannot be used|only"),
    ("__import__('os').system('true')", "there are no strings"),
    ("open(z)", "unknown function"),
    ("eval(z)", "unknown function"),
    ("getattr(z, z)", "unknown function"),
    ("z[0]", "no lists and no subscripts"),
    ("[z for z in z]", "no lists and no subscripts"),
    ("(z for z in z)", "only arithmetic"),
    ("{z: z}", "no sets and no dictionaries"),
    ("lambda: z", "no lambda"),
    ("'z'", "there are no strings"),
    ('f"{z}"', "there are no strings|no sets"),
    ("z if z else 1", "use where"),
    ("(z := 3)", "no lambda, slice or assignment"),
    ("z = 3", "write =="),
    ("abs(x=z)", "not a complete expression|no keyword"),
    ("abs(*z)", "star"),
    ("z; z", "cannot be used"),
    ("z @ z", "write \\*"),
    ("z % 2", "no remainder"),
    # numbers that are no numbers, or too large
    ("9^9^9", "too large"),
    ("9**9**9**9*z", "too large"),
    ("z^65", "too large"),
    ("z^1e9", "too large"),
    ("z^z", "must be a constant"),
    ("10^60*z", "too large"),
    ("1e999*z", "too large"),
    ("1" * 400 + "*z", "too large"),
    ("z + 1j", "is not a real number"),
    ("z + None", "not a real number|unknown name"),
    ("z/0", "division by zero"),
    ("z + log(0)", "not a finite real number"),
    ("z + exp(1000)", "not a finite real number|too large"),
    # too deep, too long, or nothing at all
    ("(" * 51 + "z" + ")" * 51, "nested too deeply"),
    ("abs(" * 51 + "z" + ")" * 51, "nested too deeply"),
    ("-" * 60 + "z", "nested too deeply"),
    ("z" + "+z" * 1000, "too long"),
    ("(" * 100_000, "too long"),
    ("   ", "needs a value"),
    ("3", "does not depend on z"),
    ("e", "does not depend on z"),
    ("z + z2", "not both"),
    ("log(z)", "not finite"),
    ("1/z^2 + sqrt(z)", "not finite"),
    ("z\x00", "cannot be used"),
    ("z²", "write \\^2"),
    ("z +", "not a complete expression"),
]
CALLS = [
    ("threshold --activation gelo", "--activation", "did you mean gelu"),
    ("threshold --activation v.real", "--activation", "attribute access"),
    ("threshold --activation 'v > 0'", "--activation", "continuous"),
    ("threshold --activation 1+1", "--activation", "does not depend on v"),
    ("threshold --loss squard", "--loss", "did you mean squared"),
    ("threshold --loss 'abs(u)'", "--loss", "slope jumps"),
    ("threshold --loss logistic", "--loss", r"labels -1 and \+1"),
    ("threshold --step-size 0", "--step-size", "must be positive"),
    ("threshold --step-size nan", "--step-size", "must be finite"),
    ("threshold --step-size inf", "--step-size", "must be finite"),
    ("threshold --width 0", "--width", "at least 1|from 1"),
    ("threshold --width 3 --second-layer 1,2", "--second-layer", "3 of them"),
    ("threshold --second-layer 0", "--second-layer", "zero"),
    ("threshold --second-layer nan", "--second-layer", "finite"),
    ("threshold --bias inf", "--bias", "finite"),
    ("threshold --momentum 1", "--momentum", r"\[0, 1\)"),
    ("threshold --weight-decay -1", "--weight-decay", "negative"),
    ("threshold --batch 0", "--batch", r"\(0, 1\]"),
    ("threshold --time -1", "--time", "zero or later"),
    ("threshold --time 0.5", "--time", "whole number"),
    ("threshold --time 1e9", "--time", "whole number"),
    ("threshold --hessian half", "--hessian", "block, full"),
    ("threshold --latent-dim 99", "--latent-dim", "whole number"),
    ("threshold --paths 10", "--paths", "whole number from 64"),
    ("threshold --replicas 1", "--replicas", "whole number from 2"),
    ("threshold --rtol 0", "--rtol", "must be positive"),
    ("spectrum --delta 0", "--delta", "positive"),
    ("spectrum --delta -3", "--delta", "positive"),
    ("spectrum --delta nan", "--delta", "positive and finite"),
    ("spectrum --delta inf", "--delta", "positive and finite"),
    ("spectrum --delta ten", "--delta", "must be a number"),
    ("spectrum --delta 10 --time inf", "--time", "whole number"),
    ("spectrum --delta 10 --points 2", "--points", "whole number"),
    ("trajectory --delta 10 --steps -1", "--steps", "whole number"),
    ("trajectory --delta 10 --steps 1e7", "--steps", "whole number"),
    ("trajectory --delta 10 --paths 1e8", "--paths", "GB of memory"),
    ("spectrum --delta 10 --time 3 --paths 1e8", "--paths", "GB of memory"),
    ("learning-time --delta 10 --dimension 1", "--dimension", "whole number"),
    ("simulate --delta 10 --samples 100", "--samples", "instead of --delta"),
    ("simulate --delta 10 --seeds 0", "--seeds", "whole number"),
    ("simulate --delta 10 --dimension 0", "--dimension", "whole number"),
    ("simulate --delta 1e-9", "--delta", "leaves no sample"),
    ("simulate --delta 10 --data cloud", "--data", "auto, stored, lazy"),
    ("simulate --delta 1e4 --dimension 1e6 --data stored", "--data", "needs 4e.* GB of memory"),
    ("simulate --delta 1e4 --dimension 1e9 --data lazy", "--data", "GB of memory"),
    ("simulate --delta 10 --spectrum-times 30", "--spectrum-times", "from 0 to 20"),
    ("simulate --delta 10 --eigenpairs 0", "--eigenpairs", "whole number"),
    ("compare --delta 10 --seeds 1", "--seeds", "at least 2"),
    ("compare --samples 100 --dimension -5", "--dimension", "whole number"),
]


def refused(status, out, err, option, says):
    import re

    assert status == 2, (status, err)
    assert out == ""
    assert err.startswith(f"bulkedge: {option}: ")
    assert err.count("\n") == 1
    assert len(err) < 500
    assert "Traceback" not in err
    assert re.search(says, err), err


@pytest.mark.parametrize(("text", "says"), TARGETS, ids=lambda t: ascii(t)[:24])
def test_targets(capsys, monkeypatch, text, says):
    monkeypatch.setitem(bulkedge.__dict__, "threshold", None)  # it must not come that far
    status = main(["threshold", "--target", text, "--json"])
    refused(status, *capsys.readouterr(), "--target", says)


@pytest.mark.parametrize(("line", "option", "says"), CALLS, ids=lambda t: t[:40])
def test_arguments(capsys, line, option, says):
    import shlex

    command, *words = shlex.split(line)
    status = main([command, "--target", GOOD, *words, "--json"])
    refused(status, *capsys.readouterr(), option, says)


SHELL = [
    (["threshold", "--target", "__import__('os').system('echo run')"], "--target", "no strings"),
    (["threshold", "--target", "9^9^9*z"], "--target", "too large"),
    (["threshold", "--target", "z.real"], "--target", "attribute access"),
    (["threshold", "--target", "(" * 60 + "z" + ")" * 60], "--target", "nested too deeply"),
    (["threshold", "--target", "z+" * 1500 + "z"], "--target", "too long"),
    (["threshold", "--target", GOOD, "--activation", "gellu"], "--activation", "did you mean gelu"),
    (["threshold", "--target", GOOD, "--loss", "logistic"], "--loss", "labels -1"),
    (["threshold", "--target", GOOD, "--time", "-2"], "--time", "zero or later"),
    (["spectrum", "--target", GOOD, "--delta", "0"], "--delta", "positive"),
    (["spectrum", "--target", GOOD, "--delta", "nan"], "--delta", "finite"),
    (["trajectory", "--target", GOOD, "--delta", "3", "--paths", "100000000"], "--paths", "GB of memory"),
    (["simulate", "--target", GOOD, "--delta", "10", "--dimension", "10000000", "--data", "stored"], "--data", "GB of"),
    (["simulate", "--target", GOOD, "--delta", "10", "--samples", "5"], "--samples", "instead of --delta"),
]


def test_a_dozen_from_a_real_shell(tmp_path):
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "bulkedge", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for words, _, _ in SHELL
    ]
    for process, (_, option, says) in zip(started, SHELL, strict=True):
        out, err = process.communicate(timeout=120)
        refused(process.returncode, out, err, option, says)


def test_divergence_from_a_real_shell(tmp_path):
    """Printed with its status and step all the same; exit code 3."""
    words = "trajectory --target z^2 --activation quad --step-size 20 --delta 3 --steps 5 --paths 256 --replicas 2"
    done = subprocess.run(
        [sys.executable, "-m", "bulkedge", *words.split()],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)},
    )
    assert done.returncode == 3, done.stderr
    assert "diverged at step 2" in done.stdout
    assert "Traceback" not in done.stderr
