"""list, run, status, show, report, as typed: what is printed, what is written, and the exit code."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bulkedge.cli import main
from bulkedge.foundation import registry

HERE = str(Path(__file__).parents[1] / "lab")


@pytest.fixture
def typed(monkeypatch, tmp_path, capsys):
    """Type a command; returns the exit code, standard output and standard error."""
    monkeypatch.syspath_prepend(HERE)
    monkeypatch.setitem(registry._DECLARED, "tiny", "tiny:TINY")
    monkeypatch.setitem(registry._DECLARED, "troubled", "tiny:TROUBLED")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BULKEDGE_STORE", raising=False)

    def call(*words):
        code = main(list(words))
        return code, *capsys.readouterr()

    return call


def no_constant(name):
    raise AssertionError(f"{name} is no JSON")


def read(text):
    """One JSON object and nothing else."""
    assert text.count("\n") == 1
    return json.loads(text, parse_constant=no_constant)


# --- list -----------------------------------------------------------------------------------------------------------


def test_list_names_every_phenomenon_and_its_question(typed):
    code, out, err = typed("list")
    assert (code, err) == (0, "")
    for name in ("phase-diagram", "spectroscopy", "grokking", "compare", "tiny"):
        assert f"  {name} " in out
    assert "Is the square of a number its square?" in out


def test_list_one_with_its_knobs(typed):
    code, out, _ = typed("list", "tiny")
    assert code == 0
    assert out.splitlines()[0] == "tiny: Is the square of a number its square?"
    assert "1,2    1,2,3  numbers to square" in out
    assert "units: 10 at quick, 15 at full" in out


def test_list_as_json(typed):
    code, out, _ = typed("list", "--json")
    found = read(out)
    assert code == 0
    assert {"name": "tiny", "question": "Is the square of a number its square?"} in found["phenomena"]
    code, out, _ = typed("list", "tiny", "--json")
    found = read(out)
    assert found["units"] == {"quick": 10, "full": 15}
    assert [k["name"] for k in found["knobs"]] == ["delta", "dimension", "seeds", "noise"]
    assert found["knobs"][0]["full"] == [1.0, 2.0, 3.0]


# --- run ------------------------------------------------------------------------------------------------------------


def test_run_prints_points_verdict_and_what_was_found(typed):
    code, out, err = typed("run", "tiny", "--engine", "inline", "--quiet")
    assert (code, err) == (0, "")
    assert "verdict: agrees" in out
    assert "the largest square is 4.0" in out
    assert "10 of 10 units in bulkedge-store" in out
    assert Path("bulkedge-store/store.json").is_file()


def test_run_as_json(typed):
    code, out, err = typed("run", "tiny", "--engine", "inline", "delta=1,3", "seeds=3", "--store", "s", "--json")
    found = read(out)
    assert (code, err) == (0, "")
    assert (found["verdict"], found["done"], found["total"], found["status"]) == ("agrees", 8, 8, "converged")
    assert found["settings"]["delta"] == [1.0, 3.0]
    assert found["dataset"]["coords"]["delta"]["data"] == [1.0, 3.0]
    assert {"quantity", "point", "predicted", "measured", "measured_stderr", "verdict"} <= set(found["rows"][0])


def test_nan_is_null_in_json(typed):
    code, out, _ = typed("run", "troubled", "how=raises", "folder=.", "--engine", "inline", "--json")
    found = read(out)
    assert code == 3
    assert found["dataset"]["data_vars"]["value"]["data"] == [0.0, 1.0, None, 3.0, 4.0]
    assert found["status"] == "incomplete"
    assert found["failures"][0]["error"].startswith("ValueError: two is odd")


def test_a_failure_is_told_and_the_exit_code_is_3(typed):
    code, out, _ = typed("run", "troubled", "how=raises", "folder=.", "--engine", "inline", "--quiet")
    assert code == 3
    assert "failed: unit (number = 2, seed 0): ValueError: two is odd\n" in out
    assert "4 of 5 units are there" in out


def test_a_run_in_a_pool_through_the_command_line(typed, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", HERE)
    code, out, _ = typed("run", "tiny", "--workers", "2", "--quiet", "seeds=2")
    assert code == 0
    assert "verdict: agrees" in out


def test_shards_fill_one_store(typed):
    words = ("run", "tiny", "--engine", "inline", "--quiet", "--store", "s")
    codes = [typed(*words, "--shard", f"{i}/3")[0] for i in (1, 2, 3)]
    assert codes == [0, 0, 0]
    code, out, _ = typed("show", "tiny", "--store", "s")
    assert code == 0
    assert "10 of 10 units" in out


@pytest.mark.parametrize("kind", ["png", "svg", "pdf", "nc", "parquet", "csv"])
def test_run_writes_figure_or_table(typed, kind):
    code, _, _ = typed("run", "tiny", "--engine", "inline", "--quiet", "--out", f"out.{kind}")
    assert code == 0
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "nc": b"CDF", "parquet": b"PAR1", "csv": b"table,"}
    assert Path(f"out.{kind}").read_bytes().startswith(start[kind])


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("run",), "run: needs the name of a phenomenon (see bulkedge list)"),
        (("run", "delta=3"), "run: needs the name of a phenomenon (see bulkedge list)"),
        (("run", "phase-diagramm"), "phenomenon: unknown name 'phase-diagramm'; did you mean phase-diagram"),
        (("run", "groking"), "phenomenon: unknown name 'groking'; did you mean grokking"),
        (("show", "spectrosocpy"), "phenomenon: unknown name 'spectrosocpy'; did you mean spectroscopy"),
        (("list", "tinny"), "phenomenon: unknown name 'tinny'; did you mean tiny"),
        (("run", "tiny", "detla=3"), "knob of tiny: unknown name 'detla'; did you mean delta?"),
        (("run", "compare", "activation=relu"), "knob spectrum_times: must be none: the slope of relu jumps"),
        (("run", "compare", "target=z +"), "knob target: this is not a complete expression near 'z +'"),
        (("run", "tiny", "delta=x"), "knob delta: must be a finite number, not 'x'"),
        (("run", "tiny", "seeds=2.5"), "knob seeds: must be a whole number of at least 1, not '2.5'"),
        (("run", "tiny", "seeds="), "knob seeds: needs a value"),
        (("run", "tiny", "seeds=1", "seeds=2"), "knob seeds: was given twice; a list is separated by commas"),
        (("run", "tiny", "word"), "run: does not know what to do with 'word'; a knob is set by KNOB=VALUE"),
        (("run", "tiny", "--size", "huge"), "--size: must be quick or full, not 'huge'"),
        (("run", "tiny", "--engine", "pol"), "--engine: unknown name 'pol'; did you mean pool?"),
        (("run", "tiny", "--shard", "3/2"), "--shard: must be i/N with i from 1 to N, such as 2/8, not '3/2'"),
        (("run", "tiny", "--workers", "0"), "--workers: must be a whole number from 1 to 100000, not '0'"),
        (("run", "tiny", "--out", "x.doc"), "--out: must end in one of .png, .svg, .pdf, .nc, .parquet, .csv"),
        (("run", "tiny", "--out", "no/x.nc"), "--out: the folder 'no' does not exist"),
        (("status",), "--store: there is no store in 'bulkedge-store'"),
        (("show", "tiny"), "--store: there is no store in 'bulkedge-store'"),
        (("report",), "--store: there is no store in 'bulkedge-store'"),
        (("report", "--out", "x.png"), "--out: must end in one of .html, not 'x.png'"),
        (("list", "a", "b"), "list: takes one name at most"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(typed, words, line):
    code, out, err = typed(*words)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    assert err.startswith(f"bulkedge: {line}")
    assert not Path("bulkedge-store").exists()


def test_a_store_that_cannot_be_is_said_at_the_start(typed, tmp_path):
    (tmp_path / "file").write_text("")
    for place, says in (
        ("file", "cannot be used"),
        ("file/below", "cannot be used"),
        (".", "is not empty and is not a"),
    ):
        code, out, err = typed("run", "tiny", "--engine", "inline", "--store", place)
        assert (code, out) == (2, "")
        assert err.startswith("bulkedge: --store: ")
        assert says in err


# --- status, show, report -------------------------------------------------------------------------------------------


def test_status_tells_plans_and_failures(typed):
    typed("run", "tiny", "--engine", "inline", "--quiet", "seeds=2")
    typed("run", "troubled", "how=raises", "folder=.", "--engine", "inline", "--quiet")
    code, out, _ = typed("status")
    assert code == 0
    assert out.startswith("bulkedge-store: 10 runs, ")
    assert "seeds=2" in next(line for line in out.splitlines() if "tiny" in line)
    assert "4 of 5" in next(line for line in out.splitlines() if "troubled" in line)
    assert "failed: troubled, unit (" in out
    assert "ValueError: two is odd" in out
    code, out, _ = typed("status", "--json")
    found = read(out)
    assert (code, found["runs"]) == (0, 10)
    assert {p["phenomenon"]: (p["done"], p["total"], p["failed"]) for p in found["plans"]} == {
        "tiny": (6, 6, 0),
        "troubled": (4, 5, 1),
    }


def test_show_without_knobs_is_what_was_run_last(typed):
    typed("run", "tiny", "--engine", "inline", "--quiet", "seeds=2")
    typed("run", "tiny", "--engine", "inline", "--quiet", "seeds=3", "delta=2,4")
    code, out, _ = typed("show", "tiny", "--out", "tiny.pdf")
    assert code == 0
    assert "delta = 2,4" in out
    assert "8 of 8 units" in out
    assert Path("tiny.pdf").stat().st_size > 5000
    code, out, _ = typed("show", "tiny", "seeds=2", "--json")
    assert (code, read(out)["settings"]["delta"]) == (0, [1.0, 2.0])


def test_show_of_a_plan_that_is_not_complete_says_so(typed):
    typed("run", "tiny", "--engine", "inline", "--quiet", "seeds=2")
    code, out, _ = typed("show", "tiny", "seeds=5")
    assert code == 3
    assert "6 of 12 units are there; the rest is left out" in out


def test_report_writes_a_page(typed):
    typed("run", "tiny", "--engine", "inline", "--quiet")
    code, out, _ = typed("report")
    assert (code, out) == (0, "report.html\n")
    assert "Is the square of a number its square?" in Path("report.html").read_text()


def test_a_plan_of_a_phenomenon_that_is_gone_is_told_and_not_fatal(typed, monkeypatch):
    typed("run", "tiny", "--engine", "inline", "--quiet", "seeds=2")
    monkeypatch.delitem(registry._DECLARED, "tiny")
    for words in (("status",), ("report",)):
        code, _, err = typed(*words)
        assert (code, err) == (0, "")
    assert "unknown name" in typed("status")[1]
    assert "unknown name" in Path("report.html").read_text()


def test_the_whole_command_with_a_package_of_somebody_elses(tmp_path):
    """Real processes: entry points, a pool, and a phenomenon's name taken twice."""
    about = tmp_path / "site" / "somebody_elses-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-elses\nVersion: 1.0\n")
    names = "tiny = tiny:TINY\nlost = no_such_module:X\nno-phenomenon = os:sep\nphase-diagram = tiny:TINY\n"
    (about / "entry_points.txt").write_text(f"[bulkedge.phenomena]\n{names}")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, str(about.parent)])}

    def typed(*words):
        command = [sys.executable, "-m", "bulkedge", *words]
        found = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        return found.returncode, found.stdout, found.stderr

    code, out, err = typed("run", "tiny", "--workers", "2", "seeds=2")
    assert (code, err) == (0, "")
    assert "verdict: agrees" in out
    code, _, err = typed("run", "lost")
    assert (code, err.count("\n")) == (2, 1)
    assert "lost is declared at no_such_module:X but cannot be loaded: No module named 'no_such_module'" in err
    code, _, err = typed("run", "no-phenomenon")
    assert code == 2
    assert "which is not a Phenomenon" in err
    code, out, _ = typed("list", "phase-diagram")
    assert code == 0
    assert "Is the square" not in out
