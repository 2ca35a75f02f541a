"""The commands of the laboratory: list, run, status, show, report."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from bulkedge.cli.options import Request
from bulkedge.foundation.errors import BadInput

MOST_ROWS = 40


def run(request: Request) -> int:
    """Answer a request; 0, or 3 where something is missing."""
    return _COMMANDS[request.command.name](dict(request.values))


def _list(values: dict[str, Any]) -> int:
    from bulkedge.cli import lab_text
    from bulkedge.lab import catalogue

    words = values.get("words", [])
    if len(words) > 1:
        raise BadInput("list", "takes one name at most")
    found = catalogue.describe(words[0]) if words else catalogue.overview()
    if values.get("json"):
        _json(found if isinstance(found, dict) else {"phenomena": found})
    else:
        print(lab_text.phenomenon(found) if isinstance(found, dict) else lab_text.phenomena(found))
    return 0


def _run(values: dict[str, Any]) -> int:
    from bulkedge import lab
    from bulkedge.cli.lab_progress import watching

    name, knobs = _subject("run", values.pop("words", []))
    output = {key: values.pop(key, None) for key in ("json", "out", "quiet")}
    values.setdefault("engine", "pool")
    with _ended_politely(), watching(bool(output["quiet"] or output["json"])) as watch, _knobs_named(name):
        outcome = lab.run(name, **values, progress=watch, **knobs)
    return _answer(outcome, bool(output["json"]), output["out"])


def _show(values: dict[str, Any]) -> int:
    from bulkedge import lab
    from bulkedge.lab.holdings import recall
    from bulkedge.lab.plan import locate

    name, knobs = _subject("show", values.pop("words", []))
    store = values.get("store") or lab.default_store()
    size = values.get("size")
    if not knobs and size is None:
        last = recall(store, locate(name).name)
        if last is not None:
            size, knobs = last["size"], last["settings"]
    with _knobs_named(name):
        outcome = lab.gather(name, size=size or "quick", store=store, **knobs)
    return _answer(outcome, bool(values.get("json")), values.get("out"))


def _status(values: dict[str, Any]) -> int:
    from bulkedge import lab
    from bulkedge.cli import lab_text
    from bulkedge.lab.holdings import status

    found = status(values.get("store") or lab.default_store())
    if values.get("json"):
        _json(found)
    else:
        print(lab_text.status(found))
    return 0


def _report(values: dict[str, Any]) -> int:
    from bulkedge import lab
    from bulkedge.show import gallery

    path = values.get("out") or "report.html"
    try:
        print(gallery.write(values.get("store") or lab.default_store(), path))
    except OSError as error:
        raise BadInput("out", f"cannot be written: {error.strerror or error}") from None
    return 0


_COMMANDS = {"list": _list, "run": _run, "status": _status, "show": _show, "report": _report}


def _subject(command: str, words: Sequence[str]) -> tuple[str, dict[str, str]]:
    """The name of the phenomenon and its knobs as typed."""
    if not words or "=" in words[0]:
        raise BadInput(command, "needs the name of a phenomenon (see bulkedge list)")
    knobs: dict[str, str] = {}
    for word in words[1:]:
        name, equals, value = word.partition("=")
        name = name.strip().replace("-", "_")
        if not equals or not name:
            raise BadInput(command, f"does not know what to do with {word[:60]!r}; a knob is set by KNOB=VALUE")
        if not value.strip():
            raise BadInput(f"knob {name}", "needs a value")
        if name in knobs:
            raise BadInput(f"knob {name}", "was given twice; a list is separated by commas")
        knobs[name] = value
    return words[0], knobs


@contextlib.contextmanager
def _knobs_named(phenomenon: str) -> Iterator[None]:
    """Errors about a knob, also one that has its default, say so: some have the names of options."""
    try:
        yield
    except BadInput as error:
        from bulkedge.lab.plan import locate

        if error.argument != "phenomenon" and error.argument in {knob.name for knob in locate(phenomenon).knobs}:
            raise BadInput(f"knob {error.argument}", error.message) from None
        raise


@contextlib.contextmanager
def _ended_politely() -> Iterator[None]:
    """Batch systems end a process by SIGTERM: it then stops as it does on Ctrl-C."""

    def stop(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread, which alone gets signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _answer(outcome: Any, as_json: bool, out: str | None) -> int:
    from bulkedge.cli import lab_text
    from bulkedge.lab.export import EXPORTS

    if as_json:
        _json(outcome.to_dict())
    else:
        print(lab_text.outcome(outcome))
    if out:
        try:
            if out.lower().rpartition(".")[2] in EXPORTS:
                outcome.export(out)
            else:
                from bulkedge import show

                show.save(outcome.plot(), out)
        except OSError as error:
            raise BadInput("out", f"cannot be written: {error.strerror or error}") from None
    return 0 if outcome.status.ok else 3


def _json(found: Any) -> None:
    print(json.dumps(found, allow_nan=False))
    sys.stdout.flush()
