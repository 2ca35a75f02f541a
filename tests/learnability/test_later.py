"""Thresholds of hard directions once others are learned."""

import json

import jax
import numpy as np
import pytest
from scipy.special import ndtr

import bulkedge as be
from bulkedge.foundation.errors import BadInput
from bulkedge.learnability import later, laws, windows
from bulkedge.learnability.later import LaterThresholds
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.law import WeightLaw, pooled

TWO = "4*tanh(z1^2) + 2*tanh(z2^2)"
FEW = be.Numerics(paths=16384, replicas=4)
SECOND = np.array([[0.0], [1.0]])


def test_the_first_stage_is_the_threshold():
    problem = be.Problem(TWO, "gelu")
    found = be.later_threshold(problem, [], numerics=FEW)
    known = be.threshold(problem)
    assert (found.delta, found.windows, found.delta_alg) == (known.delta, known.windows, known.delta_alg)
    assert found.directions == [[1.0, 0.0]]
    assert found.hard == [[1.0, 0.0], [0.0, 1.0]]


def test_no_overlap_is_the_other_eigenvalue_of_the_same_law():
    """At t = 0 without overlap the second direction has its own window in the law by quadrature."""
    problem = be.Problem(TWO, "gelu")
    law = laws.initial(problem, 0)
    alone = WeightLaw(law.g, np.zeros((law.g.size, 1)), law.p, moments=law.moments[2:])
    ((low, _),) = windows.of_fixed_law(alone)
    found = be.later_threshold(problem, [[1, 0]], cosine=0, numerics=FEW)
    assert found.delta == pytest.approx(low, abs=4 * found.stderr + 1e-3 * low)


@pytest.mark.parametrize("cosine", [0.5, 0.9])
def test_the_law_by_quadrature(cosine):
    """(z1, z2, w) by Gauss-Hermite rules, V = c z1 + sqrt(1 - c^2) w: a second route to the sampled law."""
    problem = be.Problem(TWO, "gelu")
    x, p = np.polynomial.hermite_e.hermegauss(56)
    p = p / p.sum()
    z1, z2, w = (a.ravel() for a in np.meshgrid(x, x, x, indexing="ij"))
    mass = np.einsum("i,j,k->ijk", p, p, p).ravel()
    keep = mass > 1e-14
    z1, z2, w, mass = z1[keep], z2[keep], w[keep], mass[keep] / mass[keep].sum()
    y = 4 * np.tanh(z1**2) + 2 * np.tanh(z2**2)
    with jax.enable_x64(True):
        v = (cosine * z1 + np.sqrt(1 - cosine**2) * w)[None]
        g = np.asarray(problem.pointwise.block(v, y, *problem.layer))[0]
    ((low, _),) = windows.of_fixed_law(WeightLaw(g, z2[:, None], mass))
    found = be.later_threshold(problem, [[1, 0]], cosine=cosine, numerics=FEW)
    assert found.delta == pytest.approx(low, abs=4 * found.stderr + 2e-3 * low)
    assert found.delta_alg == pytest.approx(0.5, abs=1e-3)  # y - 4 tanh(z1^2) tells |z2|
    assert found.efficiency == pytest.approx(found.delta_alg / found.delta)


def test_stages_in_order_and_back_from_json():
    found = be.later_thresholds(be.Problem(TWO, "gelu"), cosine=0.9, numerics=FEW)
    assert [s.learned for s in found.stages] == [[], [[1.0, 0.0]]]
    assert [s.directions for s in found.stages] == [[[1.0, 0.0]], [[0.0, 1.0]]]
    assert [s.delta for s in found.stages] == pytest.approx([4.5, 10.6], rel=0.1)
    assert [row[1] for row in found.staircase] == [[[1.0, 0.0]], [[0.0, 1.0]]]
    again = LaterThresholds.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.stages[1].delta == found.stages[1].delta
    assert "montanari" in found.cite()


def test_a_direction_that_the_first_makes_easy():
    """Of tanh(z1^2) + tanh(z1 z2) z2 is hard until z1 is known. The pull by quadrature, F = (f - y) sigma'."""
    problem, c = be.Problem("tanh(z1^2) + tanh(z1*z2)", "gelu"), 0.6
    found = be.later_threshold(problem, [[1, 0]], cosine=c, numerics=FEW)
    assert (found.delta, found.reason) == (None, "nothing hard")
    assert found.easy == [[0.0, 1.0]]
    assert found.hard == []
    x, p = np.polynomial.hermite_e.hermegauss(60)
    p = p / p.sum()
    z1, z2, w = np.meshgrid(x, x, x, indexing="ij")
    v = c * z1 + np.sqrt(1 - c * c) * w
    slope = ndtr(v) + v * np.exp(-0.5 * v * v) / np.sqrt(2 * np.pi)
    pull = abs(np.einsum("ijk,i,j,k->", np.tanh(z1 * z2) * slope * z2, p, p, p))
    assert found.pull == pytest.approx(pull, abs=4 * found.pull_stderr + 1e-3 * pull)
    assert found.pull > 10 * found.pull_stderr
    still = be.later_threshold(problem, [[1, 0]], cosine=0.0, numerics=FEW)
    assert still.pull < 5 * still.pull_stderr


