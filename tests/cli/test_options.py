import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bulkedge.cli import help
from bulkedge.cli.options import COMMANDS, Help, Request, Version, flag_of, read
from bulkedge.foundation.errors import BadInput

TARGET = ["--target", "z^2"]


def values(*words):
    request = read(list(words))
    assert isinstance(request, Request)
    return request.values


def read_or_refuse(words):
    try:
        return read(words)
    except BadInput as error:
        return error


def test_values_are_read_as_what_they_are():
    found = values(
        "compare", "--target=z^2", "--delta", "2,3.5", "--dimension", "1e3", "--seeds=4", "--spectrum-times", "0,5",
        "--second-layer", "1", "--bias=0,0.5", "--json", "--step-size", ".5", "--paths", "1024"
    )  # fmt: skip
    assert found == {
        "target": "z^2", "delta": [2, 3.5], "dimension": 1000, "seeds": 4, "spectrum_times": [0, 5], "second_layer": 1,
        "bias": [0, 0.5], "json": True, "step_size": 0.5, "paths": 1024
    }  # fmt: skip
    assert type(found["dimension"]) is int


@pytest.mark.parametrize("words", [["--second-layer", "-1,1"], ["--second-layer=-1,1"]])
def test_a_list_may_begin_with_a_minus(words):
    assert values("threshold", *TARGET, *words)["second_layer"] == [-1, 1]


def test_an_expression_may_begin_with_a_minus_and_hold_an_equals_sign():
    assert values("threshold", "--target", "-z^2")["target"] == "-z^2"
    assert values("threshold", "--target", "--z")["target"] == "--z"
    assert values("threshold", "--target=z >= 1")["target"] == "z >= 1"


def test_infinity_is_a_time():
    assert values("threshold", *TARGET, "--time", "0,inf")["time"] == [0, float("inf")]


@pytest.mark.parametrize(
    ("line", "argument", "says"),
    [
        ("", "command", "is missing"),
        ("thresold --target z", "command", "did you mean threshold?"),
        ("qqq", "command", "known: threshold"),
        ("threshold", "target", "is required"),
        ("threshold --target", "target", "needs a value"),
        ("threshold --target --json", "target", "needs a value"),
        ("threshold --target ''", "target", "needs a value"),
        ("threshold --target z --activaton gelu", "--activaton", "did you mean --activation"),
        ("threshold --target z --step_size 1", "--step_size", "did you mean --step-size"),
        ("threshold --target z --xyzzy 1", "--xyzzy", "see bulkedge threshold --help"),
        ("threshold --target z --delta 1", "--delta", "is not an option of threshold"),
        ("threshold z", "threshold", "the target is --target"),
        ("threshold --target z --target z", "target", "given twice"),
        ("threshold --target z --json=1", "json", "takes no value"),
        ("threshold --target z --time -1", "time", "zero or later, not -1"),
        ("threshold --target z --time nan", "time", "zero or later, not nan"),
        ("threshold --target z --width two", "width", "must be a number, not 'two'"),
        ("threshold --target z --width 1.5", "width", "must be a whole number"),
        ("threshold --target z --paths inf", "paths", "must be a whole number"),
        ("spectrum --target z", "delta", "is required for spectrum"),
        ("spectrum --target z --delta 1,-2", "delta", "positive and finite, not -2"),
        ("spectrum --target z --delta 0", "delta", "positive and finite, not 0"),
        ("spectrum --target z --delta inf", "delta", "positive and finite, not inf"),
        ("spectrum --target z --delta nan", "delta", "positive and finite, not nan"),
        ("spectrum --target z --delta 1,,2", "delta", "must be a number, not ''"),
        ("learning-time --target z --delta 1", "dimension", "is required"),
        ("simulate --target z", "delta", "is required for simulate (or --samples)"),
        ("trajectory --target z --delta 1 --out a.bmp", "out", "must end in one of .png, .svg, .pdf"),
        ("trajectory --target z --delta 1 --out a.html", "out", "must end in one of .png, .svg, .pdf"),
        ("trajectory --target z --delta 1 --out no/such/a.png", "out", "does not exist"),
    ],
)
def test_errors_name_the_argument(line, argument, says):
    with pytest.raises(BadInput) as caught:
        read(shlex.split(line))
    assert caught.value.argument == argument
    assert says in caught.value.message
    assert "\n" not in str(caught.value)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["threshold", "--target", "z", "--delta", "1", "--json", "--out", "-h", "=", "-"])))
def test_any_words_are_read_or_refused(words):
    found = read_or_refuse(words)
    assert isinstance(found, (Request, Help, Version)) or "\n" not in str(found)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=20), st.sampled_from(["--width", "--time", "--bias", "--step-size", "--second-layer"]))
def test_any_text_is_a_value_or_refused(text, flag):
    found = read_or_refuse(["threshold", *TARGET, flag, text])
    assert isinstance(found, (Request, Help)) or flag_of(found.argument) == flag


def test_help_and_version_are_recognised():
    assert isinstance(read(["--version"]), Version)
    assert isinstance(read(["version"]), Version)
    assert read(["--help"]) == read(["help"]) == Help()
    assert read(["help", "spectrum"]) == read(["spectrum", "-h"]) == Help(COMMANDS["spectrum"])
    assert read(["spectrum", "--target", "z", "--help"]) == Help(COMMANDS["spectrum"])


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_in_the_help_and_every_example_can_be_read(name):
    command = COMMANDS[name]
    lines = help.text(command).splitlines()
    assert max(map(len, lines)) <= 130
    for option in command.options:
        assert any(line.startswith(f"  {option.flag} ") or line.strip() == option.flag for line in lines)
    assert len(command.examples) >= 2
    for example in command.examples:
        words = shlex.split(example)
        assert f"  bulkedge {example}" in lines
        assert read(words).command is command


def test_the_overview_names_every_command():
    assert all(f"\n  {name} " in help.text() for name in COMMANDS)


def test_options_have_the_names_of_the_arguments():
    assert flag_of("step_size") == "--step-size"
    assert flag_of("spectrum_times") == "--spectrum-times"
    assert flag_of("weights") == "weights"
