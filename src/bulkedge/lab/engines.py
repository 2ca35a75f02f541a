"""Where the work is done, behind one argument: all of them are `concurrent.futures` executors.

"inline"              in this process, one unit after the other
"pool"                spawned processes on this machine
"dask"                a cluster of Dask's on this machine; "dask:ADDRESS", the scheduler of a larger one
"slurm:KEY=VALUE,.."  a job array of SLURM's, through submitit; the keys are those of its AutoExecutor, and
                      "slurm:cluster=local" runs the same jobs as processes here
an Executor, or a Dask client, of the caller's own
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from bulkedge.foundation import checks
from bulkedge.foundation.errors import BadInput, unknown_name
from bulkedge.lab.pool import Pool, WorkerDied, cores
from bulkedge.lab.record import Task

NAMES = ("inline", "pool", "dask", "slurm")


class Engine:
    """An executor and how it is used. workers: units at the same time; room: chunks it is given at the same time.

    stores: its workers write into the store themselves, and may go on when this process is gone. attempts: how many
    workers may die with a unit before it counts as failed. blames_all: a death is also told of units that only waited
    for the same worker; they are then tried again one at a time.
    """

    stores = False
    attempts = 2
    blames_all = False

    def __init__(self, executor: Executor, workers: int, room: int | None = None) -> None:
        self.executor = executor
        self.workers = workers
        self.room = workers if room is None else room

    def chunks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """The tasks as they are handed out."""
        return [[task] for task in tasks]

    def submit_all(
        self, function: Callable[..., Any], chunks: Sequence[list[Task]], folder: str | None
    ) -> list[Future[Any]]:
        """A future for each chunk."""
        return [self.executor.submit(function, chunk, folder) for chunk in chunks]

    def died(self, error: BaseException) -> bool:
        """Whether an error is about the worker and not about this program."""
        return isinstance(error, WorkerDied)

    def stop(self) -> None:
        """Give up what is being done."""
        self.executor.shutdown(wait=True, cancel_futures=True)


class Borrowed(Engine):
    """Of an executor of the caller's, who also ends it: what is given up here is only what was given to it here."""

    def __init__(self, executor: Executor, workers: int) -> None:
        super().__init__(executor, workers, 4 * workers)
        self.given: list[Future[Any]] = []

    def submit_all(
        self, function: Callable[..., Any], chunks: Sequence[list[Task]], folder: str | None
    ) -> list[Future[Any]]:
        futures = super().submit_all(function, chunks, folder)
        self.given = [f for f in self.given if not f.done()] + futures
        return futures

    def stop(self) -> None:
        for future in self.given:
            future.cancel()


class Inline(Executor):
    """Does what it is given at once, in this thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def check(engine: Any, workers: int | None) -> None:
    """What is wrong with these is said before anything is made."""
    if workers is not None:
        checks.integer("workers", workers, low=1, high=100_000)
    if not isinstance(engine, str):
        return
    name, _, detail = engine.partition(":")
    if name not in NAMES:
        raise unknown_name("engine", name, NAMES)
    if detail and name in ("inline", "pool"):
        raise BadInput("engine", f"{name} takes nothing after a colon; the number of processes is `workers`")


@contextlib.contextmanager
def start(engine: Any, workers: int | None, units: int, store: Path) -> Iterator[Engine]:
    """The engine of a name, ready to work; it is shut down at the end. units: more workers are of no use."""
    check(engine, workers)
    if not isinstance(engine, str):
        yield _given(engine, workers)
        return
    name, _, detail = engine.partition(":")
    count = min(units, int(workers or cores()))
    if name == "inline":
        yield Engine(Inline(), 1)
    elif name == "pool":
        # One more than there are processes is waiting, so that none of them does.
        with Pool(count) as pool:
            yield Engine(pool, count, count + 1)
    else:
        from bulkedge.lab import clusters

        begin = clusters.dask_cluster if name == "dask" else clusters.slurm_array
        with begin(detail, count, store) as cluster:
            yield cluster


def _given(engine: Any, workers: int | None) -> Engine:
    """An executor or client of the caller's."""
    if isinstance(engine, Executor):
        return Borrowed(engine, workers or cores())
    if type(engine).__module__.startswith("distributed."):
        from bulkedge.lab import clusters

        return clusters.of_client(engine, workers)
    raise BadInput("engine", f"must be one of {', '.join(NAMES)}, an Executor or a Dask client")
