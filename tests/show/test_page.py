import base64
import re
from html.parser import HTMLParser

import pytest

from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.status import Status
from bulkedge.show import report
from bulkedge.show.page import answer, page

VOID = {"meta", "img"}


class Checker(HTMLParser):
    """Every element is closed in order; collects text and attributes."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.seen = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def read(source):
    checker = Checker()
    checker.feed(source)
    checker.close()
    assert checker.open == []
    return checker


def test_the_page_stands_alone(made, tmp_path):
    path = report(made.comparison(), tmp_path / "r.html", thresholds=made.threshold(), command='bulkedge compare "<&>"')
    found = read(path.read_text(encoding="utf-8"))
    assert not {"script", "link", "iframe"} & {tag for tag, _ in found.seen}
    sources = [a["src"] for tag, a in found.seen if tag == "img"]
    assert len(sources) == 3
    for source in sources:
        kind, data = source.split(",", 1)
        assert kind == "data:image/svg+xml;base64"
        assert b"<svg" in base64.b64decode(data)
    assert "http" not in re.sub(r'src="[^"]*"', "", path.read_text(encoding="utf-8"))
    text = " ".join(found.text)
    assert 'bulkedge compare "<&>"' in text
    for part in ("5.1062", "training loss", "train loss agrees.", "@article{montanari-wang-2026", "jax 0.", "–"):
        assert part in text


def test_everything_is_escaped(made):
    evil = "<script>alert('x')</script>\"&"
    rows = [{"quantity": evil, "time": 0, "predicted": 1.0, "measured": None, "verdict": evil}]
    result = made.comparison(
        problem=made.PROBLEM | {"target": evil}, rows=rows, warnings=[evil], sentence=evil, verdict=evil, times=()
    )
    source = page(result, command=evil)
    assert "<script" not in source
    assert read(source).text.count(evil) >= 4


def test_warnings_and_statuses_are_said(made):
    result = made.comparison(times=(), status=Status.DIVERGED)
    source = page(result, thresholds=[made.threshold(warnings=["drifts with N"])])
    assert "drifts with N" in source
    assert Status.DIVERGED.sentence in read(source).text


@pytest.mark.parametrize(
    ("changes", "times", "says"),
    [
        ({}, (0,), "from 5.1062 on samples per dimension at t = 0. With 10, that direction is there at t = 0."),
        ({"windows": [[5.5, 19.0]]}, (), "between 5.5 and 19 samples"),
        ({"windows": []}, (), "from 5.1062 on"),
        ({"delta": None, "reason": "nothing hard"}, (), "nothing hard."),
    ],
)
def test_the_answer_is_a_sentence(made, changes, times, says):
    assert says in answer(made.comparison(times=times), [made.threshold(**changes)])


def test_the_answer_tells_when_the_outlier_has_gone(made):
    spectra = [made.spectrum(0), made.spectrum(5, outliers=[])]
    assert answer(made.comparison(spectra=spectra)).endswith("is there at t = 0 and not at t = 5.")
    assert "no such direction at t = 5" in answer(made.comparison(spectra=spectra[1:]))


def test_a_report_is_html(made, tmp_path):
    with pytest.raises(BadInput, match="html"):
        report(made.comparison(), tmp_path / "r.pdf")
