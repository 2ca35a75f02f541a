"""The base of every answer: fields, status, warnings, a dictionary that survives JSON, a plot hook."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np

from bulkedge.foundation.status import Status

_REGISTRY: dict[str, type[Record]] = {}
PLOTTERS: dict[str, Callable[..., Any]] = {}
"""How to draw a result, by the name of its class; the room `show` fills it."""


def jsonable(value: Any) -> Any:
    """`value` in JSON types: arrays become lists; NaN and infinities become None."""
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, dict):
        return {_key(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [jsonable(v) for v in value]
    if isinstance(value, np.ndarray):
        return jsonable(value.tolist())
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Status):
        return value.value
    if value is None or isinstance(value, str):
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise TypeError(f"a result cannot hold a {type(value).__name__}")


def shortened(value: Any) -> str:
    """One line for a reader: long arrays and lists by their shape, numbers to six digits."""
    if isinstance(value, np.ndarray) and value.size > _SHOWN:
        return f"array of shape {value.shape}"
    if isinstance(value, (np.ndarray, np.generic)):
        return shortened(value.tolist())
    if isinstance(value, list):
        return f"list of {len(value)}" if len(value) > _SHOWN else f"[{', '.join(map(shortened, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k!r}: {shortened(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Status):
        return repr(value.value)
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


_SHOWN = 8
"""Entries of an array that are shown one by one."""


def _key(key: Any) -> str:
    return str(key.item()) if isinstance(key, np.generic) else str(key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Record:
    """An immutable bag of named values that also reads as a mapping: `r.value`, `r["value"]`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _REGISTRY[cls.__name__] = cls
        cls.__repr__ = Record.__repr__  # in its own dictionary, where `dataclass` leaves it alone

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={shortened(self[name])}' for name in self.keys())})"

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.keys() else default

    def keys(self) -> list[str]:
        return [f.name for f in dataclasses.fields(self)]

    def to_dict(self) -> dict[str, Any]:
        """The fields in JSON types. NaN and infinities become None."""
        return {name: jsonable(getattr(self, name)) for name in self.keys()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The inverse of `to_dict`, up to the arrays' type. Unknown and missing keys are refused."""
        known = {f.name for f in dataclasses.fields(cls)}
        unknown = set(data) - known
        if unknown:
            raise ValueError(f"{cls.__name__} has no field {sorted(unknown)[0]!r}")
        optional = (dataclasses.MISSING, dataclasses.MISSING)
        for f in dataclasses.fields(cls):
            if f.name not in data and (f.default, f.default_factory) == optional:
                raise ValueError(f"{cls.__name__} needs the field {f.name!r}")
        return cls(**{k: cls._restore(k, v) for k, v in data.items()})

    _arrays: ClassVar[tuple[str, ...]] = ()
    _records: ClassVar[dict[str, str]] = {}

    @classmethod
    def _restore(cls, name: str, value: Any) -> Any:
        if name in cls._arrays and value is not None:
            return np.array(_none_to_nan(value), dtype=float)
        if name in cls._records and value is not None:
            kind = _REGISTRY[cls._records[name]]
            return [kind.from_dict(v) for v in value] if isinstance(value, list) else kind.from_dict(value)
        if name == "status":
            return Status(value)
        return value


def _none_to_nan(value: Any) -> Any:
    if isinstance(value, list):
        return [_none_to_nan(v) for v in value]
    return math.nan if value is None else value


@dataclasses.dataclass(frozen=True, kw_only=True)
class Result(Record):
    """An answer: a record with a status and the warnings a user must see.

    `citations` names the entries of `foundation.citations` the answer rests on.
    """

    status: Status = Status.CONVERGED
    warnings: list[str] = dataclasses.field(default_factory=list)

    citations: ClassVar[tuple[str, ...]] = ()

    def plot(self, *args: Any, **kwargs: Any) -> Any:
        """Draw the answer with matplotlib and return the figure (needs the room `show`)."""
        import importlib

        importlib.import_module("bulkedge.show")
        for kind in type(self).__mro__:
            if kind.__name__ in PLOTTERS:
                return PLOTTERS[kind.__name__](self, *args, **kwargs)
        raise TypeError(f"nothing draws a {type(self).__name__}")

    def cite(self) -> str:
        """BibTeX of exactly what this answer rests on."""
        from bulkedge.foundation.citations import cite

        return cite(*self.citations)
