"""The DMFT of several neurons and directions against networks really trained, and what symmetry demands of it."""

import functools

import numpy as np
import pytest

import bulkedge as be
from bulkedge.dynamics import dmft
from bulkedge.models.directions import directions

PAIR = be.Network("tanh", second_layer=(2.0, -1.5), bias=(0.3, -0.2))
FEW = be.Numerics(paths=16384, replicas=4)
TRAINED = {
    # An easy and a hard direction, a kinked neuron of each sign, a link that jumps.
    "kinks": (be.Problem("sign(z1) + (abs(z2) > 1)", be.Network("leaky-relu", 2, (2.0, -1.0)), step_size=0.8), 4.0),
    "momentum and weight decay": (
        be.Problem("z1 + cos(2*z2)", PAIR, "pseudo-huber", step_size=0.8, momentum=0.6, weight_decay=0.2),
        5.0,
    ),
    "mini-batches": (be.Problem("z1 + cos(2*z2)", PAIR, "pseudo-huber", step_size=0.8, batch=0.4), 5.0),
}


@pytest.mark.parametrize("case", TRAINED)
def test_trained_networks(case):
    problem, delta = TRAINED[case]
    kinds = directions(problem.link)
    assert (kinds.easy.shape[1], kinds.hard.shape[1]) == (1, 1)
    limit = be.trajectory(problem, delta, 6, numerics=FEW)
    real = be.simulate(problem, delta, 6000, 6, seeds=5, data="lazy")
    for name in ("train_loss", "test_loss", "norm2", "overlap"):
        p, q = limit[name][1:], real[name][1:]
        if name == "overlap":
            p, q = p[:, :, 0], q[:, :, 0]  # along the easy direction; the other is noise of order 1/sqrt(d)
        # The spread of five runs is itself uncertain: that of all times and neurons together is not.
        error = np.sqrt(np.mean(real.stderr[name][1:] ** 2) + np.mean(limit.stderr[name][1:] ** 2))
        assert np.abs(p - q).max() < 5 * error, (name, np.abs(p - q).max(), error)
        assert error < 0.02 * np.abs(p).max()
    if case != "kinks":
        # The test could see it: what is added changes the answer by more than the errors.
        without = be.Problem(problem.target, problem.network, problem.loss, step_size=problem.step_size)
        plain = be.trajectory(without, delta, 6, numerics=FEW)
        error = np.sqrt(np.mean(real.stderr["norm2"][1:] ** 2))
        assert np.abs(plain.norm2 - limit.norm2).max() > 10 * error


def test_identical_neurons_stay_identical_and_are_one_of_the_right_scale():
    """Both start on the same point of the sphere, an inert direction; each feels the step divided by m."""
    start = functools.partial(dmft.solve, delta=4.0, steps=5, paths=1 << 10, seed=(3,))
    one = be.Problem("tanh(z1) + cos(2*z2)", "gelu", step_size=0.6, latent_dim=3)
    many = be.Problem("tanh(z1) + cos(2*z2)", be.Network("gelu", 3), step_size=1.8, latent_dim=3)
    single = start(one, overlap=np.array([[0.0, 0.0, 1.0]]))
    together = start(many, overlap=np.tile([0.0, 0.0, 1.0], (3, 1)))
    for j in range(3):
        np.testing.assert_allclose(together.norm2[:, j], together.norm2[:, 0], rtol=1e-9)
        np.testing.assert_allclose(together.overlap[:, j], together.overlap[:, 0], atol=1e-9)
    # Not sample by sample: three neurons and one take different rows of the same table.
    assert together.rank == single.rank
    runs = [[start(p, overlap=np.tile([0.0, 0.0, 1.0], (p.m, 1)), paths=1 << 15, seed=(i,)) for i in range(4)]
            for p in (one, many)]  # fmt: skip
    for get in (lambda r: r.train_loss[5], lambda r: r.norm2[5, 0], lambda r: r.overlap[5, 0, 0]):
        a, b = (np.array([get(r) for r in group]) for group in runs)
        error = np.sqrt((a.var(ddof=1) + b.var(ddof=1)) / 4)
        assert abs(a.mean() - b.mean()) < 5 * error + 1e-4


def test_sixteen_neurons_and_four_directions_take_their_first_step_as_computed_by_hand():
    problem = be.Problem(
        "tanh(z1*z2) + z3*z4/(1 + z4^2) + z1", be.Network("gelu", second_layer=np.linspace(-3, 4, 16)), step_size=8.0
    )
    limit = be.trajectory(problem, 10.0, 2, numerics=be.Numerics(paths=8192, replicas=3))
    assert limit.overlap.shape == (3, 16, 4)
    assert limit.train_loss[2] < limit.train_loss[1] < limit.train_loss[0]
    rng = np.random.default_rng(0)
    v, z = rng.standard_normal((16, 200_000)), rng.standard_normal((4, 200_000))
    factor = 8.0 * np.asarray(problem.pointwise.factor(v, problem.labels(z.T, np.zeros(200_000)), *problem.layer))
    along, own = factor @ z.T / 200_000, np.mean(factor * v, axis=1)
    across = factor @ v.T / 200_000
    assert np.abs(limit.overlap[1][:, 0] + along[:, 0]).max() < 0.02
    # |theta_j(1)|^2: the rest of theta_j(0), what it takes from the others, the easy directions, and fresh noise.
    expected = (1 - own) ** 2 + np.sum(across**2, axis=1) - own**2 + along[:, 0] ** 2
    power = np.mean(factor**2, axis=1)
    expected += power / 10.0
    # Each of 20 + 16 projections of a gradient carries its sampling noise into the square: power/paths.
    assert np.all(np.abs(limit.norm2[1] - expected) < 4 * limit.stderr["norm2"][1] + 36 * power / 8192 + 0.01)
    assert np.abs(expected - 1).max() > 0.5
