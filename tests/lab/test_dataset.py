import dataclasses

import numpy as np
import pytest
import xarray as xr

from bulkedge.foundation.phenomenon import Judged, Knob, Part, Phenomenon, Quantity
from bulkedge.foundation.verdict import widening
from bulkedge.lab.dataset import assemble, fraction, median, put_together
from bulkedge.lab.judging import conclude, with_limits
from bulkedge.lab.record import Task


def phenomenon(parts, judged=()):
    return Phenomenon("p", "?", (), "", (Knob("x", "number", 1.0, ""),), parts, lambda knobs: [], (), judged)


def table(part, points, judged=()):
    """points: [(parameters, seed, result), ...]"""
    tasks = [Task("p", part, dict(parameters), seed, str(i)) for i, (parameters, seed, _) in enumerate(points)]
    results = {str(i): {k: np.asarray(v, float) for k, v in r.items()} for i, (_, _, r) in enumerate(points) if r}
    return assemble(phenomenon((part,), judged), tasks, results)


def test_a_fraction_is_never_certain():
    rng = np.random.default_rng(0)
    each = (rng.random((2000, 12)) < 0.15).astype(float)
    value, error = fraction(each, 1)
    assert np.mean(value) == pytest.approx(0.15, abs=0.01)
    assert error.min() > 0
    # 95 percent intervals hold the truth about 95 times in 100, at 0 of 12 as well.
    inside = np.abs((each.sum(axis=1) + 1) / 14 - 0.15) < 2 * error
    assert np.mean(inside) > 0.93


def test_the_error_of_a_median_is_that_of_repetitions():
    rng = np.random.default_rng(1)
    value, error = median(rng.exponential(size=(800, 41)), 1)
    assert np.nanmean(error) == pytest.approx(np.std(value), rel=0.15)
    assert np.mean(value) == pytest.approx(np.log(2), abs=0.03)


def test_a_time_that_did_not_come_is_later_than_all():
    each = np.array([3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, np.inf, np.inf])
    value, error = median(each, 0)
    assert (float(value), bool(np.isfinite(error))) == (7.0, True)
    value, error = median(np.where(each > 5, np.inf, each), 0)
    assert np.isnan(value)
    assert np.isnan(error)


def test_whole_times_have_an_error_though_they_repeat():
    _, error = median(np.array([4.0] * 9 + [5.0] * 3), 0)
    assert error == 0.5
    _, error = median(np.full(9, 4.0), 0)
    assert np.isnan(error)


def test_a_mean_does_not_leave_out_what_diverged():
    each, there = np.array([[1.0, 3.0, np.nan], [1.0, 3.0, np.nan]]), np.array([[True] * 3, [True, True, False]])
    value, error = put_together(Quantity("q"), each, there, None, 1, True)
    assert np.isnan(value[0])
    assert value[1] == 2.0
    assert error[1] == pytest.approx(1.0)


def test_parameters_that_are_axes_become_coordinates():
    part = Part("m", "measured", len, ("delta", "name"), (Quantity("y"),))
    points = [({"delta": d, "name": n}, s, {"y": d + s}) for d in (3.0, 1.0) for n in ("b", "a") for s in (0, 1)]
    found = table(part, points)
    assert found["delta"].values.tolist() == [1.0, 3.0]
    assert found["name"].values.tolist() == ["b", "a"]
    assert found["y"].sel(delta=3.0, name="a") == 3.5


def test_curves_of_different_lengths_share_their_coordinate():
    part = Part("m", "predicted", len, ("delta",), (Quantity("y", dims=("time",)),))
    points = [({"delta": d}, None, {"y": np.arange(n) * d, "time": np.arange(n) * 5}) for d, n in ((1.0, 2), (2.0, 4))]
    found = table(part, points)
    assert found["time"].values.tolist() == [0, 5, 10, 15]
    assert np.isnan(found["y"].sel(delta=1.0, time=10))
    assert found["y_runs"].sel(delta=1.0).values.tolist() == [1, 1, 0, 0]
    assert found["y"].sel(delta=2.0, time=15) == 6.0


def test_bins_that_differ_are_a_variable_of_their_own():
    part = Part("m", "predicted", len, ("delta",), (Quantity("y", dims=("bin",)),))
    points = [({"delta": d}, None, {"y": np.ones(3), "bin": d * np.arange(1, 4)}) for d in (1.0, 2.0)]
    found = table(part, points)
    assert found["bin"].values.tolist() == [0, 1, 2]
    assert found["bin_of_m"].sel(delta=2.0).values.tolist() == [2.0, 4.0, 6.0]


