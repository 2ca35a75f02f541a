import pytest

from bulkedge.foundation import registry
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.phenomenon import Knob, Part, Phenomenon, Quantity, Unit, grid


def knob(kind, default=1, **more):
    return Knob("x", kind, default, "help", **more)


@pytest.mark.parametrize(
    ("given", "typed", "found"),
    [
        (knob("integer"), "7", 7),
        (knob("integers"), "1, 2,3", (1, 2, 3)),
        (knob("integers"), [4], (4,)),
        (knob("integers"), 4, (4,)),
        (knob("number"), "-1e-3", -1e-3),
        (knob("positives"), "1,2.5", (1.0, 2.5)),
        (knob("text"), " z**2 ", "z**2"),
        (knob("texts"), "a,b", ("a", "b")),
        (knob("numbers", repeats=True), "1,1,-1", (1.0, 1.0, -1.0)),
        (knob("integers", optional=True), "none", ()),
        (knob("integers", optional=True), [], ()),
        (knob("integers", optional=True), "0,2", (0, 2)),
        (knob("integer", optional=True), "None", None),
        (knob("integer", optional=True), None, None),
        (knob("integer", optional=True), 3, 3),
    ],
)
def test_knobs_read_what_is_typed(given, typed, found):
    assert given.read(typed) == found
    assert given.read(found) == found


@pytest.mark.parametrize(
    ("given", "value", "says"),
    [
        (knob("integer"), "1.5", "whole number"),
        (knob("integer", low=2), 1, "at least 2"),
        (knob("integer", low=2, high=5), 6, "from 2 to 5"),
        (knob("number", low=0.0, high=1.0), 2, "at least 0 and at most 1"),
        (knob("positive"), 0, "positive"),
        (knob("positive"), "nan", "finite"),
        (knob("text"), " ", "must be a word"),
        (knob("text"), 3, "must be a word"),
        (knob("text", choices=("a", "b")), "c", "must be one of a, b"),
        (knob("integers"), "1,1", "the same value twice"),
        (knob("integers"), "none", "finite number"),
        (knob("integers"), [], "at least one"),
    ],
)
def test_knobs_refuse_what_is_wrong(given, value, says):
    with pytest.raises(BadInput, match=says) as error:
        given.read(value)
    assert error.value.argument == "x"


def phenomenon(**changes):
    part = Part("p", "measured", len, (), (Quantity("y"),))
    base = {"parts": (part,), "plan": lambda knobs: [Unit("p", {}, s) for s in range(knobs["x"])], "citations": ()}
    knobs = (Knob("x", "integer", 2, "", full=5),)
    return Phenomenon(name="p", question="?", equation="", knobs=knobs, panels=(), **{**base, **changes})


def test_sizes_and_settings():
    found = phenomenon()
    assert found.settings("quick", {}) == {"x": 2}
    assert found.settings("full", {}) == {"x": 5}
    assert found.settings("full", {"x": "3"}) == {"x": 3}
    assert len(found.units({"x": 4})) == 4


def test_a_plan_holds_each_unit_once_and_something():
    twice = phenomenon(plan=lambda knobs: [Unit("p", {"a": 1}, 0), Unit("p", {"a": 1}, 0)])
    assert len(twice.units({"x": 1})) == 1
    with pytest.raises(BadInput, match="nothing to do"):
        phenomenon().units({"x": 0})
    with pytest.raises(BadInput, match="at most 1000000 are possible"):
        phenomenon().units({"x": 1_000_001})


def test_mistakes_of_a_declaration():
    part = Part("q", "measured", len, (), (Quantity("y"),))
    with pytest.raises(ValueError, match="a quantity is declared twice"):
        phenomenon(parts=(part, part))
    with pytest.raises(ValueError, match=r"is not in foundation\.citations"):
        phenomenon(citations=("nobody-1900",))
    with pytest.raises(ValueError, match="unknown kind"):
        Knob("x", "colour", 1, "")
    with pytest.raises(ValueError, match="to put seeds together"):
        Quantity("x", over="mode")


def test_a_grid_has_all_points_of_a_seed_before_the_next():
    units = grid("p", {"a": (1, 2), "b": ("u", "v")}, range(2), c=7)
    assert [(u.parameters["a"], u.parameters["b"], u.seed) for u in units[:5]] == [
        (1, "u", 0),
        (1, "v", 0),
        (2, "u", 0),
        (2, "v", 0),
        (1, "u", 1),
    ]
    assert all(u.parameters["c"] == 7 for u in units)


class Entry:
    """As importlib.metadata has them."""

    def __init__(self, name, value):
        self.name, self.value = name, value


@pytest.fixture
def elsewhere(monkeypatch):
    """Entry points other packages have declared."""

    def declare(**entries):
        points = [Entry(name.replace("_", "-"), value) for name, value in entries.items()]
        monkeypatch.setattr(registry.metadata, "entry_points", lambda group: points)

    return declare


def test_other_packages_join_and_cannot_take_a_name(elsewhere, monkeypatch):
    monkeypatch.setattr(registry, "_DECLARED", {})
    registry.declare("mine", f"{__name__}:MINE")
    monkeypatch.setitem(__import__("sys").modules, __name__, type("module", (), {"MINE": phenomenon(), "THEIRS": 3}))
    elsewhere(mine="nowhere:X", theirs=f"{__name__}:MINE", wrong=f"{__name__}:THEIRS", absent="nowhere:X")
    assert registry.names() == ["mine", "theirs", "wrong", "absent"]
    assert registry.find("mine").name == "p"
    assert registry.find("theirs").name == "p"
    with pytest.raises(BadInput, match="which is not a Phenomenon"):
        registry.find("wrong")
    with pytest.raises(BadInput, match="cannot be loaded: No module named 'nowhere'"):
        registry.find("absent")
    with pytest.raises(BadInput, match="unknown name 'thiers'; did you mean theirs"):
        registry.find("thiers")
