"""How the value of an option is read: text in, a checked value out, or one line that names the option."""

from __future__ import annotations

from typing import Any

from bulkedge.foundation.errors import BadInput


def text(name: str, given: str) -> str:
    """The value as it was typed."""
    return given


def number(name: str, given: str) -> float | int:
    """A number; a whole one is an int, so that a time prints as 5 and not 5.0."""
    try:
        x = float(given)
    except ValueError:
        raise BadInput(name, f"must be a number, not {given[:40]!r}") from None
    return int(x) if x.is_integer() else x


def whole(name: str, given: str) -> int:
    """A whole number; 1e4 counts."""
    try:
        return int(given)
    except ValueError:
        x = number(name, given)
    if not isinstance(x, int):
        raise BadInput(name, f"must be a whole number, not {given[:40]!r}")
    return x


def numbers(name: str, given: str) -> list[float | int]:
    """Numbers separated by commas."""
    return [number(name, part.strip()) for part in given.split(",")]


def one_or_more(name: str, given: str) -> Any:
    """A number, or a list of them where there are commas."""
    entries = numbers(name, given)
    return entries[0] if len(entries) == 1 else entries


def positive_numbers(name: str, given: str) -> list[float | int]:
    """Positive numbers separated by commas: checked before the first of them starts a computation."""
    entries = numbers(name, given)
    for x in entries:
        if not 0 < x < float("inf"):
            raise BadInput(name, f"must be positive and finite, not {x:g}")
    return entries


def times(name: str, given: str) -> list[float | int]:
    """Times separated by commas, zero or later; inf is a time."""
    entries = numbers(name, given)
    for x in entries:
        if not x >= 0:
            raise BadInput(name, f"must be zero or later, not {x:g}")
    return entries


def figure_file(name: str, given: str) -> str:
    """A file a figure can be written to."""
    from bulkedge.show.formats import writable

    writable(given, name)
    return given


def page_file(name: str, given: str) -> str:
    """A file a figure or a page can be written to."""
    from bulkedge.show.formats import FORMATS, writable

    writable(given, name, (*FORMATS, "html"))
    return given


def yes_or_no(name: str, given: str) -> bool:
    """Yes or no, as a word."""
    words = {"yes": True, "true": True, "no": False, "false": False}
    if given.strip().lower() not in words:
        raise BadInput(name, f"must be yes or no, not {given[:40]!r}")
    return words[given.strip().lower()]
