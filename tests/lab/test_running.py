import json

import numpy as np
import pytest

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import Knob, Part, Phenomenon, Quantity, Unit, grid
from bulkedge.foundation.status import Status
from bulkedge.lab import Outcome, gather, run
from bulkedge.lab import plan as plans


def test_a_run_predicts_measures_and_judges(tiny, tmp_path):
    seen = []
    outcome = be.run(tiny.TINY, store=tmp_path / "s", progress=lambda state: seen.append((state.done, state.total)))
    assert seen == [(k, 10) for k in range(11)]
    assert outcome.status is Status.CONVERGED
    assert (outcome.done, outcome.total, outcome.failures) == (10, 10, [])
    table = outcome.dataset
    assert table["expected"].values == pytest.approx([1.0, 4.0])
    assert table["seen"].dims == ("delta", "dimension")
    assert table["seen"].sel(dimension=10).values == pytest.approx([1.0, 4.0], abs=0.004)
    assert table["loss"].sel(delta=2.0, dimension=10, step=1.0) == pytest.approx(np.exp(-2), abs=0.004)
    assert np.isnan(table["loss"].sel(delta=2.0, dimension=10, step=5.0))
    assert table["seen_each"].sizes["seed"] == 4
    assert outcome.verdict == "agrees"
    assert set(outcome.verdicts) == {"square", "loss against expected loss"}
    assert outcome.rows[0]["point"] == {"delta": 1.0, "dimension": 10}
    assert outcome.sentences[-1] == "the largest square is 4.0"
    assert "Silverstein" in outcome.cite()


def test_an_outcome_survives_json(tiny, tmp_path):
    outcome = run(tiny.TINY, store=tmp_path)
    text = json.dumps(outcome.to_dict(), allow_nan=False)
    again = Outcome.from_dict(json.loads(text))
    assert again.dataset.equals(outcome.dataset)
    assert again.to_dict() == outcome.to_dict()


def test_only_what_is_missing_is_done(tiny, tmp_path, begun):
    run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun), units=3)
    outcome = run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun), units=5)
    assert begun() == dict.fromkeys("01234", 1)
    assert outcome.dataset["value"].values == pytest.approx(np.arange(5.0))


def test_gather_runs_nothing(tiny, tmp_path, begun):
    with pytest.raises(BadInput, match="there is no store"):
        gather(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun))
    run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun), units=3)
    outcome = gather(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun))
    assert outcome.status is Status.INCOMPLETE
    assert outcome.warnings == ["3 of 5 units are there; the rest is left out"]
    assert outcome.dataset["value_runs"].values.tolist() == [1, 1, 1, 0, 0]
    assert np.isnan(outcome.dataset["value"].values[3:]).all()
    assert begun() == dict.fromkeys("012", 1)


def test_a_unit_that_fails_is_recorded_and_stops_nobody(tiny, tmp_path, begun):
    def once(how):
        return run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun), how=how)

    outcome = once("raises")
    assert (outcome.done, outcome.status) == (4, Status.INCOMPLETE)
    assert outcome.failures[0]["unit"] == "unit (number = 2, seed 0)"
    assert outcome.failures[0]["error"].startswith("ValueError: two is odd\n")
    assert once("memory").failures[0]["error"].startswith("out of memory: no room for two")
    assert "returned no 'worker'" in once("wrong shape").failures[0]["error"]
    # Tried again, and failed again.
    assert once("raises").failures == outcome.failures
    assert begun() == {"0": 3, "1": 3, "2": 4, "3": 3, "4": 3}


def test_a_failure_is_forgotten_when_the_unit_succeeds(tiny, tmp_path, begun, monkeypatch):
    run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun), how="raises")
    monkeypatch.setattr(tiny, "ODD", False)
    outcome = run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun), how="raises")
    assert (outcome.done, outcome.failures) == (5, [])
    assert not list((tmp_path / "s" / "failed").iterdir())


def test_shards_are_the_plan_each_unit_once(tiny, tmp_path, begun):
    tasks = plans.make(tiny.TROUBLED, knobs={"units": 40}).tasks
    parts = [plans.shard(tasks, (i, 3)) for i in (1, 2, 3)]
    assert sorted(t.key for part in parts for t in part) == sorted(t.key for t in tasks)
    assert all(len(part) > 5 for part in parts)
    for i in (1, 2, 3):
        knobs = {"folder": str(begun), "units": 9}
        outcome = run(tiny.TROUBLED, store=tmp_path / "s", shard=f"{i}/3", **knobs)
        assert outcome.status.ok
    assert outcome.done == 9
    assert set(begun().values()) == {1}


@pytest.mark.parametrize("shard", ["0/3", "4/3", "x", "1/", "1/0", "1.5/2", (3, 2)])
def test_a_shard_that_is_none(shard):
    with pytest.raises(BadInput, match="shard"):
        plans.read_shard(shard)


def test_the_nearest_names(tiny, tmp_path):
    with pytest.raises(BadInput, match="did you mean delta"):
        run(tiny.TINY, store=tmp_path, dleta=3)
    with pytest.raises(BadInput, match="size: must be one of quick, full"):
        run(tiny.TINY, store=tmp_path, size="huge")
    with pytest.raises(BadInput, match="unknown name 'no-such'"):
        run("no_such", store=tmp_path)
    with pytest.raises(BadInput, match="engine: unknown name 'poll'; did you mean pool"):
        run(tiny.TINY, store=tmp_path, engine="poll")
    with pytest.raises(BadInput, match="workers"):
        run(tiny.TINY, store=tmp_path, workers=0)


@pytest.mark.parametrize(
    ("knob", "value", "says"),
    [
        ("delta", "1,x", "finite number"),
        ("delta", (1, -1), "positive"),
        ("delta", [], "at least one"),
        ("delta", "1,1", "twice"),
        ("dimension", 2.5, "whole number"),
        ("seeds", 0, "at least 1"),
        ("noise", -1, "at least 0, not -1"),
    ],
)
def test_a_knob_that_is_wrong(tiny, tmp_path, knob, value, says):
    with pytest.raises(BadInput, match=says) as error:
        run(tiny.TINY, store=tmp_path, **{knob: value})
    assert error.value.argument == knob


def test_two_units_at_one_point_are_a_mistake(tiny, tmp_path):
    part = Part("p", "measured", tiny.troubled, (), (Quantity("value"), Quantity("worker")))

    def plan(knobs):
        return grid("p", {"number": (1, 2)}, (0,), how="well", folder=str(tmp_path), seconds=0.0)

    bad = Phenomenon("bad", "?", (), "", (Knob("x", "number", 1.0, ""),), (part,), plan, ())
    with pytest.raises(ValueError, match="an axis is not declared"):
        run(bad, store=tmp_path / "s")


def test_the_default_folder(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run(tiny.TINY, seeds=2).store == "bulkedge-store"
    monkeypatch.setenv("BULKEDGE_STORE", str(tmp_path / "other"))
    assert run(tiny.TINY, seeds=2).store == str(tmp_path / "other")


def test_a_unit_is_listed_once():
    unit = Unit("p", {"x": 1}, 0)
    assert grid("p", {"x": (1,)}, (0, 1))[0] == unit
