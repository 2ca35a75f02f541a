"""Predictions and measurements of the algorithms side by side, and the phenomena made of them, at tiny sizes."""

import json

import numpy as np
import pytest

import bulkedge as be
from bulkedge import BadInput
from bulkedge.foundation.recovery import LinearisedAMP, MessagePassing, SpectralRecovery
from bulkedge.phenomena import _message_passing, exponents, gap, staircase

INDICATOR = "2*(abs(z) > 0.6744897501960817)"


def test_spectral_method_agrees_with_its_limit():
    found = be.spectral_method("z^2", 2.0, 400, seeds=12)
    assert found.verdict == "agrees"
    assert found.overlap2[0] == pytest.approx(0.486, abs=4 * found.stderr["overlap2"][0] + 0.01)
    assert found.samples == 800
    again = SpectralRecovery.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert again.to_dict() == found.to_dict()
    assert "Mondelli" in found.cite()
    assert "Luo" in found.cite()


def test_a_wrong_prediction_would_be_seen():
    # The limit of one preprocessing against data of another.
    right = be.spectral_method("z^2", 3.0, 400, seeds=12)
    other = be.spectral_method("z^2", 3.0, 400, seeds=12, preprocess=lambda y: np.tanh(y - 1) * (y < 4))
    gap = abs(right.overlap2[0] - other.predicted_overlap2[0])
    assert gap > 4 * right.stderr["overlap2"][0] + 0.01
    assert other.overlap2[0] == pytest.approx(other.predicted_overlap2[0], abs=4 * other.stderr["overlap2"][0] + 0.01)


def test_the_best_preprocessing_beats_the_bounded_one_on_data():
    # Paired: the same training sets.
    best, bounded = (be.spectral_method("z^2", 2.0, 300, seeds=10, preprocess=p) for p in ("best", "bounded"))
    difference = np.array([a["overlap2"][0] - b["overlap2"][0] for a, b in zip(best.seeds, bounded.seeds, strict=True)])
    assert difference.mean() > 4 * difference.std(ddof=1) / np.sqrt(10)
    assert difference.mean() == pytest.approx(
        best.predicted_overlap2[0] - bounded.predicted_overlap2[0], abs=4 * difference.std(ddof=1) / np.sqrt(10) + 0.01
    )


def test_two_equal_outliers_span_the_two_directions():
    found = be.spectral_method("(z1^2+z2^2)/2", 4.0, 300, seeds=8)
    assert len(found.predicted_eigenvalues) == 2
    assert np.mean(found.overlap2) == pytest.approx(
        np.mean(found.predicted_overlap2), abs=4 * np.mean(found.stderr["overlap2"]) + 0.015
    )


@pytest.mark.parametrize(("link", "delta"), [("z^2", 1.5), ("z^2+0.7*e", 2.5)])
def test_amp_follows_its_state_evolution(link, delta):
    found = be.amp(link, delta, 600, iterations=12, seeds=8)
    width = 4 * 1.4 * found.stderr["overlap"] + 0.01
    assert np.all(np.abs(found.overlap - found.evolution.overlap[:13])[1:] < width[1:])
    assert np.mean(found.stderr["overlap"]) < 0.03
    assert found.verdict in ("agrees", "undecided")
    again = MessagePassing.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert again.to_dict() == found.to_dict()


def test_amp_of_two_directions_follows_its_state_evolution():
    found = be.amp(
        "z1*z2", 2.0, 200, iterations=4, seeds=4, start=0.3, numerics=be.Numerics(paths=256, replicas=2, seed=0)
    )
    gap = np.abs(found.overlap - found.evolution.overlap[:5])
    error = np.hypot(found.stderr["overlap"], found.evolution.stderr[:5])
    assert np.all(gap[1:] < 6 * error[1:] + 0.02)
    assert np.trace(found.overlap[-1]) / 2 > 0.5


def test_a_random_start_ends_at_the_fixed_point_up_to_symmetry():
    found = be.amp("z^2", 2.0, 300, start="random", iterations=120, seeds=4)
    assert found.overlap[-1] > 0.95
    assert found.cosine2 > 0.95
    assert found.evolution.fixed_point > 0.99


def test_symmetries_are_matched_before_overlaps():
    link = be.Problem("z1*z2").link
    swapped = np.array([[0.1, -0.8], [-0.9, 0.0]])
    g = _message_passing._nearest(link, swapped)
    assert np.trace(swapped @ g.T) == pytest.approx(1.7)


