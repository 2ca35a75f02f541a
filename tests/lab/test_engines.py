"""Engines: in process, a spawn pool, Dask, SLURM through submitit's local executor, executors of the caller's own."""

import importlib
import os
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.lab import run
from bulkedge.lab.engines import start
from bulkedge.lab.pool import Pool, WorkerDied, cores, thread_variables

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def values(outcome):
    return outcome.dataset["value"].values


# --- the pool -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pool(tiny):
    with Pool(2) as made:
        yield made


def test_a_process_has_its_share_of_the_cores_and_no_more(pool, tiny):
    found = pool.submit(tiny.environment).result(60)
    share = str(max(1, cores() // 2))
    assert [found[name] for name in THREADS] == [share] * 3
    if share == "1":
        assert "--xla_cpu_multi_thread_eigen=false" in found["XLA_FLAGS"]
        assert found["threads"] == "1"
        assert float(found["busy"]) < 1.3
    assert os.getpid() != int(found["pid"])
    assert "XLA_FLAGS" not in os.environ or os.environ["XLA_FLAGS"].count("eigen") <= 1


def test_threads_are_dealt_out(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_something=1")
    assert thread_variables(4)["OMP_NUM_THREADS"] == "4"
    assert thread_variables(4)["XLA_FLAGS"] == "--xla_something=1"
    assert thread_variables(1)["XLA_FLAGS"] == "--xla_something=1 --xla_cpu_multi_thread_eigen=false"
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=true")
    assert thread_variables(1)["XLA_FLAGS"] == "--xla_cpu_multi_thread_eigen=true"


def test_both_processes_work_at_the_same_time(pool, tiny, tmp_path):
    meeting = [pool.submit(tiny.meet, str(tmp_path), name, 2) for name in ("a", "b")]
    pids = {future.result(60) for future in meeting}
    assert len(pids) == 2


def test_a_death_is_the_end_of_one_call_and_of_no_other(pool, tiny, tmp_path):
    victim = pool.submit(tiny.die)
    others = [pool.submit(tiny.meet, str(tmp_path), str(i), 1) for i in range(3)]
    with pytest.raises(WorkerDied, match="killed by signal 9, as the system does when memory runs out"):
        victim.result(60)
    assert all(future.result(60) for future in others)


def test_an_error_is_passed_on(pool):
    with pytest.raises(ZeroDivisionError):
        pool.submit(divmod, 1, 0).result(60)
    with pytest.raises(BadInput, match="cannot be sent to another process"):
        pool.submit(lambda: 1).result(60)
    assert pool.submit(abs, -3).result(60) == 3


def test_a_pool_that_is_given_up_ends_at_once(tiny):
    made = Pool(1)
    future = made.submit(time.sleep, 600)
    while not made._alive:
        time.sleep(0.01)
    began = time.monotonic()
    made.shutdown(wait=True, cancel_futures=True)
    assert time.monotonic() - began < 20
    with pytest.raises(WorkerDied):
        future.result(1)


def test_a_pool_gives_what_one_process_does(tiny, tmp_path, begun):
    outcome = run(
        tiny.TROUBLED, engine="pool", workers=2, store=tmp_path / "s", folder=str(begun), units=6, seconds=0.2
    )
    assert values(outcome).tolist() == list(range(6))
    pids = set(outcome.dataset["worker"].values.astype(int))
    assert len(pids) == 2
    assert os.getpid() not in pids
    assert begun() == dict.fromkeys("012345", 1)


def test_a_killed_worker_is_recorded_and_the_rest_goes_on(tiny, tmp_path, begun):
    outcome = run(tiny.TROUBLED, engine="pool", workers=2, store=tmp_path / "s", folder=str(begun), how="dies")
    assert outcome.status is Status.INCOMPLETE
    assert [(f["unit"], f["error"]) for f in outcome.failures] == [
        ("unit (number = 2, seed 0)", "its worker died: killed by signal 9, as the system does when memory runs out")
    ]
    assert values(outcome)[[0, 1, 3, 4]].tolist() == [0.0, 1.0, 3.0, 4.0]
    assert begun() == {"0": 1, "1": 1, "2": 2, "3": 1, "4": 1}


def test_a_unit_whose_worker_was_killed_is_done_again(tiny, tmp_path, begun):
    outcome = run(tiny.TROUBLED, engine="pool", workers=2, store=tmp_path / "s", folder=str(begun), how="dies once")
    assert (outcome.done, outcome.failures) == (5, [])
    assert begun() == {"0": 1, "1": 1, "2": 2, "3": 1, "4": 1}


def test_a_worker_without_memory_is_recorded(tiny, tmp_path, begun):
    """The worker really asks for more than it may have."""
    outcome = run(tiny.TROUBLED, engine="pool", workers=1, store=tmp_path / "s", folder=str(begun), how="really memory")
    assert outcome.failures[0]["error"].startswith("out of memory")
    assert outcome.done == 4


def test_more_workers_than_units_are_not_started(tmp_path):
    with start("pool", 16, 3, tmp_path) as engine:
        assert (engine.workers, engine.room) == (3, 4)


# --- the caller's own -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_any_executor_will_do(tiny, tmp_path, begun, executor):
    more = {} if executor is ThreadPoolExecutor else {"mp_context": __import__("multiprocessing").get_context("spawn")}
    with executor(2, **more) as own:
        outcome = run(tiny.TROUBLED, engine=own, workers=2, store=tmp_path / "s", folder=str(begun))
        assert values(outcome).tolist() == list(range(5))
        assert own.submit(abs, -1).result() == 1  # it is still the caller's


@pytest.mark.parametrize(
    ("engine", "says"),
    [
        ("pol", "did you mean pool"),
        ("pool:4", "takes nothing after a colon"),
        ("dask:nowhere", "there is no Dask scheduler"),
        ("slurm:partition", "takes KEY=VALUE"),
        (17, "must be one of inline, pool, dask, slurm, an Executor or a Dask client"),
    ],
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_engines_that_are_none(tiny, tmp_path, engine, says):
    with pytest.raises(BadInput, match=says) as error:
        run(tiny.TINY, engine=engine, store=tmp_path / "s")
    assert error.value.argument == "engine"


# --- Dask -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tiny):
    with start("dask", 2, 100, None) as engine:
        yield engine


@pytest.mark.filterwarnings("ignore")
def test_dask_replaces_a_dead_worker_and_does_its_units_again(tiny, tmp_path, begun, cluster):
    fixed = {"store": tmp_path / "s", "folder": str(begun)}
    outcome = run(tiny.TROUBLED, engine=cluster.executor._client, workers=2, how="dies once", units=6, **fixed)
    assert (outcome.done, outcome.failures) == (6, [])
    assert values(outcome).tolist() == list(range(6))
    assert begun()["2"] == 2
    pids = set(outcome.dataset["worker"].values.astype(int))
    assert os.getpid() not in pids


@pytest.mark.filterwarnings("ignore")
def test_dask_gives_up_a_unit_that_kills_every_worker(tiny, tmp_path, begun, cluster):
    fixed = {"store": tmp_path / "s", "folder": str(begun)}
    outcome = run(tiny.TROUBLED, engine=cluster.executor._client, workers=2, how="dies", **fixed)
    assert [f["unit"] for f in outcome.failures] == ["unit (number = 2, seed 0)"]
    assert outcome.failures[0]["error"].startswith("its worker died")
    assert outcome.done == 4
    assert begun()["2"] == 2


@pytest.mark.filterwarnings("ignore")
def test_dask_workers_do_not_oversubscribe(tiny, cluster):
    found = cluster.executor.submit(tiny.environment).result(60)
    assert [found[name] for name in THREADS] == ["1"] * 3
    assert found["threads"] == "1"
    assert float(found["busy"]) < 1.3


@pytest.mark.filterwarnings("ignore")
def test_work_that_a_dask_worker_cannot_load_is_said(tmp_path, cluster, monkeypatch):
    (tmp_path / "nowhere_else.py").write_text((Path(__file__).parent / "tiny.py").read_text())
    monkeypatch.syspath_prepend(str(tmp_path))
    mine = importlib.import_module("nowhere_else")
    with pytest.raises(BadInput, match="cannot load the work: No module named 'nowhere_else'"):
        run(mine.TINY, engine=cluster.executor._client, store=tmp_path / "s")


@pytest.mark.filterwarnings("ignore")
def test_a_scheduler_at_an_address(tiny, tmp_path, begun, cluster):
    address = cluster.executor._client.scheduler.address
    outcome = run(tiny.TROUBLED, engine=f"dask:{address}", store=tmp_path / "s", folder=str(begun))
    assert outcome.status.ok
    assert begun() == dict.fromkeys("01234", 1)


# --- SLURM ----------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore")
def test_a_job_array_through_the_local_executor(tiny, tmp_path, begun):
    fixed = {"store": tmp_path / "s", "folder": str(begun), "engine": "slurm:cluster=local", "workers": 2}
    outcome = run(tiny.TROUBLED, units=6, how="raises", **fixed)
    assert outcome.done == 5
    assert outcome.failures[0]["error"].startswith("ValueError: two is odd")
    assert np.nansum(values(outcome)) == 13.0
    assert begun() == dict.fromkeys("012345", 1)
    pids = set(outcome.dataset["worker"].values[[0, 1, 3, 4, 5]].astype(int))
    assert len(pids) == 2
    # Only what is missing is submitted again.
    again = run(tiny.TROUBLED, units=6, how="raises", **fixed)
    assert again.done == 5
    assert begun() == {**dict.fromkeys("01345", 1), "2": 2}


@pytest.mark.filterwarnings("ignore")
def test_a_job_that_is_killed_is_submitted_again_without_what_it_had_done(tiny, tmp_path, begun):
    fixed = {"store": tmp_path / "s", "folder": str(begun), "engine": "slurm:cluster=local", "workers": 1}
    outcome = run(tiny.TROUBLED, how="dies once", **fixed)
    assert (outcome.done, outcome.failures) == (5, [])
    assert begun() == {"0": 1, "1": 1, "2": 2, "3": 1, "4": 1}


# --- who is told what -----------------------------------------------------------------------------------------------


def test_progress_tells_throughput_failures_and_the_time_left(tiny, tmp_path, begun):
    seen = []

    def watch(state):
        seen.append((state.done, state.failed, state.per_minute, state.seconds_left))

    knobs = {"folder": str(begun), "how": "raises", "units": 6, "seconds": 0.05}
    run(tiny.TROUBLED, store=tmp_path / "s", progress=watch, **knobs)
    assert seen[0] == (0, 0, 0.0, None)
    assert seen[-1][:2] == (5, 1)
    assert seen[-1][3] == 0.0
    for done, failed, rate, left in seen[1:]:
        assert 0 < rate <= 60 / 0.05
        assert left == pytest.approx(0.05 * (6 - done - failed), rel=0.5)


def interrupted(tiny, store, engine, begun, units=12):
    """Interrupt a run after its third unit."""

    def watch(state):
        if state.done == 3:
            raise KeyboardInterrupt

    knobs = {"folder": str(begun), "units": units, "seconds": 0.05}
    with pytest.raises(KeyboardInterrupt, match=rf"3 of {units} units were finished and are kept .* the same command"):
        run(tiny.TROUBLED, store=store, progress=watch, engine=engine, workers=2, **knobs)
    return knobs


def test_an_interrupt_stops_and_says_how_to_go_on(tiny, tmp_path, begun):
    knobs = interrupted(tiny, tmp_path / "s", "inline", begun)
    assert run(tiny.TROUBLED, store=tmp_path / "s", **knobs).done == 12
    assert set(begun().values()) == {1}


def test_an_interrupt_leaves_the_callers_executor_alone(tiny, tmp_path, begun):
    with ThreadPoolExecutor(2) as own:
        interrupted(tiny, tmp_path / "s", own, begun)
        assert own.submit(abs, -1).result() == 1
        assert len(begun()) < 12


@pytest.mark.filterwarnings("ignore")
def test_an_interrupt_gives_up_what_a_cluster_does(tiny, tmp_path, begun, cluster):
    interrupted(tiny, tmp_path / "s", cluster.executor._client, begun, units=30)
    assert len(begun()) < 30


def test_an_interrupt_ends_a_pool_at_once(tiny, tmp_path, begun):
    before = set(threading.enumerate())
    began = time.monotonic()
    interrupted(tiny, tmp_path / "s", "pool", begun, units=4000)
    assert time.monotonic() - began < 60  # the units that are left would take far longer than what starting costs
    assert not {t.name for t in set(threading.enumerate()) - before if t.name.startswith("bulkedge")}
