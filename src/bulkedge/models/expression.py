"""Targets, activations and losses written as text: ``2*(abs(z) > 0.67449)``.

The text is read with Python's own grammar (``ast.parse``), copied node by node into a small immutable tree that can
only hold arithmetic, and that tree is evaluated.  The text itself is never compiled or run, so one from a stranger is
harmless: it becomes an :class:`Expression`, or :class:`BadInput` says in one line what to write instead.

* ``^`` and ``**`` both mean power.  The exponent is a constant with |p| <= 64, and whole exponents multiply, so that
  ``z^3`` is right for negative z.  A fractional power of a negative number is nan, as everywhere.
* A comparison is 1 or 0, in the dtype of the inputs; ``a < b < c`` means both.  ``and``, ``or``, ``not`` take
  everything but 0 as true and give 1 or 0.
* ``where(cond, a, b)`` is ``jnp.where``: the branch not taken never reaches the value, and its derivative is multiplied
  by zero.  A derivative that is infinite there still gives 0 * inf = nan, so write
  ``where(z > 0, sqrt(max(z, 1e-9)), 0)`` and not ``where(z > 0, sqrt(z), 0)``.
* ``he1`` .. ``he6`` are the probabilists' Hermite polynomials, not normalised (He2 = z^2 - 1, E[He_k^2] = k!), and
  ``gelu`` is the exact z Phi(z), not its tanh approximation.
* Constants are folded when the text is read, in double precision, so that an overflow is a sentence and not a nan.
"""

from __future__ import annotations

import ast
import difflib
import math
import operator
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, reduce
from typing import Any, NoReturn

from bulkedge.foundation.errors import BadInput

MAX_LENGTH = 2000
MAX_DEPTH = 50
MAX_POWER = 64
MAX_CONSTANT = 1e30  # far from the end of single precision, in which big simulations run


# --- the tree -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Number:
    value: float


@dataclass(frozen=True, slots=True)
class Variable:
    name: str


