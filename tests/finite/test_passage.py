"""First passages are those of the runs of `simulate`."""

import math

import numpy as np
import pytest

import bulkedge as be
from bulkedge.finite.passage import first_passage

PROBLEM = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu", step_size=0.5)


@pytest.mark.parametrize("data", ["stored", "lazy"])
def test_it_is_where_the_cosine_of_a_whole_run_first_exceeds_one_half(data):
    runs = be.simulate(PROBLEM, 30.0, 100, 40, seeds=4, seed=3, data=data).seeds
    for i, run in enumerate(runs):
        hit = np.flatnonzero(np.abs(run["cosine"]) > 0.5)
        expected = float(hit[0]) if hit.size else math.inf
        assert first_passage(PROBLEM, 30.0, 100, 40, 3, run=i, data=data) == expected


def test_a_feature_that_is_not_found_in_time():
    assert first_passage(PROBLEM, 2.0, 400, 3) == math.inf


def test_nothing_to_wait_for():
    with pytest.raises(be.BadInput, match="no hard direction"):
        first_passage(be.Problem("z", "gelu"), 2.0, 50, 3)
