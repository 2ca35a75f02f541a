"""The laboratory: plan a sweep, run it on an engine, keep every run, judge. Knows no phenomenon by name."""

from __future__ import annotations

import importlib
from typing import Any

_PUBLIC = {
    "run": "bulkedge.lab.running",
    "gather": "bulkedge.lab.running",
    "default_store": "bulkedge.lab.store",
    "status": "bulkedge.lab.holdings",
    "Store": "bulkedge.lab.store",
    "Outcome": "bulkedge.lab.outcome",
}


def __getattr__(name: str) -> Any:
    # A worker imports this room for one small function: it must not wait for tables and figures.
    if name not in _PUBLIC:
        raise AttributeError(f"module 'bulkedge.lab' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__() -> list[str]:
    return sorted(_PUBLIC)
