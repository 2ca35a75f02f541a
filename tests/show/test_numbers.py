import math

import pytest

from bulkedge.show.numbers import (
    fewer_rows,
    plain,
    problem_line,
    quantity_name,
    time_name,
    uncertain,
    verdict_line,
)


@pytest.mark.parametrize(
    ("value", "stderr", "text"),
    [
        (0.80401, 0.00123, "0.8040(12)"),
        (0.80401, 0.000997, "0.8040(10)"),
        (12.345, 1.2, "12.3(1.2)"),
        (5.10622, 0.0, "5.1062"),
        (5.10622, None, "5.1062"),
        (5.10622, math.nan, "5.1062"),
        (-0.4117, 0.03, "-0.412(30)"),
        (1234.0, 56.0, "1234 ± 56"),
        (3.2e-9, 1e-10, "3.2e-09 ± 1e-10"),
        (1.0, 1e-16, "1"),
        (1.0, math.inf, "1"),
        (0.0, 0.01, "0.000(10)"),
        (None, 0.1, "–"),
        (math.nan, 0.1, "–"),
    ],
)
def test_uncertain(value, stderr, text):
    assert uncertain(value, stderr) == text


def test_words():
    assert plain(None) == plain(math.nan) == "–"
    assert [time_name(t) for t in (0, 5.0, math.inf, None)] == ["0", "5", "∞", "–"]
    assert quantity_name("train_loss") == "training loss"
    assert quantity_name("right_edge") == "right edge"


def test_problem_line_names_what_differs_from_plain_descent(made):
    assert problem_line({}) == ""
    assert problem_line(made.PROBLEM) == ("target 2*(abs(z) > 0.67449), one neuron (gelu), squared loss, step size 0.5")
    other = made.PROBLEM | {"momentum": 0.9, "batch": 0.5, "network": {"activation": "erf", "width": 3}}
    assert problem_line(other).endswith("3 neurons (erf), squared loss, step size 0.5, momentum 0.9, batch 0.5")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("norm2[0]", "squared norm, neuron 1"),
        ("cosine[1, 0]", "cosine, neuron 2, direction 1"),
        ("hidden_variance[0, 1]", "hidden variance 1, 2"),
        ("lowest_eigenvalue", "lowest eigenvalue"),
    ],
)
def test_a_component_is_named_by_neuron_and_direction(name, text):
    assert quantity_name(name) == text


def test_fewer_rows_keep_the_ends_and_all_that_disagree():
    rows = [{"quantity": "norm2", "time": t, "verdict": "disagrees" if t == 7 else "agrees"} for t in range(21)]
    rows.append({"quantity": "edge", "time": 3, "verdict": "undecided"})
    assert [row["time"] for row in fewer_rows(rows)] == [0, 5, 7, 10, 15, 20, 3]
    assert fewer_rows(rows[:4]) == rows[:4]
    assert fewer_rows([]) == []


def test_a_verdict_line_groups_the_quantities():
    verdicts = {"norm2": {"verdict": "agrees"}, "edge": {"verdict": "undecided"}, "test_loss": {"verdict": "agrees"}}
    assert verdict_line(verdicts) == "agrees: squared norm, test loss; undecided: edge"
