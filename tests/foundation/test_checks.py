import math
import pickle

import numpy as np
import pytest

from bulkedge.foundation import checks
from bulkedge.foundation.errors import BadInput, unknown_name
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.roots import bracketed


@pytest.mark.parametrize(
    ("check", "value"),
    [
        (checks.number, "abc"),
        (checks.number, None),
        (checks.number, math.nan),
        (checks.number, -math.inf),
        (checks.number, 1j),
        (checks.number, [1.0]),
        (checks.number, np.array([1.0])),
        (checks.number, True),
        (checks.number, 10**400),
        (checks.positive, 0),
        (checks.positive, -1e-9),
        (lambda a, v: checks.integer(a, v, low=1), 0),
        (lambda a, v: checks.integer(a, v, low=1), 1.5),
        (lambda a, v: checks.integer(a, v, low=1), math.nan),
        (lambda a, v: checks.integer(a, v, low=1), True),
        (lambda a, v: checks.integer(a, v, low=1), "3"),
        (lambda a, v: checks.integer(a, v, low=1, high=5), 6),
        (lambda a, v: checks.choice(a, v, ("block", "full")), "whole"),
        (checks.hashable, []),
    ],
)
def test_what_is_wrong_is_said_in_one_line(check, value):
    with pytest.raises(BadInput) as caught:
        check("delta", value)
    assert str(caught.value).startswith("delta: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_what_is_right_passes():
    assert checks.number("x", np.float32(2)) == 2.0
    assert checks.number("x", np.array(2)) == 2.0
    assert checks.positive("x", 1e-300) == 1e-300
    assert checks.integer("n", 3.0, low=0) == 3
    assert type(checks.integer("n", np.int32(3), low=0, high=3)) is int
    assert checks.choice("hessian", "full", ("block", "full")) == "full"
    assert checks.hashable("loss", abs) is abs


def test_bad_input_survives_pickling():
    error = pickle.loads(pickle.dumps(BadInput("delta", "must be positive")))
    assert (error.argument, error.message, str(error)) == ("delta", "must be positive", "delta: must be positive")
    assert isinstance(error, ValueError)


def test_unknown_names_come_with_the_nearest():
    assert "did you mean gelu?" in str(unknown_name("activation", "gellu", ["gelu", "tanh"]))
    assert "known: gelu, tanh" in str(unknown_name("activation", "qqq", ["tanh", "gelu"]))
    assert len(str(unknown_name("activation", "x" * 1000, ["gelu"]))) < 200


def test_numerics_are_checked_and_updated():
    assert DEFAULT.updated(paths=1000, seed=None) == Numerics(paths=1000)
    assert Numerics(**DEFAULT.to_dict()) == DEFAULT
    for wrong in ({"paths": 1}, {"replicas": 1}, {"seed": -1}, {"rtol": 0.0}, {"paths": 1e12}):
        with pytest.raises(BadInput, match=next(iter(wrong))):
            Numerics(**wrong)


def test_a_root_inside_its_bracket():
    assert bracketed(lambda x: x**3 - 2, 0.0, 2.0) == pytest.approx(2 ** (1 / 3), rel=1e-13)
    with pytest.raises(ValueError, match="sign"):
        bracketed(lambda x: 1.0, 0.0, 1.0)
