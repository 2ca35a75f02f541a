"""Spectra through the public function: labels of outliers against trained networks, what symmetry demands, arrays."""

import jax
import numpy as np
import pytest

import bulkedge as be
from bulkedge.models.directions import directions

FEW = be.Numerics(paths=16384, replicas=4)
FEWER = be.Numerics(paths=2048, replicas=2)
NETWORK = be.Network("gelu", second_layer=(2.0, -1.0))
PARABOLA = be.Problem("z1 + z2^2/2", NETWORK, "pseudo-huber", step_size=1.0)
SADDLE = be.Problem("2*tanh(z1*z2) + z1", be.Network("gelu", second_layer=(2.0, -2.0)), "pseudo-huber", step_size=1.0)


def hessians(problem, delta, steps, d, seed):
    """A plain loop in float64: X, weights (m, m, n) of m Hess Risk after some steps, and theta(0..t) as rows."""
    rng = np.random.default_rng([seed, 5])
    n, m, k = round(delta * d), problem.m, problem.k
    x, theta = rng.standard_normal((n, d)), rng.standard_normal((m, d))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    y, (a, b), seen = problem.labels(x[:, :k], np.zeros(n)), problem.layer, [theta]

    def risk(v, y):
        return problem.loss_function(y, (a * jax.vmap(problem.network.sigma)(v + b)).mean())

    with jax.enable_x64(True):
        slope, bend = (jax.jit(jax.vmap(f(risk))) for f in (jax.grad, jax.hessian))
        for _ in range(steps):
            theta = theta - problem.step_size * np.asarray(slope(x @ theta.T, y)).T @ x / n
            seen.append(theta)
        return x, m * np.moveaxis(np.asarray(bend(x @ theta.T, y)), 0, -1), np.concatenate(seen)


def eigenpairs(x, g, neuron):
    m, n = len(g), len(x)
    if neuron is not None:
        values, vectors = np.linalg.eigh(x.T @ (g[neuron, neuron][:, None] * x) / n)
        return values, vectors[None]
    rows = [[x.T @ (g[i, j][:, None] * x) / n for j in range(m)] for i in range(m)]
    values, vectors = np.linalg.eigh(np.block(rows))
    return values, vectors.reshape(m, x.shape[1], -1)


@pytest.mark.parametrize(
    ("problem", "kinds"),
    [(PARABOLA, {"hidden below", "hidden above"}), (SADDLE, {"easy below"})],
    ids=["parabola", "saddle"],
)
def test_outliers_are_labelled_as_in_trained_networks(problem, kinds):
    """Blocks of neurons of each sign, and the whole matrix: every outlier clear of the bulk, and none beside them."""
    delta, steps, d, seeds = 30.0, 2, 240, 4
    link, k = directions(problem.link), problem.k
    trained = [hessians(problem, delta, steps, d, seed) for seed in range(seeds)]
    blocks = be.spectrum(problem, delta, steps, points=16, numerics=FEW).blocks
    whole = be.spectrum(problem, delta, steps, hessian="full", points=16, numerics=FEW)
    found = set()
    for neuron, limit in [(0, blocks[0]), (1, blocks[1]), (None, whole)]:
        width = limit.right_edge - limit.edge
        pairs = [eigenpairs(x, g, neuron) for x, g, _ in trained]
        for side in ("below", "above"):
            edge, sign = (limit.edge, -1) if side == "below" else (limit.right_edge, 1)
            mine = sorted((o for o in limit.outliers if sign * (o.value - edge) > 0), key=lambda o: -sign * o.value)
            clear = [o for o in mine if abs(o.value - edge) > 0.04 * width]
            for i, o in enumerate(clear):
                at, rows = i if side == "below" else -1 - i, []
                for (values, v), (_, _, seen) in zip(pairs, trained, strict=True):
                    parts = {"hidden": v[:, :k, at] @ link.hard, "easy": v[:, :k, at] @ link.easy}
                    parts["weight"] = v[:, :, at] @ np.linalg.qr(seen.T)[0]
                    rows.append([values[at], np.sum(parts[o.kind] ** 2)])
                mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(seeds)
                assert abs(mean[0] - o.value) < 4 * np.hypot(error[0], o.stderr) + 0.02 * width, (o, mean, error)
                assert abs(mean[1] - o.overlap2) < 4 * np.hypot(error[1], o.overlap2_stderr) + 0.05, (o, mean, error)
                found.add(f"{o.kind} {side}")
            following = len(clear) if side == "below" else -1 - len(clear)
            rest = np.mean([values[following] for values, _ in pairs])
            assert sign * (rest - edge) < 0.06 * width
    assert found >= kinds


