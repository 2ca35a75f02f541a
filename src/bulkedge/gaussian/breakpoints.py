"""Where a function of a Gaussian variable is not smooth: quadrature must be split there (ANCHORS: kinks).

A JAX function is traced and replayed by a small interpreter that records the argument of every primitive with a kink
or a jump: x for |x| and sign(x), a - b for max, min and comparisons, the base of a root, the divisor of a quotient,
and so on. The zeros of these *switches* are where the function may not be smooth. A false alarm only costs nodes.
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
_CALLS = ("jaxpr", "call_jaxpr", "fun_jaxpr")


def switches(f: Callable[..., Any], *example: Any) -> Callable[..., Any]:
    """The switches of f as a traceable function of the same arguments, values of shape (number of switches,)."""
    closed = jax.make_jaxpr(f)(*example)

    def values(*args: Any) -> Any:
        found: list[Any] = []
        _replay(closed.jaxpr, closed.consts, jax.tree.leaves(args), found)
        real = [jnp.asarray(x, jnp.result_type(float)).reshape(()) for x in found if jnp.ndim(x) == 0]
        return jnp.stack(real) if real else jnp.zeros(0)

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
        inner = next((eqn.params[key] for key in _CALLS if key in eqn.params), None)
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
    elif name == "clamp":
        found.extend([inputs[1] - inputs[0], inputs[1] - inputs[2]])
    elif name == "div":
        found.append(inputs[1])
    elif name in {"floor", "ceil"}:
        found.append(jnp.sin(jnp.pi * inputs[0]))
    elif name == "round":
        found.append(jnp.cos(jnp.pi * inputs[0]))
    elif name == "rem":
        found.append(jnp.sin(jnp.pi * inputs[0] / inputs[1]))
    elif name == "pow" or (name == "integer_pow" and params["y"] < 0):
        found.append(inputs[0])


def zeros(values: Callable[[np.ndarray], np.ndarray], low: float, high: float, points: int = 2049) -> np.ndarray:
    """Sorted zeros in (low, high) of a vectorised family: values maps (n,) to (n, c), one column a function.

    Sign changes between neighbouring grid points are bisected; points where |value| touches zero without a sign
    change are found by shrinking around local minima. Zeros closer than the grid may be missed in pairs.
    """
    x = np.linspace(low, high, points) + 1e-7 * (high - low) * np.sin(np.arange(points))
    v = values(x)
    if v.shape[1] == 0:
        return np.zeros(0)
    v = np.where(np.isfinite(v), v, 1.0)
    roots = [x[i] for i, _ in zip(*np.nonzero(v == 0.0), strict=True) if np.all(np.abs(v[i]) < np.inf)]
    if np.any(v == 0.0):
        # A switch that vanishes on a stretch is no boundary.
        roots = [x[i] for i, c in zip(*np.nonzero(v == 0.0), strict=True) if np.count_nonzero(v[:, c] == 0.0) <= 8]
    i, c = np.nonzero(v[:-1] * v[1:] < 0)
    roots.extend(_bisect(values, x[i], x[i + 1], c))
    a = np.abs(v)
    i, c = np.nonzero((a[1:-1] < a[:-2]) & (a[1:-1] <= a[2:]) & (v[1:-1] * v[:-2] > 0) & (v[1:-1] * v[2:] > 0))
    if 0 < i.size <= 4096:
        roots.extend(_touch(values, x[i], x[i + 2], c, a.max(axis=0)[c]))
    return _distinct(np.asarray(sorted(roots)))


def _distinct(roots: np.ndarray) -> np.ndarray:
    return roots[np.concatenate([[True], np.diff(roots) > 1e-11])] if roots.size else roots


def _column(v: np.ndarray, c: np.ndarray) -> np.ndarray:
    return v[np.arange(c.size), c]


def _bisect(values: Callable[..., np.ndarray], low: np.ndarray, high: np.ndarray, c: np.ndarray) -> np.ndarray:
    if c.size == 0:
        return np.zeros(0)
    sign = np.sign(_column(values(low), c))
    for _ in range(60):
        middle = 0.5 * (low + high)
        left = np.sign(_column(values(middle), c)) == sign
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return 0.5 * (low + high)


def _touch(
    values: Callable[..., np.ndarray], low: np.ndarray, high: np.ndarray, c: np.ndarray, size: np.ndarray
) -> np.ndarray:
    ratio = 0.5 * (np.sqrt(5.0) - 1.0)
    for _ in range(70):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        left = np.abs(_column(values(a), c)) < np.abs(_column(values(b), c))
        low, high = np.where(left, low, a), np.where(left, b, high)
    middle = 0.5 * (low + high)
    return middle[np.abs(_column(values(middle), c)) < 1e-10 * size]
