import numpy as np
import pytest

import bulkedge as be
from bulkedge.finite.whole_spectrum import whole_spectrum

PROBLEM = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu", step_size=0.5)


def test_lowest_eigenpairs_are_those_of_the_matrix_free_search():
    whole = whole_spectrum(PROBLEM, 8.0, 120, (0, 3), seed=5)
    run = be.simulate(PROBLEM, 8.0, 120, 3, seeds=1, seed=5, spectrum_times=(0, 3), eigenpairs=3)
    for i, t in enumerate((0, 3)):
        np.testing.assert_allclose(whole.eigenvalues[i, :3], run.eigenvalues[t], atol=2e-4)
        np.testing.assert_allclose(whole.overlap2[i, 0], run.overlap2[t][0], atol=5e-3)


def test_trace_is_the_mean_weight_and_overlaps_add_up():
    whole = whole_spectrum(PROBLEM, 8.0, 200, (0,))
    # At t = 0 the trace over d is E[G] up to its fluctuation: G by one million draws.
    rng = np.random.default_rng(0)
    z = rng.standard_normal((1_000_000, 1))
    g = PROBLEM.pointwise.block(
        rng.standard_normal((1, 1_000_000)), PROBLEM.labels(z, np.zeros(len(z))), *PROBLEM.layer
    )[0]
    assert whole.eigenvalues.mean() == pytest.approx(float(np.mean(g)), abs=4 * float(np.std(g)) / np.sqrt(1600) + 0.01)
    assert whole.overlap2.sum() == pytest.approx(1.0, abs=1e-9)


def test_what_cannot_be_diagonalised_is_refused():
    with pytest.raises(be.BadInput, match="kink"):
        whole_spectrum(be.Problem("z**2", "relu"), 2.0, 20, (0,))
    with pytest.raises(be.BadInput, match="dimension"):
        whole_spectrum(PROBLEM, 2.0, 100_000, (0,))
    with pytest.raises(be.BadInput, match="times"):
        whole_spectrum(PROBLEM, 2.0, 20, ())
