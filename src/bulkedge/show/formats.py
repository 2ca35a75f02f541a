"""Which files a figure or a report can be written to; checked before anything is computed, so it imports nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bulkedge.foundation.errors import BadInput

FORMATS = ("png", "svg", "pdf")


def writable(path: Any, argument: str = "path", formats: tuple[str, ...] = FORMATS) -> str:
    """The format a file name asks for, if it is known and its folder exists."""
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in formats:
        known = ", ".join(f".{f}" for f in formats)
        raise BadInput(argument, f"must end in one of {known}, not {target.name[:60]!r}")
    if not target.parent.is_dir():
        raise BadInput(argument, f"the folder {str(target.parent)[:200]!r} does not exist")
    if target.is_dir():
        raise BadInput(argument, f"{str(target)[:200]!r} is a folder")
    return kind
