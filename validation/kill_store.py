"""A run that is killed (kill -9) at moments drawn from a fixed seed, and started again, until its plan is complete.

Claims: no file is ever torn; what was finished is never done again; the store ends with exactly the planned runs,
each once, and with the numbers of a run that nobody disturbed. The same for a run that is killed at its first, second,
third, ... access to the folder of the store, each time on a new one: between any two steps of every write.

    python validation/kill_store.py [--kills 300] [--pool 25] [--seed 0] [--steps 1000]
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bulkedge.foundation.phenomenon import Knob, Part, Phenomenon, Quantity, grid
from bulkedge.lab import plan as plans
from bulkedge.lab.running import run
from bulkedge.lab.store import Store

LENGTH = 3000
"""Entries of an array that is stored in a file of its own."""
SECONDS = 0.03
"""Of a unit: so long that a run is killed before it has done more than a few."""


def part(number: int, begun: str, seed: int) -> dict[str, object]:
    """Count that it was begun, and return what only depends on number and seed."""
    descriptor = os.open(begun, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{number} {seed}\n".encode())
    os.close(descriptor)
    time.sleep(SECONDS)
    rng = np.random.default_rng([number, seed])
    return {"value": rng.standard_normal(), "curve": rng.standard_normal(LENGTH)}


def plan(knobs: dict[str, object]) -> list[object]:
    return grid("unit", {"number": range(knobs["units"])}, range(knobs["seeds"]), begun=knobs["begun"])


KILLED = Phenomenon(
    name="killed",
    question="Does a store survive?",
    citations=(),
    equation="none",
    knobs=(
        Knob("units", "integer", 10, "numbers", low=1),
        Knob("seeds", "integer", 3, "of each", low=1),
        Knob("begun", "text", "begun.txt", "file that counts"),
    ),
    parts=(Part("unit", "measured", part, ("number",), (Quantity("value"), Quantity("curve", dims=("place",)))),),
    plan=plan,
    panels=(),
)


def kill_until_done(folder: Path, kills: int, longest: float, engine: str, units: int, seed: int) -> dict[str, int]:
    """Start, kill after a time up to `longest` seconds, and again; at last let it finish. Checks the claims."""
    begun, store = folder / "begun.txt", folder / "store"
    begun.touch()
    knobs = {"units": units, "begun": str(begun)}
    draw = random.Random(seed)
    struck = 0
    for _ in range(kills):
        pid = os.fork()
        if pid == 0:
            run(KILLED, engine=engine, workers=2, store=store, **knobs)
            os._exit(0)
        time.sleep(draw.uniform(0.0, longest))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        struck += os.WIFSIGNALED(status)
        check_no_torn_file(store)
    outcome = run(KILLED, engine=engine, workers=2, store=store, **knobs)
    planned = {task.key for task in plans.make(KILLED, "quick", knobs).tasks}
    files = sorted(p.stem for p in (store / "runs").glob("*/*.json"))
    assert files == sorted(planned), f"{len(files)} runs, {len(planned)} planned"
    assert outcome.done == len(planned)
    assert not outcome.failures
    again = begun.read_text().split("\n")[:-1]
    # A pool of two is given three: while a result is on its way to the store, its process begins the next unit.
    in_flight = struck * (3 if engine == "pool" else 1)
    assert len(planned) <= len(again) <= len(planned) + in_flight, f"{len(again)} begun, {struck} kills"
    with tempfile.TemporaryDirectory() as other:
        undisturbed = run(KILLED, store=Path(other) / "store", **{**knobs, "begun": os.devnull})
    for name in ("value", "curve", "value_each"):
        assert np.array_equal(outcome.dataset[name], undisturbed.dataset[name])
    return {"planned": len(planned), "kills": struck, "begun": len(again)}


def kill_at_every_step(folder: Path, most: int) -> int:
    """Kill a run of two units at its k-th access to the store, for every k there is; returns how many there are."""
    for k in range(1, most + 1):
        store, begun = folder / f"store-{k}", folder / f"begun-{k}.txt"
        begun.touch()
        knobs = {"units": 2, "seeds": 1, "begun": str(begun)}
        pid = os.fork()
        if pid == 0:
            _kill_myself_at(k, str(store))
            run(KILLED, store=store, **knobs)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        check_no_torn_file(store)
        finished = len(Store(store).keys())
        outcome = run(KILLED, store=store, **knobs)
        assert (outcome.done, outcome.total, outcome.failures) == (2, 2, [])
        assert len(list((store / "runs").glob("*/*.json"))) == 2
        again = begun.read_text().count("\n")
        assert 2 <= again <= (2 if finished == 2 else 3), f"{again} begun, {finished} finished"
        if not os.WIFSIGNALED(status):
            return k - 1
    return most


def _kill_myself_at(k: int, folder: str) -> None:
    """Kill -9 this process when it opens, makes, renames or removes something below the folder for the k-th time."""
    events = {"open", "os.mkdir", "os.rename", "os.remove", "os.scandir", "os.listdir"}
    count = 0

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal count
        if event in events and str(arguments[0]).startswith(folder):
            count += 1
            if count == k:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def check_no_torn_file(path: Path) -> None:
    """Every run that is there can be read, checksums and all."""
    if (path / "store.json").exists():
        store = Store(path, write=False)
        for key in sorted(store.keys()):
            store.get(key)
        assert not list((path / "damaged").glob("*")), "a run was put aside as damaged"


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300, help="of a run in process")
    parser.add_argument("--pool", type=int, default=25, help="kills of a run in a pool")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1000, help="at most, of the accesses at which a run is killed")
    given = parser.parse_args()
    for engine, kills, longest in (("inline", given.kills, 0.15), ("pool", given.pool, 6.0)):
        if kills:
            with tempfile.TemporaryDirectory() as folder:
                found = kill_until_done(Path(folder), kills, longest, engine, max(4, kills // 2), given.seed)
            print(f"kill_store: {engine}: {found['kills']} kills, {found['planned']} runs, {found['begun']} begun")
    with tempfile.TemporaryDirectory() as folder:
        print(f"kill_store: killed at each of {kill_at_every_step(Path(folder), given.steps)} accesses to the store")
    return 0


if __name__ == "__main__":
    sys.exit(main())
