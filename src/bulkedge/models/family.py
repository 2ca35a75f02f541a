"""Problems with free parameters: second layer, biases, and whatever parameters an activation or a loss is given.

A family is a `Problem` of which some continuous choices vary in a box. An activation or a loss with parameters of its
own is text in which their names stand ("gelu(v) + c*tanh(v)"), or a callable with arguments of these names
(def sigma(v, c)). The name `loss_scale` gives any loss a scale c: c^2 l(y/c, f/c).
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bulkedge.foundation.checks import number
from bulkedge.foundation.errors import BadInput
from bulkedge.models import functions
from bulkedge.models.expression import parse
from bulkedge.models.network import Network
from bulkedge.models.problem import Pointwise, Problem, forms

PER_NEURON = ("second_layer", "bias")
LOSS_SCALE = "loss_scale"
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_NAMED_LOSSES = {
    "squared": "0.5*(f-y)^2",
    "logistic": "softplus(-y*f)",
    "pseudo-huber": "sqrt(1+(f-y)^2)-1",
}
_DIGITS = 6
"""Significant digits of a member's parameters: what is printed is what was computed."""


@dataclass(frozen=True)
class Family:
    """problem: the member one starts from. names: of the parameters, in the order given; box: (low, high) of each.

    activation, loss: (v, *own) and (y, f, *own) with `own` the values of `activation_names`, `loss_names`.
    A vector of parameters holds m entries for `second_layer` and for `bias`, one for every other name.
    """

    problem: Problem
    names: tuple[str, ...]
    box: tuple[tuple[float, float], ...]
    activation: Any
    loss: Any
    activation_names: tuple[str, ...]
    loss_names: tuple[str, ...]

    def size(self, name: str) -> int:
        return self.problem.m if name in PER_NEURON else 1

    def places(self, name: str) -> slice:
        """Where the entries of a parameter are in a vector."""
        before = sum(self.size(n) for n in self.names[: self.names.index(name)])
        return slice(before, before + self.size(name))

    @property
    def bounds(self) -> np.ndarray:
        """(entries, 2)."""
        return np.array([b for n, b in zip(self.names, self.box, strict=True) for _ in range(self.size(n))])

    def values(self, vector: Any) -> dict[str, float | list[float]]:
        """{name: number, or one for each neuron where there are several}, rounded."""
        rounded = [float(f"{x:.{_DIGITS}g}") for x in np.asarray(vector, float)]
        entries = {n: rounded[self.places(n)] for n in self.names}
        return {n: v[0] if len(v) == 1 else v for n, v in entries.items()}

    def vector(self, values: Mapping[str, Any]) -> np.ndarray:
        return np.concatenate([np.broadcast_to(np.asarray(values[n], float), (self.size(n),)) for n in self.names])

    @property
    def logarithmic(self) -> np.ndarray:
        """Which entries are searched in their logarithm: positive ones whose bounds are far apart."""
        low, high = self.bounds.T
        return (low > 0) & (high > 10.0 * low)

    @property
    def given(self) -> np.ndarray:
        """The parameters of `problem` itself, moved into the box; the middle of the box for those it does not have."""
        own = {"second_layer": self.problem.network.a, "bias": self.problem.network.b, LOSS_SCALE: 1.0}
        middle = {n: 0.5 * (low + high) for n, (low, high) in zip(self.names, self.box, strict=True)}
        return np.clip(self.vector({**middle, **own}), *self.bounds.T)

    def layer(self, vector: Any) -> tuple[Any, Any]:
        """(a, b) as functions of a traced vector of parameters."""
        a, b = self.problem.layer
        return (
            vector[self.places("second_layer")] if "second_layer" in self.names else a,
            vector[self.places("bias")] if "bias" in self.names else b,
        )

    def forms(self, vector: Any) -> Pointwise:
        """Pointwise functions (a and b still their arguments) of a traced vector of parameters."""
        own = [vector[self.places(n)][0] for n in self.activation_names]
        scale = [vector[self.places(n)][0] for n in self.loss_names]
        return forms(lambda v: self.activation(v, *own), lambda y, f: self.loss(y, f, *scale))

    def exact(self, vector: Any) -> Problem:
        """The problem at a vector of parameters, not rounded."""
        entries = {n: [float(x) for x in np.asarray(vector, float)[self.places(n)]] for n in self.names}
        return self.member({n: v[0] if len(v) == 1 else v for n, v in entries.items()})

    def member(self, values: Mapping[str, Any]) -> Problem:
        """The problem with these values; text stays text, with numbers in it."""
        network, problem = self.problem.network, self.problem
        own = {n: values[n] for n in self.activation_names}
        scale = {n: values[n] for n in self.loss_names}
        given = {n: values[n] for n in PER_NEURON if n in self.names}
        layer = {"second_layer": network.second_layer, "bias": network.bias} | given
        activation = self.activation.at(own) if own else network.activation
        loss = self.loss.at(scale) if scale else problem.loss
        return replace(problem, network=Network(activation, network.width, **layer), loss=loss)


