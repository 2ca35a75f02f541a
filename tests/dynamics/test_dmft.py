"""The DMFT against closed forms, published simulations, exact linear dynamics, and mutations that must be noticed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bulkedge as be
from bulkedge.dynamics import dmft, ensemble
from bulkedge.gaussian import quadrature

IND = "2*(abs(z) > 0.6744897501960817)"


def replicas(problem, delta, steps, paths=1 << 15, count=6, **options):
    return [dmft.solve(problem, delta, steps, paths=paths, seed=(i,), **options) for i in range(count)]


def mean_error(values):
    stack = np.array(values)
    return stack.mean(axis=0), stack.std(axis=0, ddof=1) / np.sqrt(len(stack))


def near(values, expected, tolerance=0.0):
    """Within four standard errors of the replicas' mean, plus the reference's own tolerance."""
    mean, error = mean_error(values)
    assert np.all(np.abs(mean - expected) <= 4.0 * error + tolerance + 1e-12), (mean, expected, error)


def first_step(eta, delta):
    """R3's closed form at t = 1 by quadrature: C(0,1), C(1,1) for gelu on 2 tanh(z^2), squared loss."""
    z, p = quadrature.nodes(width=0.5)
    w = np.multiply.outer(p, p)
    from scipy.special import erf

    phi, cdf = np.exp(-z * z / 2) / np.sqrt(2 * np.pi), 0.5 * (1 + erf(z / np.sqrt(2)))
    f = (z * cdf)[:, None] - 2 * np.tanh(z**2)[None]
    g = f * (cdf + z * phi)[:, None]
    c01 = 1 - eta * np.sum(w * g * z[:, None])
    return c01, c01**2 + eta**2 * np.sum(w * g * g) / delta


@pytest.mark.parametrize(("eta", "delta"), [(1.0, 8.0), (0.3, 2.0)])
def test_the_first_step_has_a_closed_form(eta, delta):
    problem = be.Problem("2*tanh(z^2)", "gelu", step_size=eta)
    runs = replicas(problem, delta, 1)
    c01, c11 = first_step(eta, delta)
    near([r.kernels.c[1, 0, 1] for r in runs], c01, 1e-6)
    near([r.norm2[1, 0] for r in runs], c11, 1e-6)


def test_reference_values_at_the_first_step():
    runs = replicas(be.Problem("2*tanh(z^2)", "gelu", step_size=1.0), 8.0, 1)
    # The quadrature of the closed form gives .914754 and .891185: the reference's last digit is a simulation's.
    near([r.kernels.c[1, 0, 1] for r in runs], 0.9146, 5e-4)
    near([r.norm2[1, 0] for r in runs], 0.8908, 5e-4)
    near([r.train_loss[1] for r in runs], 0.6154, 5e-4)
    near([r.test_loss[1] for r in runs], 0.6652, 5e-4)


def test_a_committee_of_relus_learns_as_published():
    """R1: two ReLU neurons of opposite sign on tanh(h1 + He3(h2)); simulations at D = 5000, 32 runs, 2e-3."""
    network = be.Network("relu", 2, (2**0.5, -(2**0.5)))
    runs = replicas(be.Problem("tanh(z1 + he3(z2))", network, step_size=0.6), 3.0, 6, paths=1 << 16, count=4)
    overlap = [r.overlap[1:, 0] for r in runs]
    near([o[:, 0] for o in overlap], [0.07572, 0.12384, 0.15618, 0.17998, 0.19887, 0.21468], 2e-3)
    # The limit is -.17413(7) at t = 6 (2^19 paths): two standard errors (.001) of the simulation from it.
    near([o[:, 1] for o in overlap], [-0.06258, -0.10184, -0.12758, -0.14607, -0.16036, -0.17219], 2e-3)
    near([o[0] for o in overlap], [0.0759, -0.0633], 1e-4)
    gram = np.mean([np.einsum("tiu,tju->tij", r.kernels.c, r.kernels.c) for r in runs], axis=0)
    np.testing.assert_allclose(gram[1:, 0, 0], [0.8550, 0.8058, 0.7917, 0.7929, 0.8017, 0.8146], atol=2e-3)
    np.testing.assert_allclose(gram[1:, 0, 1], [0.1099, 0.1491, 0.1603, 0.1591, 0.1522, 0.1427], atol=2e-3)
    np.testing.assert_allclose(gram[1, 0], [0.8537, 0.1098], atol=3e-4)
    test = np.mean([r.test_loss[:4] for r in runs], axis=0)
    np.testing.assert_allclose(test, [0.4917, 0.4202, 0.3859, 0.3683], atol=1e-3)


