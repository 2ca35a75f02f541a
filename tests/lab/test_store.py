import collections
import errno
import json
import multiprocessing
import os
import shutil
import sqlite3
import time

import numpy as np
import pytest

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import Part, Quantity
from bulkedge.lab import index, run, status
from bulkedge.lab import plan as plans
from bulkedge.lab import store as stores
from bulkedge.lab.record import Task, key_of, pack, unpack
from bulkedge.lab.store import Damaged, Store

CURVE = Part("m", "measured", len, ("x",), (Quantity("value"), Quantity("curve", dims=("place",))))


def put(store, x=1, length=5, value=0.5):
    task = Task("p", CURVE, {"x": x}, 0, key_of("p", CURVE, {"x": x}, 0))
    small, large = pack(task, {"value": value, "curve": np.arange(float(length))})
    store.put({**task.header(), "seconds": 2.0, "host": "here", "code": {}, "finished": "now"}, small, large)
    return task.key


def files(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


# --- what is written is read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [0, 3, 5000])
def test_a_run_is_read_as_it_was_written(tmp_path, length):
    store = Store(tmp_path / "s")
    key = put(store, length=length, value=np.nan)
    about, result = store.get(key)
    assert (about["parameters"], about["seed"], about["part"], about["host"]) == ({"x": 1}, 0, "m", "here")
    assert result["curve"].tolist() == list(range(length))
    assert np.isnan(result["value"])
    assert not list((tmp_path / "s" / "partial").iterdir())
    assert (length > 1000) == any(name.endswith(".npz") for name in files(tmp_path / "s"))


def test_arrays_of_any_shape_survive():
    part = Part("m", "measured", len, (), (Quantity("table", dims=("a", "b")),))
    task = Task("p", part, {}, None, "k")
    for value in (np.zeros((3, 0)), np.zeros((0, 2)), np.array([[np.inf, np.nan], [1.0, -2.0]]), np.ones((40, 40))):
        small, large = pack(task, {"table": value})
        json.dumps(small, allow_nan=False)
        assert np.array_equal(unpack(small, large)["table"], value, equal_nan=True)


def test_the_key_is_of_the_configuration_and_the_schema():
    base = key_of("p", CURVE, {"x": 1, "y": 2}, 0)
    assert key_of("p", CURVE, {"y": 2, "x": 1}, 0) == base
    other = Part("m", "measured", len, ("x",), (*CURVE.quantities, Quantity("more")))
    newer = Part("m", "measured", len, ("x",), CURVE.quantities, version=2)
    changed = [
        key_of("q", CURVE, {"x": 1, "y": 2}, 0),
        key_of("p", CURVE, {"x": 1, "y": 3}, 0),
        key_of("p", CURVE, {"x": 1, "y": 2}, 1),
        key_of("p", CURVE, {"x": 1, "y": 2}, None),
        key_of("p", other, {"x": 1, "y": 2}, 0),
        key_of("p", newer, {"x": 1, "y": 2}, 0),
    ]
    assert len({base, *changed}) == 7


def test_what_is_there_stays(tmp_path):
    store = Store(tmp_path / "s")
    key = put(store, value=1.0)
    put(store, value=2.0)
    assert store.get(key)[1]["value"] == 1.0


# --- torn and changed files -----------------------------------------------------------------------------------------


def test_a_write_that_fails_leaves_nothing(tmp_path, monkeypatch):
    store = Store(tmp_path / "s")
    before = files(tmp_path)

    def full(descriptor):
        raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        put(store, length=5000)
    assert files(tmp_path) == before


def test_the_name_appears_only_with_the_whole_content(tmp_path, monkeypatch):
    store, seen = Store(tmp_path / "s"), []
    rename = os.replace

    def watched(source, target):
        seen.append((os.path.exists(target), os.stat(source).st_size))
        rename(source, target)

    monkeypatch.setattr(os, "replace", watched)
    key = put(store, length=5000)
    assert len(seen) == 2  # the arrays, then the run
    assert not any(there for there, _ in seen)
    assert seen[1][1] == (tmp_path / "s" / "runs" / key[:2] / f"{key}.json").stat().st_size


@pytest.mark.parametrize("how", ["empty", "half", "one byte", "not json", "other key", "arrays half", "arrays gone"])
def test_a_damaged_run_is_never_read(tmp_path, how):
    store = Store(tmp_path / "s")
    key = put(store, length=5000)
    file = tmp_path / "s" / "runs" / key[:2] / f"{key}.json"
    arrays = next(file.parent.glob("*.npz"))
    text = file.read_bytes()
    match how:
        case "empty":
            file.write_bytes(b"")
        case "half":
            file.write_bytes(text[: len(text) // 2])
        case "one byte":
            file.write_bytes(text.replace(b'"value": 0.5', b'"value": 0.6'))
        case "not json":
            file.write_bytes(b"\x00\xff" * 50)
        case "other key":
            os.replace(file, file.with_name(f"{key[::-1]}.json"))
            key = key[::-1]
            os.makedirs(tmp_path / "s" / "runs" / key[:2], exist_ok=True)
            os.replace(file.with_name(f"{key}.json"), tmp_path / "s" / "runs" / key[:2] / f"{key}.json")
        case "arrays half":
            arrays.write_bytes(arrays.read_bytes()[:100])
        case "arrays gone":
            arrays.unlink()
    with pytest.raises(Damaged):
        store.get(key)


def test_a_damaged_run_is_put_aside_and_done_again(tiny, tmp_path, begun):
    run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun))
    victim = sorted((tmp_path / "s" / "runs").rglob("*.json"))[0]
    victim.write_bytes(victim.read_bytes()[:40])
    outcome = run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun))
    assert outcome.dataset["value"].values.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    assert sorted(begun().values()) == [1, 1, 1, 1, 2]
    assert len(list((tmp_path / "s" / "damaged").iterdir())) == 1


