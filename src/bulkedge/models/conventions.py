"""The same network as other papers write it, in the convention of this package.

Here: x ~ N(0, I_d), |theta_j(0)| = 1, f = (1/m) sum_j a_j sigma(theta_j . x + b_j), and a step eta times the gradient
of the *mean* loss. Elsewhere:
    f = scale(m) sum_j a_j sigma(w_j . x + b_j), scale = 1/m, 1/sqrt m or 1 ->  second_layer = m scale(m) a;
    loss = c l                                                             ->  eta = c step;
    a sum over samples instead of a mean                                   ->  eta = n step;
    inputs x/sqrt d with |w_j|^2 = d, so that theta = w/sqrt d             ->  eta = step/d, and with a sum: delta step;
    a ridge (r/2)|w|^2 added to the (mean or summed) loss                  ->  weight_decay = r step/eta.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bulkedge.foundation.checks import choice, integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.models.network import Network
from bulkedge.models.problem import Problem

_SCALES = {"1/m": lambda m: 1.0 / m, "1/sqrt(m)": lambda m: 1.0 / math.sqrt(m), "1": lambda m: 1.0}


def from_convention(  # noqa: D417 (said in one sentence)
    target: Any,
    activation: Any = "gelu",
    *,
    width: int = 1,
    second_layer: Any = 1.0,
    bias: Any = 0.0,
    loss: Any = "squared",
    step_size: float = 1.0,
    output: str = "1/m",
    loss_factor: float = 1.0,
    gradient: str = "mean",
    inputs: str = "unit",
    ridge: float = 0.0,
    delta: float | None = None,
    dimension: int | None = None,
    **more: Any,
) -> Problem:
    """A `Problem` from a network and training written in another paper's convention.

    target, activation, width, second_layer, bias and loss are those of `Network` and `Problem`, second_layer as written
    there.

    Args:
        step_size: theirs.
        output: the factor before their sum over neurons: "1/m", "1/sqrt(m)" or "1".
        loss_factor: their loss is this times `loss`, such as 2 for (y - f)^2 where "squared" is its half.
        gradient: of the "mean" or the "sum" of the loss over samples.
        inputs: "unit" for x ~ N(0, I_d) and |w| = 1, "1/sqrt(d)" for x/sqrt d and |w|^2 = d.
        ridge: r of a term (r/2) sum_j |w_j|^2 added to their loss.
        delta, dimension: n/d and d, where the translation depends on them.
        more: further arguments of `Problem`, such as latent_dim or momentum.

    A committee of two neurons without prefactor, summed gradient over inputs x/sqrt d, step .2, at n/d = 3:
    >>> import bulkedge as be
    >>> p = be.from_convention("tanh(z1 + he3(z2))", "relu", width=2, second_layer=(0.5, -0.5), step_size=0.2,
    ...                        output="1", gradient="sum", inputs="1/sqrt(d)", delta=3)
    >>> round(p.step_size, 12), p.network.second_layer
    (0.6, (1.0, -1.0))
    """
    choice("output", output, tuple(_SCALES))
    choice("gradient", gradient, ("mean", "sum"))
    choice("inputs", inputs, ("unit", "1/sqrt(d)"))
    step = positive("step_size", step_size)
    factor = positive("loss_factor", loss_factor)
    lengths = [np.size(v) for v in (second_layer, bias) if np.ndim(v) == 1]
    m = max([integer("width", width, low=1), *lengths])
    a = np.asarray(second_layer, float) * m * _SCALES[output](m)
    eta = step * factor
    if gradient == "sum" and inputs == "1/sqrt(d)":
        eta *= positive("delta", _needed("delta", delta, "a summed gradient over x/sqrt d multiplies the step by n/d"))
    elif gradient == "sum":
        ratio = positive("delta", _needed("delta", delta, "a summed gradient multiplies the step by n"))
        eta *= ratio * integer(
            "dimension", _needed("dimension", dimension, "it multiplies the step by n = delta d"), low=1
        )
    elif inputs == "1/sqrt(d)":
        eta /= integer(
            "dimension", _needed("dimension", dimension, "a mean over x/sqrt d divides the step by d"), low=1
        )
    network = Network(activation, m, a.tolist() if a.ndim else float(a), bias)
    return Problem(target, network, loss, step_size=eta, weight_decay=ridge * step / eta, **more)


def _needed(argument: str, value: Any, why: str) -> Any:
    if value is None:
        raise BadInput(argument, f"is needed here: {why}")
    return value
