import gc
import math
import sys

import matplotlib
import numpy as np
import pytest

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.result import PLOTTERS
from bulkedge.show import draw, save
from bulkedge.show.spectra import at_time, measured_at
from bulkedge.show.style import Figure, to_bytes


def _cases(made):
    none = {"delta": None, "reason": "nothing hard", "windows": [], "delta_alg": None, "efficiency": None, "edge": None}
    window = {"delta": 5.5, "stderr": 0.05, "windows": [[5.5, 40.0]]}
    never = {"time": None, "quartiles": [None, None, 120.0], "success_probability": 0.3, "stderr": {}}
    steps = np.arange(201)
    many = {"hidden_variance": np.exp(0.01 * steps)[:, None, None] * np.eye(3), "stderr": {}}
    return {
        "threshold": made.threshold(),
        "threshold, none": made.threshold(**none),
        "thresholds": [
            made.threshold(0),
            made.threshold(1, **window),
            made.threshold(math.inf),
            made.threshold(2, **none),
        ],
        "thresholds, long": [made.threshold(t) for t in range(12)],
        "learning time": made.learning_time(),
        "learning time, never": made.learning_time(**never),
        "learning time, several neurons": made.learning_time(**many),
        "learning times over delta": [made.learning_time(d) for d in (8.0, 12.0)] + [made.learning_time(4.0, **never)],
        "learning times, two dimensions": [made.learning_time(d, n) for d in (8.0, 12.0) for n in (500, 5000)],
        "learning times over dimension": [made.learning_time(8.0, n) for n in (500, 5000)],
        "spectrum": made.spectrum(),
        "spectrum, atom, no outliers": made.spectrum(atom=0.2, outliers=[], edge_stderr=0.0),
        "spectrum, no time": made.spectrum(None),
        "spectrum, neurons": made.spectrum(m=2),
        "spectra": [made.spectrum(0), made.spectrum(5)],
        "trajectory": made.trajectory(),
        "trajectory, nothing hard": made.trajectory(hidden=False),
        "trajectory, neurons": made.trajectory(3, 2),
        "trajectory, many neurons": made.trajectory(16, 1),
        "trajectory, no errors": made.trajectory(stderr={}),
        "trajectory, diverged": made.trajectory(
            train_loss=np.where(np.arange(21) < 3, 1.0, np.nan), norm2=np.full(21, np.nan), diverged_at=3
        ),
        "trajectories": [made.trajectory(delta=d) for d in (5.0, 10.0)],
        "simulation": made.simulation(),
        "simulation, one seed": made.simulation(seeds=1, times=()),
        "simulation, neurons": made.simulation(2, 2, hidden=False),
        "comparison": made.comparison(),
        "comparison, neurons": made.comparison(2, 2, times=(5,)),
        "comparison, nothing hard, no spectra": made.comparison(hidden=False, times=()),
        "comparisons": [made.comparison(delta=d) for d in (5.0, 10.0)],
    }


NAMES = list(_cases(type("Names", (), {"__getattr__": lambda self, name: lambda *a, **k: None})()))


@pytest.mark.parametrize("name", NAMES)
def test_every_answer_can_be_drawn(made, name):
    figure = draw(_cases(made)[name])
    assert isinstance(figure, Figure)
    picture = to_bytes(figure, "png", dpi=50)
    assert picture.startswith(b"\x89PNG")
    assert len(figure.axes) >= 1


def test_plot_is_draw(made):
    answers = {"Threshold", "LearningTime", "Spectrum", "Trajectory", "Simulation", "Comparison", "Design"}
    assert set(PLOTTERS) == answers | {"Outcome"}
    figure = made.comparison().plot(part="curves")
    assert [a.get_xlabel() for a in figure.axes] == ["step $t$"] * 3


