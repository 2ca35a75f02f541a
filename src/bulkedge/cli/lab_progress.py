"""Progress of a run on standard error: a bar where somebody looks at it, else a line every half a minute."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_EVERY = 30.0


@contextmanager
def watching(silent: bool) -> Iterator[Callable[[Any], None] | None]:
    """A callback for `lab.run`; None where nothing is to be shown."""
    if silent:
        yield None
    elif sys.stderr.isatty():
        with _bar() as watch:
            yield watch
    else:
        yield _Lines()


def line(state: Any) -> str:
    """Such as: 12 of 40 done, 1 failed, 8.3 a minute, 3 min left."""
    parts = [f"{state.done} of {state.total} done"]
    if state.failed:
        parts.append(f"{state.failed} failed")
    if state.done:
        parts.append(f"{state.per_minute:.3g} a minute")
    left = state.seconds_left
    if left is not None and state.done + state.failed < state.total:
        parts.append(f"{duration(left)} left")
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """A time for people: 45 s, 12 min, 3.5 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class _Lines:
    def __init__(self) -> None:
        self.said = time.monotonic()

    def __call__(self, state: Any) -> None:
        if time.monotonic() - self.said > _EVERY:
            self.said = time.monotonic()
            print(f"bulkedge: {line(state)}", file=sys.stderr, flush=True)


@contextmanager
def _bar() -> Iterator[Callable[[Any], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(), TextColumn("{task.description}", markup=False))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("starting")

        def watch(state: Any) -> None:
            bars.update(task, completed=state.done + state.failed, total=state.total, description=line(state))

        yield watch