def test_bins_of_seeds_must_be_the_same():
    part = Part("m", "measured", len, ("delta",), (Quantity("y", dims=("bin",)),))
    points = [({"delta": 1.0}, s, {"y": np.ones(2), "bin": s + np.arange(2)}) for s in (0, 1)]
    with pytest.raises(ValueError, match="differs between seeds"):
        table(part, points)


def test_an_axis_holds_numbers_or_words():
    part = Part("m", "measured", len, ("delta",), (Quantity("y"),))
    with pytest.raises(ValueError, match="axis delta"):
        table(part, [({"delta": [1, 2]}, 0, {"y": 1.0})])


# --- judging --------------------------------------------------------------------------------------------------------


def verdict(values, pair, sizes=(100,), truth=1.0, runs=8, noise=0.01, seed=3):
    rng = np.random.default_rng(seed)
    measured = Part("m", "measured", len, ("dimension",), (Quantity("y"),))
    predicted = Part("t", "predicted", len, (), (Quantity("limit"),))
    declared = phenomenon((measured, predicted), (pair,))
    tasks = [Task("p", measured, {"dimension": d}, s, f"{d}-{s}") for d in sizes for s in range(runs)]
    results = {
        t.key: {"y": np.asarray(values(t.parameters["dimension"]) + noise * rng.standard_normal())} for t in tasks
    }
    tasks.append(Task("p", predicted, {}, None, "t"))
    results["t"] = {"limit": np.asarray(truth)}
    found = with_limits(declared, assemble(declared, tasks, results))
    return conclude(declared, found), found


def test_agreement_disagreement_and_neither():
    assert verdict(lambda d: 1.0, Judged("y", "limit"))[0].word == "agrees"
    assert verdict(lambda d: 1.1, Judged("y", "limit"))[0].word == "disagrees"
    assert verdict(lambda d: 1.0, Judged("y", "limit"), noise=0.5)[0].word == "undecided"
    assert (
        verdict(lambda d: 1.1, Judged("y", "limit", drift=lambda found: xr.full_like(found["y"], 0.2)))[0].word
        == "agrees"
    )


def test_a_few_runs_are_judged_with_a_wider_error():
    judgement, found = verdict(lambda d: 1.0, Judged("y", "limit"), runs=4)
    assert judgement.rows[0]["measured_stderr"] == pytest.approx(float(found["y_stderr"][0] * widening(4)))
    single, _ = verdict(lambda d: 1.0, Judged("y", "limit"), runs=1)
    assert single.word == "undecided"


def test_the_limit_of_a_known_law_is_judged():
    pair = Judged("y", "limit", law=("dimension", 0.5))
    judgement, found = verdict(lambda d: 1.0 - 2.0 / np.sqrt(d), pair, sizes=(100, 200, 400, 800), runs=30)
    assert judgement.word == "agrees"
    assert float(found["y_limit"]) == pytest.approx(1.0, abs=4 * float(found["y_limit_stderr"]))
    assert float(found["y_drift"]) == pytest.approx(-2.0, abs=4 * float(found["y_drift_stderr"]))
    plain, _ = verdict(lambda d: 1.0 - 2.0 / np.sqrt(d), Judged("y", "limit"), sizes=(100, 200, 400, 800), runs=30)
    assert plain.word == "disagrees"
    assert verdict(lambda d: 1.0, pair, sizes=(100,))[0].word == "undecided"


def test_a_law_that_does_not_hold_has_a_larger_error():
    pair = Judged("y", "limit", law=("dimension", 1.0))
    sizes = (100, 200, 400, 800)
    _, right = verdict(lambda d: 1.0 + 3.0 / d, pair, sizes=sizes, runs=30)
    _, wrong = verdict(lambda d: 1.0 + 0.02 * np.sin(d), pair, sizes=sizes, runs=30)
    assert float(wrong["y_limit_stderr"]) > 2 * float(right["y_limit_stderr"])


def test_only_the_points_asked_for_are_judged():
    pair = Judged("y", "limit", where={"dimension": 200})
    judgement, _ = verdict(lambda d: 1.0 + (d == 100), pair, sizes=(100, 200))
    assert judgement.word == "agrees"
    assert [row["point"] for row in judgement.rows] == [{}]


