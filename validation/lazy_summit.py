"""Descent on data sets that no memory holds: seconds and peak resident memory of lazily revealed runs.

    python validation/lazy_summit.py [large | huge | summit ...]

Each case runs in a process of its own, because peak memory never falls. With no argument: all three, the last of
which is a matrix of 10^15 entries and wants 24 GB of memory. A limit that is broken ends with exit code 1.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

CASES = {
    # name: (dimension, samples, steps, most seconds or None, most GB)
    "large": (500_000, 3_000_000, 20, 20.0, 4.0),
    "huge": (1_000_000, 10_000_000, 50, None, 12.0),
    "summit": (10_000_000, 100_000_000, 20, None, 22.0),
}


def run(name: str) -> int:
    import bulkedge as be

    d, n, steps, most_seconds, most_gb = CASES[name]
    problem = be.Problem("2*(abs(z) > 0.6744897501960817)", network="gelu", step_size=0.5)
    began = time.perf_counter()
    answer = be.simulate(problem, dimension=d, samples=n, steps=steps, seeds=1, data="lazy")
    seconds = time.perf_counter() - began
    # The kernel counts kilobytes, macOS bytes.
    gb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e9
    print(
        f"{name:8s} d = {d:.0e}, n = {n:.0e}, {steps} steps: {seconds:.1f} s, peak {gb:.2f} GB; "
        f"train loss {answer.train_loss[-1]:.5f}, test {answer.test_loss[-1]:.5f}, norm2 {answer.norm2[-1]:.5f}",
        flush=True,
    )
    slow = most_seconds is not None and seconds > most_seconds
    if slow or gb > most_gb:
        print(f"{name}: above the limit of {most_seconds} s or {most_gb} GB")
        return 1
    return 0


def main() -> int:
    if len(sys.argv) == 3 and sys.argv[1] == "--here":
        return run(sys.argv[2])
    names = sys.argv[1:] or list(CASES)
    for name in names:
        if name not in CASES:
            print(f"unknown case {name!r}; known: {', '.join(CASES)}", file=sys.stderr)
            return 2
    return max(subprocess.run([sys.executable, __file__, "--here", name], check=False).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main())