@dataclass(frozen=True)
class _Text:
    """A function written as text with the names of parameters in it."""

    text: str
    variables: tuple[str, ...]
    names: tuple[str, ...]
    argument: str

    @functools.cached_property
    def expression(self) -> Any:
        return parse(self.text, (*self.variables, "u", *self.names), self.argument)

    def __call__(self, *args: Any) -> Any:
        known = dict(zip((*self.variables, *self.names), args, strict=True))
        if "u" in self.expression.names:
            known["u"] = known["f"] - known["y"]
        return self.expression(**{n: known[n] for n in self.expression.names}) + 0.0 * args[0]

    def at(self, values: Mapping[str, float]) -> str:
        return _substituted(self.text, {n: f"({v!r})" for n, v in values.items()})


@dataclass(frozen=True)
class _Callable:
    """A function of Python's with the parameters' names among its arguments."""

    call: Callable[..., Any]
    names: tuple[str, ...]

    def __call__(self, *args: Any) -> Any:
        plain = len(args) - len(self.names)
        return self.call(*args[:plain], **dict(zip(self.names, args[plain:], strict=True)))

    def at(self, values: Mapping[str, float]) -> Callable[..., Any]:
        name = getattr(self.call, "__name__", "function")
        label = f"{name}({', '.join(f'{n}={v!r}' for n, v in values.items())})"
        return _Member(self.call, tuple(values.items()), label)


@dataclass(frozen=True)
class _Member:
    """A callable with its parameters set: hashable, and equal to another of the same values."""

    call: Callable[..., Any]
    own: tuple[tuple[str, float], ...]
    __name__: str

    def __call__(self, *args: Any) -> Any:
        return self.call(*args, **dict(self.own))


def _substituted(text: str, by: Mapping[str, str]) -> str:
    return _NAME.sub(lambda found: by.get(found[0], found[0]), text)


def family(problem: Problem, over: Any, activation: Any = None, loss: Any = None) -> Family:
    """Read what varies.

    over: {name: (low, high)}, names alone (with the bounds of `default_box`), or text such as
    "second_layer=0.1:5,bias". activation, loss: with the parameters among those names; None: the problem's own.
    """
    box = {name: bounds_of(problem, name, bounds) for name, bounds in read_over(over).items()}
    own_activation, names_a = _function("activation_family", activation, problem.network.sigma, ("v",), box)
    if LOSS_SCALE in box:
        if loss is None and problem.loss_function.name == "squared":
            raise BadInput("over", "loss_scale does nothing to the squared loss")
        loss = _scaled(problem.loss if loss is None else loss)
    own_loss, names_l = _function("loss_family", loss, problem.loss_function, ("y", "f"), box)
    used = {*PER_NEURON, *names_a, *names_l}
    for name in box:
        if name not in used:
            raise BadInput(
                "over",
                f"{name} is neither second_layer, bias, loss_scale nor a parameter of activation_family or loss_family",
            )
    if activation is not None and not names_a:
        raise BadInput("activation_family", f"has none of the parameters {', '.join(box)} in it")
    if loss is not None and not names_l:
        raise BadInput("loss_family", f"has none of the parameters {', '.join(box)} in it")
    found = Family(problem, tuple(box), tuple(box.values()), own_activation, own_loss, names_a, names_l)
    found.member(found.values(found.given))  # so that a function that cannot be used is refused here
    return found