def test_what_a_dead_writer_left_is_removed_and_what_a_living_one_writes_is_not(tmp_path):
    store = Store(tmp_path / "s")
    dead = multiprocessing.get_context("spawn").Process(target=len, args=((),))
    dead.start()
    dead.join()
    host = stores.socket.gethostname()
    names = {
        "gone": f"{host}@{dead.pid}.0",
        "alive": f"{host}@{os.getpid()}.0",
        "elsewhere": "another-host@1.0",
        "ancient": "another-host@2.0",
    }
    for name, file in names.items():
        (tmp_path / "s" / "partial" / file).write_text("half")
        age = {"ancient": 8 * 86400.0}.get(name, 3600.0)
        os.utime(tmp_path / "s" / "partial" / file, (time.time() - age,) * 2)
    Store(store.path)
    left = {p.name for p in (tmp_path / "s" / "partial").iterdir()}
    assert left == {names["alive"], names["elsewhere"]}


# --- what cannot be used is said at the start -----------------------------------------------------------------------


def test_a_store_of_another_version_is_refused(tiny, tmp_path):
    run(tiny.TINY, store=tmp_path / "s")
    mark = tmp_path / "s" / "store.json"
    for schema in (0, 2, 99):
        mark.write_text(json.dumps({"format": stores.FORMAT, "schema": schema}))
        with pytest.raises(BadInput, match=f"has schema {schema}; this version reads schema 1") as error:
            run(tiny.TINY, store=tmp_path / "s")
        assert error.value.argument == "store"
        with pytest.raises(BadInput, match="schema"):
            status(tmp_path / "s")


def test_a_store_of_an_older_version_is_migrated_step_by_step(tiny, tmp_path, monkeypatch):
    run(tiny.TINY, store=tmp_path / "s")
    (tmp_path / "s" / "store.json").write_text(json.dumps({"format": stores.FORMAT, "schema": -1}))
    steps = []
    monkeypatch.setattr(stores, "MIGRATIONS", {-1: lambda path: steps.append(-1), 0: lambda path: steps.append(0)})
    Store(tmp_path / "s")
    assert steps == [-1, 0]
    assert json.loads((tmp_path / "s" / "store.json").read_text())["schema"] == 1
    Store(tmp_path / "s")
    assert steps == [-1, 0]


def test_a_run_of_another_schema_is_not_read(tmp_path):
    store = Store(tmp_path / "s")
    key = put(store)
    file = tmp_path / "s" / "runs" / key[:2] / f"{key}.json"
    content = {k: v for k, v in json.loads(file.read_text()).items() if k != "digest"} | {"schema": 2}
    file.write_text(json.dumps({**content, "digest": stores.digest(content)}))
    with pytest.raises(BadInput, match="schema 2, and this version reads 1"):
        store.get(key)


@pytest.mark.parametrize("mark", ["", "{}", "[1]", '{"format": "something else", "schema": 1}'])
def test_a_mark_that_is_none(tmp_path, mark):
    (tmp_path / "store.json").write_text(mark)
    with pytest.raises(BadInput, match="not of a bulkedge store"):
        Store(tmp_path)


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("chapter one")
    with pytest.raises(BadInput, match="is not empty and is not a store"):
        Store(tmp_path)
    assert files(tmp_path) == ["thesis.tex"]


def test_a_place_that_cannot_be_written_is_said_before_anything_runs(tiny, tmp_path, begun):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be used: Not a directory") as error:
        run(tiny.TROUBLED, store=tmp_path / "file" / "s", folder=str(begun))
    assert error.value.argument == "store"
    assert begun() == {}


