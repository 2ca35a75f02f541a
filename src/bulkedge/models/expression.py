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
import re
import warnings
from collections.abc import Iterable, Sequence
from typing import NoReturn

from bulkedge.foundation.errors import BadInput
from bulkedge.models.tree import (
    ARITY,
    COMPARISONS,
    FUNCTIONS,
    Call,
    Chain,
    Compare,
    Expression,
    Node,
    Number,
    Power,
    Variable,
    constant,
    written,
)

__all__ = ["Expression", "parse"]

MAX_LENGTH = 2000
MAX_DEPTH = 50
MAX_POWER = 64
MAX_CONSTANT = 1e30
"""Far from the end of single precision, in which big simulations run."""

_SUMS = {ast.Add: "+", ast.Sub: "-"}
_PRODUCTS = {ast.Mult: "*", ast.Div: "/"}
_COMPARE_OPS: dict[type[ast.cmpop], str] = dict(
    zip((ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq), COMPARISONS, strict=True)
)

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


def is_name(text: str, variables: Sequence[str]) -> bool:
    """Whether a text is meant as a name of a catalogue (phase-retrieval) and not as a difference (z-e)."""
    parts = text.strip().replace("_", "-").split("-")
    return all(part.isalnum() and part not in variables for part in parts)


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
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            what = repr(value) if value in (True, False, None) else f"a {type(value).__name__}"
            self.refuse(f"{what} is not a real number; write 1 or 0 for true or false, and numbers such as 0.5")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        return self._bounded(number)

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
        low, high = ARITY.get(name, (1, 1))
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
            case _:
                return node
        if not all(isinstance(child, Number) for child in children):
            return node
        try:
            value = constant(node)
        except (ArithmeticError, ValueError):  # exp(1000), log(0), sqrt(-1)
            self.refuse(f"the constant {_short(written(node))} is not a finite real number")
        return self._bounded(value)

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
