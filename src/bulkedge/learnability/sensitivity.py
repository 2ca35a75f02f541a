"""The gradient of the threshold in a network's continuous choices: at t = 0 exactly, later by differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bulkedge.foundation.answers import Sensitivity
from bulkedge.foundation.checks import integer, number
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.learnability.floor import bounded_below
from bulkedge.learnability.later_slopes import later_slopes
from bulkedge.learnability.surface import Surface, needs_hard
from bulkedge.models.family import PER_NEURON, family
from bulkedge.models.problem import Problem

STEP = "step_size"


def sensitivity(
    problem: Problem,
    over: Any = ("second_layer", "bias"),
    time: int = 0,
    *,
    activation_family: Any = None,
    loss_family: Any = None,
    numerics: Numerics = DEFAULT,
    progress: Callable[[str, int, int], None] | None = None,
) -> Sensitivity:
    """The gradient d delta_NN/d p of the threshold in the network's continuous choices p.

    At t = 0 by implicit differentiation, exactly; later by differences of the dynamics (see `later_slopes`).

    Args:
        problem: where the gradient is taken.
        over: names, or {name: value} to take it elsewhere. second_layer and bias have an entry per neuron; step_size
            does not move the threshold at t = 0; loss_scale is c in c^2 l(y/c, f/c); other names are parameters of a
            family, and need a value.
        time: steps of training before the Hessian is looked at.
        activation_family: text or callable with such parameters, as "gelu(v) + c*tanh(v)"; None: the problem's own.
        loss_family: likewise, in y and f.
        numerics: paths are the samples where there is no quadrature (three neurons and more, and t > 0).
        progress: called as progress(what, done, total).

    >>> import bulkedge as be
    >>> found = be.sensitivity(be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu"), ("second_layer", "bias"))
    >>> round(found.gradient["second_layer"], 3)
    1.581
    """
    needs_hard(problem)
    t = integer("time", time, low=0, high=1000)
    wanted = {name: _value(problem, name, given) for name, given in _read(over).items()}
    steps = wanted.pop(STEP, None)
    if steps is not None:
        problem = replace(problem, step_size=float(steps[0]))
    # Bounds only tell a family what its parameters are; those of a bias also how far the nodes must reach.
    box = {n: (float(np.min(v)) - 1.0, float(np.max(v)) + 1.0) for n, v in wanted.items()}
    members = family(problem, box or {"bias": None}, activation_family, loss_family)
    vector = members.vector(wanted) if wanted else members.given
    here = members.exact(vector)
    for j in range(problem.m):
        if not bounded_below(here, j):
            raise BadInput("problem", "its Hessian weight is unbounded below (theory 1.9): it has no threshold")
    if t > 0:
        places = [i for n in wanted for i in range(members.places(n).start, members.places(n).stop)]
        values = [*vector[places], *([] if steps is None else steps)]

        def member(entries: np.ndarray) -> Problem:
            moved = vector.copy()
            moved[places] = entries[: len(places)]
            found = members.exact(moved)
            return found if steps is None else replace(found, step_size=float(entries[-1]))

        found = later_slopes(member, np.array(values, float), t, numerics, progress)
        slopes, error, warnings = found.slope, found.stderr, found.warnings
        delta, spread, neuron, method = found.delta, found.delta_stderr, found.neuron, found.method
        if steps is not None:
            wanted[STEP] = steps
    else:
        surfaces = [Surface(members, 1.0, numerics.paths, numerics.seed)]
        if not surfaces[0].nodes.tilted:
            surfaces += [Surface(members, 1.0, numerics.paths, numerics.seed + i) for i in range(1, numerics.replicas)]
        points = [surface.at(vector) for surface in surfaces]
        several = math.sqrt(len(points)) if len(points) > 1 else math.inf
        starts = np.array([math.nan if q.delta is None else q.delta for q in points])
        each = starts[:, None] * np.array([q.slope for q in points])
        if not wanted:
            each = each[:, :0]
        if steps is not None:
            each, wanted[STEP] = np.pad(each, [(0, 0), (0, 1)]), steps
        missing = not np.all(np.isfinite(starts))
        delta, spread = None if missing else float(starts.mean()), float(starts.std() / several)
        slopes, error, neuron = each.mean(axis=0), each.std(axis=0) / several, points[0].neuron
        method = "quadrature" if surfaces[0].nodes.tilted else f"samples, {numerics.paths} x {len(points)}"
        warnings = ["There is no threshold here, and so no gradient."] if missing else []
    ends = np.cumsum([v.size if n != STEP else 1 for n, v in wanted.items()])
    parts = {n: slice(int(end) - v.size, int(end)) for (n, v), end in zip(wanted.items(), ends, strict=True)}
    return Sensitivity(
        delta=delta,
        stderr_delta=None if delta is None else spread,
        time=t,
        neuron=neuron,
        gradient={} if delta is None else {n: _plain(slopes[part]) for n, part in parts.items()},
        stderr={} if delta is None else {n: _plain(error[part]) for n, part in parts.items()},
        values={n: _plain(v) for n, v in wanted.items()},
        method=method,
        numerics=numerics.to_dict(),
        problem=problem.to_dict(),
        warnings=warnings,
    )


def _read(over: Any) -> dict[str, Any]:
    """{name: value, None for the problem's own}."""
    if isinstance(over, str):
        pairs = [part.partition("=") for part in over.split(",")]
        over = {n.strip().replace("-", "_"): value.strip() or None for n, _, value in pairs}
    if isinstance(over, Mapping):
        found = {str(n): v for n, v in over.items()}
    elif isinstance(over, Iterable):
        found = {str(n): None for n in over}
    else:
        raise BadInput("over", "must be names, {name: value}, or text such as second_layer,bias")
    if not found or not all(found):
        raise BadInput("over", "names no parameter")
    return found


def _value(problem: Problem, name: str, given: Any) -> np.ndarray:
    """The entries of a parameter, (m,) for second_layer and bias, else (1,)."""
    own = {"second_layer": problem.network.a, "bias": problem.network.b, "loss_scale": 1.0, STEP: problem.step_size}
    given = own.get(name) if given is None else given
    if given is None:
        raise BadInput("over", f"{name} needs a value, as in {{{name!r}: 0.5}}")
    entries = np.array([number("over", v) for v in np.ravel(given)])
    size = problem.m if name in PER_NEURON else 1
    if entries.size not in (1, size):
        raise BadInput("over", f"{name} has {entries.size} values")
    return np.broadcast_to(entries, (size,)).copy()


def _plain(entries: np.ndarray) -> float | list[float]:
    return float(entries[0]) if len(entries) == 1 else [float(v) for v in entries]
