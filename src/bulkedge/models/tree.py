"""Expressions as small immutable trees that hold arithmetic and nothing else: evaluated, and written back as text."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import Any


@dataclass(frozen=True, slots=True)
class Number:
    """A constant."""

    value: float


@dataclass(frozen=True, slots=True)
class Variable:
    """One of the variables the text may use."""

    name: str


@dataclass(frozen=True, slots=True)
class Power:
    """A power with a constant exponent."""

    base: Node
    exponent: float


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the table, or one of the operators ``neg``, ``not``, ``and``, ``or``."""

    name: str
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Chain:
    """``first op a op b ...`` from left to right, with + and -, or * and /.  Flat, so a long sum is not a deep tree."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


@dataclass(frozen=True, slots=True)
class Compare:
    """``first < a < b ...``: 1 where every neighbouring pair compares true, else 0."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


Node = Number | Variable | Power | Call | Chain | Compare


@dataclass(frozen=True)
class Expression:
    """A checked expression: call it with values for its ``names``; it is elementwise and JAX-traceable.

    Values it does not use are ignored, and the result has the common float dtype of those it does use.  Two expressions
    are equal when their trees are, however they were typed; ``text`` is as typed, ``str()`` the canonical form.
    """

    tree: Node
    names: frozenset[str]
    text: str = field(compare=False)

    def __call__(self, **values: Any) -> Any:
        import jax.numpy as jnp  # here, so that reading an expression does not wait for JAX

        missing = sorted(self.names - values.keys())
        if missing:
            raise TypeError(f"the expression {self} needs a value for {', '.join(missing)}")
        used = {name: values[name] for name in self.names or values}
        # One strong dtype for variables and constants alike: a weakly typed where(z > 0, 1, -1) of float32 would
        # otherwise come out as float64 under x64.
        dtype = jnp.result_type(*used.values(), float)
        used = {name: jnp.asarray(value, dtype) for name, value in used.items()}
        if not self.names:
            shape = jnp.broadcast_shapes(*(jnp.shape(value) for value in used.values()))
            return jnp.full(shape, constant(self.tree), dtype)
        return _evaluate(self.tree, used, dtype.type, _array_operations())

    def __str__(self) -> str:
        return written(self.tree)


# --- evaluation: one walk, two tables ---------------------------------------------------------------------------------


def _evaluate(node: Node, values: Mapping[str, Any], number: Callable[[float], Any], table: Mapping[str, Any]) -> Any:
    def value(child: Node) -> Any:
        return _evaluate(child, values, number, table)

    match node:
        case Number(constant):
            return number(constant)
        case Variable(name):
            return values[name]
        case Power(base, exponent):
            return table["^"](value(base), exponent)
        case Call(name, args):
            return table[name](*map(value, args))
        case Chain(first, rest):
            return reduce(lambda total, step: table[step[0]](total, value(step[1])), rest, value(first))
        case Compare(first, rest):
            sides = [value(first), *(value(side) for _, side in rest)]
            truths = (table[op](a, b) for (op, _), a, b in zip(rest, sides, sides[1:], strict=False))
            return reduce(operator.mul, truths)


_ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "neg": operator.neg}
_ORDER = operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne
COMPARISONS = dict(zip(("<", "<=", ">", ">=", "==", "!="), _ORDER, strict=True))
_PLAIN = "sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log1p", "sqrt"
_HERMITE = {
    "he1": lambda x: x,
    "he2": lambda x: x * x - 1,
    "he3": lambda x: x * (x * x - 3),
    "he4": lambda x: x * x * (x * x - 6) + 3,
    "he5": lambda x: x * (x * x * (x * x - 10) + 15),
    "he6": lambda x: x * x * (x * x * (x * x - 15) + 45) - 15,
}


def _sigmoid(x: float) -> float:
    return 0.5 * (1 + math.tanh(0.5 * x))