def marchenko_pastur(delta, count=4000):
    """Nodes of the spectrum of X^T X/n at n/d = delta, and the mean weights."""
    t = (np.arange(count) + 0.5) * np.pi / count
    low, high = (1 - delta**-0.5) ** 2, (1 + delta**-0.5) ** 2
    x = 0.5 * (low + high) - 0.5 * (high - low) * np.cos(t)
    w = np.sin(t) * np.sqrt((high - x) * (x - low)) / x
    return x, w / w.sum()


@pytest.mark.parametrize("momentum", [0.0, 0.5])
def test_linear_descent_with_ridge_is_exact(momentum):
    """R2: f = w.x on y = z, n/d = 3, from w.theta_* = .2; its ridge .5 and step .1, for the sum of x x^T/d, are 1/6 and
    .3 here.
    """
    x, p = marchenko_pastur(3.0)
    problem = be.Problem("z", be.Network("1.0*v"), step_size=0.3, weight_decay=1 / 6, momentum=momentum)
    runs = replicas(problem, 3.0, 24, overlap=np.array([[0.2]]))
    m, before, exact = np.full(x.size, 0.2), np.full(x.size, 0.2), [0.2]
    for _ in range(49):
        # theta_* is a generic direction: each eigenvector carries the same share of it.
        m, before = m + 0.3 * (x - (x + 1 / 6) * m) + momentum * (m - before), m
        exact.append(float(p @ m))
    near([r.overlap[1:, 0, 0] for r in runs], np.array(exact[1:25]), 2e-5)
    if momentum == 0.0:
        published = [0.73558, 0.79290, 0.80689, 0.81128, 0.81284, 0.81379]
        np.testing.assert_allclose([exact[t] for t in (6, 12, 18, 24, 30, 49)], published, atol=1e-5)


def test_mini_batches_agree_with_exact_linear_descent_on_average():
    """E[theta_* . w] of linear descent does not see an independent mask of mean one; the norm does."""
    whole = be.Problem("z", be.Network("1.0*v"), step_size=0.2)
    half = be.Problem("z", be.Network("1.0*v"), step_size=0.2, batch=0.5)
    a, b = (replicas(p, 3.0, 8, paths=1 << 16) for p in (whole, half))
    difference = [x.overlap[1, 0, 0] - y.overlap[1, 0, 0] for x, y in zip(a, b, strict=True)]
    near(difference, 0.0, 1e-4)
    more = [y.norm2[1, 0] - x.norm2[1, 0] for x, y in zip(a, b, strict=True)]
    # One step: the mask has variance 1, so the gradient noise E[F^2]/delta doubles; E[F^2] = eta^2 E[(z - v)^2].
    near(more, 0.2**2 * 2.0 / 3.0, 2e-4)


def test_small_steps_keep_positivity_for_two_hundred_steps():
    run = dmft.solve(be.Problem(IND, "gelu", step_size=0.05), 10.0, 200, paths=1 << 13, seed=(0,))
    assert run.diverged_at is None
    assert run.rank < 60
    assert np.all(np.isfinite(run.train_loss))
    f = run.coordinates()[1]
    gram = f @ f.T / run.y.size
    np.testing.assert_allclose(gram, np.eye(len(gram)), atol=1e-9)
    coarse = dmft.solve(be.Problem(IND, "gelu", step_size=0.5), 10.0, 20, paths=1 << 13, seed=(0,))
    assert abs(run.train_loss[-1] - coarse.train_loss[-1]) < 0.02


