"""Validation of plain arguments, with one-line errors."""

from __future__ import annotations

import math
import operator
from typing import Any

from bulkedge.foundation.errors import BadInput


def number(argument: str, value: Any) -> float:
    """A finite real number."""
    try:
        x = float(value)
    except (TypeError, ValueError, OverflowError):
        raise BadInput(argument, f"must be a finite number, not {str(value)[:40]!r}") from None
    if not math.isfinite(x):
        raise BadInput(argument, f"must be finite, not {x}")
    return x


def positive(argument: str, value: Any) -> float:
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
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        x = operator.index(value)
    except TypeError:
        raise wrong from None
    if x < low or (high is not None and x > high):
        raise wrong
    return x


def choice(argument: str, value: Any, options: tuple[str, ...]) -> str:
    if value not in options:
        raise BadInput(argument, f"must be one of {', '.join(options)}, not {str(value)[:40]!r}")
    return value
