"""One unit done, anywhere: its result, or the error it ended with. What a worker imports, and so light."""

from __future__ import annotations

import datetime
import functools
import hashlib
import inspect
import pickle
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.lab.record import Task, pack

_PACKAGES = ("bulkedge", "jax", "numpy", "scipy")


@dataclass(frozen=True)
class Report:
    """What became of a task. error: None, or what went wrong. stored: a worker has put it into the store itself."""

    task: Task
    seconds: float
    error: str | None = None
    small: dict[str, Any] = field(default_factory=dict)
    large: dict[str, np.ndarray] = field(default_factory=dict)
    made: dict[str, Any] = field(default_factory=dict)
    stored: bool = False

    def header(self) -> dict[str, Any]:
        """What is kept of the task and of the circumstances."""
        return {**self.task.header(), **self.made, "seconds": round(self.seconds, 4)}


def compute(task: Task) -> Report:
    """Call the part. Whatever it raises becomes a report."""
    start = time.perf_counter()
    arguments = dict(task.parameters) if task.seed is None else {**task.parameters, "seed": task.seed}
    try:
        small, large = pack(task, task.part.function(**arguments))
    except Exception as error:
        return Report(task, time.perf_counter() - start, describe(error), made=_circumstances(task.part.function))
    seconds = time.perf_counter() - start
    return Report(task, seconds, None, small, large, _circumstances(task.part.function))


def compute_all(tasks: Sequence[Task], folder: str | None = None) -> list[Report]:
    """One after the other. folder: of a store this process keeps each result in as soon as it is there."""
    if folder is None:
        return [compute(task) for task in tasks]
    from bulkedge.lab.store import Store

    store = Store(folder)
    reports = []
    for task in tasks:
        if task.key not in store:
            report = compute(task)
            keep(store, report)
            reports.append(Report(task, report.seconds, report.error, made=report.made, stored=True))
    return reports


def call_packed(message: bytes) -> list[Report]:
    """Call what was pickled. As bytes, what cannot be loaded here is an error of this call and not of the transport."""
    try:
        function, *arguments = pickle.loads(message)
    except (ImportError, AttributeError) as error:
        raise BadInput("engine", f"a worker cannot load the work: {error}") from None
    return function(*arguments)


def keep(store: Any, report: Report) -> None:
    """Put a report into a store, as a run or as a failure."""
    if report.stored:
        return
    if report.error is None:
        store.put(report.header(), report.small, report.large)
    else:
        store.put_failure(report.header(), report.error)


def describe(error: BaseException) -> str:
    """The error in a line, and the last places it went through below `compute`."""
    name = type(error).__name__
    if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
        name = "out of memory"
    line = f"{name}: {' '.join(str(error).split())[:500]}".rstrip(": ")
    frames = traceback.extract_tb(error.__traceback__)[1:]
    return line + "".join(f"\n  {f.name}, line {f.lineno} of {f.filename}" for f in frames[-3:])


def _circumstances(function: Callable[..., Any]) -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return {"code": _versions(function), "host": socket.gethostname(), "finished": now}


@functools.lru_cache(maxsize=64)
def _versions(function: Callable[..., Any]) -> dict[str, str]:
    """What computed it: versions, and a checksum of the file the part is in."""
    found = {}
    for name in (*_PACKAGES, function.__module__.partition(".")[0]):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    try:
        with open(inspect.getfile(function), "rb") as file:
            found["source"] = hashlib.sha256(file.read()).hexdigest()[:12]
    except (OSError, TypeError):
        pass
    return found
