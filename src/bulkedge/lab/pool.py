"""Processes that work side by side, each replaced when it dies, with as many threads in all as there are cores.

`concurrent.futures.ProcessPoolExecutor` gives up everything when one process is killed, and cannot say what it was
working on. Here every process is spoken to over a pipe of its own: its death is the end of one future and of no other.
Processes are spawned, since JAX has threads and must not be forked, and end when this process does, even if that is
killed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from multiprocessing import connection as pipes
from pathlib import Path
from typing import Any

from bulkedge.foundation.errors import BadInput

_CONTEXT = multiprocessing.get_context("spawn")
_STARTING = threading.Lock()
_GRACE = 5.0


class WorkerDied(Exception):
    """A process that worked on something is gone."""


def cores() -> int:
    """The processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_variables(threads: int) -> dict[str, str]:
    """The environment of a process whose array programs use so many threads."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS", "NPROC")
    flags = os.environ.get("XLA_FLAGS", "")
    if threads == 1 and "xla_cpu_multi_thread_eigen" not in flags:
        flags = f"{flags} --xla_cpu_multi_thread_eigen=false".strip()
    return {**dict.fromkeys(names, str(threads)), **({"XLA_FLAGS": flags} if flags else {})}


class Pool(Executor):
    """An executor of `workers` spawned processes, started when they are needed."""

    def __init__(self, workers: int) -> None:
        self._environment = thread_variables(max(1, cores() // workers))
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="bulkedge-pool")
        self._places: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        self._alive: set[_Worker] = set()
        self._closed = False
        for _ in range(workers):
            self._places.put(None)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self._threads.submit(self._call, fn, args, kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End all processes. cancel_futures: at once; what they work on is lost."""
        if cancel_futures:
            self._closed = True
            self._threads.shutdown(wait=False, cancel_futures=True)
            for worker in list(self._alive):
                worker.kill()
        self._threads.shutdown(wait=wait, cancel_futures=cancel_futures)
        if wait:
            for worker in list(self._alive):
                worker.close()
            self._alive.clear()

    def _call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        worker = self._places.get()
        try:
            if worker is None:
                worker = self._start()
            return worker.call(fn, args, kwargs)
        except WorkerDied:
            if worker is not None:
                self._alive.discard(worker)
                worker.close()
            worker = None
            raise
        finally:
            self._places.put(worker)

    def _start(self) -> _Worker:
        with _STARTING, _environment(self._environment):
            if self._closed:
                raise WorkerDied("the pool is closed")
            worker = _Worker()
            self._alive.add(worker)
        return worker


class _Worker:
    """A process and the pipe to it."""

    def __init__(self) -> None:
        self.pipe, there = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_serve, args=(there,), daemon=True)
        self.process.start()
        there.close()
        self.ready = False

    def call(self, fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        try:
            message = pickle.dumps((fn, args, kwargs))
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise BadInput("engine", f"the work cannot be sent to another process: {error}") from None
        try:
            if not self.ready:
                self.pipe.recv()
                self.ready = True
            self.pipe.send_bytes(message)
            worked, value = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(_GRACE)
            if not self.ready and (self.process.exitcode or 0) >= 0:  # not killed: it cannot even begin
                raise BadInput(
                    "engine",
                    'the processes do not start; a script that uses a pool needs `if __name__ == "__main__":` '
                    'around what it does, or engine="inline"',
                ) from None
            raise WorkerDied(self._last_words()) from None
        if not worked:
            raise value
        return value

    def _last_words(self) -> str:
        code = self.process.exitcode
        if code == -signal.SIGKILL:
            return "killed by signal 9, as the system does when memory runs out"
        return f"killed by signal {-code}" if code is not None and code < 0 else f"ended with code {code}"

    def kill(self) -> None:
        self.process.kill()

    def close(self) -> None:
        """The process ends when its pipe does; one that does not is killed."""
        self.pipe.close()
        self.process.join(_GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _serve(pipe: pipes.Connection) -> None:
    """What a process does: calls, until the pipe ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that is in charge
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(OSError):
        # Where memory runs out, the system should take a worker and not the process that keeps the results.
        Path("/proc/self/oom_score_adj").write_text("800")
    with contextlib.suppress(OSError):
        os.dup2(2, 1)  # standard output belongs to the answer
    try:
        pipe.send("ready")
        while True:
            try:
                fn, args, kwargs = pickle.loads(pipe.recv_bytes())
                answer: tuple[bool, Any] = (True, fn(*args, **kwargs))
            except EOFError:
                return
            except (ImportError, AttributeError) as error:
                answer = (False, BadInput("engine", f"another process cannot load the work: {error}"))
            except Exception as error:
                answer = (False, error)
            pipe.send(answer)
    except (OSError, KeyboardInterrupt):
        return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        pipes.wait([parent.sentinel])
        os._exit(1)


@contextlib.contextmanager
def _environment(changes: dict[str, str]) -> Iterator[None]:
    """Variables a process that is started now will have."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
