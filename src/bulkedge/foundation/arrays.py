"""Several delta or times in one call: answers as one labelled xarray Dataset."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.result import Result

P = ParamSpec("P")
R = TypeVar("R", bound=Result)
_MOST = 100_000


def over_arrays(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let the arguments `names` of a function that returns one answer be sequences.

    Plain numbers give the answer itself; with a sequence the call returns an `xarray.Dataset` with a dimension for each
    argument that was one. All answers use the same random numbers, so that differences between them are smooth.
    """

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            axes = {n: _axis(n, bound.arguments[n]) for n in names if _several(bound.arguments.get(n))}
            if not axes:
                return function(*args, **kwargs)
            if math.prod(map(len, axes.values())) > _MOST:
                raise BadInput(next(iter(axes)), f"asks for more than {_MOST} answers in one call")
            answers: dict[tuple[int, ...], R] = {}
            # The longest time first: shorter ones are read off the same runs.
            for index in reversed(list(itertools.product(*(range(len(v)) for v in axes.values())))):
                bound.arguments.update({n: axes[n][i] for n, i in zip(axes, index, strict=True)})
                answers[index] = function(*bound.args, **bound.kwargs)
            return cast(R, dataset(answers, axes))

        return call

    return wrap


def _several(value: Any) -> bool:
    return isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str) and np.ndim(cast(Any, value)) > 0


def _axis(name: str, values: Any) -> list[Any]:
    try:
        found = np.asarray(values, float)
    except (TypeError, ValueError):
        raise BadInput(name, "must be a number or a sequence of numbers") from None
    if found.ndim != 1 or found.size == 0:
        raise BadInput(name, "must be a number or a sequence of numbers")
    return [int(v) if math.isfinite(v) and v == int(v) and name != "delta" else float(v) for v in found.tolist()]


def dataset(answers: dict[tuple[int, ...], Any], axes: dict[str, list[Any]]) -> Any:
    """An xarray Dataset: numeric fields over the axes, arrays with axes of their own (padded with NaN), and the status.

    Standard errors are variables of their own, NAME_stderr; warnings are collected in the attributes.
    """
    import xarray as xr

    shape = tuple(map(len, axes.values()))
    first = next(iter(answers.values()))
    columns: dict[str, dict[tuple[int, ...], np.ndarray]] = {}
    for index, answer in answers.items():
        for name, value in _numeric(answer).items():
            if name not in axes:
                columns.setdefault(name, {})[index] = value
    variables = {}
    for name, found in columns.items():
        rank = max(v.ndim for v in found.values())
        sizes = tuple(max((v.shape[a] for v in found.values() if v.ndim == rank), default=0) for a in range(rank))
        data = np.full(shape + sizes, np.nan)
        for index, value in found.items():
            if value.ndim == rank:
                data[index + tuple(slice(0, s) for s in value.shape)] = value
        variables[name] = ([*axes, *_dimensions(name, sizes, _length(first))], data)
    status = np.empty(shape, dtype=object)
    warnings: list[str] = []
    for index, answer in answers.items():
        status[index] = str(answer.status)
        warnings += [w for w in answer.warnings if w not in warnings]
    variables["status"] = (list(axes), status)
    return xr.Dataset(variables, coords=dict(axes), attrs={"answer": type(first).__name__, "warnings": warnings})


_NAMED = {"windows": ("window", "end"), "neurons": ("neuron",), "quartiles": ("quartile",)}
_PREFIXED = {"outlier_": ("outlier",), "density_": ("point",)}


def _dimensions(name: str, sizes: tuple[int, ...], length: int) -> tuple[str, ...]:
    """Names of a field's own axes."""
    base = name.removesuffix("_stderr")
    if base in _NAMED:
        return _NAMED[base][: len(sizes)]
    for prefix, dims in _PREFIXED.items():
        if name.startswith(prefix):
            return dims[: len(sizes)]
    if sizes and sizes[0] == length:
        inner = ("entry", "entry_too") if base == "hidden_variance" else ("neuron", "direction")
        return ("step", *inner[: len(sizes) - 1])
    return tuple(f"{name}_{axis}" for axis in range(len(sizes)))


def _length(answer: Any) -> int:
    """Length of the answer's own time axis; -1 if it has none."""
    time = getattr(answer, "time", None)
    return len(time) if isinstance(time, np.ndarray) else -1


def _numeric(answer: Any) -> dict[str, np.ndarray]:
    """The numeric fields of an answer as float arrays; None is NaN."""
    found: dict[str, np.ndarray] = {}
    for field in dataclasses.fields(answer):
        value = getattr(answer, field.name)
        if field.name in ("stderr", "density") and isinstance(value, dict):
            for key, entry in value.items():
                _put(found, f"{key}_stderr" if field.name == "stderr" else f"density_{key}", entry)
        elif field.name == "outliers":
            for key in ("value", "overlap2", "probability"):
                _put(found, f"outlier_{key}", [getattr(o, key) for o in value])
        elif field.name not in ("problem", "numerics", "blocks", "warnings", "status", "dependence", "cites"):
            _put(found, field.name, value)
    return found


def _put(found: dict[str, np.ndarray], name: str, value: Any) -> None:
    if value is None:
        found[name] = np.array(np.nan)
        return
    if isinstance(value, (bool, str)):
        return
    try:
        found[name] = np.asarray(_filled(value), float)
    except (TypeError, ValueError):
        return


def _filled(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [_filled(v) for v in value]
    return np.nan if value is None else value
