"""From a request to an exit code: build the problem, ask the package, print the answers, draw them."""

from __future__ import annotations

import itertools
import json
import shlex
import sys
from collections.abc import Sequence
from typing import Any

import bulkedge
from bulkedge.cli.options import NUMERICS, PROBLEM, Request
from bulkedge.foundation.errors import BadInput

_PROBLEM_NAMES = tuple(o.name for o in PROBLEM)
_NETWORK_NAMES = ("activation", "width", "second_layer", "bias")
_NUMERICS_NAMES = (*(o.name for o in NUMERICS), "seed")
_OUTPUT_NAMES = ("json", "out", "quiet")
PREDICTIONS = ("threshold", "spectrum", "trajectory", "learning_time", "design", "sensitivity")


def run(request: Request) -> int:
    """Answer a request; 0 if every answer converged, else 3."""
    values, output = dict(request.values), {name: request.values.get(name) for name in _OUTPUT_NAMES}
    for name in _OUTPUT_NAMES:
        values.pop(name, None)
    problem = read_problem(values) if _takes_network(request) else read_target(values)
    calls = list_calls(request, values)
    from bulkedge.cli.progress import progress

    with progress(bool(output["quiet"] or output["json"])) as report:
        answers = [_ask(request.command.function, problem, call, report) for call in calls]
    _print(answers, as_json=bool(output["json"]))
    if output["out"]:
        _write(answers, output["out"], request.words)
    return 0 if all(a.status.ok for a in answers) else 3


def read_problem(values: dict[str, Any]) -> Any:
    """The problem of the given options, which are taken out of `values`."""
    given = {name: values.pop(name) for name in _PROBLEM_NAMES if name in values}
    network = {name: given.pop(name) for name in _NETWORK_NAMES if name in given}
    return bulkedge.Problem(network=bulkedge.Network(**network), **given)


def _takes_network(request: Request) -> bool:
    return any(o.name in _NETWORK_NAMES for o in request.command.options)


def read_target(values: dict[str, Any]) -> Any:
    """The target of the given options, which are taken out of `values`."""
    from bulkedge.models.target import target

    return target(values.pop("target"), values.pop("latent_dim", None))


def list_calls(request: Request, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The keyword arguments of each call: one for every combination of the options that ask for several answers."""
    function = request.command.function
    accuracy = {name: values[name] for name in _NUMERICS_NAMES if name in values}
    for name in accuracy:
        if name != "seed" or function in PREDICTIONS:
            values.pop(name)
    if accuracy and function != "simulate":
        values["numerics"] = bulkedge.Numerics().updated(**accuracy)
    lists = [(name, values.pop(name)) for name in request.command.several if name in values]
    if "samples" in values and any(name == "delta" for name, _ in lists):
        raise BadInput("samples", "is instead of --delta; give one of them")
    combinations = itertools.product(*(entries for _, entries in lists))
    return [{**values, **dict(zip((n for n, _ in lists), c, strict=True))} for c in combinations]


def _ask(function: str, problem: Any, call: dict[str, Any], report: Any) -> Any:
    try:
        return getattr(bulkedge, function)(problem, **call, progress=report)
    except RuntimeError as error:
        # How the array library says that memory ran out.
        if "RESOURCE_EXHAUSTED" in str(error):
            raise MemoryError from None
        raise


def _print(answers: list[Any], *, as_json: bool) -> None:
    if as_json:
        found = [a.to_dict() for a in answers]
        print(json.dumps(found[0] if len(found) == 1 else {"results": found}, allow_nan=False))
    else:
        from bulkedge.cli.text import text

        print("\n\n".join(text(a) for a in answers))
    sys.stdout.flush()


def _write(answers: list[Any], path: str, words: Sequence[str]) -> None:
    from bulkedge import show

    try:
        if path.lower().endswith(".html"):
            if len(answers) > 1:
                raise BadInput("out", "a report is about one --delta; give one, or write a figure")
            show.report(answers[0], path, command=shlex.join(["bulkedge", *words]))
        else:
            show.save(show.draw(answers), path)
    except OSError as error:
        raise BadInput("out", f"cannot be written: {error.strerror or error}") from None