def default_box(problem: Problem, name: str) -> tuple[float, float] | None:
    """Bounds of a parameter that has natural ones."""
    if name == "second_layer":
        if np.all(problem.network.a > 0):
            return (0.05, 10.0)
        return (-10.0, -0.05) if np.all(problem.network.a < 0) else (-10.0, 10.0)
    return {"bias": (-3.0, 3.0), LOSS_SCALE: (0.1, 10.0)}.get(name)


def read_over(over: Any) -> dict[str, Any]:
    """{name: bounds, or None for the default ones}, of names, a mapping or text."""
    if isinstance(over, str):
        over = [part.strip() for part in over.split(",")]
        pairs = [part.partition("=") for part in over]
        return _distinct([(n.strip().replace("-", "_"), b.split(":") if eq else None) for n, eq, b in pairs])
    if isinstance(over, Mapping):
        return _distinct([(str(n), b) for n, b in over.items()])
    if isinstance(over, Iterable):
        return _distinct([(str(n), None) for n in over])
    raise BadInput("over", 'must be names, {name: (low, high)}, or text such as "second_layer=0.1:5,bias=-2:2"')


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if not found:
        raise BadInput("over", "names no parameter")
    if len(found) < len(pairs):
        raise BadInput("over", "names a parameter twice")
    for name in found:
        if not _NAME.fullmatch(name):
            raise BadInput("over", f"{name[:40]!r} is not a name")
        if name in ("v", "y", "f", "u", "z"):
            raise BadInput("over", f"{name} is a variable and cannot be a parameter")
    return found


def bounds_of(problem: Problem, name: str, given: Any) -> tuple[float, float]:
    """Bounds (low, high) as given, or those that are natural for the parameter."""
    if given is None:
        natural = default_box(problem, name)
        if natural is None:
            raise BadInput("over", f"{name} needs bounds, as in {name}=0.1:5")
        return natural
    try:
        low, high = (number("over", v) for v in given)
    except (TypeError, ValueError):
        raise BadInput("over", f"the bounds of {name} must be two finite numbers, as in {name}=0.1:5") from None
    if not low < high:
        raise BadInput("over", f"the bounds of {name} must increase, not {low:g}:{high:g}")
    return low, high


def _function(
    argument: str, given: Any, default: functions.ScalarFunction, variables: tuple[str, ...], box: Mapping[str, Any]
) -> tuple[Any, tuple[str, ...]]:
    """A function of (variables, parameters) and the names of its parameters."""
    free = [n for n in box if n not in PER_NEURON]
    if given is None:
        return default, ()
    if isinstance(given, str):
        words = set(_NAME.findall(given))
        names = tuple(n for n in free if n in words)
        function: Any = _Text(given, variables, names, argument)
        function.expression  # noqa: B018  (read now, so that a mistake is a sentence here)
        return function, names
    if callable(given):
        try:
            parameters = inspect.signature(given).parameters
        except (TypeError, ValueError):
            raise BadInput(argument, "must be a plain function whose parameters have names") from None
        names = tuple(n for n in free if n in parameters)
        return _Callable(given, names), names
    raise BadInput(argument, "must be text with the parameters' names in it, or a callable that takes them")


def _scaled(loss: Any) -> str:
    """The text of c^2 l(y/c, f/c)."""
    text = _NAMED_LOSSES.get(loss, loss) if isinstance(loss, str) else None
    if text is None or (isinstance(text, str) and re.fullmatch(r"[a-z_-]+", text)):
        raise BadInput("over", "loss_scale needs a smooth loss of the catalogue, or one written as an expression")
    inside = {n: f"({n}/{LOSS_SCALE})" for n in ("y", "f", "u")}
    return f"{LOSS_SCALE}^2*({_substituted(text, inside)})"
