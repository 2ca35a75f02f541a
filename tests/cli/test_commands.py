import inspect
import io
import json
import math
import os
import signal
import subprocess
import sys
import time

import pytest

import bulkedge
from bulkedge.cli import main
from bulkedge.cli.options import COMMANDS
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status

TARGET = ["--target", "2*(abs(z) > 0.67449)"]
CALLS = {
    "threshold": [],
    "spectrum": ["--delta", "10"],
    "trajectory": ["--delta", "10"],
    "learning-time": ["--delta", "10", "--dimension", "5000"],
    "simulate": ["--delta", "10"],
    "compare": ["--delta", "10"],
}


def no_constants(name):
    raise AssertionError(f"{name} in JSON")


@pytest.fixture
def answering(monkeypatch, made):
    """Replace the package's functions by ones that return answers made by hand; returns the calls they got."""
    calls = []

    def fake(name):
        def function(problem, **kwargs):
            calls.append((name, problem, kwargs))
            take = {k: kwargs[k] for k in ("delta", "time", "dimension") if k in kwargs and name != "simulate"}
            take.pop("dimension", None) if name == "compare" else None
            return getattr(made, {"simulate": "simulation", "compare": "comparison"}.get(name, name))(**take)

        return function

    for name in ("threshold", "spectrum", "trajectory", "learning_time", "simulate", "compare"):
        monkeypatch.setitem(bulkedge.__dict__, name, fake(name))
    return calls


