"""Laws of the Hessian weight at t = 0, by quadrature over the independent pair (v, z): v = theta.x, z = theta_*.x."""

import jax
import numpy as np
import pytest

import bulkedge as be
from bulkedge.gaussian import quadrature
from bulkedge.spectra.law import WeightLaw


def _law_at_start(activation, loss, target):
    problem = be.Problem(target, activation, loss)
    v, pv = quadrature.split_nodes(problem.network.sigma)
    z, pz = quadrature.tensor_nodes(lambda z: problem.link(z, 0.0 * z[0]), problem.k, order=12 if problem.k == 1 else 6)
    y = problem.labels(z, np.zeros(len(z)))
    with jax.enable_x64(True):
        block = problem.pointwise.block(np.repeat(v, y.size)[None], np.tile(y, v.size), *problem.layer)
    return WeightLaw(np.asarray(block[0]), np.tile(z, (v.size, 1)), np.multiply.outer(pv, pz).ravel())


@pytest.fixture(scope="session")
def law_at_start():
    known = {}

    def get(*key):
        if key not in known:
            known[key] = _law_at_start(*key)
        return known[key]

    return get
