"""The same network in other papers' conventions trains the same way."""

from __future__ import annotations

import numpy as np
import pytest

import bulkedge as be


@pytest.mark.parametrize("output", ["1/m", "1/sqrt(m)", "1"])
@pytest.mark.parametrize("gradient", ["mean", "sum"])
@pytest.mark.parametrize("inputs", ["unit", "1/sqrt(d)"])
def test_a_step_as_the_paper_writes_it_is_the_step_here(output, gradient, inputs):
    rng = np.random.default_rng(0)
    n, d, m, step, ridge = 40, 8, 2, 0.003, 0.7
    x, theta = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    theta /= np.linalg.norm(theta, axis=1)[:, None]
    y, a = np.tanh(x[:, 0] ** 2), np.array([1.0, -0.5])
    size = np.sqrt(d) if inputs == "1/sqrt(d)" else 1.0
    w, u = theta * size, x / size
    scale = {"1/m": 1 / m, "1/sqrt(m)": m**-0.5, "1": 1.0}[output]
    gap = scale * (a @ np.tanh(w @ u.T)) - y
    # Their loss is (y - f)^2, twice the half square.
    total = 2.0 * (scale * a[:, None] * (1 - np.tanh(w @ u.T) ** 2) * gap) @ u
    theirs = (w - step * ((total if gradient == "sum" else total / n) + ridge * w)) / size

    p = be.from_convention(
        "tanh(z^2)", "tanh", second_layer=a, step_size=step, output=output, loss_factor=2, gradient=gradient,
        inputs=inputs, ridge=ridge, delta=n / d, dimension=d,
    )  # fmt: skip
    f = p.network.a @ np.tanh(theta @ x.T) / m
    mean = (p.network.a[:, None] / m * (1 - np.tanh(theta @ x.T) ** 2) * (f - y)) @ x / n
    ours = theta - p.step_size * (mean + p.weight_decay * theta)
    np.testing.assert_allclose(ours, theirs, rtol=1e-10)


def test_what_the_translation_needs_is_asked_for():
    with pytest.raises(be.BadInput, match="delta"):
        be.from_convention("z^2", gradient="sum", inputs="1/sqrt(d)")
    with pytest.raises(be.BadInput, match="dimension"):
        be.from_convention("z^2", inputs="1/sqrt(d)")
    with pytest.raises(be.BadInput, match="output"):
        be.from_convention("z^2", output="1/d")
