"""A run as it is stored: its configuration, the key made of it, and its result as JSON and arrays."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bulkedge.foundation.phenomenon import Part, Phenomenon, Unit

SCHEMA = 1
"""Of the files. A store of another schema is migrated or refused, never read as if it were this one."""
_SMALL = 512
"""Arrays of at most so many entries are written into the JSON file; larger ones into a file beside it."""


@dataclass(frozen=True)
class Task:
    """A unit ready to be run anywhere: it can be pickled."""

    phenomenon: str
    part: Part
    parameters: dict[str, Any]
    seed: int | None
    key: str

    @classmethod
    def of(cls, phenomenon: Phenomenon, unit: Unit) -> Task:
        part = phenomenon.part(unit.part)
        parameters = json.loads(json.dumps(dict(unit.parameters), allow_nan=False))
        return cls(phenomenon.name, part, parameters, unit.seed, key_of(phenomenon.name, part, parameters, unit.seed))

    @property
    def title(self) -> str:
        """For people, in one line."""
        inside = ", ".join(f"{a} = {self.parameters[a]}" for a in self.part.axes if a in self.parameters)
        return f"{self.part.name} ({inside}{'' if self.seed is None else f', seed {self.seed}'})"

    def header(self) -> dict[str, Any]:
        """What identifies the run."""
        return {
            "schema": SCHEMA,
            "key": self.key,
            "phenomenon": self.phenomenon,
            "part": self.part.name,
            "role": self.part.role,
            "version": self.part.version,
            "parameters": self.parameters,
            "seed": self.seed,
        }


def key_of(phenomenon: str, part: Part, parameters: Mapping[str, Any], seed: int | None) -> str:
    """The name of a run: a hash of its configuration and of the schema of its result."""
    schema = {
        "schema": SCHEMA,
        "version": part.version,
        "quantities": sorted([q.name, *q.dims] for q in part.quantities),
    }
    return digest({**schema, "phenomenon": phenomenon, "part": part.name, "parameters": parameters, "seed": seed})[:40]


def digest(value: Any) -> str:
    """SHA-256 of a JSON value in canonical form."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def pack(task: Task, result: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A part's answer as JSON values and large arrays, checked against what the part declares."""
    declared = {q.name: q for q in task.part.quantities}
    small: dict[str, Any] = {}
    large: dict[str, np.ndarray] = {}
    for name in declared:
        if name not in result:
            raise ValueError(f"{task.part.name} returned no {name!r}")
    dims = {d for q in declared.values() for d in q.dims}
    for name, value in result.items():
        base = name.removesuffix("_stderr")
        if base not in declared and name not in dims:
            raise ValueError(f"{task.part.name} returned {name!r}, which it does not declare")
        array = np.asarray(math.nan if value is None else value)
        if array.dtype.kind not in "biuf":
            raise ValueError(f"{task.part.name} returned a {type(value).__name__} as {name!r}; numbers are wanted")
        rank = 1 if base not in declared else len(declared[base].dims)
        if array.ndim != rank:
            raise ValueError(f"{task.part.name} returned {name!r} with {array.ndim} axes instead of {rank}")
        if array.size > _SMALL or (array.size == 0 and array.ndim > 1):  # JSON has no empty array with two axes
            large[name] = array
        else:
            small[name] = _encode(array.tolist())
    return small, large


def unpack(small: Mapping[str, Any], large: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The inverse of `pack`, up to the type of numbers."""
    return {name: np.asarray(_decode(v), float) for name, v in small.items()} | {
        name: np.asarray(v, float) for name, v in large.items()
    }


def _encode(value: Any) -> Any:
    if isinstance(value, list):
        return [_encode(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    return float(value)
