import dataclasses
import json
import math

import numpy as np
import pytest

from bulkedge.foundation import answers, citations
from bulkedge.foundation.result import PLOTTERS, Record, Result, jsonable
from bulkedge.foundation.status import Status


def trajectory(**changes):
    t = np.arange(3.0)
    fields = {
        "delta": 3.0,
        "time": t,
        "train_loss": t + 0.5,
        "test_loss": np.array([1.0, np.nan, np.inf]),
        "norm2": np.ones((3, 2)),
        "overlap": np.zeros((3, 2, 2)),
        "cosine": np.zeros((3, 2, 2)),
        "hidden_variance": None,
        "stderr": {"train_loss": 0.1 * t},
    }
    return answers.Trajectory(**{**fields, **changes})


def spectrum():
    outlier = answers.Outlier(value=-0.5, overlap2=0.3, kind="hidden")
    one = answers.Spectrum(
        delta=10.0,
        time=0,
        edge=-0.4,
        right_edge=1.0,
        atom=0.0,
        outliers=[outlier],
        density={"x": np.linspace(-0.4, 1.0, 4), "y": np.ones(4)},
        warnings=["something"],
        status=Status.NOT_CONVERGED,
    )
    return dataclasses.replace(one, blocks=[one])


ANSWERS = [
    trajectory(),
    spectrum(),
    answers.Threshold(delta=5.1, windows=[[5.1, None]]),
    answers.Threshold(delta=None, reason="none", stderr=None),
    answers.LearningTime(
        delta=3.0,
        dimension=100,
        steps=5,
        time=None,
        quartiles=[None, None, 3.0],
        success_probability=0.3,
        hidden_variance=np.arange(6.0),
    ),
]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: type(a).__name__)
def test_round_trip_through_json(answer):
    data = answer.to_dict()
    text = json.dumps(data, allow_nan=False)
    again = type(answer).from_dict(json.loads(text))
    assert again.to_dict() == data
    assert again.status is answer.status
    for name in answer._arrays:
        assert (getattr(again, name) is None) == (getattr(answer, name) is None)
        if getattr(answer, name) is not None:
            assert getattr(again, name).shape == getattr(answer, name).shape


def test_nested_records_come_back_as_records():
    again = answers.Spectrum.from_dict(spectrum().to_dict())
    assert isinstance(again.outliers[0], answers.Outlier)
    assert isinstance(again.blocks[0], answers.Spectrum)
    assert again.blocks[0].outliers[0].value == -0.5


def test_no_nan_and_no_infinity_in_json():
    data = trajectory().to_dict()
    assert data["test_loss"] == [1.0, None, None]
    assert math.isnan(answers.Trajectory.from_dict(data).test_loss[1])
    assert jsonable({1: np.float32(2), np.int64(3): [np.True_, -math.inf]}) == {"1": 2.0, "3": [True, None]}
    assert jsonable(Status.DIVERGED) == "diverged"
    with pytest.raises(TypeError, match="cannot hold a complex"):
        jsonable(1j)


def test_unknown_and_missing_fields_are_refused():
    data = trajectory().to_dict()
    with pytest.raises(ValueError, match="no field 'nonsense'"):
        answers.Trajectory.from_dict({**data, "nonsense": 1})
    del data["norm2"]
    with pytest.raises(ValueError, match="needs the field 'norm2'"):
        answers.Trajectory.from_dict(data)


def test_a_record_reads_as_a_mapping():
    answer = trajectory()
    assert answer["delta"] == answer.delta == answer.get("delta")
    assert dict(answer).keys() == answer.to_dict().keys()
    assert answer.get("nothing", 7) == 7
    with pytest.raises(KeyError):
        answer["to_dict"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        answer.delta = 1.0


@pytest.mark.parametrize("kind", [k for k in vars(answers).values() if isinstance(k, type) and issubclass(k, Result)])
def test_every_answer_cites_known_papers(kind):
    assert all(key in citations.ENTRIES for key in kind.citations)


def test_citations_are_bibtex_without_repeats():
    text = citations.cite("lu-2020", "lu-2020", "troiani-2025")
    assert text.count("@article{lu-2020,") == 1
    assert "booktitle" in text
    assert text.count("{") == text.count("}")
    assert trajectory().cite() == citations.cite(*answers.Trajectory.citations)


def test_every_status_has_a_sentence():
    assert all(s.sentence.endswith(".") for s in Status)
    assert [s for s in Status if s.ok] == [Status.CONVERGED]


def test_plot_finds_the_plotter_of_the_class_or_of_its_parent(monkeypatch):
    monkeypatch.setattr("importlib.import_module", lambda name: None)

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Drawn(Result):
        pass

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Special(Drawn):
        pass

    monkeypatch.setitem(PLOTTERS, "Drawn", lambda result, size=1: (type(result).__name__, size))
    assert Special().plot(size=3) == ("Special", 3)
    monkeypatch.delitem(PLOTTERS, "Drawn")
    with pytest.raises(TypeError, match="nothing draws a Drawn"):
        Drawn().plot()


def test_records_are_known_by_name():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Pair(Record):
        a: int
        b: float = 2.0

    assert Pair.from_dict({"a": 1}).to_dict() == {"a": 1, "b": 2.0}
    assert list(Pair(a=1)) == ["a", "b"]


def test_a_long_array_does_not_fill_the_screen():
    kind = answers.Trajectory(
        delta=2.0,
        time=np.arange(1000.0),
        train_loss=np.array([1.0, 0.123456789]),
        test_loss=np.zeros(0),
        norm2=np.zeros(0),
        overlap=np.zeros(0),
        cosine=np.zeros(0),
        hidden_variance=None,
        stderr={"train_loss": np.zeros(9)},
    )
    shown = repr(kind)
    assert "time=array of shape (1000,)" in shown
    assert "train_loss=[1, 0.123457]" in shown
    assert "{'train_loss': array of shape (9,)}" in shown
    assert shown.startswith("Trajectory(status='converged'")
    assert "\n" not in shown
