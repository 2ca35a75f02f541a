"""The whole Hessian at finite width: its threshold from one draw, alike neurons, and the limit of many."""

import math

import numpy as np
import pytest

import bulkedge as be
from bulkedge.foundation.status import Status
from bulkedge.learnability import laws, windows
from bulkedge.learnability.whole import hidden_below, matrix_laws
from bulkedge.learnability.wide import wide_law, wide_threshold
from bulkedge.spectra import matrix, matrix_outliers
from bulkedge.spectra.law import WeightLaw
from bulkedge.spectra.matrix_law import MatrixLaw

TARGET = "2*tanh(z^2)"
FEW = be.Numerics(paths=2048, replicas=4)


def problem(second_layer, loss="pseudo-huber"):
    return be.Problem(TARGET, be.Network("gelu", second_layer=second_layer), loss)


def test_one_neuron_is_the_block():
    assert be.threshold(problem([1.0]), hessian="full").delta == be.threshold(problem([1.0])).delta


@pytest.mark.parametrize("second_layer", [[1.0] * 4, [1.0, -1.0], [2.0, 1.0, -1.0]])
def test_the_threshold_is_where_the_margin_of_every_replica_changes_sign(second_layer):
    """Each delta solved from scratch: no continuation, no warm start."""
    network = problem(second_layer)
    found = be.threshold(network, hessian="full", numerics=FEW)
    assert found.status is Status.CONVERGED
    assert found.windows[0][0] == found.delta
    assert 0 < found.stderr < 0.03 * found.delta
    replicas = matrix_laws(laws.sampled(network, 1.0, 0, FEW))
    margins = {f: np.mean([matrix_outliers.margin(w, f * found.delta)[0] for w in replicas]) for f in (0.95, 1, 1.05)}
    assert margins[0.95] > 0 > margins[1.05]
    assert abs(margins[1]) < 0.1 * (margins[0.95] - margins[1.05])
    edge = np.mean([matrix.left_edge(w, found.delta).value for w in replicas])
    assert found.edge == pytest.approx(edge, rel=0.05)


def test_a_warm_start_finds_the_same_edge():
    law = matrix_laws(laws.sampled(problem([1.0, -1.0]), 1.0, 0, FEW))[0]
    far = matrix.left_edge(law, 20.0)
    for delta in (2.0, 7.0, 19.0, 300.0):
        _, warm = matrix.branch_and_edge(law, delta, far)
        cold = matrix.left_edge(law, delta)
        assert warm.value == pytest.approx(cold.value, rel=1e-9)
        assert warm.beta == pytest.approx(cold.beta, rel=1e-6)


def test_alike_neurons_are_averaged_over_their_exchanges():
    """The same as adding every exchanged copy of every sample, and what is left does not depend on their order."""
    law = matrix_laws(laws.sampled(problem([1.0, 1.0, -1.0]), 1.0, 0, be.Numerics(paths=512, replicas=2)))[0]
    assert law.alike == (1, 1, 0)
    assert len(law.basis) == 4
    swap = [1, 0, 2]
    copies = MatrixLaw(np.concatenate([law.g, law.g[:, swap][:, :, swap]]), np.concatenate([law.s, law.s]))
    for delta in (2.0, 9.0):
        mine, plain = matrix.left_edge(law, delta), matrix.left_edge(copies, delta)
        assert mine.value == pytest.approx(plain.value, rel=1e-9)
        assert mine.alpha == pytest.approx(plain.alpha, rel=1e-6, abs=1e-9)
        assert matrix_outliers.margin(law, delta)[0] == pytest.approx(
            matrix_outliers.margin(copies, delta)[0], rel=1e-8
        )


def test_outliers_come_as_often_as_exchanges_make_them():
    """Four equal neurons: three outliers at one place, which real networks show split by their size."""
    network = problem([1.0] * 4)
    found, edge, error = hidden_below(network, 16.0, 0, FEW)
    assert len(found) == 3
    assert max(o.value for o in found) - min(o.value for o in found) < 1e-6 * abs(edge)
    run = be.simulate(network, 16.0, 160, 0, seeds=6, spectrum_times=(0,), eigenpairs=3, hessian="full")
    stderr = np.array(run.stderr["overlap2"][0])
    assert np.all(np.abs(np.array(run.overlap2[0]) - found[0].overlap2) < 4 * stderr + 4 / 160)
    middle = np.mean(run.eigenvalues[0]) - found[0].value
    assert abs(middle) < 4 * np.mean(run.stderr["eigenvalues"][0]) + 4 * abs(edge) / 160
    assert 0 < error < 0.01 * abs(edge)


def test_the_limit_of_many_neurons():
    """Blocks of 48 neurons: f hardly fluctuates, and what is dropped is of order 1/m."""
    numerics = be.Numerics(paths=8192, replicas=4)
    for signs in ([1.0], [1.0, -1.0]):
        limit = wide_threshold(problem(signs))
        far = {}
        for m in (12, 48):
            found = [
                windows.of_fixed_law(w) for w in laws.sampled(problem(np.resize(signs, m)), 1.0, 0, numerics).laws(0)
            ]
            far[m] = np.mean([w[0][0] for w in found]) / limit - 1
            error = np.std([w[0][0] for w in found], ddof=1) / 2 / limit
        assert abs(far[48]) < 0.03 + 4 * error
        assert abs(far[12] - 4 * far[48]) < 0.03 + 16 * error


def test_the_law_of_many_neurons_by_hand():
    """a l'(y, a E gelu) gelu''(v), with E gelu(v) = 1/(2 sqrt(pi)), from plain samples."""
    rng = np.random.default_rng(3)
    v, z = rng.standard_normal((2, 200_000))
    a = 1.5
    mean = a / (2 * math.sqrt(math.pi))
    u = mean - 2 * np.tanh(z * z)
    bend = (2 - v * v) * np.exp(-v * v / 2) / math.sqrt(2 * math.pi)
    plain = WeightLaw(a * u / np.sqrt(1 + u * u) * bend, z[:, None])
    law = wide_law(problem([a]), 0)
    for power in (1, 2, 3):
        values = plain.g**power
        assert abs(law.mean(law.g**power) - values.mean()) < 4 * values.std() / math.sqrt(v.size)
        values = plain.g**power * (z * z - 1)
        assert abs(law.tensor(law.g**power)[0, 0] - values.mean()) < 4 * values.std() / math.sqrt(v.size)