def test_linearised_amp_on_data():
    found = be.linearised_amp(INDICATOR, 4.0, 500, seeds=8)
    for name, expected in (
        ("outlier", found.outliers[0]),
        ("overlap2", found.predicted_overlap2),
        ("symmetric_eigenvalue", 1.0),
    ):
        assert getattr(found, name) == pytest.approx(expected, abs=5 * found.stderr[name] + 0.02 * expected)
    assert found.bulk < found.bulk_radius * 1.15
    assert found.bulk < 0.8 * found.outliers[0]
    again = LinearisedAMP.from_dict(json.loads(json.dumps(found.to_dict(), allow_nan=False)))
    assert again.to_dict() == found.to_dict()


def test_bad_input_is_one_sentence():
    for call, word in (
        (lambda: be.spectral_method("z^2", 1.0, 1), "dimension"),
        (lambda: be.spectral_method("z^2", 1.0, 100, data="disk"), "data"),
        (lambda: be.spectral_method("z^2", 1.0, 100, preprocess="finest"), "preprocess"),
        (lambda: be.amp("z^2", 1.0, 100, start="warm"), "start"),
        (lambda: be.amp("z^2", 0.001, 100), "no sample"),
        (lambda: be.amp("z1*z2*z3", 3.0, 100), "one or two"),
        (lambda: be.linearised_amp("z^2", 0.1, 100), "too few"),
        (lambda: be.run(gap.PHENOMENON, target="z"), "easy directions"),
        (lambda: be.run(exponents.PHENOMENON, target="sign(z)"), "piecewise constant"),
    ):
        with pytest.raises(BadInput, match=word):
            call()


def test_gap(tmp_path):
    outcome = be.run(
        "gap",
        store=tmp_path,
        delta=(0.8, 1.4, 4.5),
        training_delta=(6.0,),
        dimension=80,
        steps=12,
        iterations=60,
        paths=1024,
        seeds=3,
    )
    assert not outcome.failures
    table = outcome.dataset
    assert float(table["delta_alg"]) == pytest.approx(1.36046, rel=1e-4)
    assert float(table["delta_nn"]) == pytest.approx(5.106, abs=0.02)
    assert float(table["delta_it"]) <= float(table["delta_alg"]) + 1e-6
    few = table.sel(delta=[0.8, 1.4, 4.5])
    assert few["amp_expected"].values[0] < 1e-6
    assert np.all(np.diff(few["amp_expected"]) > 0)
    assert np.all(few["amp_expected"].values >= few["spectral_expected"].values - 1e-9)
    assert np.isnan(few["sharp_amp"].values[1])  # 1.4 is within the smear of d = 80
    assert few["amp_overlap2"].values[2] > 0.8
    assert few["amp_overlap2"].values[0] < 0.3
    assert any("Half of the runs of AMP" in s for s in outcome.sentences)


def test_staircase(tmp_path):
    outcome = be.run("staircase", store=tmp_path, dimension=200, steps=5, seeds=6, paths=4096)
    assert not outcome.failures
    assert outcome.verdict in ("agrees", "undecided")
    table = outcome.dataset
    stairs, flat = (table.sel(target=t) for t in ("z1 + z1*z2 + z1*z2*z3", "z1 + z1*z2*z3"))
    assert stairs["stage"].values.tolist() == [1, 2, 3]
    assert flat["stage"].values.tolist() == [1, 2, 2]
    assert flat["degree"].values.tolist() == [1, 2, 2]
    assert float(flat["later"]) == pytest.approx(0.59375, abs=2e-3)
    assert np.isnan(stairs["later"])
    # A direction is in the limit nowhere before its step, and there after it.
    limit = np.abs(stairs["expected_overlap"].values)
    assert limit[1, 1] < 0.01 < limit[1, 2]
    assert limit[2, 2] < 0.01 < limit[2, 3]
    assert np.abs(flat["expected_overlap"].values[1:]).max() < 0.01


def test_exponents(tmp_path):
    outcome = be.run(
        exponents.PHENOMENON,
        store=tmp_path,
        target=("he1(z)", "he2(z)"),
        dimension=(200, 800, 3200),
        runs=64,
        seeds=4,
    )
    assert not outcome.failures
    assert outcome.verdict in ("agrees", "undecided")
    slope = dict(zip(outcome.dataset["target"].values, outcome.dataset["slope"].values, strict=True))
    assert slope["he1(z)"] == pytest.approx(1.02, abs=0.06)
    assert slope["he2(z)"] == pytest.approx(1.15, abs=0.08)
    assert outcome.dataset["power"].values.tolist() == [1, 1]
    assert exponents.law(target="he3(z)", dimension=[64, 128], noise=0.4)["power"] == 2
    steep = exponents.plan(exponents.PHENOMENON.settings("quick", {"target": "he3(z)"}))
    assert steep[0].parameters["dimension"] == [64, 128, 256]


def test_curves_of_a_staircase_need_the_right_shape():
    assert staircase._by_direction(np.zeros((4, 1, 3)), 3).shape == (3, 4)
    assert staircase._by_direction(np.zeros(4), 1).shape == (1, 4)
