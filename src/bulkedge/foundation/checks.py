"""Validation of plain arguments, with one-line errors."""

from __future__ import annotations

import math
import operator
from typing import Any

from bulkedge.foundation.errors import BadInput


def number(argument: str, value: Any) -> float:
    """A finite real number; neither True nor an array counts as one."""
    wrong = BadInput(argument, f"must be a finite number, not {str(value)[:40]!r}")
    if isinstance(value, bool) or getattr(value, "ndim", 0) != 0:
        raise wrong
    try:
        x = float(value)
    except (TypeError, ValueError, OverflowError):
        raise wrong from None
    if not math.isfinite(x):
        raise BadInput(argument, f"must be finite, not {x}")
    return x


def positive(argument: str, value: Any) -> float:
    """A finite number above zero."""
    x = number(argument, value)
    if x <= 0:
        raise BadInput(argument, f"must be positive, not {x:g}")
    return x


def integer(argument: str, value: Any, *, low: int, high: int | None = None) -> int:
    """A whole number in [low, high]; 3.0 counts as 3, True does not."""
    span = f"a whole number of at least {low}" if high is None else f"a whole number from {low} to {high}"
    wrong = BadInput(argument, f"must be {span}, not {str(value)[:40]!r}")
    if isinstance(value, bool):
        raise wrong
    try:
        whole: Any = int(value) if isinstance(value, float) and value.is_integer() else value
        x = operator.index(whole)
    except TypeError:
        raise wrong from None
    if x < low or (high is not None and x > high):
        raise wrong
    return x


def choice(argument: str, value: Any, options: tuple[str, ...]) -> str:
    """One of the words in `options`."""
    if value not in options:
        raise BadInput(argument, f"must be one of {', '.join(options)}, not {str(value)[:40]!r}")
    return value


def instance(argument: str, value: Any, kind: type) -> None:
    """An object of that class of this package."""
    if not isinstance(value, kind):
        raise BadInput(argument, f"must be a bulkedge.{kind.__name__}, not of type {type(value).__name__}")


def hashable(argument: str, value: Any) -> Any:
    """A value that can be a key, as functions are."""
    try:
        hash(value)
    except TypeError:
        raise BadInput(argument, f"a {type(value).__name__} is not hashable; give a plain function") from None
    return value