def test_the_rank_cut_changes_nothing_that_is_seen():
    problem = be.Problem(IND, "gelu", step_size=0.5)
    cut, full = (replicas(problem, 10.0, 15, count=3, rank_tolerance=tol) for tol in (dmft.RANK_TOLERANCE, 1e-9))
    assert cut[0].rank < full[0].rank
    for a, b in zip(cut, full, strict=True):
        np.testing.assert_allclose(a.train_loss, b.train_loss, atol=1e-5)
        np.testing.assert_allclose(a.norm2, b.norm2, atol=1e-4)


def test_divergence_is_reported_with_its_step():
    run = dmft.solve(be.Problem("z^2", "quad", step_size=5.0), 2.0, 30, paths=1 << 10, seed=(0,))
    assert run.diverged_at is not None
    assert len(run.train_loss) == run.diverged_at
    assert np.all(np.isfinite(run.train_loss))


@pytest.mark.parametrize(("activation", "step"), [("exp(v)", 5.0), ("exp(v)", 0.5), ("v^4", 2.0), ("exp(v^2/4)", 1.0)])
def test_what_overflows_has_diverged(activation, step):
    """Numbers beyond the largest one are a divergence with its step, and no warning of an array library."""
    run = dmft.solve(be.Problem("z^2", be.Network(activation), step_size=step), 3.0, 12, paths=1 << 12, seed=(0,))
    assert run.diverged_at is not None
    assert 1 <= run.diverged_at <= 4
    assert len(run.train_loss) == run.diverged_at
    assert np.all(np.isfinite(run.train_loss + run.test_loss))


def test_without_pairs_a_spurious_overlap_grows():
    """The mirror (V_*, -V_*) keeps a hard overlap what it is: zero, or exactly odd in its start."""
    problem = be.Problem(IND, "gelu", step_size=0.5)
    free = dmft.solve(problem, 30.0, 20, paths=1 << 13, seed=(1,), mirror=False)
    assert abs(free.overlap[20, 0, 0]) > 1e-3
    assert np.all(dmft.solve(problem, 30.0, 20, paths=1 << 13, seed=(1,)).overlap == 0.0)
    up, down = (dmft.solve(problem, 30.0, 20, paths=1 << 13, seed=(1,), overlap=np.array([[m]])) for m in (0.02, -0.02))
    np.testing.assert_allclose(up.overlap, -down.overlap, atol=1e-12)
    bare = [
        dmft.solve(problem, 30.0, 20, paths=1 << 13, seed=(1,), overlap=np.array([[m]]), mirror=False).overlap[20, 0, 0]
        for m in (0.02, -0.02)
    ]
    assert abs(bare[0] + bare[1]) > 1e-3


@settings(max_examples=4, deadline=None)
@given(st.floats(0.3, 3.0), st.sampled_from(["gelu", "tanh", "relu"]))
def test_scaling_laws(c, activation):
    """Loss doubled is the step halved; for the squared loss (y, a) -> (c y, c a) is eta -> eta/c^2."""
    base = be.Problem("tanh(z^2)", activation, step_size=0.4)
    doubled = be.Problem("tanh(z^2)", activation, loss=lambda y, f: (y - f) ** 2, step_size=0.2)
    scaled = be.Problem(f"{c!r}*tanh(z^2)", be.Network(activation, 1, c), step_size=0.4 / c**2)
    one, two, three = (dmft.solve(p, 4.0, 3, paths=1 << 9, seed=(3,)) for p in (base, doubled, scaled))
    np.testing.assert_allclose(one.norm2, two.norm2, rtol=1e-9)
    np.testing.assert_allclose(2 * one.train_loss, two.train_loss, rtol=1e-9)
    np.testing.assert_allclose(one.norm2, three.norm2, rtol=1e-8)
    np.testing.assert_allclose(c**2 * one.test_loss, three.test_loss, rtol=1e-8)


def test_identical_neurons_are_one_neuron():
    """Neurons that start alike stay alike: exchanging two equal neurons changes nothing in law."""
    pair = be.Problem("tanh(z1) + z2^2/(1 + z2^2)", be.Network("gelu", 2, (1.0, 1.0)), step_size=1.0)
    runs = replicas(pair, 4.0, 5, count=4)
    near([r.norm2[5, 0] - r.norm2[5, 1] for r in runs], 0.0, 1e-3)
    near([r.overlap[5, 0] - r.overlap[5, 1] for r in runs], np.zeros(2), 1e-3)