@pytest.mark.parametrize("command", CALLS)
def test_json_is_one_object_with_the_fields_and_nothing_else(answering, made, capsys, command):
    assert main([command, *TARGET, *CALLS[command], "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert out.count("\n") == 1
    found = json.loads(out, parse_constant=no_constants)
    function, _, kwargs = answering[0]
    assert function == command.replace("-", "_")
    assert kwargs["progress"] is None
    kind = {"simulate": "simulation", "compare": "comparison"}.get(command, function)
    assert found.keys() == getattr(made, kind)().to_dict().keys()


@pytest.mark.parametrize("command", CALLS)
def test_text_says_the_problem_the_numbers_and_the_status(answering, capsys, command):
    assert main([command, *TARGET, *CALLS[command]]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    lines = out.splitlines()
    assert lines[0].startswith("target 2*(abs(z) > 0.67449), one neuron (gelu)")
    assert lines[-1] == Status.CONVERGED.sentence
    assert max(map(len, lines)) <= 110


def test_text_of_numbers(answering, monkeypatch, made, capsys):
    main(["threshold", *TARGET])
    out = capsys.readouterr().out
    for part in ("samples per dimension     5.10622", "5.1062 to ∞", "1.3605", "0.2664", "quadrature"):
        assert part in out
    monkeypatch.setitem(
        bulkedge.__dict__,
        "threshold",
        lambda problem, **k: made.threshold(dependence=[[1e4, 5.1, 0.2], [1e5, 7.5, None]]),
    )
    main(["threshold", *TARGET])
    out = capsys.readouterr().out
    assert "5.10(20)" in out
    main(["spectrum", *TARGET, "--delta", "10"])
    out = capsys.readouterr().out
    assert "hidden outlier  -0.5624(30)  0.391(20)      0.930" in out
    main(["compare", *TARGET, "--delta", "10"])
    out = capsys.readouterr().out
    assert "verdict: agrees\n  train loss agrees.\n" in out
    assert "1.0000(20)" in out


def test_text_of_several_neurons(monkeypatch, made, capsys):
    for neurons, part in ((2, "squared norm 2"), (16, "mean squared norm")):
        result = made.simulation(neurons, 1)
        monkeypatch.setitem(bulkedge.__dict__, "simulate", lambda problem, result=result, **k: result)
        assert main(["simulate", *TARGET, "--delta", "10"]) == 0
        out = capsys.readouterr().out
        assert part in out
        assert "neuron 2: -0.41 (0.36)" in out
    monkeypatch.setitem(bulkedge.__dict__, "spectrum", lambda problem, **k: made.spectrum(m=2))
    main(["spectrum", *TARGET, "--delta", "10"])
    assert "neuron 2" in capsys.readouterr().out


def test_options_become_arguments(answering):
    main(["simulate", "--target", "z1*z2", "--activation", "quad", "--second-layer", "-1,1", "--bias", "0.5",
          "--loss", "pseudo-huber", "--step-size", "0.25", "--momentum", "0.9", "--weight-decay", "0.1", "--batch",
          "0.5", "--samples", "900", "--dimension", "300", "--seed", "7", "--data", "lazy", "--json"])  # fmt: skip
    (_, problem, kwargs) = answering[0]
    assert problem.network.second_layer == (-1.0, 1.0)
    assert problem.network.bias == (0.5, 0.5)
    assert (problem.network.activation, problem.loss, problem.target) == ("quad", "pseudo-huber", "z1*z2")
    assert (problem.step_size, problem.momentum, problem.weight_decay, problem.batch) == (0.25, 0.9, 0.1, 0.5)
    assert kwargs == {"samples": 900, "dimension": 300, "seed": 7, "data": "lazy", "progress": None}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda c: c.name)
def test_every_option_is_an_argument_of_the_function(command):
    known = set(inspect.signature(getattr(bulkedge, command.function)).parameters)
    known |= set(inspect.signature(bulkedge.Problem).parameters) | set(inspect.signature(bulkedge.Network).parameters)
    known |= {"json", "out", "quiet"}
    if "numerics" in known:
        known |= set(inspect.signature(bulkedge.Numerics).parameters)
    assert {o.name for o in command.options} <= known
    assert "progress" in known


def test_accuracy_goes_into_numerics(answering):
    main(["trajectory", *TARGET, "--delta", "3", "--paths", "256", "--seed", "5", "--json"])
    assert answering[0][2]["numerics"] == bulkedge.Numerics(paths=256, seed=5)
    assert "seed" not in answering[0][2]
    main(["compare", *TARGET, "--delta", "3", "--seed", "5", "--replicas", "4", "--json"])
    assert answering[1][2]["numerics"] == bulkedge.Numerics(replicas=4, seed=5)
    assert answering[1][2]["seed"] == 5
    main(["trajectory", *TARGET, "--delta", "3", "--json"])
    assert "numerics" not in answering[2][2]


def test_lists_ask_for_several_answers(answering, capsys):
    assert main(["spectrum", *TARGET, "--delta", "5,10", "--time", "0,2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["results"]
    assert [(r["delta"], r["time"]) for r in found] == [(5, 0), (5, 2), (10, 0), (10, 2)]
    assert main(["threshold", *TARGET, "--time", "0,inf"]) == 0
    assert "threshold at t = ∞" in capsys.readouterr().out
    assert answering[-1][2]["time"] == math.inf


def test_figures_are_written(answering, tmp_path, capsys):
    path = tmp_path / "a.svg"
    assert main(["trajectory", *TARGET, "--delta", "5,10", "--out", str(path), "--quiet"]) == 0
    assert b"<svg" in path.read_bytes()
    assert capsys.readouterr().err == ""


def test_a_report_is_written_with_its_command(answering, tmp_path, capsys):
    path = tmp_path / "a.html"
    assert main(["compare", *TARGET, "--delta", "10", "--out", str(path)]) == 0
    assert "bulkedge compare --target &#x27;2*(abs(z) &gt; 0.67449)&#x27; --delta 10" in path.read_text("utf-8")
    assert main(["compare", *TARGET, "--delta", "5,10", "--out", str(path)]) == 2
    assert capsys.readouterr().err.startswith("bulkedge: --out: a report is about one --delta")


@pytest.mark.parametrize("status", [s for s in Status if not s.ok])
def test_what_has_not_converged_is_printed_and_exits_with_3(monkeypatch, made, capsys, status):
    result = made.trajectory(status=status, diverged_at=4, warnings=["take care"])
    monkeypatch.setitem(bulkedge.__dict__, "trajectory", lambda problem, **k: result)
    assert main(["trajectory", *TARGET, "--delta", "10"]) == 3
    out = capsys.readouterr().out
    for part in (status.sentence, "warning: take care", "diverged at step 4"):
        assert part in out
    assert main(["trajectory", *TARGET, "--delta", "10", "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["status"], found["diverged_at"]) == (status.value, 4)


def test_what_is_missing_is_null(monkeypatch, made, capsys):
    result = made.simulation(seeds=1)
    monkeypatch.setitem(bulkedge.__dict__, "simulate", lambda problem, **k: result)
    main(["simulate", *TARGET, "--delta", "10", "--json"])
    out = capsys.readouterr().out
    assert json.loads(out, parse_constant=no_constants)["stderr"]["train_loss"][0] is None
    monkeypatch.setitem(
        bulkedge.__dict__, "threshold", lambda problem, **k: made.threshold(delta=None, reason="none", windows=[])
    )
    assert main(["threshold", *TARGET]) == 0
    assert "none: no outlier at any delta" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--activation", "gelo"], "bulkedge: --activation: unknown name 'gelo'; did you mean gelu"),
        (["--step-size", "-1"], "bulkedge: --step-size: must be positive, not -1"),
        (["--loss", "logistic"], "bulkedge: --loss: logistic needs labels -1 and +1"),
        (["--second-layer", "-1,1", "--width", "3"], "bulkedge: --second-layer: must be one number or 3"),
        (["--paths", "3"], "bulkedge: --paths: must be a whole number"),
    ],
)
def test_bad_input_is_one_line_and_2(answering, capsys, words, line):
    assert main(["threshold", *TARGET, *words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert err.count("\n") == 1
    assert answering == []


@pytest.mark.parametrize(
    "target",
    ["__import__('os')", "z.real", "z[0]", "lambda: z", "'z'", "z^999", "(" * 60 + "z" + ")" * 60, "z+" * 1500],
)
def test_a_stranger_expression_is_refused(answering, capsys, target):
    assert main(["threshold", "--target", target]) == 2
    err = capsys.readouterr().err
    assert err.startswith("bulkedge: --target: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (BadInput("step_size", "is wrong\nin two lines"), 2, "bulkedge: --step-size: is wrong in two lines"),
        (MemoryError(), 2, "bulkedge: not enough memory"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory"), 2, "bulkedge: not enough memory"),
        (KeyboardInterrupt(), 130, "bulkedge: interrupted"),
    ],
)
def test_interruptions_are_one_line(monkeypatch, capsys, error, code, line):
    def function(problem, **kwargs):
        raise error

    monkeypatch.setitem(bulkedge.__dict__, "threshold", function)
    assert main(["threshold", *TARGET]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert err.count("\n") == 1


def test_a_bug_is_not_hidden(monkeypatch):
    def function(problem, **kwargs):
        raise RuntimeError("a bug")

    monkeypatch.setitem(bulkedge.__dict__, "threshold", function)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["threshold", *TARGET])


def test_samples_and_delta_exclude_each_other(answering, capsys):
    assert main(["simulate", *TARGET, "--delta", "3", "--samples", "300"]) == 2
    assert capsys.readouterr().err.startswith("bulkedge: --samples: is instead of --delta")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_drawn_only_for_somebody_who_looks(monkeypatch, made):
    def function(problem, *, progress=None, **kwargs):
        if progress is not None:
            for done in range(3):
                progress("paths [of] one", done, 2)
        return made.threshold()

    monkeypatch.setitem(bulkedge.__dict__, "threshold", function)
    for words, drawn in (([], True), (["--quiet"], False), (["--json"], False)):
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        assert main(["threshold", *TARGET, *words]) == 0
        assert ("paths [of] one" in screen.getvalue()) == drawn


def shell(*words, **kwargs):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=60, **kwargs)


@pytest.mark.parametrize("words", [["--help"], ["threshold", "--help"], ["--version"]])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys; from bulkedge.cli import main; code = main(sys.argv[1:]); "
        "heavy = {'jax', 'numpy', 'scipy', 'matplotlib', 'rich', 'argparse'} & set(sys.modules); "
        "assert not heavy, heavy; sys.exit(code)"
    )
    start = time.perf_counter()
    done = shell("-c", code, *words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("bulkedge")
    assert time.perf_counter() - start < 2.0


def test_the_module_is_the_command():
    done = shell("-m", "bulkedge", "threshold", "--target", "z^2", "--delta", "1")
    assert done.returncode == 2
    assert done.stderr == "bulkedge: --delta: is not an option of threshold (see bulkedge threshold --help)\n"


def test_a_reader_that_has_gone_is_no_traceback():
    done = shell("-c", "import sys; from bulkedge.cli import main; sys.stdout.close = None\n"
                 "import io\nclass Gone(io.TextIOWrapper):\n    def write(self, text): raise BrokenPipeError\n"
                 "sys.stdout = Gone(sys.stdout.buffer)\nsys.exit(main(['--help']))")  # fmt: skip
    assert done.returncode == 141
    assert done.stderr == ""


def test_a_real_threshold_from_the_command_to_the_number(tmp_path):
    words = (
        "-m",
        "bulkedge",
        "threshold",
        "--target",
        "2*(abs(z) > 0.6744897501960817)",
        "--step-size",
        "0.5",
        "--json",
    )
    done = shell(*words, env=os.environ | {"XDG_CACHE_HOME": str(tmp_path)})
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout)["delta"] == pytest.approx(5.10622, abs=2e-5)
    assert list((tmp_path / "bulkedge").iterdir())


def test_ctrl_c_is_one_line(tmp_path):
    words = (
        "-m",
        "bulkedge",
        "simulate",
        "--target",
        "z^2",
        "--delta",
        "10",
        "--dimension",
        "2000",
        "--steps",
        "100000",
    )
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    process = subprocess.Popen(
        [sys.executable, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
    )
    time.sleep(3.0)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"bulkedge: interrupted\n")
