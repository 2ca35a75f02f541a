"""Run what is missing of a plan, keep every result as it comes, and judge."""

from __future__ import annotations

import collections
import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import Any

from bulkedge.foundation.phenomenon import Phenomenon
from bulkedge.foundation.status import Status
from bulkedge.lab import plan as plans
from bulkedge.lab.dataset import assemble
from bulkedge.lab.engines import Engine, check, start
from bulkedge.lab.judging import conclude, with_limits
from bulkedge.lab.outcome import Outcome
from bulkedge.lab.plan import Plan
from bulkedge.lab.record import Task
from bulkedge.lab.store import Damaged, Store, default_store, unusable
from bulkedge.lab.work import Report, compute_all, keep


@dataclass
class Progress:
    """How far a run is. total counts what was missing when it began, seconds the time since then."""

    total: int
    workers: int
    done: int = 0
    failed: int = 0
    seconds: float = 0.0
    last: str = ""
    left: collections.Counter[str] = field(default_factory=collections.Counter)
    spent: dict[str, list[float]] = field(default_factory=dict)

    @property
    def per_minute(self) -> float:
        """Units a minute so far."""
        return 60.0 * (self.done + self.failed) / self.seconds if self.seconds > 0 else 0.0

    @property
    def seconds_left(self) -> float | None:
        """From the mean of the units done, each kind by itself; None before the first is."""
        known = {part: sum(s) / len(s) for part, s in self.spent.items()}
        if not known:
            return None
        usual = sum(known.values()) / len(known)
        work = sum(known.get(part, usual) * count for part, count in self.left.items())
        return work / max(1, min(self.workers, sum(self.left.values()) or 1))

    def finished(self, report: Report, since: float) -> None:
        self.done += report.error is None
        self.failed += report.error is not None
        self.seconds = time.monotonic() - since
        self.last = report.task.title
        name = report.task.part.name
        self.left[name] -= 1
        self.spent.setdefault(name, []).append(report.seconds)


class Stopped(KeyboardInterrupt):
    """The run was interrupted; what was finished is stored. The message says how to go on."""


Watch = Callable[[Progress], None]


def run(
    phenomenon: str | Phenomenon,
    *,
    size: str = "quick",
    engine: Any = "inline",
    workers: int | None = None,
    store: Any = None,
    shard: str | tuple[int, int] | None = None,
    progress: Watch | None = None,
    **knobs: Any,
) -> Outcome:
    """Do what the store does not hold of a phenomenon's plan, and return what the whole plan came to.

    engine: "inline" (this process), "pool" (spawned processes), "dask", "slurm", or an Executor (see `engines`).
    workers: how many processes (default: as many as cores). store: a folder (default: `default_store()`).
    shard: "i/N", to do only the i-th of N parts, on as many machines as there are parts and one shared store.
    knobs: see `bulkedge list`. A unit that fails is recorded and does not stop the others.
    """
    plan = plans.make(phenomenon, size, knobs)
    part = plans.read_shard(shard)
    check(engine, workers)
    folder = Store(default_store() if store is None else store)
    mine = plans.shard(plan.tasks, part)
    folder.remember(plan.header())
    with guarded(folder):
        missing = _missing(folder, mine)
        folder.forget_failures({task.key for task in missing})
        _work(missing, folder, engine, workers, progress)
    return _outcome(plan, folder, mine)


def gather(phenomenon: str | Phenomenon, *, size: str = "quick", store: Any = None, **knobs: Any) -> Outcome:
    """What the store holds of a plan, judged; nothing is run."""
    plan = plans.make(phenomenon, size, knobs)
    folder = Store(default_store() if store is None else store, write=False)
    return _outcome(plan, folder, plan.tasks)


@contextlib.contextmanager
def guarded(store: Store) -> Iterator[None]:
    """Errors of the disk as one line."""
    try:
        yield
    except OSError as error:
        raise unusable(store.path, error) from None


def _missing(store: Store, tasks: Sequence[Task]) -> list[Task]:
    """Tasks without a sound run; a damaged one is put aside."""
    there = store.keys()
    missing = []
    for task in tasks:
        if task.key in there:
            try:
                store.get(task.key)
                continue
            except Damaged:
                store.put_aside(task.key)
        missing.append(task)
    return missing


