"""Where the work is done, behind one argument: all of them are `concurrent.futures` executors.

"inline"   in this process, one unit after the other
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

from bulkedge.foundation.errors import BadInput
from bulkedge.lab.record import Task


class WorkerDied(Exception):
    """A process that worked on a unit is gone."""


class Engine:
    """An executor and how it is used. workers: units at the same time; room: chunks it is given at the same time.

    stores: its workers write into the store themselves, and may go on when this process is gone.
    """

    stores = False

    def __init__(self, executor: Executor, workers: int) -> None:
        self.executor = executor
        self.workers = workers
        self.room = 2 * workers

    def chunks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """The tasks as they are handed out."""
        return [[task] for task in tasks]

    def submit_all(self, function: Callable[..., Any], chunks: Sequence[list[Task]], folder: str | None) -> list[Any]:
        """A future for each chunk."""
        return [self.executor.submit(function, chunk, folder) for chunk in chunks]

    def died(self, error: BaseException) -> bool:
        """Whether an error is about the worker and not about this program."""
        return isinstance(error, WorkerDied)

    def stop(self) -> None:
        """Give up what is being done."""
        self.executor.shutdown(wait=False, cancel_futures=True)


class Inline(Executor):
    """Does what it is given at once, in this thread."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextlib.contextmanager
def start(engine: Any, workers: int | None, units: int, folder: Path) -> Iterator[Engine]:
    """The engine of a name, ready to work; it is shut down at the end."""
    if engine == "inline":
        inline = Engine(Inline(), 1)
        inline.room = 1
        yield inline
        return
    raise BadInput("engine", f"unknown {engine!r}")