def test_a_turned_hard_direction_and_an_inert_one_change_nothing():
    plain = be.Problem("tanh(z^2)", "gelu")
    turned = be.Problem("tanh((0.6*z1 + 0.8*z2)^2)", "gelu")
    beside = be.Problem("tanh(z1^2)", "gelu", latent_dim=2)
    expected, spectrum = be.threshold(plain), be.spectrum(plain, 8.0, points=16, numerics=FEWER)
    for problem in (turned, beside):
        kinds = directions(problem.link)
        assert (kinds.hard.shape[1], kinds.inert.shape[1], kinds.easy.shape[1]) == (1, 1, 0)
        found = be.threshold(problem)
        assert found.delta == pytest.approx(expected.delta, rel=2e-5)
        assert found.delta_alg == pytest.approx(expected.delta_alg, rel=1e-3)
        other = be.spectrum(problem, 8.0, points=16, numerics=FEWER)
        assert other.edge == pytest.approx(spectrum.edge, rel=1e-4)
        (a,), (b,) = ([o for o in s.outliers if o.kind == "hidden"] for s in (spectrum, other))
        assert (b.value, b.overlap2) == (pytest.approx(a.value, rel=1e-4), pytest.approx(a.overlap2, rel=1e-2))


def test_block_and_whole_agree_as_the_width_grows():
    """m times the off-diagonal blocks of the Hessian shrink like 1/m: so does the distance of the lowest outliers."""
    gaps = []
    for m in (2, 8):
        problem = be.Problem("2*tanh(z^2)", be.Network("gelu", m, 2.0), "pseudo-huber")
        block = be.spectrum(problem, 12.0, points=16, numerics=FEWER).blocks[0]
        whole = be.spectrum(problem, 12.0, hessian="full", points=16, numerics=FEWER)
        lowest = [min(o.value for o in s.outliers if o.kind == "hidden") for s in (block, whole)]
        gaps.append((abs(lowest[0] - lowest[1]) / abs(lowest[0]), abs(block.edge - whole.edge) / abs(block.edge)))
    assert np.all(np.array(gaps[1]) < 0.6 * np.array(gaps[0])), gaps
    assert gaps[0][0] > 0.1


def test_arrays_of_delta_and_time_come_back_labelled():
    problem = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu", step_size=0.5)
    table = be.spectrum(problem, [8.0, 12.0], [0, 2], points=16, numerics=FEWER)
    assert table.edge.dims == ("delta", "time")
    one = be.spectrum(problem, 12.0, 2, points=16, numerics=FEWER)
    assert float(table.edge.sel(delta=12.0, time=2)) == one.edge
    curves = be.trajectory(problem, [4.0, 8.0], 2, numerics=FEWER)
    assert curves.train_loss.dims == ("delta", "step")
    assert np.all(curves.train_loss.sel(delta=4.0)[1:] < curves.train_loss.sel(delta=8.0)[1:])
    assert "train_loss_stderr" in curves
    two = be.trajectory(PARABOLA, [4.0, 8.0], 1, numerics=FEWER)
    assert two.overlap.dims == ("delta", "step", "neuron", "direction")
    for wrong in ([[1.0]], [], ["a"], [1.0, -1.0]):
        with pytest.raises(be.BadInput, match="delta"):
            be.trajectory(problem, wrong, 1, numerics=FEWER)
