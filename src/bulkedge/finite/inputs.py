"""Descent on inputs that are not Gaussian: laws of samples of unit variance, and one network trained on them.

Without rotation invariance the feature has to be placed: theta_* is drawn uniformly on the sphere (an orthonormal frame
for several), and so spreads over all coordinates. Samples are then rotated until it is the first axis, which changes
neither descent nor the law of theta(0).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bulkedge.dynamics.descent import descend, initial
from bulkedge.dynamics.stored_data import DATA, NOISE, START, StoredData
from bulkedge.foundation import memory
from bulkedge.foundation.checks import integer
from bulkedge.foundation.errors import BadInput, unknown_name
from bulkedge.gaussian.streams import stream
from bulkedge.models.directions import directions
from bulkedge.models.problem import Problem
from bulkedge.spectra.eigenpairs import eigenpairs

_FRAME = START + 1
"""The random stream of the features' directions, beside those of a run."""


@dataclass(frozen=True)
class Law:
    """draw: (rng, n, d, parameter) -> (n, d). parameter: (low, high) that it lies between; None if there is none."""

    draw: Callable[[np.random.Generator, int, int, float], np.ndarray]
    parameter: tuple[float, float] | None
    about: str


def _student(rng: np.random.Generator, n: int, d: int, degrees: float) -> np.ndarray:
    return rng.standard_t(degrees, (n, d)) * np.sqrt((degrees - 2.0) / degrees)


def _sparse(rng: np.random.Generator, n: int, d: int, share: float) -> np.ndarray:
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < share) / np.sqrt(share)


def _elliptic(rng: np.random.Generator, n: int, d: int, degrees: float) -> np.ndarray:
    radius = np.sqrt((degrees - 2.0) / rng.chisquare(degrees, (n, 1)))
    return radius * rng.standard_normal((n, d))


def _correlated(rng: np.random.Generator, n: int, d: int, power: float) -> np.ndarray:
    variances = np.arange(1.0, d + 1.0) ** -power
    return rng.standard_normal((n, d)) * np.sqrt(variances * d / variances.sum())


def _whitened(rng: np.random.Generator, n: int, d: int, _: float) -> np.ndarray:
    if n <= d:
        raise BadInput("inputs", f"whitening needs more samples than dimensions, not {n} in {d}")
    u, _s, vh = np.linalg.svd(rng.standard_normal((n, d)), full_matrices=False)
    return np.sqrt(n) * u @ vh


def _digits(rng: np.random.Generator, n: int, d: int, _: float) -> np.ndarray:
    table = _table()
    if d > table.shape[1] or n > table.shape[0]:
        most = f"{table.shape[0]} samples in {table.shape[1]} dimensions"
        raise BadInput("inputs", f"digits has {most}; {n} in {d} are too many")
    return table[rng.choice(table.shape[0], n, replace=False), :d]


@functools.lru_cache(maxsize=1)
def _table() -> np.ndarray:
    """Scikit-learn's digits on their principal axes, largest first, every axis scaled to unit variance."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise BadInput(
            "inputs", "digits needs scikit-learn, which is not installed; leave it out or install it"
        ) from None
    pixels = np.asarray(load_digits(return_X_y=True)[0], float)
    centred = pixels - pixels.mean(axis=0)
    u, s, _ = np.linalg.svd(centred, full_matrices=False)
    return np.sqrt(len(u)) * u[:, s > 1e-6 * s[0]]


LAWS = {
    "gaussian": Law(lambda rng, n, d, _: rng.standard_normal((n, d)), None, "independent N(0, 1) entries"),
    "rademacher": Law(lambda rng, n, d, _: rng.choice([-1.0, 1.0], (n, d)), None, "independent entries -1 and 1"),
    "student": Law(_student, (2.0, np.inf), "independent entries of Student's law, so many degrees of freedom"),
    "sparse": Law(_sparse, (0.0, 1.0), "independent entries that are zero except with this probability, else Gaussian"),
    "elliptic": Law(_elliptic, (2.0, np.inf), "multivariate Student: Gaussian with one random radius for each sample"),
    "correlated": Law(
        _correlated, (0.0, np.inf), "Gaussian with variances i^-a on its axes, 1 on average, not whitened"
    ),
    "whitened": Law(_whitened, None, "Gaussian of any covariance, whitened by that of the sample itself"),
    "digits": Law(_digits, None, "rows of scikit-learn's digits on their first d principal axes, whitened"),
}
"""Laws of samples with E x x^T = I, except `correlated`, where only its trace is d. "student-5" is student with 5."""


def draw(name: str, n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    """Samples of a law in `LAWS`, (n, d)."""
    law, parameter = read(name)
    return law.draw(rng, integer("samples", n, low=1), integer("dimension", d, low=1), parameter)


def read(name: str) -> tuple[Law, float]:
    """The law of a name such as "gaussian" or "student-5", and its parameter (0 where it has none)."""
    word, _, number = name.strip().lower().partition("-")
    if word not in LAWS:
        raise unknown_name("inputs", name, LAWS)
    law = LAWS[word]
    if law.parameter is None:
        if number:
            raise BadInput("inputs", f"{word} takes no number")
        return law, 0.0
    low, high = law.parameter
    try:
        value = float(number)
    except ValueError:
        value = np.nan
    if not low < value < high:
        room = f"between {low:g} and {high:g}" if np.isfinite(high) else f"above {low:g}"
        raise BadInput("inputs", f"{word} needs a number {room}, such as {word}-{0.1 if high <= 1 else low + 3:g}")
    return law, value


@dataclass(frozen=True, eq=False)
class Trained:
    """cosine: |P_H theta|/|theta| of the best neuron, (steps + 1,); NaN from where it diverged.

    lowest, overlap2: of the lowest Hessian eigenpair at t = 0 (first neuron's block; NaN for a kinked activation).
    radius_spread: standard deviation of |x|^2/d over the samples, which is what tells many laws apart.
    """

    cosine: np.ndarray
    lowest: float
    overlap2: float
    radius_spread: float


def train(problem: Problem, inputs: str, n: int, d: int, steps: int, seed: int) -> Trained:
    """Train once on n samples of a law."""
    k, key = problem.k, (seed, 0)
    memory.require("dimension", 40.0 * n * d + 24.0 * d * d, f"training on {n} samples of {d} dimensions")
    samples = draw(inputs, n, integer("dimension", d, low=k), stream(*key, DATA))
    spread = float(np.std(np.sum(samples**2, axis=1) / d))
    # The first k columns of a random rotation are the features, and afterwards the first k axes.
    frame, _ = np.linalg.qr(stream(*key, _FRAME).standard_normal((d, d)))
    samples = samples @ frame
    noise = stream(*key, NOISE).standard_normal(n) if problem.link.noisy else np.zeros(n)
    data = StoredData.of(problem, samples, problem.labels(samples[:, :k], noise), key)
    hard, first = directions(problem.link).hard, [np.nan, np.nan]

    def visit(t: int, theta: np.ndarray) -> None:
        if t == 0 and problem.network.kink is None:
            with data.curvature(theta, 0) as product:
                pair = eigenpairs(product, d, 1, seed=seed)
            first[:] = pair.values[0], float(np.sum((hard.T @ pair.vectors[:k, 0]) ** 2))

    run = descend(data, initial(problem, d, (*key, START)), steps, visit=visit)
    size = np.linalg.norm(run.overlap @ hard, axis=2) / np.sqrt(np.diagonal(run.gram, axis1=1, axis2=2))
    return Trained(size.max(axis=1), first[0], first[1], spread)
