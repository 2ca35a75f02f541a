"""Figures from declared panels: what is drawn is what is in the dataset; and the page of a store."""

import base64
import html
import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest
from matplotlib.colors import to_hex

from bulkedge.foundation import registry
from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, grid
from bulkedge.lab import run
from bulkedge.show import gallery, style
from bulkedge.show.phenomena import name_value, outcomes

_SPEC = importlib.util.spec_from_file_location("show_page_checks", Path(__file__).with_name("test_page.py"))
page_checks = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(page_checks)


def theory(delta, loss):
    return {"line": delta**2, "line_stderr": 0.1, "edge": 1.0 if loss == "a" else np.nan, "edge_stderr": 0.2}


def curve(delta, loss):
    return {"said": np.exp(-delta * np.arange(5.0)), "time": np.arange(5.0)}


def measured(delta, loss, seed):
    rng = np.random.default_rng([seed, round(delta)])
    at = np.array([0.0, 2.0, 4.0])
    return {"seen": delta**2 + 0.1 * rng.standard_normal(), "track": np.exp(-delta * at), "time": at}


def bins(delta, loss, seed):
    return {"frequency": np.array([1.0, 2.0, 1.0]), "bin": np.array([0.5, 1.5, 2.5]) * delta}


def plan(knobs):
    axes = {"delta": knobs["delta"], "loss": knobs["loss"]}
    seeds = range(knobs["seeds"])
    parts = [grid("theory", axes), grid("curve", axes), grid("measured", axes, seeds), grid("bins", axes, seeds)]
    return [unit for part in parts for unit in part if knobs["only"] in ("all", unit.part)]


PANELS = (
    Panel(
        "points",
        (
            Mark("line", "line", x="delta", by="loss"),
            Mark("points", "seen", x="delta", by="loss"),
            Mark("rule", "edge", label="edge"),
        ),
        xlabel="delta",
        ylabel="square",
        xscale="log",
    ),
    Panel(
        "curves",
        (
            Mark("line", "said", x="time", where={"delta": 2.2}, colour=3, dash=1, label="limit"),
            Mark("curves", "track", x="time", where={"delta": 2.2}),
        ),
        xlabel="t",
        ylabel="y",
        each="loss",
    ),
    Panel(
        "spectrum",
        (
            Mark("histogram", "frequency", x="bin_of_bins", by="delta", label="bins", where={"loss": "a"}),
            Mark("level", "line", by="delta"),
        ),
        xlabel="x",
        ylabel="density",
        each="delta",
        xlim=(0.0, 9.0),
    ),
    Panel("nothing", (Mark("points", "never_there", x="delta"),), "x", "y"),
)
DRAWN = Phenomenon(
    name="drawn",
    question="Is <this> & that drawn?",
    citations=("montanari-wang-2026",),
    equation="x < y & z",
    knobs=(
        Knob("delta", "positives", (1.0, 2.0, 3.0), ""),
        Knob("loss", "texts", ("a",), ""),
        Knob("seeds", "integer", 3, ""),
        Knob("only", "text", "all", ""),
    ),
    parts=(
        Part("theory", "predicted", theory, ("delta", "loss"), (Quantity("line"), Quantity("edge"))),
        Part("curve", "predicted", curve, ("delta", "loss"), (Quantity("said", dims=("time",)),)),
        Part(
            "measured", "measured", measured, ("delta", "loss"), (Quantity("seen"), Quantity("track", dims=("time",)))
        ),
        Part("bins", "measured", bins, ("delta", "loss"), (Quantity("frequency", dims=("bin",)),)),
    ),
    plan=plan,
    panels=PANELS,
    judged=(Judged("seen", "line"),),
    conclude=lambda table: ["<b>bold</b> & plain"],
)


@pytest.fixture(scope="module")
def outcome(tmp_path_factory):
    return run(DRAWN, store=tmp_path_factory.mktemp("drawn") / "s")


@pytest.fixture(scope="module")
def axes(outcome):
    figure = outcomes([outcome])
    figure.draw_without_rendering()
    return [ax for ax in figure.axes if ax.get_visible()]


def titled(axes, text):
    return next(ax for ax in axes if text in ax.get_title(loc="left"))


def test_every_panel_that_has_something_is_there(axes):
    titles = [ax.get_title(loc="left") for ax in axes]
    assert titles == [
        "(a) points",
        r"(b) curves, $\delta$ = 2, a",
        r"(c) spectrum, $\delta$ = 1",
        r"(d) spectrum, $\delta$ = 2",
        r"(e) spectrum, $\delta$ = 3",
    ]


def test_points_and_lines_are_where_the_numbers_are(axes, outcome):
    ax = titled(axes, "points")
    curves = [np.column_stack(line.get_data()).tolist() for line in ax.lines]
    assert [[1.0, 1.0], [2.0, 4.0], [3.0, 9.0]] in curves
    seen = np.column_stack([[1.0, 2.0, 3.0], outcome.dataset["seen"].sel(loss="a").values]).tolist()
    assert seen in curves
    bars = ax.containers[0].lines[2][0].get_segments()
    heights = [0.5 * (s[1][1] - s[0][1]) for s in bars]
    assert heights == pytest.approx(outcome.dataset["seen_stderr"].sel(loss="a").values)
    assert [[1.0, 0.0], [1.0, 1.0]] in curves  # the edge, a vertical line
    assert ax.get_xscale() == "log"


