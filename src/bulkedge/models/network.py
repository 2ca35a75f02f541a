"""A two-layer network f(x) = (1/m) sum_j a_j sigma(theta_j . x + b_j); only the theta_j are trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bulkedge.foundation.checks import integer
from bulkedge.foundation.errors import BadInput
from bulkedge.models import functions


@dataclass(frozen=True)
class Network:
    """activation: name, expression in v, or callable. second_layer, bias: one number, or one per neuron.

    The width may be left out where second_layer or bias give it.
    """

    activation: Any = "gelu"
    width: int = 1
    second_layer: float | Sequence[float] = 1.0
    bias: float | Sequence[float] = 0.0
    sigma: functions.ScalarFunction = field(init=False, repr=False)

    def __post_init__(self) -> None:
        width = integer("width", self.width, low=1, high=4096)
        lengths = {np.size(v) for v in (self.second_layer, self.bias) if np.ndim(v) == 1}
        if width == 1 and lengths:
            width = integer("width", max(lengths), low=1, high=4096)
        object.__setattr__(self, "width", width)
        for name in ("second_layer", "bias"):
            object.__setattr__(self, name, _per_neuron(name, getattr(self, name), width))
        if not np.any(self.a):
            raise BadInput("second_layer", "all entries are zero: the network is constant and nothing trains")
        object.__setattr__(self, "sigma", functions.activation(self.activation))
        if isinstance(self.activation, str):
            object.__setattr__(self, "activation", self.sigma.name)

    @property
    def a(self) -> np.ndarray:
        """Second layer, shape (m,)."""
        return np.asarray(self.second_layer, float)

    @property
    def b(self) -> np.ndarray:
        """Biases, shape (m,)."""
        return np.asarray(self.bias, float)

    @property
    def kink(self) -> float | None:
        """Where sigma' jumps (its second derivative has a delta there); None if sigma is smooth enough."""
        return functions.slope_jump(self.sigma)

    def to_dict(self) -> dict[str, Any]:
        return {
            "activation": self.sigma.name,
            "width": self.width,
            "second_layer": self.a.tolist(),
            "bias": self.b.tolist(),
        }


def _per_neuron(argument: str, value: Any, width: int) -> tuple[float, ...]:
    try:
        entries = np.asarray(value, float)
    except (TypeError, ValueError):
        raise BadInput(argument, f"must be a number or a list of numbers, not {str(value)[:40]!r}") from None
    if entries.ndim == 0 or (entries.ndim == 1 and entries.size == 1):
        entries = np.full(width, float(entries.reshape(())))
    if entries.shape != (width,):
        raise BadInput(argument, f"must be one number or {width} of them (the width), not {entries.size}")
    if not np.all(np.isfinite(entries)):
        raise BadInput(argument, "must be finite")
    return tuple(entries.tolist())
