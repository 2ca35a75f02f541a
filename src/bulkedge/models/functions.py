"""Activations, losses and links as hashable, traceable functions of scalars.

A function comes from the catalogue, from an expression, or from a JAX-traceable callable. Its derivatives
come from automatic differentiation; whether it is smooth enough for them is checked here, numerically, so that
a kink is refused or handled on purpose (theory 1.2, 1.5) and never ignored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.foundation.checks import hashable
from bulkedge.foundation.errors import BadInput, unknown_name
from bulkedge.models.expression import is_name, parse


def _huber(y: Any, f: Any) -> Any:
    u = jnp.abs(f - y)
    c = jnp.minimum(u, 1.0)
    return 0.5 * c * c + (u - c)


ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": lambda v: jax.nn.gelu(v, approximate=False),
    "relu": jax.nn.relu,
    "leaky-relu": lambda v: jnp.where(v > 0, v, 0.01 * v),
    "abs": jnp.abs,
    "swish": lambda v: v * jax.nn.sigmoid(v),
    "tanh": jnp.tanh,
    "erf": jax.scipy.special.erf,
    "sigmoid": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
    "quad": lambda v: v * v,
    "he2": lambda v: v * v - 1.0,
    "he3": lambda v: v * (v * v - 3.0),
}
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "squared": lambda y, f: 0.5 * (f - y) ** 2,
    "logistic": lambda y, f: jax.nn.softplus(-y * f),
    "pseudo-huber": lambda y, f: jnp.sqrt(1.0 + (f - y) ** 2) - 1.0,
    "huber": _huber,
}


@dataclass(frozen=True)
class ScalarFunction:
    """A named function of scalars; equal if made from the same text, or from the same callable."""

    name: str
    call: Callable[..., Any] = field(compare=False, repr=False)
    key: Any = None

    def __call__(self, *args: Any) -> Any:
        return self.call(*args)


def resolve(
    argument: str, given: Any, catalogue: Mapping[str, Callable[..., Any]], variables: tuple[str, ...], parameters: int
) -> ScalarFunction:
    """A catalogue name (`-` and `_` alike), an expression in `variables`, or a callable.

    The first `parameters` variables are the function's arguments in order.
    """
    if isinstance(given, ScalarFunction):
        return given
    if isinstance(given, str):
        name = given.strip().lower().replace("_", "-")
        if name in catalogue:
            return ScalarFunction(name, catalogue[name], ("catalogue", argument, name))
        if is_name(given, variables):
            raise unknown_name(argument, given.strip(), catalogue)
        expression = parse(given, variables, argument)
        needed = {"f", "u"} if parameters == 2 else set(variables)
        if not expression.names & needed:
            raise BadInput(argument, f"does not depend on {'f' if parameters == 2 else variables[0]}")
        return ScalarFunction(given, _from_expression(expression, variables, parameters), ("text", argument, given))
    if callable(given):
        hashable(argument, given)
        return ScalarFunction(getattr(given, "__name__", type(given).__name__), given, ("callable", given))
    raise BadInput(argument, "must be a name, an expression or a JAX-traceable callable")


def _from_expression(expression: Any, variables: tuple[str, ...], parameters: int) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        values = dict(zip(variables[:parameters], args, strict=True))
        if parameters == 1:
            values.update(dict.fromkeys(variables[1:], args[0]))
        elif "u" in variables:
            values["u"] = args[1] - args[0]
        return jnp.asarray(expression(**{k: v for k, v in values.items() if k in expression.names})) + 0.0 * args[0]

    return call


def activation(given: Any) -> ScalarFunction:
    """An activation v -> s(v), continuous."""
    return _activation_of(given) if isinstance(given, (str, ScalarFunction)) else _activation(given)


def _activation(given: Any) -> ScalarFunction:
    f = resolve("activation", given, ACTIVATIONS, ("v", "z"), 1)
    _check_scalar("activation", f, 1)
    if (jump := derivative_jump(f, order=0)) is not None:
        raise BadInput("activation", f"jumps at v = {jump:.4g}; an activation must be continuous")
    return f


def loss(given: Any) -> ScalarFunction:
    """A loss (y, f) -> number; in expressions u stands for f - y."""
    return _loss_of(given) if isinstance(given, (str, ScalarFunction)) else _loss(given)


def _loss(given: Any) -> ScalarFunction:
    f = resolve("loss", given, LOSSES, ("y", "f", "u"), 2)
    _check_scalar("loss", f, 2)
    for order, what in ((0, "it"), (1, "its slope")):
        for y in (-1.0, 0.7):
            if (jump := derivative_jump(lambda v, y=y: f(jnp.asarray(y), v), order)) is not None:
                place = f"at f = {jump:.4g} (y = {y:g})"
                raise BadInput("loss", f"{what} jumps {place}; a loss must have a continuous derivative")
    return f


# Text is checked once: compiling the checks takes longer than all else.
_activation_of = functools.lru_cache(maxsize=256)(_activation)
_loss_of = functools.lru_cache(maxsize=256)(_loss)


def _check_scalar(argument: str, f: ScalarFunction, parameters: int) -> None:
    try:
        out = jax.eval_shape(f, *(jax.ShapeDtypeStruct((), jnp.float32),) * parameters)
    except Exception as error:
        raise not_traceable(argument, error) from None
    if getattr(out, "shape", None) != () or not jnp.issubdtype(out.dtype, jnp.floating):
        raise BadInput(argument, "must return one real number")


def not_traceable(argument: str, error: BaseException | None) -> BadInput:
    """What to write instead of NumPy, or else JAX's own first line."""
    if isinstance(error, (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)):
        said = "write it with jax.numpy in place of numpy and math, and jax.numpy.where in place of if"
    else:
        said = (str(error).splitlines() or [""])[0][:120]
    return BadInput(argument, f"cannot be traced by JAX: {said}")


