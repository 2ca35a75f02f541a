import numpy as np
import pytest

import bulkedge as be
from bulkedge.learnability.finite_size import finite_threshold
from bulkedge.learnability.lowest import lowest

SHARP = be.Problem("z**2", "gelu", loss="pseudo-huber", step_size=0.5)
FEW = be.Numerics(paths=1024)


def test_a_bounded_weight_has_the_limit_as_its_finite_threshold():
    """Pseudo-Huber at t = 0: 1.69276 (theory 1.11); the finite one comes to it as d grows."""
    found = finite_threshold(SHARP, 8000, draws=12, numerics=FEW)
    error = np.std(found.draws, ddof=1) / np.sqrt(12)
    assert abs(found.draws.mean() - 1.69276) < 4 * error + 0.05
    assert error < 0.1


def test_an_unbounded_weight_drifts_with_the_dimension():
    problem = be.Problem("z**2", "gelu")
    small, large = (finite_threshold(problem, d, draws=8, numerics=FEW) for d in (150, 2400))
    assert large.delta > 1.5 * small.delta
    low, middle, high = small.quartiles
    assert low <= middle == small.delta <= high


def test_the_threshold_is_that_of_a_real_training_set():
    """Above it a Hessian of stored data has a hidden outlier, below it has none: overlaps at n samples."""
    problem = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu", step_size=0.5)
    middle = finite_threshold(problem, 300, draws=8, numerics=FEW).delta
    seen = [
        be.simulate(problem, factor * middle, 300, 0, seeds=8, spectrum_times=(0,), eigenpairs=1).overlap2[0][0]
        for factor in (0.4, 2.5)
    ]
    assert seen[0] < 0.15
    assert seen[1] > 0.35


def test_nothing_hard_is_refused():
    with pytest.raises(be.BadInput, match="hard"):
        finite_threshold(be.Problem("z", "gelu"), 100)


def test_lowest_eigenvalue_of_a_finite_matrix():
    """Above the transition the outlier, below it the edge shifted inwards; both against matrices of 400 dimensions."""
    problem = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu")
    for delta, clear in ((3.0, False), (15.0, True)):
        expected = lowest(be.spectrum(problem, delta), 400)
        assert expected is not None
        assert (expected.outlier is not None) == clear
        run = be.simulate(problem, delta, 400, 0, seeds=10, spectrum_times=(0,), eigenpairs=1)
        error = run.stderr["eigenvalues"][0][0]
        assert abs(run.eigenvalues[0][0] - expected.value) < 4 * error + expected.drift