def test_an_inert_direction_changes_nothing():
    one = replicas(be.Problem("tanh(z^2)", "gelu", step_size=0.5), 4.0, 5)
    two = replicas(be.Problem("tanh(z1^2)", "gelu", step_size=0.5, latent_dim=2), 4.0, 5)
    near([a.train_loss - b.train_loss for a, b in zip(one, two, strict=True)], np.zeros(6), 1e-5)
    assert all(np.all(r.overlap == 0.0) for r in two)


def test_rotating_the_latent_space_changes_nothing():
    angle = 0.6

    def rotated(z, e):
        import jax.numpy as jnp

        a = jnp.cos(angle) * z[0] + jnp.sin(angle) * z[1]
        b = -jnp.sin(angle) * z[0] + jnp.cos(angle) * z[1]
        return jnp.tanh(a) + b**2 / (1 + b**2)

    plain = replicas(be.Problem("tanh(z1) + z2^2/(1 + z2^2)", "gelu", step_size=1.0), 4.0, 6)
    turned = replicas(be.Problem(rotated, "gelu", step_size=1.0, latent_dim=2), 4.0, 6)
    near([a.test_loss - b.test_loss for a, b in zip(plain, turned, strict=True)], np.zeros(7), 1e-4)
    along = [r.overlap[6, 0] @ [np.cos(angle), np.sin(angle)] for r in turned]
    near([r.overlap[6, 0, 0] - a for r, a in zip(plain, along, strict=True)], 0.0, 1e-3)


@pytest.mark.parametrize("precision", ["double", "single"])
def test_rows_on_an_accelerator_are_the_rows_on_a_cpu(monkeypatch, precision):
    """Elsewhere than on a CPU samples stay JAX arrays; the equations are the same. A batch, and kinks too."""
    network = be.Network("relu", 2, (1.0, -0.5), (0.1, 0.0))
    problem = be.Problem("tanh(z1) + 0.5*z2^2/(1 + z2^2)", network, step_size=1.0, batch=0.5, momentum=0.2)
    choice = {"paths": 1 << 11, "seed": (4,), "precision": precision}
    here = dmft.solve(problem, 4.0, 12, **choice)
    monkeypatch.setattr(ensemble.jax, "default_backend", lambda: "somewhere else")
    there = dmft.solve(problem, 4.0, 12, **choice)
    close = {"rtol": 1e-9 if precision == "double" else 2e-4, "atol": 1e-9 if precision == "double" else 1e-5}
    np.testing.assert_allclose(there.train_loss, here.train_loss, **close)
    np.testing.assert_allclose(there.norm2, here.norm2, **close)
    np.testing.assert_allclose(there.preactivations(12), here.preactivations(12), **close)


def test_single_precision_is_below_the_sampling_error():
    """Samples kept in float32 change a run by far less than another seed does."""
    problem = be.Problem(IND, "gelu", step_size=0.5)
    one, other = (dmft.solve(problem, 10.0, 6, paths=1 << 13, seed=(1,), precision=p) for p in ("double", "single"))
    np.testing.assert_allclose(other.train_loss, one.train_loss, atol=1e-5)
    np.testing.assert_allclose(other.norm2, one.norm2, atol=1e-4)


def test_many_directions_have_room():
    """More left directions than there was room for at first, with several born at once."""
    network = be.Network("tanh", 8, [(-1.0) ** j * (1.0 + 0.2 * j) for j in range(8)], [0.1 * j for j in range(8)])
    run = dmft.solve(be.Problem("sin(2*z)", network, step_size=6.0), 3.0, 12, paths=1 << 10, seed=(0,))
    assert run.rank > 64
    f = run.coordinates()[1]
    np.testing.assert_allclose(f @ f.T / run.y.size, np.eye(len(f)), atol=1e-9)
    x = run.coordinates(slice(5, 9))[0]
    np.testing.assert_allclose(run.kernels.c[12] @ x, run.preactivations(12)[:, 5:9], rtol=1e-9)
