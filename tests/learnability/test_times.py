"""Learning times at a finite dimension: against networks really trained, and the laws they must obey."""

import json
import math

import numpy as np
import pytest

import bulkedge as be
from bulkedge.dynamics import dmft
from bulkedge.finite.passage import first_passage
from bulkedge.foundation.answers import LearningTime
from bulkedge.foundation.status import Status

FEW = be.Numerics(paths=16384, replicas=4)
LEVELS = (0.75, 0.5, 0.25)


def simulated(problem, delta, dimension, steps, runs):
    """Quartiles [slow, median, fast] of first passages, their bootstrap errors, and the fraction that learned."""
    times = np.array([first_passage(problem, delta, dimension, steps, 11, run=i, data="stored") for i in range(runs)])
    rng = np.random.default_rng(0)
    draws = rng.choice(np.where(np.isfinite(times), times, 10.0 * steps), (1000, runs))
    errors = np.quantile(draws, LEVELS, axis=1, method="nearest").std(axis=1)
    return np.quantile(times, LEVELS, method="nearest"), errors, np.mean(np.isfinite(times))


def test_quartiles_of_trained_networks(indicator):
    """Delta 30, d = 200: sharp enough to see a spurious overlap, and a search without its noise (both far outside)."""
    found = be.learning_time(indicator, 30.0, 200, 100, numerics=FEW)
    times, errors, learned = simulated(indicator, 30.0, 200, 100, 240)
    assert np.all(np.abs(np.array(found.quartiles) - times) < 0.1 * times + 4 * errors)
    assert abs(found.success_probability - learned) < 0.03 + 4 * math.sqrt(learned * (1 - learned) / 240)
    assert found.time == found.quartiles[1]
    assert found.status is Status.CONVERGED


def test_several_neurons_and_directions_are_drawn():
    """Two unequal neurons, two hard directions."""
    problem = be.Problem("3*tanh(z1*z2)", be.Network("gelu", second_layer=[2.0, 1.5]), step_size=1.0)
    found = be.learning_time(problem, 25.0, 150, 60, numerics=be.Numerics(paths=8192, replicas=2))
    times, errors, _ = simulated(problem, 25.0, 150, 60, 120)
    assert np.all(
        np.abs(np.array(found.quartiles) - times) < 0.1 * times + 4 * np.hypot(errors, found.stderr["quartiles"])
    )
    assert found.hidden_variance.shape == (61, 4, 4)


def test_later_in_a_larger_dimension_like_its_logarithm(indicator):
    """An outlier persists at delta 60: the overlap grows geometrically, and four times d takes as long each time."""
    table = be.learning_time(indicator, 60.0, [10**3, 4 * 10**3, 16 * 10**3], 120, numerics=FEW)
    first, second, third = (float(t) for t in table.time)
    assert first < second < third
    assert third - second == pytest.approx(second - first, abs=0.25 * (third - first))


def test_no_learning_below_threshold(indicator):
    found = be.learning_time(indicator, 3.0, 10**5, 40, numerics=FEW)
    assert (found.time, found.quartiles, found.success_probability) == (None, [None, None, None], 0.0)
    again = LearningTime.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert again.quartiles == found.quartiles
    assert again.hidden_variance == pytest.approx(found.hidden_variance)


def test_divergence_is_said(indicator):
    from dataclasses import replace

    found = be.learning_time(replace(indicator, step_size=500.0), 5.0, 100, 10, numerics=FEW)
    assert found.status is Status.DIVERGED
    assert found.diverged_at is not None
    assert f"diverges at step {found.diverged_at}:" in found.warnings[0]
    with pytest.raises(be.BadInput, match="problem"):
        be.learning_time("z^2", 5.0, 100)


def test_nothing_to_wait_for():
    with pytest.raises(be.BadInput, match="no hard direction"):
        be.learning_time(be.Problem("z", "gelu"), 5.0, 100)


def test_a_run_ends_when_told(indicator):
    run = dmft.solve(indicator, 10.0, 20, paths=1024, seed=(0,), until=lambda c: c[0] @ c[0] > 1.1)
    whole = dmft.solve(indicator, 10.0, 20, paths=1024, seed=(0,))
    assert run.norm2[-1, 0] > 1.1 >= run.norm2[:-1, 0].max()
    assert run.steps < 20
    assert run.norm2 == pytest.approx(whole.norm2[: run.steps + 1])
    assert run.kernels.mix.shape[0] == run.steps


def test_histories_have_the_law_of_the_linear_process(indicator):
    """Draws of (xi(0), zeta), conditioned on even points, give back v(t) where the process is run forward."""
    from bulkedge.dynamics import escape
    from bulkedge.learnability.times import _Stage

    steps, count = 12, 2000
    run = dmft.solve(indicator, 10.0, steps, paths=8192, seed=(0,))
    part = escape.escape(run)
    stage = _Stage(indicator, 10.0, 20, steps, [part], run.norm2, part.covariance)
    assert 1 < stage.end < steps
    rng = np.random.default_rng(1)
    drawn = [stage.history(rng.standard_normal(1), 0, rng) for _ in range(count)]
    first, zeta = np.array([f[0] for f, _ in drawn]), np.array([z[:, 0] for _, z in drawn])
    assert np.var(first) == pytest.approx(1.0, abs=4 * math.sqrt(2 / count))
    expected = part.kick[:, 0] @ part.noise @ part.kick[:, 0].T
    error = 4 * np.sqrt(2 / count) * np.sqrt(np.multiply.outer(np.diag(expected), np.diag(expected)))
    assert np.all(np.abs(zeta.T @ zeta / count - expected) < error)
    assert np.all(np.abs(zeta.T @ first / count) < 4 * np.sqrt(np.diag(expected) / count))
