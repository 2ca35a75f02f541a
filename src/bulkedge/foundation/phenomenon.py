"""A phenomenon: a prediction and a measurement of the same quantity, over the same knobs, with a verdict.

It declares what it asks, its knobs, its parts and how they are drawn, and nothing else: planning, running, storing,
resuming, judging and drawing are made from the declaration. A *part* is one kind of work (a network trained, a
threshold predicted), a pure function of its parameters and, for a measurement, a seed. A *unit* is one call of a part.
Predictions are units too, so that they are stored, resumed and run in parallel like measurements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bulkedge.foundation import checks
from bulkedge.foundation.citations import ENTRIES
from bulkedge.foundation.errors import BadInput, unknown_name

SIZES = ("quick", "full")
MEASURED, PREDICTED = "measured", "predicted"
_KINDS = ("integer", "integers", "number", "numbers", "positive", "positives", "text", "texts")
_MOST_UNITS = 1_000_000


@dataclass(frozen=True)
class Knob:
    """Something that can be set. quick, full: its values at the two sizes (full=None: the same).

    kind: integer, number (any), positive, text, or their plurals, which hold one or more values.
    low, high: bounds of integers and numbers. choices: the words allowed. optional: "none" is a value too, and means
    None, or an empty tuple. repeats: a list may hold a value twice.
    """

    name: str
    kind: str
    quick: Any
    help: str
    full: Any = None
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    repeats: bool = False

    def __post_init__(self) -> None:
        if self.kind not in _KINDS:
            raise ValueError(f"knob {self.name}: unknown kind {self.kind!r}")

    @property
    def several(self) -> bool:
        return self.kind.endswith("s")

    def at(self, size: str) -> Any:
        """The default at a size."""
        return self.read(self.quick if size == "quick" or self.full is None else self.full)

    def read(self, given: Any) -> Any:
        """A value of Python's, or text as typed (lists separated by commas), checked."""
        if self.optional and (given in (None, (), []) or str(given).strip().lower() == "none"):
            return () if self.several else None
        if not self.several:
            return self._one(given)
        entries = given.split(",") if isinstance(given, str) else given
        if not isinstance(entries, Iterable):
            entries = [entries]
        found = tuple(self._one(v.strip() if isinstance(v, str) else v) for v in entries)
        if not found:
            raise BadInput(self.name, "needs at least one value")
        if len(set(found)) < len(found) and not self.repeats:
            raise BadInput(self.name, "holds the same value twice")
        return found

    def _one(self, given: Any) -> Any:
        kind = self.kind.removesuffix("s")
        if kind == "text":
            if not isinstance(given, str) or not given.strip():
                raise BadInput(self.name, f"must be a word, not {str(given)[:40]!r}")
            return checks.choice(self.name, given.strip(), self.choices) if self.choices else given.strip()
        x = checks.positive(self.name, given) if kind == "positive" else checks.number(self.name, given)
        if kind == "integer":
            low = -(2**62) if self.low is None else int(self.low)
            return checks.integer(self.name, x, low=low, high=None if self.high is None else int(self.high))
        if (self.low is not None and x < self.low) or (self.high is not None and x > self.high):
            ends = [f"at least {self.low:g}"] if self.low is not None else []
            ends += [f"at most {self.high:g}"] if self.high is not None else []
            raise BadInput(self.name, f"must be {' and '.join(ends)}, not {x:g}")
        return x


@dataclass(frozen=True)
class Quantity:
    """One entry of what a part returns.

    over: how seeds are put together. "mean" with its standard error; "fraction" of successes (0 or 1), with the
    binomial error; "median", where NaN counts as later than everything (a time that did not come); "first", any seed.
    dims: names of the axes of an array. A dimension is an index unless the part returns an array of that name.
    """

    name: str
    over: str = "mean"
    dims: tuple[str, ...] = ()
    label: str = ""

    def __post_init__(self) -> None:
        if self.over not in ("mean", "fraction", "median", "first"):
            raise ValueError(f"quantity {self.name}: unknown way {self.over!r} to put seeds together")


@dataclass(frozen=True)
class Part:
    """One kind of work. function: (**parameters, seed=) -> {quantity: number or array}, defined at module level.

    role: "measured" or "predicted" (then there is no seed, and `NAME_stderr` may stand beside `NAME`).
    axes: the parameters that are coordinates of the results. version: raise it when the numbers mean something new.
    """

    name: str
    role: str
    function: Callable[..., Mapping[str, Any]]
    axes: tuple[str, ...]
    quantities: tuple[Quantity, ...]
    version: int = 1


@dataclass(frozen=True)
class Unit:
    """One call of a part: what is stored, and the smallest thing that can be lost."""

    part: str
    parameters: Mapping[str, Any]
    seed: int | None = None


