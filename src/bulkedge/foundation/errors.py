"""Errors a user can act on: one line, the argument named, what would be right."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BadInput(ValueError):
    """An argument that cannot be used; the command line prints it and exits with code 2."""

    def __init__(self, argument: str, message: str) -> None:
        super().__init__(f"{argument}: {message}")
        self.argument = argument
        self.message = message

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.argument, self.message)


def unknown_name(argument: str, name: str, known: Iterable[str]) -> BadInput:
    """The error for a name that is not in a catalogue, with the nearest ones that are."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(names)}"
    return BadInput(argument, f"unknown name {name[:60]!r}; {hint}")
