"""From stored runs to one labelled table: an xarray Dataset over the axes of the parts.

A quantity becomes three variables: `NAME`, its seeds put together; `NAME_stderr`, the standard error of that; and
`NAME_runs`, how many runs returned each entry (0: not there, or not yet). A measured quantity has a fourth,
`NAME_each`, over the coordinate `seed`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from bulkedge.foundation.phenomenon import MEASURED, Part, Phenomenon, Quantity
from bulkedge.lab.record import Task

Results = Mapping[str, Mapping[str, np.ndarray]]
"""{key of a task: {quantity: array}}"""


def assemble(phenomenon: Phenomenon, tasks: Sequence[Task], results: Results) -> xr.Dataset:
    """The Dataset of a plan; entries that have no result are NaN.

    The coordinates are those of the whole plan, so that what is missing shows.
    """
    parts = []
    for part in phenomenon.parts:
        mine = [task for task in tasks if task.part.name == part.name]
        if mine:
            parts.append(_Part(part, mine, results).dataset())
    whole = xr.Dataset()
    for part in parts:
        whole = whole.merge(part, join="outer", compat="no_conflicts", combine_attrs="drop_conflicts")
    for name in [str(n) for n in whole.data_vars if str(n).endswith("_runs")]:
        whole[name] = whole[name].fillna(0).astype(int)
    whole.attrs = {"phenomenon": phenomenon.name, "question": phenomenon.question, "equation": phenomenon.equation}
    return whole


class _Part:
    """The tasks of one part, and where each stands in the table."""

    def __init__(self, part: Part, tasks: Sequence[Task], results: Results) -> None:
        self.part = part
        self.values = {axis: _ordered([self._at(t, axis) for t in tasks]) for axis in part.axes}
        self.seeds: list[int | None] = sorted({t.seed for t in tasks}, key=lambda s: -1 if s is None else s)
        places = {axis: {v: i for i, v in enumerate(known)} for axis, known in self.values.items()}
        seed_of = {seed: i for i, seed in enumerate(self.seeds)}
        self.results: dict[tuple[int, ...], Mapping[str, np.ndarray]] = {}
        taken: set[tuple[int, ...]] = set()
        for task in tasks:
            place = (*(places[a][self._at(task, a)] for a in part.axes), seed_of[task.seed])
            if place in taken:
                raise ValueError(f"{part.name} has two units at one point and seed; an axis is not declared")
            taken.add(place)
            if task.key in results:
                self.results[place] = results[task.key]
        self.shape = (*(len(v) for v in self.values.values()), len(self.seeds))
        self.lengths = self._lengths()

    def _at(self, task: Task, axis: str) -> Any:
        value = task.parameters.get(axis)
        if not isinstance(value, (int, float, str)):
            raise ValueError(f"{self.part.name}: the axis {axis} must hold numbers or words, not {value!r}")
        return value

    def _lengths(self) -> dict[str, int]:
        """The longest of every dimension of the arrays; shorter ones are filled up with NaN."""
        found = {d: 0 for q in self.part.quantities for d in q.dims}
        for result in self.results.values():
            for q in self.part.quantities:
                for dim, n in zip(q.dims, np.shape(result[q.name]), strict=True):
                    found[dim] = max(found[dim], n)
        return found

    def dataset(self) -> xr.Dataset:
        axes = tuple(self.part.axes)
        variables: dict[str, Any] = {}
        for q in self.part.quantities:
            each = self._table(q.name, q.dims)
            there = self._table(q.name, q.dims, present=True) > 0
            own = self._table(f"{q.name}_stderr", q.dims) if self._some(f"{q.name}_stderr") else None
            value, error = put_together(q, each, there, own, axis=len(axes), measured=self.part.role == MEASURED)
            dims = (*axes, *q.dims)
            variables[q.name] = (dims, value, {"label": q.label or q.name.replace("_", " "), "role": self.part.role})
            variables[f"{q.name}_stderr"] = (dims, error)
            variables[f"{q.name}_runs"] = (dims, there.sum(axis=len(axes)))
            if self.part.role == MEASURED:
                variables[f"{q.name}_each"] = ((*axes, "seed", *q.dims), each)
        coordinates: dict[str, Any] = {a: list(v) for a, v in self.values.items()}
        if self.part.role == MEASURED:
            coordinates["seed"] = [-1 if s is None else s for s in self.seeds]
        for dim in self.lengths:
            coordinate, apart = self._coordinate(dim)
            coordinates[dim] = coordinate
            if apart is not None:
                variables[f"{dim}_of_{self.part.name}"] = ((*axes, dim), apart)
        return xr.Dataset(variables, coordinates)

    def _some(self, name: str) -> bool:
        return any(name in result for result in self.results.values())

    def _table(self, name: str, dims: Sequence[str], present: bool = False) -> np.ndarray:
        """The values of all runs; present=True: 1 where a run has an entry, which may itself be NaN."""
        table = np.full((*self.shape, *(self.lengths[d] for d in dims)), 0.0 if present else np.nan)
        for place, result in self.results.items():
            if name in result:
                value = np.asarray(result[name], float)
                table[(*place, *(slice(0, n) for n in value.shape))] = 1.0 if present else value
        return table

    def _coordinate(self, dim: str) -> tuple[np.ndarray, np.ndarray | None]:
        """The coordinate of a dimension: what the runs returned under its name, where that is one and the same.

        Where it differs from point to point the dimension is an index, and what was returned a variable of its own.
        """
        index = np.arange(self.lengths[dim])
        if not self._some(dim):
            return index, None
        table = self._table(dim, (dim,))
        flat = table.reshape(-1, self.lengths[dim])
        longest = flat[np.argmax(np.sum(np.isfinite(flat), axis=1))]
        if np.all(np.isfinite(longest)) and np.all((flat == longest) | np.isnan(flat)):
            if len(set(longest)) < len(longest):
                raise ValueError(f"{self.part.name} returned {dim!r} with a value twice")
            return longest, None
        first = np.take_along_axis(table, self._first(table)[..., None, None], axis=-2)
        if not np.all((table == first) | np.isnan(table)):
            raise ValueError(f"{self.part.name} returned a {dim!r} that differs between seeds")
        return index, first[..., 0, :]

    @staticmethod
    def _first(table: np.ndarray) -> np.ndarray:
        """The seed with the most entries, at every point."""
        return np.argmax(np.sum(np.isfinite(table), axis=-1), axis=-1)


def _ordered(values: Sequence[Any]) -> list[Any]:
    """Distinct values: numbers sorted, words in the plan's order."""
    distinct = list(dict.fromkeys(values))
    return distinct if any(isinstance(v, str) for v in distinct) else sorted(distinct)


