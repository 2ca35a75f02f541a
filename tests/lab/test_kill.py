"""kill -9 and Ctrl-C, given to real processes; the hundreds of kills are validation/kill_store.py."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bulkedge.lab import plan as plans
from bulkedge.lab.store import Store

SCRIPT = Path(__file__).parents[2] / "validation" / "kill_store.py"


def test_killed_at_many_moments_and_at_every_step_of_a_write():
    command = [sys.executable, str(SCRIPT), "--kills", "12", "--pool", "1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    kills, steps = (
        int(n) for n in re.findall(r"inline: (\d+) kills|each of (\d+) accesses", done.stdout) for n in n if n
    )
    assert kills >= 6
    assert steps >= 30


@pytest.fixture
def begin(installed, tmp_path, begun):
    """Start `bulkedge run troubled` in a process of its own."""

    def call(*words):
        command = [
            sys.executable,
            "-m",
            "bulkedge",
            "run",
            "troubled",
            f"folder={begun}",
            "--store",
            str(tmp_path / "s"),
        ]
        return subprocess.Popen([*command, *words], env=installed, text=True, stdout=-1, stderr=-1)

    return call


def wait_for(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("engine", "given"), [("inline", signal.SIGINT), ("pool", signal.SIGINT), ("pool", signal.SIGTERM)]
)
def test_ctrl_c_stops_cleanly_says_how_to_go_on_and_only_what_is_missing_is_done(
    begin, tiny, tmp_path, begun, engine, given
):
    words = ("units=10", "seconds=0.3", "--engine", engine, "--workers", "2")
    store = tmp_path / "s"
    process = begin(*words)
    wait_for(lambda: len(list((store / "runs").glob("*/*.json"))) >= 2)
    process.send_signal(given)
    out, said = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    line = said.strip().splitlines()[-1]
    kept = re.fullmatch(rf"bulkedge: stopped; (\d+) of 10 units were finished and are kept in '{store}'; .*", line)
    assert kept
    assert line.endswith("the same command goes on from there")
    assert "Traceback" not in said
    there = Store(store).keys()
    assert len(there) == int(kept[1]) < 10
    before = begun()
    process = begin(*words, "--json")
    out, said = process.communicate(timeout=120)
    assert process.returncode == 0, said
    assert json.loads(out)["done"] == 10
    knobs = {"folder": str(begun), "units": 10, "seconds": 0.3}
    number = {t.key: str(t.parameters["number"]) for t in plans.make(tiny.TROUBLED, knobs=knobs).tasks}
    after = begun()
    assert sorted(number) == sorted(Store(store).keys())
    assert all(after[number[key]] == before[number[key]] for key in there)
    assert sum(after.values()) == sum(before.values()) + 10 - len(there)


def test_the_workers_of_a_run_that_is_killed_end_too(begin, tmp_path, begun):
    process = begin("units=6", "seconds=0.5", "--engine", "pool", "--workers", "2")
    wait_for(lambda: len(list((tmp_path / "s" / "runs").glob("*/*.json"))) >= 2)
    workers = {
        int(float(run["result"]["worker"]))
        for run in (json.loads(p.read_text()) for p in (tmp_path / "s" / "runs").glob("*/*.json"))
    }
    process.kill()
    process.communicate(timeout=60)

    def gone(pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")")[1].split()[0] == "Z"

    wait_for(lambda: all(gone(pid) for pid in workers), 30)
    assert workers