def test_a_mark_at_a_value_takes_the_nearest_there_is(axes):
    ax = titled(axes, "curves")
    first, *single = ax.lines
    assert first.get_ydata() == pytest.approx(np.exp(-2.0 * np.arange(5)))
    assert to_hex(first.get_color()) == style.GREEN.lower()
    assert len(single) == 3  # one for each seed
    assert all(line.get_ydata() == pytest.approx(np.exp(-2.0 * np.array([0, 2, 4]))) for line in single)


def test_a_histogram_stands_on_its_own_bins(axes):
    for delta in (1, 2, 3):
        ax = titled(axes, f"= {delta}")
        if "spectrum" not in ax.get_title(loc="left"):
            continue
        steps = ax.patches[0].get_data()
        assert steps.values.tolist() == [1.0, 2.0, 1.0]
        assert steps.edges == pytest.approx(delta * np.arange(4.0))
        assert ax.get_xlim() == (0.0, 9.0)


def test_a_plan_without_some_parts_is_drawn_without_them(tmp_path):
    figure = outcomes([run(DRAWN, store=tmp_path / "s", only="theory")])
    assert next(ax.get_title(loc="left") for ax in figure.axes if ax.get_visible()) == "(a) points"
    assert len(style.to_bytes(figure, "png", dpi=60)) > 2000


def test_an_axis_that_is_left_over_is_a_mistake(tmp_path):
    panel = Panel("bad", (Mark("points", "track", x="time"),), "", "")
    bad = Phenomenon("bad", "?", (), "", DRAWN.knobs, DRAWN.parts, DRAWN.plan, (panel,))
    with pytest.raises(ValueError, match="track has the axes delta, time left; give them to by, each or where"):
        outcomes([run(bad, store=tmp_path / "s")])


def test_names_for_people():
    assert name_value("delta", 17.5) == r"$\delta$ = 17.5"
    assert name_value("loss", "squared") == "squared"
    assert name_value("my_knob", 3) == "my knob = 3"


def test_the_same_outcome_makes_the_same_file(outcome):
    assert style.to_bytes(outcomes([outcome]), "svg") == style.to_bytes(outcomes([outcome]), "svg")


# --- the page of a store --------------------------------------------------------------------------------------------


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setitem(registry._DECLARED, "drawn", f"{__name__}:DRAWN")
    monkeypatch.setitem(__import__("sys").modules, __name__, type("module", (), {"DRAWN": DRAWN}))
    run(DRAWN, store=tmp_path / "s")
    run(DRAWN, store=tmp_path / "s", seeds=2, loss=("a", "<i>b</i>"), size="full")
    return tmp_path / "s"


def test_the_gallery_stands_alone(store, tmp_path):
    path = gallery.write(store, tmp_path / "report.html")
    source = path.read_text(encoding="utf-8")
    found = page_checks.read(source)
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in found.seen}
    assert "http" not in re.sub(r'src="[^"]*"', "", source)
    images = [a for tag, a in found.seen if tag == "img"]
    assert len(images) == 2
    assert all(b"<svg" in base64.b64decode(a["src"].split(",", 1)[1]) for a in images)
    assert all(a["alt"] for a in images)


def test_the_gallery_tells_question_verdict_command_and_numbers(store, tmp_path):
    source = gallery.page(store)
    text = " ".join(page_checks.read(source).text)
    assert "Is <this> & that drawn?" in text
    assert "<b>bold</b> & plain" in text
    assert "&lt;i&gt;b&lt;/i&gt;" in source
    assert "<i>b</i>" not in source
    assert "bulkedge run drawn" in text
    assert "bulkedge run drawn 'loss=a,<i>b</i>' seeds=2 --size full" in html.unescape(text)
    assert "@article{montanari-wang-2026" in text
    assert "3 judged points" in text
    assert text.count("agrees") >= 3
    targets = {a["href"] for tag, a in page_checks.read(source).seen if tag == "a"}
    anchors = {f"#{a['id']}" for _, a in page_checks.read(source).seen if "id" in a}
    assert targets == anchors != set()


def test_the_gallery_of_an_empty_store(tmp_path):
    from bulkedge.lab import Store

    Store(tmp_path / "s")
    assert "Nothing is stored yet." in gallery.page(tmp_path / "s")


def test_a_figure_that_cannot_be_drawn_does_not_cost_the_page(store, monkeypatch):
    panel = Panel("bad", (Mark("points", "track", x="time"),), "", "")
    monkeypatch.setattr(
        gallery, "outcomes", lambda found: outcomes([found[0].__class__(**{**vars(found[0]), "declared": bad})])
    )
    bad = Phenomenon("bad", "?", (), "", DRAWN.knobs, DRAWN.parts, DRAWN.plan, (panel,))
    text = " ".join(page_checks.read(gallery.page(store)).text)
    assert "The figure cannot be drawn: track has the axes" in text
    assert "3 judged points" in text