def _work(tasks: Sequence[Task], store: Store, engine: Any, workers: int | None, watch: Watch | None) -> None:
    if not tasks:
        return
    with start(engine, workers, len(tasks), store.path) as running:
        state = Progress(len(tasks), running.workers, left=collections.Counter(t.part.name for t in tasks))
        since = time.monotonic()
        if watch is not None:
            watch(state)
        try:
            for report in _reports(tasks, store, running):
                keep(store, report)
                state.finished(report, since)
                if watch is not None:
                    watch(state)
        except KeyboardInterrupt:
            running.stop()
            kept = sum(task.key in store for task in tasks)
            done = f"{kept} of {len(tasks)} units were finished and are kept in {str(store.path)!r}"
            raise Stopped(f"stopped; {done}; the same command goes on from there") from None
        except BaseException:
            running.stop()
            raise


def _reports(tasks: Sequence[Task], store: Store, engine: Engine) -> Iterator[Report]:
    """Every task's report, as they come. The tasks of a worker that died are given to another."""
    waiting = collections.deque(engine.chunks(tasks))
    folder = str(store.path.resolve()) if engine.stores else None
    deaths: collections.Counter[str] = collections.Counter()
    flying: dict[Future[list[Report]], list[Task]] = {}
    suspects: collections.deque[list[Task]] = collections.deque()
    while waiting or flying or suspects:
        if not waiting and not flying:
            waiting.append(suspects.popleft())  # alone, so that it is known who is to blame
        batch = [waiting.popleft() for _ in range(min(len(waiting), engine.room - len(flying)))]
        flying |= dict(zip(engine.submit_all(compute_all, batch, folder), batch, strict=True))
        finished, _ = wait(flying, return_when=FIRST_COMPLETED)
        for future in finished:
            chunk = flying.pop(future)
            error = future.exception()
            if error is None:
                yield from future.result()
                continue
            if not engine.died(error):
                raise error
            # What the worker has not stored is done again; the first of it is what it died on.
            chunk = [t for t in chunk if t.key not in store and not store.failed(t.key)]
            if not chunk:
                continue
            deaths[chunk[0].key] += 1
            if deaths[chunk[0].key] >= engine.attempts:
                yield Report(chunk[0], 0.0, f"its worker died: {' '.join(str(error).split())[:300]}")
                chunk = chunk[1:]
            if chunk:
                (suspects if engine.blames_all else waiting).append(chunk)


def _outcome(plan: Plan, store: Store, asked: Sequence[Task]) -> Outcome:
    results, seconds, lost = {}, 0.0, []
    there = store.keys()
    for task in plan.tasks:
        if task.key in there:
            try:
                about, results[task.key] = store.get(task.key)
                seconds += float(about.get("seconds", 0.0))
            except Damaged as error:
                lost.append(str(error))
    by_key = {task.key: task for task in plan.tasks}
    failures = [
        {"unit": by_key[f["key"]].title, "error": f["error"]} for f in store.failures() if f.get("key") in by_key
    ]
    dataset = with_limits(plan.phenomenon, assemble(plan.phenomenon, plan.tasks, results))
    judgement = conclude(plan.phenomenon, dataset)
    left = [task for task in asked if task.key not in results]
    warnings = [f"{len(results)} of {len(plan.tasks)} units are there; the rest is left out"] if left else []
    warnings += [f"a run was damaged and is left out: {line}" for line in lost]
    return Outcome(
        phenomenon=plan.phenomenon.name,
        question=plan.phenomenon.question,
        references=list(plan.phenomenon.citations),
        size=plan.size,
        settings=plan.settings,
        verdict=judgement.word,
        sentences=judgement.sentences,
        verdicts=judgement.verdicts,
        rows=judgement.rows,
        dataset=dataset,
        done=len(results),
        total=len(plan.tasks),
        failures=failures,
        seconds=seconds,
        store=str(store.path),
        status=Status.INCOMPLETE if left else Status.CONVERGED,
        warnings=warnings,
        declared=plan.phenomenon,
    )
