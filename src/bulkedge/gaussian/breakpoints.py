"""Where a function of a Gaussian variable is not smooth: quadrature must be split there (ANCHORS: kinks).

A JAX function is traced and replayed by a small interpreter that records the argument of every primitive with a kink
or a jump: x for |x| and sign(x), a - b for max, min and comparisons, the base of a root, the divisor of a quotient,
and so on (loops and `cond` are not looked into). The zeros of these *switches* are where the function may not be
smooth. A false alarm only costs nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

_COMPARE = {"max", "min", "gt", "ge", "lt", "le"}
_SELF = {"abs", "sign", "sqrt", "rsqrt", "log", "cbrt"}
_EXTREMES = {"reduce_max", "reduce_min", "argmax", "argmin", "sort", "cummax", "cummin"}
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")
_LOOPS = {"scan", "while", "cond"}  # their bodies do not take the equation's own inputs: run whole, not looked into


def switches(f: Callable[..., Any], *example: Any) -> Callable[..., Any]:
    """The switches of f as a traceable function of the same arguments, values of shape (number of switches,)."""
    closed = jax.make_jaxpr(f)(*example)

    def values(*args: Any) -> Any:
        found: list[Any] = []
        _replay(closed.jaxpr, closed.consts, jax.tree.leaves(args), found)
        return jnp.concatenate([jnp.asarray(x, float).ravel() for x in found]) if found else jnp.zeros(0)

    return values


def _replay(jaxpr: Any, consts: Any, args: Any, found: list[Any]) -> list[Any]:
    env: dict[Any, Any] = dict(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(v: Any) -> Any:
        return v.val if isinstance(v, core.Literal) else env[v]

    for eqn in jaxpr.eqns:
        inputs = [read(v) for v in eqn.invars]
        name = eqn.primitive.name
        _record(name, eqn.params, inputs, found)
        inner = next((eqn.params[key] for key in _CALLS if key in eqn.params and name not in _LOOPS), None)
        if inner is not None and hasattr(inner, "jaxpr"):
            outputs = _replay(inner.jaxpr, inner.consts, inputs, found)
        elif inner is not None and hasattr(inner, "eqns"):
            outputs = _replay(inner, (), inputs, found)
        else:
            bound = eqn.primitive.bind(*inputs, **eqn.params)
            outputs = bound if eqn.primitive.multiple_results else [bound]
        env.update(zip(eqn.outvars, outputs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def _record(name: str, params: dict[str, Any], inputs: list[Any], found: list[Any]) -> None:
    if name in _SELF:
        found.append(inputs[0])
    elif name in _COMPARE and not jnp.issubdtype(jnp.result_type(inputs[0]), jnp.bool_):
        found.append(jnp.subtract(*inputs))
    elif name in _EXTREMES:
        flat = jnp.ravel(inputs[0])
        i, j = np.triu_indices(flat.size, 1)
        found.append(flat[i] - flat[j])
    elif name == "clamp":
        found.extend([inputs[1] - inputs[0], inputs[1] - inputs[2]])
    elif name == "div":
        found.append(inputs[1])
    elif name == "log1p":
        found.append(1.0 + inputs[0])
    elif name == "tan":
        found.append(jnp.cos(inputs[0]))
    elif name in {"acos", "asin", "acosh", "atanh"}:
        found.append(1.0 - inputs[0] * inputs[0])
    elif name in {"floor", "ceil"}:
        found.append(jnp.sin(jnp.pi * inputs[0]))
    elif name == "round":
        found.append(jnp.cos(jnp.pi * inputs[0]))
    elif name == "rem":
        found.append(jnp.sin(jnp.pi * inputs[0] / inputs[1]))
    elif name == "pow" or (name == "integer_pow" and params["y"] < 0):
        found.append(inputs[0])


Switches = Callable[[np.ndarray], np.ndarray]
"""Points (n, d) to the values (n, c) of c switches."""


def zeros_along(switch: Switches, axis: int, bases: np.ndarray, reach: float, points: int = 2049) -> list[np.ndarray]:
    """Sorted zeros in (-reach, reach) of the switches along `axis`, one array for each line through `bases` (L, d).

    Sign changes between neighbouring grid points are bisected; points where |value| touches zero without a sign
    change are found by shrinking around local minima. Zeros closer than the grid may be missed in pairs. A switch that
    vanishes on a stretch is no boundary there.
    """
    x = np.linspace(-reach, reach, points) + 2e-7 * reach * np.sin(np.arange(points))
    lines = [np.empty(0, int)]
    roots = [np.empty(0)]
    for start in range(0, len(bases), _LINES_AT_ONCE):
        part = bases[start : start + _LINES_AT_ONCE]
        grid = np.repeat(part[:, None, :], points, axis=1)
        grid[:, :, axis] = x
        v = switch(grid.reshape(-1, grid.shape[-1])).reshape(len(part), points, -1)
        v = np.where(np.isfinite(v), v, 1.0)
        line, i, c = np.nonzero((v == 0.0) & (np.count_nonzero(v == 0.0, axis=1) <= 8)[:, None, :])
        lines.append(start + line)
        roots.append(x[i])
        line, i, c = np.nonzero(v[:, :-1] * v[:, 1:] < 0)
        lines.append(start + line)
        roots.append(_bisect(_on_lines(switch, axis, part[line], c), x[i], x[i + 1]))
        a = np.abs(v)
        dip = (a[:, 1:-1] < a[:, :-2]) & (a[:, 1:-1] <= a[:, 2:])
        dip &= (v[:, 1:-1] * v[:, :-2] > 0) & (v[:, 1:-1] * v[:, 2:] > 0)
        line, i, c = np.nonzero(dip)
        value = _on_lines(switch, axis, part[line], c)
        middle = lowest(value, x[i], x[i + 2])
        touches = np.abs(value(middle)) < 1e-10 * a.max(axis=1)[line, c]
        lines.append(start + line[touches])
        roots.append(middle[touches])
    line, root = np.concatenate(lines), np.concatenate(roots)
    return [_distinct(np.sort(root[line == i])) for i in range(len(bases))]


_LINES_AT_ONCE = 64


def _distinct(roots: np.ndarray) -> np.ndarray:
    return roots[np.concatenate([[True], np.diff(roots) > 1e-11])] if roots.size else roots


def _on_lines(switch: Switches, axis: int, bases: np.ndarray, c: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """The value of switch c_i on line i at the coordinate x_i, for all i at once."""
    n = c.size
    points = np.zeros((1 << max(6, (n - 1).bit_length()), bases.shape[1]))  # few sizes: each is compiled once
    points[:n] = bases

    def value(x: np.ndarray) -> np.ndarray:
        points[:n, axis] = x
        return switch(points)[np.arange(n), c]

    return value


def _bisect(value: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> np.ndarray:
    if low.size == 0:
        return low
    sign = np.sign(value(low))
    for _ in range(56):
        middle = 0.5 * (low + high)
        left = np.sign(value(middle)) == sign
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return 0.5 * (low + high)


def lowest(value: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray, steps: int = 45) -> np.ndarray:
    """The minima of |value| between low and high, by the golden section: each step leaves 0.618 of the interval."""
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    for _ in range(steps if low.size else 0):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        left = np.abs(value(a)) < np.abs(value(b))
        low, high = np.where(left, low, a), np.where(left, b, high)
    return 0.5 * (low + high)
