import numpy as np
import pytest

from bulkedge import BadInput
from bulkedge.finite.onset import onset, own_onset

X = np.array([3.0, 4.5, 6.0, 8.0, 10.0, 13.0, 18.0])


def law(middle, slope):
    return 1.0 / (1.0 + np.exp(-slope * (np.log(X) - np.log(middle))))


def test_probabilities_give_back_the_middle_of_their_law():
    assert onset(X, law(7.0, 5.0)).value == pytest.approx(7.0, rel=1e-4)


def test_error_is_that_of_the_spread_over_experiments():
    rng = np.random.default_rng(0)
    found = [onset(X, rng.binomial(20, law(7.0, 5.0)) / 20, np.full(7, 20)) for _ in range(200)]
    values = np.array([o.value for o in found])
    claimed = np.mean([o.stderr for o in found])
    assert abs(values.mean() - 7.0) < 4 * values.std() / np.sqrt(200) + 0.05
    assert claimed == pytest.approx(values.std(), rel=0.25)


def test_a_jump_has_an_onset_between_its_neighbours_and_a_finite_error():
    found = onset(X, (X > 7).astype(float), np.full(7, 20))
    assert 6.0 < found.value < 8.0
    assert 0 < found.stderr < 2


@pytest.mark.parametrize(("fractions", "said"), [(0.9, "below 3"), (0.1, "above 18"), (np.nan, "unknown")])
def test_one_side_of_one_half_is_a_bound(fractions, said):
    assert str(onset(X, np.full(7, fractions), np.full(7, 20))).startswith(said)


def test_values_without_trials_are_left_out():
    p = law(7.0, 5.0)
    p[0] = np.nan
    n = np.full(7, 1e6)
    n[-1] = 0
    assert onset(X, p, n).value == pytest.approx(7.0, rel=1e-3)


def test_lengths_must_match():
    with pytest.raises(BadInput, match="fraction"):
        onset(X, [0.5])


@pytest.mark.parametrize("fractions", [[0.9, 0.8, 0.6, 0.5, 0.4, 0.2, 0.1], [0.6, 0.4, 0.6, 0.4, 0.6, 0.4, 0.4]])
def test_fractions_that_do_not_grow_have_no_onset_outside_what_was_tried(fractions):
    found = onset(X, fractions, np.full(7, 20))
    assert found.bound == "unknown" or X[0] <= found.value <= X[-1]
    assert np.isnan(found.stderr) or found.stderr > 0


def test_own_onset_is_the_end_of_the_failures():
    grid = np.array([1.0, 2.0, 4.0, 8.0])
    assert own_onset(grid, [0, 0, 1, 1]) == pytest.approx(np.sqrt(2.0 * 4.0))
    assert own_onset(grid, [1, 1, 1, 1]) == pytest.approx(1.0 / np.sqrt(2.0))
    assert own_onset(grid[::-1], [1, 1, 0, 0]) == pytest.approx(np.sqrt(2.0 * 4.0))
    assert np.isnan(own_onset(grid, [0, 0, 0, 0]))


def test_mean_of_own_onsets_is_the_middle_of_the_law():
    rng = np.random.default_rng(1)
    grid = np.geomspace(1.0, 60.0, 12)
    p = 1.0 / (1.0 + np.exp(-5.0 * (np.log(grid) - np.log(7.0))))
    logs = np.log([own_onset(grid, rng.random(12) < p) for _ in range(400)])
    assert abs(logs.mean() - np.log(7.0)) < 4.5 * logs.std() / 20.0


@pytest.mark.parametrize(
    ("x", "success"), [([1.0], [1]), ([1.0, 1.0], [0, 1]), ([1.0, 2.0], [1]), ([0.0, 1.0], [0, 1])]
)
def test_own_onset_refuses(x, success):
    with pytest.raises(BadInput):
        own_onset(x, success)