def test_directions_that_symmetry_decides_are_exact():
    half = 0.5**0.5
    tied = be.later_threshold(be.Problem("2*tanh(z1^2) + 2*tanh(z2^2)", "gelu"), [], numerics=FEW)
    assert tied.directions == [[1.0, 0.0], [0.0, 1.0]]
    stages = be.later_thresholds(be.Problem("2*tanh(z1*z2)", "gelu"), cosine=0.8, numerics=FEW).stages
    assert np.array(stages[0].directions) == pytest.approx(np.array([[half, half]]), abs=1e-12)
    # y = 2 tanh((s+^2 - s-^2)/2): along s- a positive output weight finds no descent, at any delta.
    assert (stages[1].delta, stages[1].reason) == (None, "none")
    assert np.array(stages[1].hard) == pytest.approx(np.array([[half, -half]]), abs=1e-12)


def test_a_hidden_direction_stays_hidden_and_the_learned_one_moves():
    problem = be.Problem(TWO, "gelu", step_size=0.2)
    (run, *_) = later.planted(problem, 10.0, 4, FEW, np.array([[0.3, 0.0]]), SECOND).runs
    assert np.all(run.overlap[:, 0, 1] == 0.0)
    assert run.overlap[-1, 0, 0] > 0.32
    found = be.later_threshold(problem, [[1, 0]], cosine=0.3, time=2, numerics=be.Numerics(paths=2048, replicas=2))
    assert found.time == 2
    assert found.method.startswith("DMFT")
    assert found.delta is not None


def test_matrices():
    """Fresh data, weights planted at an overlap of .9, d = 400.

    The outlier of direction 2 lies close to that of direction 1, with which it shares its eigenvector at finite d:
    overlaps are summed over all that lies outside the bulk, and the eigenvalue is the mean with these weights.
    """
    problem, delta, d, seeds = be.Problem(TWO, "gelu"), 30.0, 400, 6
    sample = later.planted(problem, delta, 0, FEW, np.array([[0.9, 0.0]]), SECOND)
    law = pooled(later.hidden_laws(sample, 0, SECOND))
    edge = bulk.left_edge(law, delta)
    (spike,) = outliers.below(law, delta, edge)
    measured = []
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 3])
        x = rng.standard_normal((round(delta * d), d)).astype(np.float32)
        y = problem.labels(x[:, :2], np.zeros(len(x)))
        v = 0.9 * x[:, 0] + np.sqrt(0.19) * x[:, 2]
        g = np.asarray(problem.pointwise.block(v[None], y, *problem.layer))[0].astype(np.float32)
        values, vectors = np.linalg.eigh(x.T @ (g[:, None] * x) / len(x))
        along = vectors[1] ** 2 * (values < edge.value)
        measured.append((values @ along / along.sum(), along.sum()))
    value, overlap2 = np.mean(measured, axis=0)
    error = np.std(measured, axis=0, ddof=1) / np.sqrt(seeds)
    assert value == pytest.approx(spike.value, abs=4 * error[0] + 0.01 * abs(spike.value))
    assert overlap2 == pytest.approx(spike.overlap2, abs=4 * error[1] + 0.03)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ({"learned": [[1, 0, 0]]}, "learned"),
        ({"learned": [[1, 0], [2, 0]]}, "learned"),
        ({"learned": "z1"}, "learned"),
        ({"learned": [[1, 0]], "cosine": 1.0}, "cosine"),
        ({"learned": [[1, 0]], "overlap": [[0.5, 0.5]]}, "overlap"),
        ({"learned": [[1, 0]], "overlap": [[1.5, 0.0]]}, "overlap"),
        ({"learned": [[1, 0]], "overlap": [0.5]}, "overlap"),
        ({"learned": [[1, 0]], "time": -1}, "time"),
    ],
)
def test_bad_arguments(arguments, name):
    with pytest.raises(BadInput) as caught:
        be.later_threshold(be.Problem(TWO, "gelu"), **arguments)
    assert caught.value.argument == name


def test_bad_holders():
    with pytest.raises(BadInput, match="one of one, all"):
        be.later_thresholds(be.Problem(TWO, "gelu"), holders="some")