def put_together(
    quantity: Quantity, each: np.ndarray, there: np.ndarray, own: np.ndarray | None, axis: int, measured: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The seeds of a quantity as one value and its standard error, over the given axis. See `Quantity.over`.

    A value without seeds is exact unless it comes with an error of its own.
    """
    with warnings.catch_warnings(), np.errstate(invalid="ignore", divide="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of empty slices, which are NaN as they should be
        if not measured or quantity.over == "first":
            first = np.argmax(there, axis=axis)
            pick = np.expand_dims(first, axis)
            value = np.take_along_axis(each, pick, axis).squeeze(axis)
            error = np.zeros_like(value) if own is None else np.take_along_axis(own, pick, axis).squeeze(axis)
            return value, np.where(there.any(axis=axis), error, np.nan)
        if quantity.over == "fraction":
            return fraction(each, axis)
        if quantity.over == "median":
            return median(np.where(there & np.isnan(each), np.inf, each), axis)
        count = np.sum(np.isfinite(each), axis=axis)
        value = np.nanmean(each, axis=axis)
        # A run that ended in NaN is not left out: the mean of those that did not would be of the lucky ones.
        value = np.where(np.any(there & np.isnan(each), axis=axis), np.nan, value)
        error = np.where(count > 1, np.nanstd(each, axis=axis, ddof=1) / np.sqrt(count), np.nan)
        if own is not None:
            error = np.where(count == 1, np.nanmax(own, axis=axis), error)
        return value, error


def fraction(each: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The fraction of ones, and its standard error: of Beta(k + 1, n - k + 1), which is not zero at 0 and 1."""
    n = np.sum(np.isfinite(each), axis=axis)
    k = np.nansum(each, axis=axis)
    p = (k + 1.0) / (n + 2.0)
    return np.where(n > 0, k / n, np.nan), np.where(n > 0, np.sqrt(p * (1.0 - p) / (n + 3.0)), np.nan)


def median(each: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """The median, NaN where it is infinite, and half the width of its 68 percent interval of order statistics.

    The interval is widened to the next different value, since a time that is a whole number repeats; NaN entries are
    not there.
    """
    moved = np.moveaxis(each, axis, -1)
    value, error = np.full(moved.shape[:-1], np.nan), np.full(moved.shape[:-1], np.nan)
    for place in np.ndindex(*moved.shape[:-1]):
        x = np.sort(moved[place][~np.isnan(moved[place])])
        n = len(x)
        if n == 0:
            continue
        centre = 0.5 * (x[(n - 1) // 2] + x[n // 2])
        value[place] = centre if np.isfinite(centre) else np.nan
        reach = 0.5 * np.sqrt(n)
        low, high = 0.5 * (n - 1) - reach, 0.5 * (n - 1) + reach
        if low < 0 or np.isinf(x[math.ceil(high)]):
            continue
        width = 0.5 * float(np.interp(high, np.arange(n), x) - np.interp(low, np.arange(n), x))
        i, j = math.floor(low), math.ceil(high)
        while width == 0 and (i > 0 or j < n - 1):
            i, j = max(i - 1, 0), min(j + 1, n - 1)
            width = 0.5 * (x[j] - x[i])
        error[place] = width if 0 < width < np.inf else np.nan
    return value, error
