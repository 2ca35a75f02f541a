"""Where phenomena are found by name: those of this package, and those other packages declare by an entry point.

Another package joins with

    [project.entry-points."bulkedge.phenomena"]
    my-phenomenon = "my_package.my_module:PHENOMENON"
"""

from __future__ import annotations

import importlib
from importlib import metadata

from bulkedge.foundation.errors import BadInput, unknown_name
from bulkedge.foundation.phenomenon import Phenomenon

GROUP = "bulkedge.phenomena"
_DECLARED: dict[str, str] = {}


def declare(name: str, location: str) -> None:
    """Say where a phenomenon is, as "module:attribute"; nothing is imported before it is asked for."""
    _DECLARED[name] = location


def names() -> list[str]:
    """All names, in the order declared; those of other packages last."""
    return list(_locations())


def find(name: str) -> Phenomenon:
    """The phenomenon of that name."""
    known = _locations()
    if name not in known:
        raise unknown_name("phenomenon", name, known)
    module, _, attribute = known[name].partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise BadInput("phenomenon", f"{name} is declared at {known[name]} but cannot be loaded: {error}") from None
    if not isinstance(found, Phenomenon):
        raise BadInput("phenomenon", f"{name} is declared at {known[name]}, which is not a Phenomenon")
    return found


def _locations() -> dict[str, str]:
    # This package's own names cannot be taken by another.
    return dict(_DECLARED) | {e.name: e.value for e in metadata.entry_points(group=GROUP) if e.name not in _DECLARED}
