"""One problem from question to verdict: `python -m bulkedge.cli.demo DIR` leaves DIR/index.html and its figures.

A single GELU neuron learns the indicator 2 * 1{|z| > q}, q the median of |z|: even, so the direction is hard, and
only a negative outlier of the Hessian can show the way to it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import bulkedge
from bulkedge.cli import interrupted, startup
from bulkedge.cli.progress import progress
from bulkedge.foundation.errors import BadInput

TARGET = "2*(abs(z) > 0.67449)"
PROBLEM = {"target": TARGET, "network": "gelu", "loss": "squared", "step_size": 0.5}
SETTINGS = {"delta": 10, "dimension": 1200, "steps": 20, "seeds": 6, "spectrum_times": (0, 2, 5)}
COMMAND = (
    f'bulkedge compare --target "{TARGET}" --activation gelu --loss squared --step-size 0.5 '
    "--delta 10 --dimension 1200 --steps 20 --seeds 6 --spectrum-times 0,2,5 --out report.html"
)


def run(folder: Path) -> Path:
    """Do it all; returns the path of the page."""
    start = time.perf_counter()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput("folder", f"{str(folder)!r} cannot be made: {error.strerror}") from None
    say = _Speaker(start)
    say(f"question: when does one GELU neuron find the direction of {TARGET}?")
    problem = bulkedge.Problem(**PROBLEM)

    say("1/3 threshold: samples per dimension above which the Hessian points to it at t = 0")
    threshold = bulkedge.threshold(problem)
    say(f"    {_threshold_line(threshold)}")

    say(f"2/3 prediction and measurement at {SETTINGS['delta']} samples per dimension")
    with progress() as bars:
        comparison = bulkedge.compare(problem, **SETTINGS, progress=bars or say.stage)
    say(f"    {comparison.verdict}: {comparison.sentence}")

    say("3/3 figures and report")
    return _write(folder, threshold, comparison, say)


def _write(folder: Path, threshold: Any, comparison: Any, say: _Speaker) -> Path:
    from bulkedge import show

    show.save(threshold.plot(), folder / "threshold.png")
    show.save(comparison.plot(part="curves"), folder / "curves.png")
    show.save(comparison.plot(part="spectra"), folder / "spectra.png")
    found = {"threshold": threshold.to_dict(), "comparison": comparison.to_dict()}
    (folder / "results.json").write_text(json.dumps(found, allow_nan=False) + "\n", encoding="utf-8")
    page = show.report(comparison, folder / "index.html", thresholds=threshold, command=COMMAND)
    say(f"done: open {page}")
    return page


def _threshold_line(threshold: Any) -> str:
    if threshold.delta is None:
        return f"none: {threshold.reason}"
    return f"{threshold.delta:.5g} (best possible: {threshold.delta_alg:.5g})"


class _Speaker:
    """Lines with the seconds since the start, written at once."""

    def __init__(self, start: float) -> None:
        self.start = start
        self.last = ""

    def __call__(self, line: str) -> None:
        print(f"[{time.perf_counter() - self.start:5.1f} s] {line}", flush=True)

    def stage(self, what: str, done: int, total: int) -> None:
        """Progress where no bars can be drawn: a line when something new begins."""
        if what != self.last:
            self.last = what
            self(f"    {what}")


def main(argv: Sequence[str] | None = None) -> int:
    """The demo as a command; one argument, the folder."""
    if argv is None:
        startup.prepare()
    arguments = list(sys.argv[1:] if argv is None else argv)
    if len(arguments) != 1 or arguments[0].startswith("-"):
        print("usage: python -m bulkedge.cli.demo DIR", file=sys.stderr)
        return 2
    try:
        run(Path(arguments[0]))
    except BadInput as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return interrupted("demo", own_process=argv is None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