def growth(slope, predicted_slope=2.0, runs=12, seed=5):
    """Times that grow as the logarithm of the dimension."""
    rng = np.random.default_rng(seed)
    measured = Part("m", "measured", len, ("dimension",), (Quantity("y", over="median"),))
    predicted = Part("t", "predicted", len, ("dimension",), (Quantity("z"),))
    declared = phenomenon((measured, predicted), (Judged("y", "z", law=("dimension", "log")),))
    sizes = (100, 400, 1600, 6400)
    tasks = [Task("p", measured, {"dimension": d}, s, f"{d}-{s}") for d in sizes for s in range(runs)]
    results = {
        t.key: {"y": np.asarray(3 + slope * np.log(t.parameters["dimension"]) + 0.05 * rng.standard_normal())}
        for t in tasks
    }
    tasks += [Task("p", predicted, {"dimension": d}, None, f"t{d}") for d in sizes]
    results |= {
        f"t{d}": {"z": np.asarray(8 + predicted_slope * np.log(d)), "z_stderr": np.asarray(0.01)} for d in sizes
    }
    found = with_limits(declared, assemble(declared, tasks, results))
    return conclude(declared, found), found


def test_the_slopes_of_a_logarithmic_law_are_judged():
    judgement, found = growth(2.0)
    assert judgement.word == "agrees"
    assert float(found["y_slope"]) == pytest.approx(2.0, abs=4 * float(found["y_slope_stderr"]))
    assert float(found["z_slope"]) == pytest.approx(2.0, abs=1e-9)
    assert float(found["z_offset"]) == pytest.approx(8.0, abs=1e-9)
    assert [row["point"] for row in judgement.rows] == [{}]
    assert growth(2.3)[0].word == "disagrees"


def test_where_the_prediction_does_not_speak_nothing_is_judged():
    measured = Part("m", "measured", len, ("x",), (Quantity("y"),))
    predicted = Part("t", "predicted", len, ("x",), (Quantity("z"),))

    def judged(pair, z):
        declared = phenomenon((measured, predicted), (pair,))
        tasks = [Task("p", measured, {"x": x}, s, f"{x}-{s}") for x in (1, 2) for s in range(20)]
        results = {t.key: {"y": np.asarray(1.0 + 1e-3 * t.seed)} for t in tasks}
        tasks += [Task("p", predicted, {"x": x}, None, f"t{x}") for x in (1, 2)]
        results |= {f"t{x}": {"z": np.asarray(v)} for x, v in zip((1, 2), z, strict=True)}
        return conclude(declared, assemble(declared, tasks, results))

    half = judged(Judged("y", "z"), (1.0095, np.nan))
    assert (half.word, [row["point"] for row in half.rows]) == ("agrees", [{"x": 1}])
    none = judged(Judged("y", "z"), (np.nan, np.nan))
    assert (none.word, none.verdicts, none.rows) == ("undecided", {}, [])
    never = judged(Judged("y", "z"), (1.0095, np.inf))
    assert [row["verdict"] for row in never.rows] == ["agrees", "undecided"]
    silent = judged(Judged("y", "z", drift=lambda table: xr.where(table["x"] == 2, np.nan, 0.0)), (1.0095, 5.0))
    assert [row["point"] for row in silent.rows] == [{"x": 1}]
    scaled = judged(Judged("y", "z", scale=lambda table: 0.001 * table["x"]), (1.0095, 1.0095))
    assert {row["verdict"] for row in scaled.rows} == {"undecided"}


def test_what_is_derived_is_judged():
    measured = Part("m", "measured", len, ("x",), (Quantity("y"),))

    def derive(table):
        total = float(table["y"].sum())
        return {"total": ((), total, 0.01, int(table["y_runs"].sum())), "expected": ((), 3.0, 0.0, 1)}

    declared = dataclasses.replace(phenomenon((measured,), (Judged("total", "expected"),)), derive=derive)
    tasks = [Task("p", measured, {"x": x}, s, f"{x}-{s}") for x in (1, 2) for s in range(3)]
    results = {t.key: {"y": np.asarray(float(t.parameters["x"]))} for t in tasks}
    found = with_limits(declared, assemble(declared, tasks, results))
    assert (float(found["total"]), int(found["total_runs"])) == (3.0, 6)
    assert conclude(declared, found).word == "agrees"
