"""A run that is killed (kill -9) at moments drawn from a fixed seed, and started again, until its plan is complete.

Claims: no file is ever torn; what was finished is never done again; the store ends with exactly the planned runs,
each once, and with the numbers of a run that nobody disturbed.

    python validation/kill_store.py [--kills 300] [--pool 25] [--seed 0]
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


def part(number: int, begun: str, seed: int) -> dict[str, object]:
    """Count that it was begun, and return what only depends on number and seed."""
    descriptor = os.open(begun, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{number} {seed}\n".encode())
    os.close(descriptor)
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
    in_flight = struck * (2 if engine == "pool" else 1)
    assert len(planned) <= len(again) <= len(planned) + in_flight, f"{len(again)} begun, {struck} kills"
    with tempfile.TemporaryDirectory() as other:
        undisturbed = run(KILLED, store=Path(other) / "store", **{**knobs, "begun": os.devnull})
    for name in ("value", "curve", "value_each"):
        assert np.array_equal(outcome.dataset[name], undisturbed.dataset[name])
    return {"planned": len(planned), "kills": struck, "begun": len(again)}


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
    given = parser.parse_args()
    for engine, kills, longest in (("inline", given.kills, 0.12), ("pool", given.pool, 4.0)):
        if kills:
            with tempfile.TemporaryDirectory() as folder:
                found = kill_until_done(Path(folder), kills, longest, engine, max(4, kills // 2), given.seed)
            print(f"kill_store: {engine}: {found['kills']} kills, {found['planned']} runs, {found['begun']} begun")
    return 0


if __name__ == "__main__":
    sys.exit(main())
