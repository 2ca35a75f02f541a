import json
import shlex

import pytest

import bulkedge
from bulkedge.cli import demo
from bulkedge.cli.options import read


@pytest.fixture
def answering(monkeypatch, made):
    def compare(problem, *, progress, **settings):
        for what in ("paths", "paths", "networks"):
            progress(what, 1, 2)
        return made.comparison(times=settings["spectrum_times"][:1])

    monkeypatch.setitem(bulkedge.__dict__, "threshold", lambda problem: made.threshold())
    monkeypatch.setitem(bulkedge.__dict__, "compare", compare)


def test_the_demo_leaves_a_page_its_figures_and_its_numbers(answering, tmp_path, capsys):
    folder = tmp_path / "a" / "demo"
    assert demo.main([str(folder)]) == 0
    assert sorted(p.name for p in folder.iterdir()) == [
        "curves.png",
        "index.html",
        "results.json",
        "spectra.png",
        "threshold.png",
    ]
    lines = capsys.readouterr().out.splitlines()
    assert sum("paths" in line for line in lines) == sum("networks" in line and "    " in line for line in lines) == 1
    assert lines[-1].endswith("index.html")
    assert json.loads((folder / "results.json").read_text())["threshold"]["delta"] == 5.10622


def test_the_command_on_the_page_is_what_the_demo_did():
    words = shlex.split(demo.COMMAND)[1:]
    found = dict(read([w if w != "report.html" else "r.html" for w in words]).values)
    assert found.pop("delta") == [demo.SETTINGS["delta"]]
    assert tuple(found.pop("spectrum_times")) == demo.SETTINGS["spectrum_times"]
    assert {k: found[k] for k in ("dimension", "steps", "seeds")} == {
        k: demo.SETTINGS[k] for k in ("dimension", "steps", "seeds")
    }
    assert (found["target"], found["activation"], found["loss"], found["step_size"]) == tuple(demo.PROBLEM.values())


@pytest.mark.parametrize("words", [[], ["a", "b"], ["--help"]])
def test_the_demo_says_how_it_is_used(words, capsys):
    assert demo.main(words) == 2
    assert capsys.readouterr().err == "usage: python -m bulkedge.cli.demo DIR\n"


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, capsys):
    (tmp_path / "a").write_text("")
    assert demo.main([str(tmp_path / "a" / "b")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_an_interrupted_demo_is_one_line(answering, monkeypatch, tmp_path, capsys):
    def stop(problem):
        raise KeyboardInterrupt

    monkeypatch.setitem(bulkedge.__dict__, "threshold", stop)
    assert demo.main([str(tmp_path)]) == 130
    assert capsys.readouterr().err == "demo: interrupted\n"
