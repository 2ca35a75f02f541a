"""Learning times of descent, predicted and simulated (theory 1.7): python validation/learning_time.py [SCALE].

The target 2*(abs(z) > 0.67449) with one gelu neuron, squared loss, step 0.5, delta 30: quartiles over 1000 runs at
d = 500 and 400 at d = 2000, inside 10 percent plus two bootstrap errors. SCALE < 1 takes that share of the runs.
"""

from __future__ import annotations

import sys

import numpy as np

import bulkedge as be
from bulkedge.finite.passage import first_passage

PROBLEM = be.Problem("2*(abs(z) > 0.67449)", "gelu", step_size=0.5)
DELTA = 30.0
CASES = ((500, 1000, 160), (2000, 400, 200))


def quartiles(times: np.ndarray) -> np.ndarray:
    return np.quantile(times, [0.75, 0.5, 0.25], method="nearest")


def main() -> int:
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    failed = 0
    for dimension, seeds, steps in CASES:
        count = max(40, round(seeds * scale))
        predicted = be.learning_time(PROBLEM, DELTA, dimension, steps)
        found: list[float] = []
        for run in range(count):
            found.append(first_passage(PROBLEM, DELTA, dimension, steps, 1000, run=run, data="stored"))
            if len(found) % 50 == 0:
                print(f"d = {dimension}: {len(found)} of {count} runs", file=sys.stderr, flush=True)
        times = np.array(found)
        rng = np.random.default_rng(0)
        resampled = np.array([quartiles(rng.choice(times, times.size)) for _ in range(2000)])
        error = np.nanstd(np.where(np.isfinite(resampled), resampled, np.nan), axis=0)
        learned = float(np.mean(np.isfinite(times)))
        print(
            f"d = {dimension}, {count} runs, within {steps} steps: learned {learned:.3f}, "
            f"predicted {predicted.success_probability:.3f}"
        )
        for name, p, s, e in zip(("slow", "median", "fast"), predicted.quartiles, quartiles(times), error, strict=True):
            allowed = 0.1 * s + 2 * e
            good = p is not None and abs(p - s) <= allowed
            failed += not good
            word = "inside" if good else "OUTSIDE"
            print(f"  {name:7} predicted {p}  simulated {s:.0f} +- {e:.1f}  {word} {allowed:.1f}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