@dataclass(frozen=True)
class Judged:
    """A measured quantity and the predicted one it is judged against.

    scale: the size of the effect, or (dataset) -> that; None, the predicted value. drift: (dataset) -> allowed
    finite-size difference, NaN where the two are not to be compared. where: {coordinate: value} restricts it.
    law: (coordinate, p), if the measured value is limit + c * coordinate^(-p): the fitted limit is judged;
    (coordinate, "log"), if both are offset + slope * log(coordinate): the fitted slopes are judged.
    A prediction that is NaN is none, and its point is not judged.
    """

    measured: str
    predicted: str
    scale: float | Callable[[Any], Any] | None = None
    drift: Callable[[Any], Any] | None = None
    name: str = ""
    where: Mapping[str, Any] | None = None
    law: tuple[str, float | str] | None = None


@dataclass(frozen=True)
class Mark:
    """Something drawn in a panel.

    kind: "points" (measured, with error bars), "line" (predicted, with a band of one standard error), "curves"
    (measured, every seed, faint), "rule" (a vertical line at the value), "level" (a horizontal one), "histogram".
    x: the coordinate or variable on the horizontal axis. by: the coordinate whose values get colours.
    dash, colour: index into the dashes, and into the colours of a mark that is not `by` something (0: black).
    where: {coordinate: value} to draw only these.
    """

    kind: str
    variable: str
    x: str = ""
    by: str | None = None
    label: str = ""
    dash: int = 0
    colour: int = 0
    where: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Panel:
    """One pair of axes, or one for each value of the coordinate `each`."""

    title: str
    marks: tuple[Mark, ...]
    xlabel: str
    ylabel: str
    xscale: str = "linear"
    yscale: str = "linear"
    each: str | None = None
    ylim: tuple[float | None, float | None] = (None, None)
    xlim: tuple[float | None, float | None] = (None, None)


@dataclass(frozen=True)
class Phenomenon:
    """The declaration. equation: where in the source the claim stands. plan: knobs -> units.

    derive: dataset -> {name: ((dims), value, error, runs)} of what follows from the results of several points, to be
    judged and drawn like them. conclude: dataset -> sentences about what was found.
    """

    name: str
    question: str
    citations: tuple[str, ...]
    equation: str
    knobs: tuple[Knob, ...]
    parts: tuple[Part, ...]
    plan: Callable[[dict[str, Any]], list[Unit]]
    panels: tuple[Panel, ...]
    judged: tuple[Judged, ...] = ()
    conclude: Callable[[Any], list[str]] | None = None
    derive: Callable[[Any], Mapping[str, tuple[tuple[str, ...], Any, Any, Any]]] | None = None

    def __post_init__(self) -> None:
        names = [q.name for p in self.parts for q in p.quantities]
        if len(set(names)) < len(names):
            raise ValueError(f"phenomenon {self.name}: a quantity is declared twice")
        if unknown := [key for key in self.citations if key not in ENTRIES]:
            raise ValueError(f"phenomenon {self.name}: {unknown[0]!r} is not in foundation.citations.ENTRIES")

    def part(self, name: str) -> Part:
        return next(p for p in self.parts if p.name == name)

    def quantity(self, name: str) -> Quantity:
        return next(q for p in self.parts for q in p.quantities if q.name == name)

    def settings(self, size: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all knobs: those given, the others as the size has them."""
        checks.choice("size", size, SIZES)
        known = {k.name: k for k in self.knobs}
        for name in given:
            if name not in known:
                raise unknown_name(f"knob of {self.name}", name, known)
        return {k.name: k.read(given[k.name]) if k.name in given else k.at(size) for k in self.knobs}

    def units(self, settings: Mapping[str, Any]) -> list[Unit]:
        """The plan, each unit once."""
        units = self.plan(dict(settings))
        if not units:
            raise BadInput(self.name, "these knobs leave nothing to do")
        if len(units) > _MOST_UNITS:
            raise BadInput(self.name, f"these knobs ask for {len(units)} units; at most {_MOST_UNITS} are possible")
        distinct = {repr((u.part, sorted(u.parameters.items()), u.seed)): u for u in units}
        return list(distinct.values())


def grid(
    part: str, axes: Mapping[str, Iterable[Any]], seeds: Iterable[int | None] = (None,), **fixed: Any
) -> list[Unit]:
    """Units at every combination of the axes' values, for every seed; all of a seed before the next one.

    So that a run that is stopped has some seeds everywhere, and not all seeds somewhere.
    """
    points = list(itertools.product(*axes.values()))
    return [Unit(part, {**fixed, **dict(zip(axes, p, strict=True))}, s) for s in seeds for p in points]