def test_theory_is_drawn_where_it_says(made):
    result = made.trajectory()
    loss, norm, hidden = draw(result).axes
    assert np.array_equal(loss.lines[0].get_ydata(), result.train_loss)
    assert np.array_equal(loss.lines[1].get_ydata(), result.test_loss)
    assert np.array_equal(norm.lines[0].get_ydata(), result.norm2)
    assert np.array_equal(hidden.lines[0].get_ydata(), result.hidden_variance)
    band = loss.collections[0].get_paths()[0].vertices
    assert np.max(band[:, 1]) == pytest.approx(result.train_loss[0] + 0.002)


def test_measured_bars_are_one_standard_error(made):
    result = made.simulation()
    loss = draw(result).axes[0]
    bars = loss.containers[0].lines[2][0].get_segments()
    assert bars[0][1, 1] - bars[0][0, 1] == pytest.approx(0.02)


def test_hidden_variance_shows_the_diagonal_neuron_by_neuron(made):
    result = made.trajectory(3, 2)
    ax = draw(result).axes[-1]
    assert len(ax.lines) == 3
    assert np.array_equal(ax.lines[2].get_ydata(), result.hidden_variance[:, 2, 2])


def test_outliers_stand_at_their_value_and_overlap(made):
    result = made.spectrum()
    figure = draw(result)
    stems = [
        c for a in figure.axes for c in a.collections if c.get_label().startswith("_") and hasattr(c, "get_segments")
    ]
    ends = [s.tolist() for c in stems for s in c.get_segments()]
    hidden = result.outliers[0]
    assert [[hidden.value, 0.0], [hidden.value, hidden.overlap2]] in ends
    text = [t.get_text() for a in figure.axes for t in a.texts]
    assert any("93%" in t for t in text)


def test_measurements_are_found_by_time_and_neuron(made):
    assert at_time({"5.0": 1, "0": 2}, 5) == 1
    assert at_time({0: 3}, 0.0) == 3
    assert at_time({"0": 3}, 1) is None
    assert at_time(None, 0) is None
    single, several = made.simulation(), made.simulation(2, 2)
    assert measured_at(single, 5).values == pytest.approx([-0.41, -0.378, -0.372])
    assert measured_at(several, 0, 1).overlap2 == pytest.approx([0.36, 0.04, 0.01])
    assert measured_at(single, 3) is None
    assert measured_at(None, 0) is None
    bare = made.simulation(stderr={})
    assert np.all(np.isnan(measured_at(bare, 0).value_errors))


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_save_writes_what_the_suffix_says_and_the_same_each_time(made, tmp_path, kind, start):
    paths = [save(draw(made.threshold()), tmp_path / f"{i}.{kind}") for i in range(2)]
    assert paths[0].read_bytes().startswith(start)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("name", "says"),
    [("a.gif", "must end in one of"), ("a", "must end in one of"), ("no/such/a.png", "does not exist")],
)
def test_save_refuses_in_one_line(made, tmp_path, name, says):
    with pytest.raises(BadInput, match=says):
        save(draw(made.threshold()), tmp_path / name)


def test_a_folder_is_not_a_figure(made, tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(BadInput, match="is a folder"):
        save(draw(made.threshold()), tmp_path / "a.png")


def test_draw_refuses_a_mixture(made):
    with pytest.raises(TypeError, match="Spectrum, Threshold"):
        draw([made.threshold(), made.spectrum()])
    with pytest.raises(TypeError, match="nothing"):
        draw([])
    with pytest.raises(BadInput, match="part"):
        draw(made.comparison(), part="half")


def test_nothing_global_is_left_behind(made):
    already = "matplotlib.pyplot" in sys.modules
    with matplotlib.rc_context({"font.size": 31, "lines.linewidth": 7}):
        figure = draw(made.trajectory())
        assert matplotlib.rcParams["font.size"] == 31
        assert figure.axes[0].lines[0].get_linewidth() == pytest.approx(1.3)
    del figure
    gc.collect()
    assert already == ("matplotlib.pyplot" in sys.modules)
    assert draw(made.threshold())._repr_png_().startswith(b"\x89PNG")
