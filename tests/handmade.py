"""Answers made by hand, of any width and number of directions: what figures, reports and the command line are fed."""

from __future__ import annotations

import numpy as np

from bulkedge.foundation.answers import (
    Comparison,
    LearningTime,
    Outlier,
    Simulation,
    Spectrum,
    Threshold,
    Trajectory,
)

PROBLEM = {
    "target": "2*(abs(z) > 0.67449)",
    "latent_dim": 1,
    "network": {"activation": "gelu", "width": 1, "second_layer": [1.0], "bias": [0.0]},
    "loss": "squared",
    "step_size": 0.5,
    "momentum": 0.0,
    "weight_decay": 0.0,
    "batch": 1.0,
}


def _curves(m: int, k: int, steps: int, hidden: bool) -> dict:
    t = np.arange(steps + 1.0)
    norm2 = (1 + 0.04 * t)[:, None] * (1 + 0.2 * np.arange(m))
    variance = (1 + 0.9 * t)[:, None, None] * np.eye(m) if hidden else None
    if m == k == 1:
        zero = np.zeros(steps + 1)
        return {
            "norm2": norm2[:, 0],
            "overlap": zero,
            "cosine": zero,
            "hidden_variance": None if variance is None else variance[:, 0, 0],
        }
    cosine = np.tanh(0.1 * t)[:, None, None] * np.linspace(-0.9, 0.9, m * k).reshape(m, k)
    return {"norm2": norm2, "overlap": cosine, "cosine": cosine, "hidden_variance": variance}


def trajectory(m=1, k=1, *, steps=20, hidden=True, delta=10.0, **changes) -> Trajectory:
    t = np.arange(steps + 1.0)
    fields = {"train_loss": 0.6 + 4 / delta * np.exp(-0.2 * t), "test_loss": 0.93 + 0.002 * t}
    fields |= _curves(m, k, steps, hidden)
    stderr = {n: np.full(np.shape(v), 0.002) for n, v in fields.items() if v is not None and n != "cosine"}
    return Trajectory(**{"delta": delta, "time": t, **fields, "stderr": stderr, "problem": PROBLEM, **changes})


def simulation(m=1, k=1, *, steps=20, hidden=True, delta=10.0, seeds=3, times=(0, 5), **changes) -> Simulation:
    rng = np.random.default_rng(1)
    t = np.arange(steps + 1.0)
    fields = {"train_loss": 0.6 + 4 / delta * np.exp(-0.2 * t), "test_loss": 0.93 + 0.002 * t}
    fields = {n: v + 0.004 * rng.standard_normal(v.shape) for n, v in fields.items()} | _curves(m, k, steps, hidden)
    lowest = {str(s): [-0.56 + 0.03 * s, -0.528 + 0.03 * s, -0.522 + 0.03 * s] for s in times}
    overlap2 = {str(s): [0.36, 0.04, 0.01] for s in times}
    if m > 1:
        lowest, overlap2 = ({s: [v] * m for s, v in table.items()} for table in (lowest, overlap2))
    known = np.nan if seeds == 1 else 0.01
    stderr = {n: np.full(np.shape(v), known) for n, v in fields.items() if v is not None}
    stderr |= {
        name: {s: np.full(np.shape(v), known) for s, v in table.items()}
        for name, table in (("eigenvalues", lowest), ("overlap2", overlap2))
    }
    runs = [{n: v for n, v in fields.items() if n != "hidden_variance"} | {"diverged_at": None} for _ in range(seeds)]
    return Simulation(
        **{
            "delta": delta,
            "dimension": 1500,
            "samples": round(1500 * delta),
            "time": t,
            **fields,
            "success": [False] * seeds,
            "seeds": runs,
            "stderr": stderr,
            "eigenvalues": lowest,
            "overlap2": overlap2,
            "data": "stored",
            "seconds": 2.5,
            "problem": PROBLEM,
            **changes,
        }
    )


def spectrum(time=0, m=1, *, delta=10.0, **changes) -> Spectrum:
    low, high = -0.53241 + 0.03 * (time or 0), 0.657 + 0.03 * (time or 0)
    x = np.linspace(low, high, 200)
    y = np.sqrt(np.clip((x - low) * (high - x), 0, None))
    outliers = [
        Outlier(
            value=low - 0.03, overlap2=0.39137, kind="hidden", stderr=0.003, probability=0.93, overlap2_stderr=0.02
        ),
        Outlier(value=high + 0.035, overlap2=0.51, kind="weight"),
    ]

    def one(neuron: int, blocks: list | None = None) -> Spectrum:
        fields = {"delta": delta, "time": time, "edge": low, "right_edge": high, "atom": 0.0, "outliers": outliers}
        fields |= {"density": {"x": x, "y": y / np.trapezoid(y, x)}, "edge_stderr": 0.002, "neuron": neuron}
        return Spectrum(**{**fields, "blocks": blocks, "problem": PROBLEM, **changes})

    return one(0, [one(j) for j in range(m)] if m > 1 else None)


def threshold(time=0, **changes) -> Threshold:
    fields = {"delta": 5.10622, "edge": -0.82205, "time": time, "windows": [[5.10622, None]], "delta_alg": 1.36046}
    fields |= {"efficiency": 0.26643, "method": "quadrature", "residual": 1e-12, "problem": PROBLEM}
    return Threshold(**{**fields, **changes})


def learning_time(delta=10.0, dimension=5000, steps=200, **changes) -> LearningTime:
    variance = np.exp(0.04 * np.arange(steps + 1))
    fields = {"delta": delta, "dimension": dimension, "steps": steps, "time": 600 / delta}
    fields |= {"quartiles": [900 / delta, 600 / delta, 420 / delta], "success_probability": 0.9}
    fields |= {"hidden_variance": variance, "stderr": {"hidden_variance": 0.03 * variance}, "problem": PROBLEM}
    return LearningTime(**{**fields, **changes})


def comparison(m=1, k=1, *, hidden=True, delta=10.0, times=(0, 5), **changes) -> Comparison:
    theory = trajectory(m, k, hidden=hidden, delta=delta)
    real = simulation(m, k, hidden=hidden, delta=delta, times=times)
    rows = [
        {
            "quantity": "train_loss",
            "time": t,
            "predicted": float(theory.train_loss[t]),
            "predicted_stderr": 0.002,
            "measured": float(real.train_loss[t]),
            "measured_stderr": 0.004,
            "verdict": "agrees",
        }
        for t in (0, 5, 20)
    ]
    nothing = dict.fromkeys(("measured", "measured_stderr"))
    rows.append({"quantity": "outlier", "time": 5, "predicted": -0.41, "predicted_stderr": 0.0, "verdict": "undecided"})
    rows[-1] |= nothing
    fields = {
        "delta": delta,
        "dimension": 1500,
        "verdict": "agrees",
        "sentence": "train loss: prediction and measurement agree (largest gap 1.9 standard errors).",
        "rows": rows,
        "verdicts": {"train_loss": {"verdict": "agrees", "sentence": "train loss agrees."}},
        "trajectory": theory,
        "simulation": real,
        "spectra": [spectrum(t, m, delta=delta) for t in times],
        "problem": PROBLEM,
    }
    return Comparison(**{**fields, **changes})