@functools.lru_cache(maxsize=256)
def slope_jump(f: ScalarFunction) -> float | None:
    """Where the slope of a function of one variable jumps; None if it does not."""
    return derivative_jump(f, order=1)


def derivative_jump(f: Callable[[Any], Any], order: int, reach: float = 8.0) -> float | None:
    """Where the derivative of the given order (0 or 1) of f jumps on [-reach, reach]; None if it does not.

    A jump of size J in f^(order) shows as a difference J over an arbitrarily short interval. Candidates are the
    points where it changes most over a fine grid; each is then examined by bisection down to 1e-9.
    """
    with jax.enable_x64(True):
        g = f if order == 0 else jax.grad(lambda v: f(v).sum())
        value = jax.jit(jax.vmap(g))

        def evaluate(x: np.ndarray) -> np.ndarray:
            return np.asarray(value(jnp.asarray(x, jnp.float64)))

        edges = np.linspace(-reach, reach, 4097) + 1.234567e-4
        left, right = edges[:-1], edges[1:]
        vl, vr = evaluate(left), evaluate(right)
        jump = np.nan_to_num(np.abs(vr - vl), nan=np.inf)
        top = np.argsort(jump)[-64:]
        left, right, vl, vr = left[top], right[top], vl[top], vr[top]
        for _ in range(22):
            middle = 0.5 * (left + right)
            vm = evaluate(middle)
            go_left = np.abs(vm - vl) > np.abs(vr - vm)
            right, vr = np.where(go_left, middle, right), np.where(go_left, vm, vr)
            left, vl = np.where(go_left, left, middle), np.where(go_left, vl, vm)
        jump = np.nan_to_num(np.abs(vr - vl), nan=np.inf)
        worst = int(np.argmax(jump))
        scale = 1.0 + float(np.nanmax(np.abs(vl)))
        # Rounded to what bisection resolves; + 0.0 for a zero without a sign.
        return round(float(left[worst]), 7) + 0.0 if jump[worst] > 1e-5 * scale else None
