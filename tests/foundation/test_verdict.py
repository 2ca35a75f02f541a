import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bulkedge.foundation.verdict import AGREES, DISAGREES, SIGMAS, UNDECIDED, judge


@pytest.mark.parametrize(
    ("predicted", "sp", "measured", "sm", "verdict"),
    [
        (1.0, 0.01, 1.02, 0.01, AGREES),
        (1.0, 0.001, 1.02, 0.001, DISAGREES),
        (1.0, 0.0, 1.0, 0.0, AGREES),
        (1.0, 0.0, 1.001, 0.0, DISAGREES),
        (1.0, 0.1, 1.0, 0.1, UNDECIDED),  # could not have seen 5 percent
        (1.0, 0.1, 3.0, 0.1, DISAGREES),  # but it does see this
        (1.0, 0.01, np.nan, 0.01, UNDECIDED),
        (1.0, 0.0, 1.001, np.nan, UNDECIDED),  # an unknown error is not a small one
        (0.0, 0.01, 0.0, 0.01, UNDECIDED),  # no size to compare with
    ],
)
def test_verdict_of_one_point(predicted, sp, measured, sm, verdict):
    assert judge(predicted, sp, measured, sm).verdict == verdict


def test_the_scale_and_the_drift_are_respected():
    assert judge(0.0, 0.01, 0.0, 0.01, scale=1.0).verdict == AGREES
    assert judge(1.0, 0.001, 1.1, 0.001).verdict == DISAGREES
    assert judge(1.0, 0.001, 1.1, 0.001, drift=0.1).verdict == AGREES


def test_one_point_apart_is_enough_to_disagree():
    result = judge([1.0, 1.0, 1.0], 0.001, [1.0, 1.0, 1.1], 0.001, name="the loss")
    assert result.points == [AGREES, AGREES, DISAGREES]
    assert result.verdict == DISAGREES
    assert result.sentence.startswith("the loss: prediction and measurement disagree")
    assert result.sigmas == pytest.approx(0.1 / np.hypot(0.001, 0.001))


def test_half_of_the_points_must_be_sharp():
    assert judge([1, 1, 1, 1], [0.01, 0.01, 1, 1], [1, 1, 1, 1], 0.0).verdict == AGREES
    assert judge([1, 1, 1, 1], [0.01, 1, 1, 1], [1, 1, 1, 1], 0.0).verdict == UNDECIDED


def test_curves_of_any_shape():
    rng = np.random.default_rng(0)
    p = 1 + rng.random((5, 2, 2))
    result = judge(p, 0.01, p + 0.01 * rng.standard_normal(p.shape), 0.01)
    assert result.verdict == AGREES
    assert len(result.points) == 20
    assert judge([], [], [], []).verdict == UNDECIDED


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.floats(1e-6, 10))
def test_disagreement_is_a_gap_beyond_four_errors(p, q, s):
    disagrees = judge(p, s, q, 0.0).verdict == DISAGREES
    gap = abs(p - q)
    if gap > SIGMAS * s * 1.001 + 1e-5:
        assert disagrees
    if gap < SIGMAS * s:
        assert not disagrees
