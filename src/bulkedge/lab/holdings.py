"""What a store holds, plan by plan."""

from __future__ import annotations

from typing import Any

from bulkedge.foundation.errors import BadInput
from bulkedge.lab import index
from bulkedge.lab import plan as plans
from bulkedge.lab.store import Store


def status(store: Any) -> dict[str, Any]:
    """{store, runs, seconds, parts, plans, failures}: what was asked for, and how much of it is there."""
    folder = Store(store, write=False)
    parts = index.summary(folder)
    there = folder.keys()
    failures = list(folder.failures())
    failed = {f["key"] for f in failures}
    return {
        "store": str(folder.path),
        "runs": len(there),
        "seconds": sum(p["seconds"] or 0.0 for p in parts),
        "parts": parts,
        "plans": [_plan(entry, there, failed) for entry in folder.plans()],
        "failures": [
            {name: f.get(name) for name in ("phenomenon", "part", "parameters", "seed", "error")} for f in failures
        ],
    }


def _plan(entry: dict[str, Any], there: set[str], failed: set[str]) -> dict[str, Any]:
    """A plan with its counts; without them if its phenomenon is not known here or has other knobs by now."""
    found = {name: entry[name] for name in ("phenomenon", "size", "settings")}
    try:
        plan = plans.make(entry["phenomenon"], entry["size"], entry["settings"])
    except BadInput as error:
        return {**found, "changed": {}, "done": None, "total": None, "failed": None, "note": error.message}
    usual = plan.phenomenon.settings(plan.size, {})
    keys = {task.key for task in plan.tasks}
    return {
        **found,
        "changed": {k: v for k, v in plan.settings.items() if v != usual[k]},
        "done": len(keys & there),
        "total": len(keys),
        "failed": len(keys & failed - there),
        "note": "",
    }


def recall(store: Any, name: str) -> dict[str, Any] | None:
    """The plan of a phenomenon that was last asked for: {phenomenon, size, settings}."""
    return next((p for p in Store(store, write=False).plans() if p["phenomenon"] == name), None)
