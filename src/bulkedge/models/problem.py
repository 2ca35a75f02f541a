"""A learning problem: target, network, loss and training, immutable and hashable; and its pointwise functions."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.foundation.checks import number, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.models import functions
from bulkedge.models.network import Network
from bulkedge.models.target import Target
from bulkedge.models.target import target as read_target


@dataclass(frozen=True)
class Problem:
    """What is to be learned, by whom, and how.

    target: name, expression in z (or z1..zk) and noise e, or callable (z of shape (k,), e) -> y.
    network: a `Network`, or the name of an activation for a single neuron.
    loss: name, expression in y and f (u = f - y), or callable (y, f) -> number.
    step_size: eta, multiplies the raw gradient of the mean loss, the network's 1/m included.
    momentum, weight_decay: heavy ball beta, and lambda of (lambda/2)|theta|^2.
    batch: probability that a sample takes part in a step (its weight is then 1/batch).
    """

    target: Any
    network: Any = field(default_factory=Network)
    loss: Any = "squared"
    step_size: float = 1.0
    latent_dim: int | None = None
    momentum: float = 0.0
    weight_decay: float = 0.0
    batch: float = 1.0

    link: Target = field(init=False, repr=False)
    loss_function: functions.ScalarFunction = field(init=False, repr=False)

    def __post_init__(self) -> None:
        put = functools.partial(object.__setattr__, self)
        put("link", read_target(self.target, self.latent_dim))
        if isinstance(self.target, str):
            put("target", self.link.name)
        put("latent_dim", self.link.latent_dim)
        network = self.network if isinstance(self.network, Network) else Network(self.network)
        put("network", network)
        put("loss_function", functions.loss(self.loss))
        if isinstance(self.loss, str):
            put("loss", self.loss_function.name)
        put("step_size", positive("step_size", self.step_size))
        put("momentum", number("momentum", self.momentum))
        put("weight_decay", number("weight_decay", self.weight_decay))
        put("batch", number("batch", self.batch))
        if not 0 <= self.momentum < 1:
            raise BadInput("momentum", f"must be in [0, 1), not {self.momentum:g}")
        if self.weight_decay < 0:
            raise BadInput("weight_decay", f"must not be negative, not {self.weight_decay:g}")
        if not 0 < self.batch <= 1:
            raise BadInput("batch", f"must be in (0, 1], not {self.batch:g}")
        self._check_labels()

    def _check_labels(self) -> None:
        rng = np.random.default_rng(0)
        z, e = rng.standard_normal((4096, self.k)), rng.standard_normal(4096)
        y = self.labels(z, e)
        if not np.all(np.isfinite(y)):
            bad = z[~np.isfinite(y)][0]
            raise BadInput("target", f"is not finite at z = {np.round(bad, 3).tolist()}; it must be for every real z")
        if self.loss_function.name == "logistic" and not np.all(np.abs(y) == 1.0):
            raise BadInput("loss", "logistic needs labels -1 and +1; try a target such as sign(z) or 2*(abs(z)>1) - 1")

    @property
    def k(self) -> int:
        return self.link.latent_dim

    @property
    def m(self) -> int:
        return self.network.width

    def labels(self, z: Any, e: Any) -> np.ndarray:
        """Labels y at latent points z (n, k) and noise e (n,), in float64."""
        with jax.enable_x64(True):
            return np.asarray(_labels(self.link)(jnp.asarray(z, jnp.float64), jnp.asarray(e, jnp.float64)))

    @property
    def pointwise(self) -> Pointwise:
        """Risk, gradient factor and Hessian weights as jitted functions of (V, y)."""
        return pointwise(self.network.sigma, self.loss_function)

    @property
    def layer(self) -> tuple[np.ndarray, np.ndarray]:
        """(a, b): second layer and biases, each of shape (m,)."""
        return self.network.a, self.network.b

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.link.name,
            "latent_dim": self.k,
            "network": self.network.to_dict(),
            "loss": self.loss_function.name,
            "step_size": self.step_size,
            "momentum": self.momentum,
            "weight_decay": self.weight_decay,
            "batch": self.batch,
        }


@functools.lru_cache(maxsize=128)
def _labels(link: Target) -> Callable[..., Any]:
    return jax.jit(jax.vmap(link.call))


class Pointwise(NamedTuple):
    """Functions of one sample's pre-activations V = (theta_j . x)_j, shape (m,), and label y; a, b of shape (m,).

    Arrays carry the sample index last: V is (m, n), y is (n,).
    """

    risk: Callable[..., Any]
    """(V, y, a, b) -> l(y, f), shape (n,)"""
    factor: Callable[..., Any]
    """(V, y, a, b) -> (1/m) a_j l'(y, f) sigma'(V_j + b_j), shape (m, n): F / eta of theory 1.5"""
    block: Callable[..., Any]
    """(V, y, a, b) -> a_j l' sigma''_j + (1/m) a_j^2 l'' sigma'_j^2, shape (m, n): theory 1.2"""
    full: Callable[..., Any]
    """(V, y, a, b) -> G_ij = (1/m) a_i a_j l'' sigma'_i sigma'_j + delta_ij a_i l' sigma''_i, shape (m, m, n)"""


@functools.lru_cache(maxsize=128)
def pointwise(sigma: functions.ScalarFunction, loss: functions.ScalarFunction) -> Pointwise:
    """The pointwise functions of an activation and a loss, compiled."""
    return Pointwise(*map(jax.jit, forms(sigma.call, loss.call)))


def forms(s0: Callable[..., Any], l0: Callable[..., Any]) -> Pointwise:
    """The pointwise functions of v -> s0(v) and (y, f) -> l0; derivatives by autodiff, in the dtype of V."""
    s1 = jax.grad(s0)
    s2 = jax.grad(s1)
    l1 = jax.grad(l0, argnums=1)
    l2 = jax.grad(l1, argnums=1)

    def each(f: Callable[..., Any], *args: Any) -> Any:
        shape = jnp.broadcast_shapes(*(jnp.shape(x) for x in args))
        return jax.vmap(f)(*(jnp.broadcast_to(x, shape).ravel() for x in args)).reshape(shape)

    def output(V: Any, a: Any, b: Any) -> Any:
        return jnp.mean(a[:, None] * each(s0, V + b[:, None]), axis=0)

    def risk(V: Any, y: Any, a: Any, b: Any) -> Any:
        return each(l0, y, output(V, a, b))

    def factor(V: Any, y: Any, a: Any, b: Any) -> Any:
        slope = each(l1, y, output(V, a, b))
        return a[:, None] / V.shape[0] * slope * each(s1, V + b[:, None])

    def block(V: Any, y: Any, a: Any, b: Any) -> Any:
        f = output(V, a, b)
        bend = a[:, None] * each(l1, y, f) * each(s2, V + b[:, None])
        return bend + a[:, None] ** 2 / V.shape[0] * each(l2, y, f) * each(s1, V + b[:, None]) ** 2

    def full(V: Any, y: Any, a: Any, b: Any) -> Any:
        f = output(V, a, b)
        push = a[:, None] * each(s1, V + b[:, None])
        cross = push[:, None, :] * push[None, :, :] * each(l2, y, f) / V.shape[0]
        bend = a[:, None] * each(l1, y, f) * each(s2, V + b[:, None])
        return cross + jnp.eye(V.shape[0], dtype=V.dtype)[:, :, None] * bend[:, None, :]

    return Pointwise(risk, factor, block, full)
