"""How long a command takes from nothing: help, a threshold without and with the cache, and a warm threshold."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time

TARGET = "2*(abs(z) > 0.6744897501960817)"
THRESHOLD = ("threshold", "--target", TARGET, "--activation", "gelu", "--step-size", "0.5", "--json")


def seconds(words: tuple[str, ...], cache: str) -> float:
    """Wall time of one command in a new process."""
    environment = {k: v for k, v in os.environ.items() if k != "JAX_COMPILATION_CACHE_DIR"} | {"XDG_CACHE_HOME": cache}
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "bulkedge", *words], check=True, capture_output=True, env=environment)
    return time.perf_counter() - start


def cold_and_cached() -> tuple[float, float]:
    """The same threshold twice, the first time with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        return seconds(THRESHOLD, cache), seconds(THRESHOLD, cache)


def warm() -> float:
    """A second threshold in one process, of another step size, so that no answer could be remembered."""
    import bulkedge as be

    times = []
    for step_size in (0.5, 0.6, 0.7, 0.8):
        start = time.perf_counter()
        be.threshold(be.Problem(TARGET, "gelu", step_size=step_size))
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        help_time = min(seconds(("--help",), cache) for _ in range(5))
    print(f"bulkedge --help                    {help_time:6.2f} s   (goal 0.5)")
    cold, cached = cold_and_cached()
    print(f"threshold at t = 0, cold           {cold:6.2f} s   (goal 5)")
    print(f"threshold at t = 0, cached         {cached:6.2f} s")
    print(f"threshold at t = 0, warm           {warm():6.2f} s   (goal 0.2)")


if __name__ == "__main__":
    main()