# Python floats, for constants.
_FLOAT: dict[str, Callable[..., Any]] = {
    **_ARITHMETIC,
    **{op: lambda *sides, test=test: float(test(*sides)) for op, test in COMPARISONS.items()},
    "^": math.pow,
    "not": lambda a: float(a == 0),
    "and": lambda *args: float(all(a != 0 for a in args)),
    "or": lambda *args: float(any(a != 0 for a in args)),
    **_HERMITE,
    **{name: getattr(math, name) for name in (*_PLAIN, "erf")},
    "arctan": math.atan,
    "abs": abs,
    "sign": lambda x: float((x > 0) - (x < 0)),
    "min": min,
    "max": max,
    "where": lambda cond, a, b: a if cond != 0 else b,
    "relu": lambda x: max(x, 0.0),
    "sigmoid": _sigmoid,
    "softplus": lambda x: max(x, 0.0) + math.log1p(math.exp(-abs(x))),
    "gelu": lambda x: 0.5 * x * math.erfc(-x / math.sqrt(2)),
    "swish": lambda x: x * _sigmoid(x),
    "silu": lambda x: x * _sigmoid(x),
}
FUNCTIONS = frozenset(name for name in _FLOAT if name.isidentifier()) - {"neg", "not", "and", "or"}
ARITY = {"min": (2, math.inf), "max": (2, math.inf), "where": (3, 3)}  # all others take one argument


@cache
def _array_operations() -> dict[str, Callable[..., Any]]:
    """The same table for JAX arrays."""
    import jax
    import jax.numpy as jnp

    def indicator(test: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: jnp.asarray(test(*args), jnp.result_type(*args))

    def power(x: Any, p: float) -> Any:
        return jax.lax.integer_pow(x, int(p)) if p.is_integer() else jnp.power(x, p)

    return {
        **_ARITHMETIC,
        **{op: indicator(test) for op, test in COMPARISONS.items()},
        "^": power,
        "not": indicator(lambda a: a == 0),
        "and": indicator(lambda *args: reduce(jnp.logical_and, (a != 0 for a in args))),
        "or": indicator(lambda *args: reduce(jnp.logical_or, (a != 0 for a in args))),
        **_HERMITE,
        **{name: getattr(jnp, name) for name in (*_PLAIN, "arctan", "abs", "sign")},
        **{name: getattr(jax.nn, name) for name in ("relu", "sigmoid", "softplus", "swish", "silu")},
        "erf": jax.lax.erf,
        "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "min": lambda *args: reduce(jnp.minimum, args),
        "max": lambda *args: reduce(jnp.maximum, args),
        "where": lambda cond, a, b: jnp.where(cond != 0, a, b),
    }


def constant(node: Node) -> float:
    """The value of a tree without variables, in double precision; ArithmeticError or ValueError where it has none."""
    return float(_evaluate(node, {}, float, _FLOAT))


# --- writing ----------------------------------------------------------------------------------------------------------

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _MINUS, _POWER, _ATOM = range(9)  # how tightly each form binds


def written(node: Node) -> str:
    """The canonical text of a tree."""
    return _write(node)[0]


def _write(node: Node) -> tuple[str, int]:
    """The text of a tree and how tightly its outermost operation binds; no bracket that is not needed."""

    def at_least(level: int, child: Node) -> str:
        text, binds = _write(child)
        return text if binds >= level else f"({text})"

    match node:
        case Number(value):
            text = "pi" if value == math.pi else repr(value).removesuffix(".0")
            return text, _MINUS if text.startswith("-") else _ATOM
        case Variable(name):
            return name, _ATOM
        case Power(base, exponent):
            return f"{at_least(_ATOM, base)}^{_write(Number(exponent))[0]}", _POWER
        case Call("neg", (arg,)):
            return "-" + at_least(_MINUS, arg), _MINUS
        case Call("not", (arg,)):
            return "not " + at_least(_NOT, arg), _NOT
        case Call(("and" | "or") as name, args):
            level = _AND if name == "and" else _OR
            return f" {name} ".join(at_least(level + 1, arg) for arg in args), level
        case Call(name, args):
            return f"{name}({','.join(_write(arg)[0] for arg in args)})", _ATOM
        case Chain(first, rest) | Compare(first, rest):
            level = _COMPARE if isinstance(node, Compare) else _SUM if rest[0][0] in "+-" else _PRODUCT
            return at_least(level + 1, first) + "".join(op + at_least(level + 1, arg) for op, arg in rest), level