@dataclass(frozen=True, slots=True)
class Power:
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
            return jnp.full(shape, _evaluate(self.tree, {}, float, _FLOAT), dtype)
        return _evaluate(self.tree, used, dtype.type, _array_operations())

    def __str__(self) -> str:
        return _write(self.tree)[0]


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
_COMPARISONS = dict(zip(("<", "<=", ">", ">=", "==", "!="), _ORDER, strict=True))
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
_FLOAT: dict[str, Callable[..., float]] = {
    **_ARITHMETIC,
    **{op: lambda a, b, test=test: float(test(a, b)) for op, test in _COMPARISONS.items()},
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
_ARITY = {"min": (2, math.inf), "max": (2, math.inf), "where": (3, 3)}  # all others take one argument


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
        **{op: indicator(test) for op, test in _COMPARISONS.items()},
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


# --- writing ----------------------------------------------------------------------------------------------------------

_OR, _AND, _NOT, _COMPARE, _SUM, _PRODUCT, _MINUS, _POWER, _ATOM = range(9)  # how tightly each form binds


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


# --- reading ----------------------------------------------------------------------------------------------------------

_SUMS = {ast.Add: "+", ast.Sub: "-"}
_PRODUCTS = {ast.Mult: "*", ast.Div: "/"}
_COMPARE_OPS = dict(zip((ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq), _COMPARISONS, strict=True))

_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ \t\r\n+-*/^()<>=!.,")
_INSTEAD_OF_CHARACTER = {
    **dict.fromkeys("[]", "there are no lists and no subscripts; the variables are named z1, z2 and so on"),
    **dict.fromkeys("{}", "there are no sets and no dictionaries; group with ( and )"),
    **dict.fromkeys("'\"", "there are no strings in an expression"),
    ":": "there is no lambda, slice or assignment; write the formula itself",
    "@": "everything is elementwise; write * for a product",
    "%": "there is no remainder; write sin or cos for something periodic",
    "&": "write and, or multiply the comparisons",
    "|": "write or between comparisons, and abs(z) for |z|",
    "~": "write not",
    **dict.fromkeys("π", "write pi"),
    **dict.fromkeys("·×∗", "write *"),
    "÷": "write /",
    **dict.fromkeys("−–—", "write -"),
    **dict.fromkeys("²³", "write ^2 or ^3"),
    "√": "write sqrt(z)",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
}
_INSTEAD_OF_NODE = {
    ast.Attribute: "attribute access with a dot is not part of an expression; write the bare function, as in tanh(z)",
    ast.IfExp: "if ... else is not part of an expression; use where(condition, a, b)",
    ast.Tuple: "a comma only separates the arguments of a function; write decimals with a point, as in 0.5",
    ast.Starred: "a star before an argument is not part of an expression; write the arguments out",
}
_INSTEAD_OF_NAME = {"ln": "log", "atan": "arctan", "maximum": "max", "minimum": "min", "fabs": "abs", "sgn": "sign"}


def parse(text: str, variables: Sequence[str], argument: str = "target") -> Expression:
    """Read ``text`` as an expression in ``variables``; BadInput names ``argument`` when it is not one."""
    reader = _Reader(tuple(variables), argument)
    tree = reader.read(reader.syntax(text), MAX_DEPTH)
    expression = Expression(tree, frozenset(reader.used), " ".join(text.split()))
    if len(str(expression)) > MAX_LENGTH:  # its constants are written out, and str() must be readable again
        reader.refuse(f"the expression is too long: at most {MAX_LENGTH} characters with its constants written out")
    return expression


class _Reader:
    """From Python's syntax tree to ours, refusing with one line whatever is not arithmetic."""

    def __init__(self, variables: tuple[str, ...], argument: str) -> None:
        self.variables, self.argument, self.used = variables, argument, set[str]()

    def refuse(self, message: str) -> NoReturn:
        raise BadInput(self.argument, message) from None

    def syntax(self, text: str) -> ast.expr:
        """Python's tree of the text, after every check that keeps Python's parser from harm."""
        if not isinstance(text, str):
            self.refuse(f"an expression is a text such as 'tanh({self._example()})', not {type(text).__name__}")
        if len(text) > MAX_LENGTH:
            self.refuse(f"the expression is too long: {len(text)} characters, at most {MAX_LENGTH}")
        if not text.strip():
            self.refuse(f"the expression is empty; write for example tanh({self._example()})")
        for character in text:
            if character not in _CHARACTERS:
                instead = _INSTEAD_OF_CHARACTER.get(character, "use plain letters, digits and + - * / ^ ( ) < > = , .")
                self.refuse(f"the character {character!a} cannot be used: {instead}")
        depth = 0
        for character in text:
            depth += (character == "(") - (character == ")")
            if depth > MAX_DEPTH:
                self._too_deep()
        source = " ".join(text.split()).replace("^", "**")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Python remarks on "1and z"
                return ast.parse(source, mode="eval").body
        except SyntaxError as error:
            self._not_syntax(source, error)
        except (ValueError, MemoryError, RecursionError):
            self._too_deep()

    def read(self, node: ast.expr, depth: int) -> Node:
        if depth <= 0:
            self._too_deep()
        depth -= 1
        match node:
            case ast.Constant(value):
                return self._literal(value)
            case ast.Name(name):
                return self._name(name)
            case ast.UnaryOp(ast.UAdd(), operand):
                return self.read(operand, depth)
            case ast.UnaryOp(ast.USub() | ast.Not() as op, operand):
                return self._fold(Call("neg" if isinstance(op, ast.USub) else "not", (self.read(operand, depth),)))
            case ast.BinOp(base, ast.Pow(), exponent):
                return self._power(self.read(base, depth), self.read(exponent, depth))
            case ast.BinOp(op=op) if type(op) in _SUMS:
                return self._chain(node, _SUMS, depth)
            case ast.BinOp(op=op) if type(op) in _PRODUCTS:
                return self._chain(node, _PRODUCTS, depth)
            case ast.BinOp():
                self.refuse("the operators are + - * / and ^ ; // % @ << >> and the bitwise ones are not available")
            case ast.BoolOp(op, operands):
                name = "and" if isinstance(op, ast.And) else "or"
                return self._fold(Call(name, tuple(self.read(operand, depth) for operand in operands)))
            case ast.Compare(left, ops, sides):
                if any(type(op) not in _COMPARE_OPS for op in ops):
                    self.refuse("the comparisons are < <= > >= == and != ; is and in are not available")
                rest = ((_COMPARE_OPS[type(op)], self.read(side, depth)) for op, side in zip(ops, sides, strict=True))
                return self._fold(Compare(self.read(left, depth), tuple(rest)))
            case ast.Call():
                return self._call(node, depth)
        kind = type(node).__name__
        self.refuse(_INSTEAD_OF_NODE.get(type(node), f"only arithmetic is allowed; this contains Python's {kind}"))

    def _literal(self, value: object) -> Number:
        if type(value) not in (int, float):
            what = repr(value) if value in (True, False, None) else f"a {type(value).__name__}"
            self.refuse(f"{what} is not a real number; write 1 or 0 for true or false, and numbers such as 0.5")
        try:
            return self._bounded(float(value))
        except OverflowError:
            self._bounded(math.inf)

    def _name(self, name: str) -> Node:
        if name in self.variables:
            self.used.add(name)
            return Variable(name)
        if name == "pi":
            return Number(math.pi)
        if name in FUNCTIONS:
            self.refuse(f"{name} is a function and needs its argument, as in {name}({self._example()})")
        near = "; Euler's number is exp(1)" if name == "e" else self._nearest(name)
        self.refuse(f"unknown name {_short(name)}{near}; known here are {', '.join((*self.variables, 'pi'))}")

    def _chain(self, node: ast.expr, ops: dict[type[ast.operator], str], depth: int) -> Node:
        # Down the left spine in a loop, not by recursion: z+z+...+z is as deep as it is long in Python's tree.
        steps = []
        while isinstance(node, ast.BinOp) and type(node.op) in ops:
            steps.append((ops[type(node.op)], node.right))
            node = node.left
        first, rest = self.read(node, depth), []
        for op, right in reversed(steps):
            operand = self.read(right, depth)
            if op == "/" and operand == Number(0.0):
                self.refuse("there is a division by zero")
            if isinstance(first, Number) and not rest:
                first = self._fold(Chain(first, ((op, operand),)))
                if isinstance(first, Chain):
                    first, rest = first.first, [(op, operand)]
            else:
                rest.append((op, operand))
        return Chain(first, tuple(rest)) if rest else first

    def _power(self, base: Node, exponent: Node) -> Node:
        if not isinstance(exponent, Number):
            self.refuse("an exponent must be a constant, as in z^2; for a power that varies write exp(z*log(2))")
        if abs(exponent.value) > MAX_POWER:
            self.refuse(
                f"the exponent {exponent.value:g} is too large; it must lie between -{MAX_POWER} and {MAX_POWER}"
            )
        return self._fold(Power(base, exponent.value))

    def _call(self, node: ast.Call, depth: int) -> Node:
        if not isinstance(node.func, ast.Name):
            what = _INSTEAD_OF_NODE[ast.Attribute] if isinstance(node.func, ast.Attribute) else "a product needs *"
            self.refuse(f"only a function such as tanh can stand before brackets: {what}")
        name = node.func.id
        if name not in FUNCTIONS:
            if name in self.variables or name == "pi":
                self.refuse(f"{name} is not a function; a product needs *, as in {name}*(...)")
            near = self._nearest(name, FUNCTIONS) or f"; the functions are {', '.join(sorted(FUNCTIONS))}"
            self.refuse(f"unknown function {_short(name)}{near}")
        if node.keywords:
            self.refuse(f"{name} takes no keyword arguments; write its arguments in order")
        low, high = _ARITY.get(name, (1, 1))
        if not low <= len(node.args) <= high:
            takes = "1 argument" if high == 1 else f"{low} arguments" if low == high else f"{low} or more arguments"
            self.refuse(f"{name} takes {takes}, not {len(node.args)}")
        return self._fold(Call(name, tuple(self.read(arg, depth) for arg in node.args)))

    def _fold(self, node: Node) -> Node:
        """The node, or the number it is when everything under it is one."""
        match node:
            case Power(base, _):
                children = (base,)
            case Call(_, args):
                children = args
            case Chain(first, rest) | Compare(first, rest):
                children = (first, *(child for _, child in rest))
        if not all(isinstance(child, Number) for child in children):
            return node
        try:
            return self._bounded(float(_evaluate(node, {}, float, _FLOAT)))
        except (ArithmeticError, ValueError):  # exp(1000), log(0), sqrt(-1)
            self.refuse(f"the constant {_short(_write(node)[0])} is not a finite real number")

    def _bounded(self, value: float) -> Number:
        if not abs(value) <= MAX_CONSTANT:
            self.refuse(f"a constant in the expression is too large; constants go up to {MAX_CONSTANT:g}")
        return Number(value)

    def _example(self) -> str:
        return self.variables[0] if self.variables else "1"

    def _nearest(self, name: str, known: Iterable[str] = ()) -> str:
        known = sorted(known or {*self.variables, "pi", *FUNCTIONS})
        alias = _INSTEAD_OF_NAME.get(name)
        near = [alias] if alias else difflib.get_close_matches(name.lower()[:40], known, n=3)
        return f", did you mean {' or '.join(near)}?" if near else ""

    def _too_deep(self) -> NoReturn:
        self.refuse(f"the expression is nested too deeply; at most {MAX_DEPTH} levels")

    def _not_syntax(self, source: str, error: SyntaxError) -> NoReturn:
        rest = source[max((error.offset or 1) - 1, 0) :].replace("**", "^")
        where = f"near {_short(rest)!r}" if rest.strip() else "where it ends"
        opening, closing = source.count("("), source.count(")")
        plain = re.sub(r"\b(and|or|not)\b", "+", re.sub(r"\b[\d.]+[eE][-+]?\d+", "1", source))
        if re.search(r"(?<![<>=!])=(?!=)", source):
            reason = "write == to compare"
        elif opening != closing:
            reason = f"it has {opening} opening and {closing} closing brackets"
        elif re.search(r"\b\d[\d.]*[a-zA-Z_]|\) ?[\w.]|[\w.] [\w.]", plain):
            reason = "is an operator missing? a product needs *, as in 2*z"
        else:
            reason = "an operator or an operand is missing or misplaced"
        self.refuse(f"this is not a complete expression {where}: {reason}")


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
