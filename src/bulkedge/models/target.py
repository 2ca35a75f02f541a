"""What is to be learned: y = h(z, e) with z = Theta_*^T x in R^k and noise e ~ N(0, 1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters.partial_eval import dce_jaxpr

from bulkedge.foundation.checks import hashable, integer
from bulkedge.foundation.errors import BadInput, unknown_name
from bulkedge.models.expression import is_name, parse
from bulkedge.models.functions import not_traceable

CATALOGUE = {
    "phase-retrieval": "z^2",
    "modulus": "abs(z)",
    "indicator": "abs(z) > 0.6744897501960817",
    "sign": "sign(z)",
    "cosine": "cos(z)",
    "he1": "he1(z)",
    "he2": "he2(z)",
    "he3": "he3(z)",
    "he4": "he4(z)",
    "he5": "he5(z)",
    "he6": "he6(z)",
    "product": "z1*z2",
    "parity": "sign(z1*z2)",
    "staircase": "z1 + z1*z2 + z1*z2*z3",
}
"""Named links; `noisy(name, level)` adds level * e, and so does typing `NAME + 0.1*e` with the expression."""

MAX_DIRECTIONS = 8
VARIABLES = ("z", *(f"z{i}" for i in range(1, MAX_DIRECTIONS + 1)), "e")


@dataclass(frozen=True)
class Target:
    """A link h: (z of shape (k,), e) -> y. `noisy` tells whether y depends on e."""

    name: str
    latent_dim: int
    noisy: bool
    call: Callable[[Any, Any], Any] = field(compare=False, repr=False)
    key: Any = None

    def __call__(self, z: Any, e: Any) -> Any:
        return self.call(z, e)


def noisy(name: str, level: float) -> str:
    """The expression of a catalogue link with Gaussian noise of the given standard deviation."""
    key = name.lower().replace("_", "-")
    if key not in CATALOGUE:
        raise unknown_name("target", name, CATALOGUE)
    return f"({CATALOGUE[key]}) + {float(level)!r}*e"


def target(given: Any, latent_dim: int | None = None) -> Target:
    """Read a target: a catalogue name, an expression in z, z1..zk and e, or a callable (z, e) -> y."""
    if isinstance(given, Target):
        return given
    k = None if latent_dim is None else integer("latent_dim", latent_dim, low=1, high=MAX_DIRECTIONS)
    if isinstance(given, str):
        return _from_text(given, k)
    if callable(given):
        hashable("target", given)
        return _from_callable(given, k)
    raise BadInput("target", "must be a name, an expression in z (or z1, z2, ...) and e, or a callable (z, e) -> y")


def _from_text(text: str, k: int | None) -> Target:
    name = text.strip().lower().replace("_", "-")
    source = CATALOGUE.get(name)
    if source is None and is_name(name, VARIABLES) and name.replace("-", "").isalpha():
        raise unknown_name("target", text.strip(), CATALOGUE)
    expression = parse(source or text, VARIABLES, "target")
    numbered = sorted(int(n[1:]) for n in expression.names if n[0] == "z" and n != "z")
    if "z" in expression.names and any(i > 1 for i in numbered):
        raise BadInput("target", "use either z (one direction) or z1, z2, ... (several), not both")
    needed = max([*numbered, 1])
    if k is not None and k < needed:
        raise BadInput("latent_dim", f"the target uses z{needed}, so it must be at least {needed}")
    if not any(n.startswith("z") for n in expression.names):
        raise BadInput("target", "does not depend on z: there is nothing to learn")
    names = expression.names

    def call(z: Any, e: Any) -> Any:
        values = {f"z{i}": z[i - 1] for i in numbered}
        values.update({"z": z[0], "e": e})
        return jnp.asarray(expression(**{n: values[n] for n in names})) + 0.0 * z[0]

    return Target(text, k or needed, "e" in names, call, ("text", source or text))


def _from_callable(call: Callable[[Any, Any], Any], k: int | None) -> Target:
    sizes = [k] if k is not None else range(1, MAX_DIRECTIONS + 1)
    error: Exception | None = None
    for size in sizes:
        z, e = jax.ShapeDtypeStruct((size,), jnp.float32), jax.ShapeDtypeStruct((), jnp.float32)
        try:
            out = jax.eval_shape(lambda z, e: jnp.asarray(call(z, e)), z, e)
        except Exception as caught:
            error = error or caught
            continue
        if out.shape != ():
            raise BadInput("target", f"must return one number per sample, not an array of shape {out.shape}")
        if _reads_beyond(call, size):
            if k is not None:
                raise BadInput("latent_dim", f"is {k}, but the target reads more coordinates of z")
            raise BadInput("latent_dim", "cannot be read off this callable: give the number of directions")
        if k is None and _uses_more(call, size):
            raise BadInput("latent_dim", "cannot be read off this callable: give the number of directions")
        latent, noisy = _used(call, size)
        if not latent:
            raise BadInput("target", "does not depend on z: there is nothing to learn")

        def real(z: Any, e: Any) -> Any:
            return jnp.asarray(call(z, e)) + 0.0 * z[0]

        return Target(getattr(call, "__name__", type(call).__name__), size, noisy, real, ("callable", call, size))
    raise not_traceable("target", error)


def _used(call: Callable[[Any, Any], Any], size: int) -> tuple[bool, bool]:
    """Whether y depends on z, and on e: of what a jitted function is given it may use only a part."""
    jaxpr = jax.make_jaxpr(lambda z, e: jnp.asarray(call(z, e)))(jnp.zeros(size), jnp.zeros(())).jaxpr
    latent, noise = dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))[1]
    return latent, noise


def _reads_beyond(call: Callable[[Any, Any], Any], size: int) -> bool:
    """Whether the callable indexes z beyond its end: JAX would clamp the index in silence, NumPy says so."""
    try:
        with jax.disable_jit():
            call(np.ones(size), np.zeros(()))
    except IndexError:
        return True
    except Exception:
        return False
    return False


def _uses_more(call: Callable[[Any, Any], Any], size: int) -> bool:
    """Whether a longer z would be used in full, as by a sum: then the callable works for any number of directions."""
    z = np.random.default_rng(1).standard_normal((64, size + 1))
    other = np.concatenate([z[:, :size], np.random.default_rng(2).standard_normal((64, 1))], axis=1)
    try:
        values = jax.vmap(lambda z: jnp.asarray(call(z, jnp.asarray(0.3))))
        return not np.array_equal(values(jnp.asarray(z)), values(jnp.asarray(other)), equal_nan=True)
    except Exception:
        return False
