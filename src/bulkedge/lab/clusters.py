"""Engines on more than this machine: Dask's distributed scheduler, and SLURM job arrays through submitit."""

from __future__ import annotations

import contextlib
import pickle
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from bulkedge.foundation.errors import BadInput
from bulkedge.lab.engines import Engine
from bulkedge.lab.pool import WorkerDied, thread_variables
from bulkedge.lab.record import Task
from bulkedge.lab.work import call_packed

_POLL, _LATE = 0.25, 2.0
"""Seconds between two looks at a job, and how late its result may come over a network's disk."""


def _needed(package: str) -> Any:
    try:
        return __import__(package)
    except ImportError:
        raise BadInput("engine", f"needs the package {package}: install bulkedge[cluster]") from None


# --- Dask -----------------------------------------------------------------------------------------------------------


class DaskEngine(Engine):
    """Of a client. Dask replaces a dead worker; its units come back as killed, and are done again."""

    blames_all = True

    def __init__(self, client: Any, workers: int) -> None:
        super().__init__(client.get_executor(pure=False), workers, 2 * workers)

    def submit_all(
        self, function: Callable[..., Any], chunks: Sequence[list[Task]], folder: str | None
    ) -> list[Future[Any]]:
        return [self.executor.submit(call_packed, pickle.dumps((function, chunk, folder))) for chunk in chunks]

    def died(self, error: BaseException) -> bool:
        return isinstance(error, (_needed("distributed").KilledWorker, WorkerDied))

    def stop(self) -> None:
        self.executor.shutdown(wait=False)  # of Dask's: it cancels what it was given


@contextlib.contextmanager
def dask_cluster(address: str, workers: int, store: Path) -> Iterator[Engine]:
    """A local cluster of one-threaded processes, or the scheduler at an address."""
    distributed = _needed("distributed")
    import dask.config

    if address:
        try:
            client = distributed.Client(address, timeout="10s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise BadInput("engine", f"there is no Dask scheduler at {address[:100]!r}: {error}") from None
        with client:
            yield of_client(client, None)
        return
    choices = {
        "distributed.scheduler.allowed-failures": 0,
        "distributed.nanny.pre-spawn-environ": thread_variables(1),
    }
    with (
        dask.config.set(choices),
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield DaskEngine(client, workers)


def of_client(client: Any, workers: int | None) -> Engine:
    """The engine of a client that somebody else has made."""
    threads = sum(client.nthreads().values())
    return DaskEngine(client, workers or max(1, threads))


# --- SLURM ----------------------------------------------------------------------------------------------------------


class SlurmEngine(Engine):
    """A job array: each job does its share of the tasks, one after the other, and stores each as it is done.

    So the jobs need no process that waits for them, and one that is started again goes on where it was.
    """

    stores = True

    def chunks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        return [share for share in (list(tasks[i :: self.workers]) for i in range(self.workers)) if share]

    def submit_all(
        self, function: Callable[..., Any], chunks: Sequence[list[Task]], folder: str | None
    ) -> list[Future[Any]]:
        jobs: Any = self.executor
        return jobs.submit_array(function, [(chunk, folder) for chunk in chunks])


class Jobs(Executor):
    """submitit's executor as one of `concurrent.futures`."""

    def __init__(self, executor: Any) -> None:
        self.executor = executor
        self.running: dict[Any, Future[Any]] = {}
        self.closed = threading.Event()
        self.watcher = threading.Thread(target=self._watch, daemon=True, name="bulkedge-jobs")
        self.watcher.start()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._follow(self.executor.submit(fn, *args, **kwargs))

    def submit_array(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Future[Any]]:
        """All calls as one job array."""
        if not calls:
            return []
        with self.executor.batch():
            jobs = [self.executor.submit(function, *call) for call in calls]
        return [self._follow(job) for job in jobs]

    def _follow(self, job: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        self.running[job] = future
        return future

    def _watch(self) -> None:
        while not self.closed.wait(_POLL):
            for job, future in list(self.running.items()):
                if job.done():
                    del self.running[job]
                    _settle(job, future)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if cancel_futures:
            for job in list(self.running):
                with contextlib.suppress(Exception):
                    job.cancel(check=False)
        self.closed.set()
        self.watcher.join()


def _settle(job: Any, future: Future[Any]) -> None:
    """What the job has stored is what counts; all that is asked here is whether it came to its end."""
    result = job.paths.result_pickle
    waited = 0.0
    while not result.exists() and waited < _LATE:
        time.sleep(_POLL)
        waited += _POLL
    if not result.exists():
        future.set_exception(WorkerDied(f"job {job.job_id} ended without a result ({job.state})"))
        return
    error = job.exception()
    if error is None:
        future.set_result(job.result())
    else:
        last = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        future.set_exception(BadInput("engine", f"job {job.job_id}: {last[:300]}"))


@contextlib.contextmanager
def slurm_array(detail: str, workers: int, store: Path) -> Iterator[Engine]:
    """A job array of `workers` jobs. detail: KEY=VALUE,.. for submitit, such as partition=cpu,timeout_min=120."""
    submitit = _needed("submitit")
    options = _options(detail)
    cluster = options.pop("cluster", None)
    folder = store.resolve() / "jobs"
    try:
        executor = submitit.AutoExecutor(folder=folder / "%j", cluster=cluster)
        executor.update_parameters(**{"timeout_min": 24 * 60, "name": "bulkedge", **options})
    except (RuntimeError, ValueError, TypeError, NameError) as error:
        raise BadInput("engine", f"slurm: {' '.join(str(error).split())[:300]}") from None
    jobs = Jobs(executor)
    try:
        yield SlurmEngine(jobs, workers, workers)
    finally:
        jobs.shutdown()


def _options(detail: str) -> dict[str, Any]:
    """KEY=VALUE,.. with whole numbers as such."""
    found: dict[str, Any] = {}
    for word in filter(None, detail.split(",")):
        key, equals, value = word.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise BadInput("engine", f"slurm takes KEY=VALUE,.. after the colon, not {word[:60]!r}")
        found[key.strip()] = int(value) if value.strip().isdigit() else value.strip()
    return found