def test_a_folder_without_permission(tiny, tmp_path, begun, monkeypatch):
    def refused(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    Store(tmp_path / "s")
    monkeypatch.setattr(stores.os, "replace", refused)  # the tests may run as root, whom no permission stops
    with pytest.raises(BadInput, match="cannot be used: Permission denied"):
        run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun))
    assert begun() == {}


def test_a_disk_that_is_full_at_the_start(tiny, tmp_path, begun, monkeypatch):
    usage = collections.namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10**9, 10**9, 1_500_000))
    with pytest.raises(BadInput, match=r"the disk of .* is full: 1\.5 MB are free"):
        run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun))
    assert begun() == {}


def test_a_disk_that_fills_up_keeps_what_is_stored(tiny, tmp_path, begun, monkeypatch):
    write, count = Store.write, [0]

    def filling(self, target, content):
        count[0] += "runs" in target.parts
        if count[0] > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, target, content)

    monkeypatch.setattr(Store, "write", filling)
    with pytest.raises(BadInput, match="is full; what is stored stays"):
        run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun))
    monkeypatch.undo()
    run(tiny.TROUBLED, store=tmp_path / "s", folder=str(begun))
    assert begun() == {"0": 1, "1": 1, "2": 2, "3": 1, "4": 1}


# --- the index ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["lost", "stale", "too much", "torn", "other version", "not a database"])
def test_the_index_is_right_whatever_became_of_it(tiny, tmp_path, how):
    folder = tmp_path / "s"
    run(tiny.TINY, store=folder)
    store = Store(folder, write=False)
    right = index.summary(store)
    assert [(r["part"], r["runs"]) for r in right] == [("theory", 2), ("training", 8)]
    file = folder / index.NAME
    match how:
        case "lost":
            file.unlink()
        case "stale":
            old = file.read_bytes()
            run(tiny.TINY, store=folder, seeds=6)
            right = [{**r, "runs": {"theory": 2, "training": 12}[r["part"]]} for r in right]
            file.write_bytes(old)
        case "too much":
            removed = [p for p in (folder / "runs").rglob("*.json") if json.loads(p.read_text())["seed"] == 3]
            for path in removed:
                path.unlink()
            right = [{**r, "runs": {"theory": 2, "training": 6}[r["part"]]} for r in right]
        case "torn":
            file.write_bytes(file.read_bytes()[:700])
        case "other version":
            with sqlite3.connect(file) as connection:
                connection.execute("PRAGMA user_version = 77")
            connection.close()
        case "not a database":
            file.write_bytes(b"hello")
    found = index.summary(store)
    assert [(r["part"], r["runs"]) for r in found] == [(r["part"], r["runs"]) for r in right]
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT COUNT(*) FROM runs").fetchone()[0] == sum(r["runs"] for r in right)
    connection.close()


def test_the_index_tells_parameters_and_code(tiny, tmp_path):
    run(tiny.TINY, store=tmp_path / "s")
    with index.opened(Store(tmp_path / "s", write=False)) as connection:
        ask = "SELECT parameters, code, seconds FROM runs WHERE part = 'training' AND seed = 1"
        rows = connection.execute(ask).fetchall()
    assert sorted(json.loads(p)["delta"] for p, _, _ in rows) == [1.0, 2.0]
    assert all("bulkedge" in json.loads(code) and "source" in json.loads(code) for _, code, _ in rows)
    assert all(seconds >= 0 for _, _, seconds in rows)


def test_reading_a_store_changes_nothing_but_its_index(tiny, tmp_path):
    run(tiny.TINY, store=tmp_path / "s")
    before = {name: (tmp_path / name).read_bytes() for name in files(tmp_path)}
    status(tmp_path / "s")
    after = {name: (tmp_path / name).read_bytes() for name in files(tmp_path) if not name.endswith(index.NAME)}
    assert after == before


# --- several writers ------------------------------------------------------------------------------------------------


def test_two_processes_fill_one_store(tiny, tmp_path, begun):
    """They begin at the same time and do the same plan: no run is torn, and each is there once."""
    knobs = {"folder": str(begun), "units": 30, "seconds": 0.01}
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=tiny.fill, args=(str(tmp_path / "s"), knobs)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(60)
    assert [process.exitcode for process in both] == [0, 0]
    planned = sorted(task.key for task in plans.make(tiny.TROUBLED, knobs=knobs).tasks)
    assert sorted(p.stem for p in (tmp_path / "s" / "runs").rglob("*.json")) == planned
    store = Store(tmp_path / "s")
    assert sorted(float(store.get(key)[1]["value"]) for key in planned) == list(range(30))
    assert not list((tmp_path / "s" / "partial").iterdir())
