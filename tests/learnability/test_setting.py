"""JAX's global precision belongs to the user: it is not changed, and no number depends on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bulkedge as be

FEW = be.Numerics(paths=256, replicas=2)


def answers():
    one = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu", step_size=0.5)
    two = be.Problem("tanh(z1) + cos(z2) + 0.1*e", be.Network("relu", 2, (1.0, -1.0)), "pseudo-huber", step_size=0.7)
    own = be.Problem(lambda z, e: jnp.tanh(z[0] ** 2), lambda v: jnp.tanh(v) + v**2, lambda y, f: (y - f) ** 2)
    spectrum = be.spectrum(one, 10.0, 1, points=16, numerics=FEW)
    trained = [
        be.simulate(p, 4.0, 30, 2, seeds=2, data=data, spectrum_times=times)
        for p, data, times in ((two, "stored", ()), (one, "lazy", 1))
    ]
    return [
        be.threshold(one).delta,
        be.threshold(own).delta,
        be.trajectory(two, 4.0, 2, numerics=FEW).train_loss.tolist(),
        [spectrum.edge, *(o.value for o in spectrum.outliers)],
        be.outliers(np.linspace(-1, 2, 999), np.linspace(-2, 2, 999), 3.0, points=16).edge,
        *(run.train_loss.tolist() for run in trained),
        trained[1].eigenvalues[1],
    ]


@pytest.fixture
def setting():
    before = jax.config.jax_enable_x64
    yield lambda on: jax.config.update("jax_enable_x64", on)
    jax.config.update("jax_enable_x64", before)


def test_double_precision_may_be_on_or_off(setting):
    found = []
    for on in (False, True):
        setting(on)
        found.append(answers())
        assert jax.config.jax_enable_x64 is on
        assert jnp.zeros(1).dtype == (jnp.float64 if on else jnp.float32)
    assert found[0] == found[1]
