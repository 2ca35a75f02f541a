"""From a name and its knobs to the list of units: what is to be done, the most useful first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bulkedge.foundation import checks, registry
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import Phenomenon
from bulkedge.lab.record import Task, digest


@dataclass(frozen=True)
class Plan:
    """A phenomenon with all its knobs set, and its tasks, each once."""

    phenomenon: Phenomenon
    size: str
    settings: dict[str, Any]
    tasks: tuple[Task, ...]

    @property
    def key(self) -> str:
        return digest({"phenomenon": self.phenomenon.name, "settings": self.settings})[:40]

    def header(self) -> dict[str, Any]:
        """How the store remembers that this was asked for."""
        return {"phenomenon": self.phenomenon.name, "size": self.size, "settings": self.settings, "key": self.key}


def locate(phenomenon: str | Phenomenon) -> Phenomenon:
    """A phenomenon itself, or the one of that name; `-` and `_` are the same."""
    if isinstance(phenomenon, Phenomenon):
        return phenomenon
    import bulkedge.phenomena  # noqa: F401  declares this package's own

    return registry.find(str(phenomenon).strip().lower().replace("_", "-"))


def names() -> list[str]:
    """The names of all phenomena, of this package and of others."""
    import bulkedge.phenomena  # noqa: F401

    return registry.names()


def make(phenomenon: str | Phenomenon, size: str = "quick", knobs: Mapping[str, Any] | None = None) -> Plan:
    """The plan. Raises BadInput for a name, knob or value that is not known."""
    found = locate(phenomenon)
    settings = found.settings(size, knobs or {})
    tasks = {task.key: task for task in (Task.of(found, unit) for unit in found.units(settings))}
    return Plan(found, size, settings, tuple(tasks.values()))


def read_shard(text: str | tuple[int, int] | None) -> tuple[int, int]:
    """Such as "2/8", the second of eight parts, as (2, 8); None is everything."""
    if text is None:
        return 1, 1
    number, slash, parts = text.partition("/") if isinstance(text, str) else (text[0], "/", text[1])
    try:
        i, count = int(number), int(parts)
    except ValueError:
        i, count = 0, 0
    if not slash or not 1 <= i <= count:
        raise BadInput("shard", f"must be i/N with i from 1 to N, such as 2/8, not {str(text)[:40]!r}")
    return i, checks.integer("shard", count, low=1, high=1_000_000)


def shard(tasks: tuple[Task, ...], part: tuple[int, int]) -> list[Task]:
    """The tasks of one part of N. They go by their key, so that every machine deals the same cards."""
    number, count = part
    return [task for task in tasks if int(task.key[:12], 16) % count == number - 1]
