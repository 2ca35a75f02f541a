"""Small phenomena for the tests of the laboratory; workers import this module by its name."""

import os
import resource
import signal
import time
from pathlib import Path

import numpy as np

from bulkedge.foundation.phenomenon import Judged, Knob, Mark, Panel, Part, Phenomenon, Quantity, grid


def measured(delta, dimension, noise, seed):
    """A fraction, a mean and a curve, all of known expectation."""
    rng = np.random.default_rng([seed, round(1000 * delta)])
    return {
        "seen": delta**2 + noise * rng.standard_normal(),
        "learnt": float(rng.random() < delta / 10.0),
        "loss": np.exp(-delta * np.arange(4)) + noise * rng.standard_normal(4),
    }


def predicted(delta):
    return {"expected": delta**2, "expected_loss": np.exp(-delta * np.arange(6)), "step": np.arange(6)}


def plan(knobs):
    units = grid("theory", {"delta": knobs["delta"]})
    axes = {"delta": knobs["delta"], "dimension": knobs["dimension"]}
    return units + grid("training", axes, range(knobs["seeds"]), noise=knobs["noise"])


TINY = Phenomenon(
    name="tiny",
    question="Is the square of a number its square?",
    citations=("silverstein-choi-1995",),
    equation="Euclid II.4",
    knobs=(
        Knob("delta", "positives", (1.0, 2.0), "numbers to square", full=(1.0, 2.0, 3.0)),
        Knob("dimension", "integers", (10,), "of nothing", low=1),
        Knob("seeds", "integer", 4, "runs of each", low=1),
        Knob("noise", "number", 0.001, "standard deviation", low=0.0),
    ),
    parts=(
        Part(
            "theory",
            "predicted",
            predicted,
            ("delta",),
            (Quantity("expected"), Quantity("expected_loss", dims=("step",))),
        ),
        Part(
            "training",
            "measured",
            measured,
            ("delta", "dimension"),
            (
                Quantity("seen", label="the square"),
                Quantity("learnt", over="fraction"),
                Quantity("loss", dims=("step",)),
            ),
        ),
    ),
    plan=plan,
    panels=(
        Panel(
            "squares",
            (
                Mark("line", "expected", x="delta", label="theory"),
                Mark("points", "seen", x="delta", by="dimension"),
            ),
            r"$\delta$",
            "square",
        ),
        Panel(
            "loss",
            (Mark("line", "expected_loss", x="step", by="delta"), Mark("points", "loss", x="step", by="delta")),
            "step",
            "loss",
        ),
    ),
    judged=(Judged("seen", "expected", name="square"), Judged("loss", "expected_loss", scale=1.0)),
    conclude=lambda table: [f"the largest square is {float(table.seen.max()):.1f}"],
)


# --- a part that behaves badly ---


ODD = True


def troubled(number, how, folder, seconds, seed):
    """Unit 2 misbehaves; `folder` counts how often each unit was begun."""
    with open(Path(folder) / f"{number}-{seed}", "a") as file:
        file.write("x")
    time.sleep(seconds)
    if number == 2 and how == "raises" and ODD:
        raise ValueError("two is odd")
    if number == 2 and how == "memory":
        raise MemoryError("no room for two")
    if number == 2 and how == "really memory":
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
        try:
            np.ones(1 << 40)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    if number == 2 and how == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2 and how == "dies once" and len((Path(folder) / f"{number}-{seed}").read_text()) < 2:
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 2 and how == "wrong shape":
        return {"value": [1.0, 2.0]}
    return {"value": float(number), "worker": float(os.getpid())}


def _troubled_plan(knobs):
    fixed = {name: knobs[name] for name in ("how", "folder", "seconds")}
    return grid("unit", {"number": range(knobs["units"])}, range(knobs["seeds"]), **fixed)


TROUBLED = Phenomenon(
    name="troubled",
    question="What happens when a unit fails?",
    citations=(),
    equation="none",
    knobs=(
        Knob("how", "text", "well", "what unit 2 does"),
        Knob("folder", "text", ".", "where units are counted"),
        Knob("seconds", "number", 0.0, "of each unit"),
        Knob("units", "integer", 5, "how many", low=1),
        Knob("seeds", "integer", 1, "of each", low=1),
    ),
    parts=(Part("unit", "measured", troubled, ("number",), (Quantity("value"), Quantity("worker", over="first"))),),
    plan=_troubled_plan,
    panels=(),
)


def fill(store, knobs):
    """What a process of its own does."""
    from bulkedge.lab import run

    run(TROUBLED, store=store, **knobs)


# --- what a worker is asked ---


def environment():
    """The variables about threads, how many of them array programs really use, and how many cores they keep busy."""
    import jax
    import threadpoolctl

    x = jax.numpy.ones((500, 500))
    (x @ x).block_until_ready()
    wall, cpu = time.perf_counter(), time.process_time()
    for _ in range(10):
        x = (x @ x * 1e-3).block_until_ready()
    busy = (time.process_time() - cpu) / (time.perf_counter() - wall)
    used = max((pool["num_threads"] for pool in threadpoolctl.threadpool_info()), default=1)
    return {**os.environ, "threads": str(used), "busy": str(busy), "pid": str(os.getpid())}


def meet(folder, name, count):
    """Wait until `count` processes are here."""
    (Path(folder) / name).write_text("")
    deadline = time.monotonic() + 60
    while len(list(Path(folder).iterdir())) < count:
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.01)
    return os.getpid()


def die():
    os.kill(os.getpid(), signal.SIGKILL)
