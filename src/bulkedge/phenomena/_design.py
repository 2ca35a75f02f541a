"""Design with its proof: the network with the least threshold, trained against the one that was given.

The threshold at t = 0 says when the first step finds a descent direction towards the features, not that training gets
there. So the winner is trained against the default at the same delta, both with first steps of the same length, and the
fractions that find the features are judged against the probabilities of theory 1.7. A design may lower the threshold
and still lose: then `more_succeed` is False, and a warning says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.finite import simulate
from bulkedge.foundation.answers import Design
from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.numerics import DEFAULT, Numerics
from bulkedge.foundation.verdict import judge
from bulkedge.learnability import learning_time
from bulkedge.learnability.design import optimise
from bulkedge.learnability.sensitivity import STEP
from bulkedge.models.family import bounds_of, read_over
from bulkedge.models.problem import Problem
from bulkedge.phenomena import _training

Progress = Callable[[str, int, int], None]
_FACTORS = (2.0, 4.0, 7.0)
"""Times the winner's threshold: where the largest difference is looked for."""
_SCAN = Numerics(paths=2048, replicas=2)
_PATHS = 8192
_SIGMAS = 4.0


def design(
    problem: Problem,
    over: Any = ("second_layer", "bias"),
    *,
    activation_family: Any = None,
    loss_family: Any = None,
    verify: bool = True,
    delta: float | None = None,
    dimension: int = 200,
    steps: int = 100,
    seeds: int = 160,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> Design:
    """The network of a family that needs the least data at t = 0, and what training it brings.

    Args:
        problem: the default, from which the search starts.
        over: what may vary: names (second_layer, bias, loss_scale, or parameters of the two families),
            {name: (low, high)}, or text such as "second_layer=0.1:5,bias". The step size, which does not move the
            threshold at t = 0, is set for first steps of equal length.
        activation_family: text or callable with such parameters, as "gelu(v) + c*tanh(v)"; None: the problem's own.
        loss_family: likewise, in y and f.
        verify: train the winner against the default at the same delta (`verified`). That takes most of the time.
        delta: where to train; None: where the predicted difference in success is largest.
        dimension: of the training.
        steps: of the training.
        seeds: networks of each kind that are trained.
        numerics: of both thresholds.
        progress: called as progress(what, done, total).

    >>> import bulkedge as be
    >>> retrieval = be.Problem("z^2", "gelu", "pseudo-huber")
    >>> found = be.design(retrieval, {"c": (0, 1)}, activation_family="gelu(v) + c*v^2", verify=False)
    >>> round(found.before["delta"], 3), round(found.after["delta"], 3)
    (1.693, 1.2)
    """
    if verify:
        integer("dimension", dimension, low=max(2, problem.k), high=10**6)
        integer("steps", steps, low=1, high=2000)
        integer("seeds", seeds, low=2, high=10**6)
        if delta is not None:
            positive("delta", delta)
    found, winner = searched(problem, over, activation_family, loss_family, numerics, progress)
    if not verify:
        return found
    proof = verification(
        problem,
        winner,
        found.after["delta"],
        delta=delta,
        dimension=dimension,
        steps=steps,
        seeds=seeds,
        seed=numerics.seed,
        progress=progress,
    )
    warnings = list(found.warnings)
    if proof["more_succeed"] is False:
        warnings.append(
            "The winner has the lower threshold at t = 0, but fewer of its runs find the features: what the first "
            "Hessian shows does not last as it trains."
        )
    return replace(found, verified=proof, warnings=warnings)


def searched(
    problem: Problem,
    over: Any,
    activation_family: Any = None,
    loss_family: Any = None,
    numerics: Numerics = DEFAULT,
    progress: Progress | None = None,
) -> tuple[Design, Problem]:
    """The design before it is verified, and the winner with its step size."""
    varying = read_over(over)
    step_bounds = bounds_of(problem, STEP, varying.pop(STEP) or (1e-3, 1e3)) if STEP in varying else None
    if not varying:
        raise BadInput("over", "names only step_size, which does not move the threshold at t = 0")
    found, winner = optimise(
        problem, varying, activation=activation_family, loss=loss_family, numerics=numerics, progress=progress
    )
    winner = matched(problem, winner)
    warnings = list(found.warnings)
    parameters = dict(found.parameters)
    if step_bounds is not None:
        winner = replace(winner, step_size=float(np.clip(winner.step_size, *step_bounds)))
        parameters[STEP] = winner.step_size
        warnings.append(
            "step_size does not move the threshold at t = 0: it is the one that makes the winner's first step as long "
            "as the default's, within its bounds."
        )
    return replace(found, parameters=parameters, winner=winner.to_dict(), warnings=warnings), winner


def first_gradient(problem: Problem) -> float:
    """The root mean square over samples of the gradient factor F(0)/eta, in the limit of high dimension."""
    rng = np.random.default_rng(17)
    n = 1 << 16
    v, z, e = rng.standard_normal((problem.m, n)), rng.standard_normal((n, problem.k)), rng.standard_normal(n)
    with jax.enable_x64(True):
        layer = map(jnp.asarray, problem.layer)
        factor = problem.pointwise.factor(jnp.asarray(v), jnp.asarray(problem.labels(z, e)), *layer)
        return math.sqrt(float(jnp.mean(factor**2)))


def matched(default: Problem, winner: Problem) -> Problem:
    """The winner with the step size that makes its first step as long as the default's."""
    step = default.step_size * first_gradient(default) / first_gradient(winner)
    return replace(winner, step_size=float(f"{step:.6g}"))


def success(problem: Problem, delta: float, dimension: int, steps: int, seed: int) -> tuple[float, float]:
    """The predicted probability to find the features within `steps`, and its standard error."""
    paths = min(_PATHS, _training.paths_for(problem, delta * dimension))
    found = learning_time(problem, delta, dimension, steps, numerics=Numerics(paths=paths, replicas=4, seed=seed))
    return found.success_probability, float(found.stderr["success_probability"]) if found.status.ok else 0.0


def trained(
    problem: Problem, delta: float, dimension: int, steps: int, seeds: int, seed: int, progress: Progress | None = None
) -> tuple[float, float]:
    """The fraction of runs that find the features within `steps`; its standard error is not zero at 0 and 1."""
    run = simulate(problem, delta, dimension, steps, seeds=seeds, seed=seed, progress=progress)
    hits = [math.isfinite(_training.first_above(_training.cosines(one, problem))) for one in run.seeds]
    p = (sum(hits) + 1.0) / (seeds + 2.0)
    return sum(hits) / seeds, math.sqrt(p * (1.0 - p) / (seeds + 3.0))


def contrast(
    default: Problem, winner: Problem, threshold: float, dimension: int, steps: int, progress: Progress | None = None
) -> float:
    """The delta, of some multiples of the winner's threshold, at which most more of its runs should succeed.

    Where the winner is nowhere ahead it is the delta at which it is most behind.
    """
    gains = []
    for i, factor in enumerate(_FACTORS):
        chance = [
            learning_time(p, factor * threshold, dimension, steps, numerics=_SCAN).success_probability
            for p in (winner, default)
        ]
        gains.append(chance[0] - chance[1])
        if progress:
            progress("predicted success", i + 1, len(_FACTORS))
    best = max(gains) if max(gains) > 0.05 else min(gains)
    return float(f"{_FACTORS[gains.index(best)] * threshold:.3g}")


def verification(
    default: Problem,
    winner: Problem,
    threshold: float,
    *,
    delta: float | None,
    dimension: int,
    steps: int,
    seeds: int,
    seed: int,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Predicted and measured success of both at one delta, the gain of the winner, and the verdict.

    more_succeed: whether more runs of the winner found the features, None where the difference is below four standard
    errors.
    """
    if delta is None:
        delta = contrast(default, winner, threshold, dimension, steps, progress)
    rows: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    for name, ask in (
        ("predicted", lambda p: success(p, delta, dimension, steps, seed)),
        ("measured", lambda p: trained(p, delta, dimension, steps, seeds, seed, progress)),
    ):
        value, error = np.array([ask(p) for p in (default, winner)]).T
        rows[name] = np.append(value, value[1] - value[0]), np.append(error, math.hypot(*error))
    verdict = judge(
        *rows["predicted"], *rows["measured"], scale=1.0, name="success of default and winner, and the gain"
    )
    gain, error = rows["measured"][0][2], rows["measured"][1][2]
    more = bool(gain > 0) if abs(gain) > _SIGMAS * error else None
    word = {True: "more", False: "fewer", None: "neither clearly more nor clearly fewer"}[more]
    sentence = (
        f"At delta = {delta:g}, dimension {dimension}, {word} runs of the winner find the features within {steps} "
        f"steps: {rows['measured'][0][1]:.0%} against {rows['measured'][0][0]:.0%} of {seeds} "
        f"(predicted {rows['predicted'][0][1]:.0%} against {rows['predicted'][0][0]:.0%}). {verdict.sentence}"
    )
    places = ("before", "after", "gain")
    found: dict[str, Any] = {"verdict": verdict.verdict, "more_succeed": more, "sentence": sentence}
    found |= {"delta": delta, "dimension": dimension, "steps": steps, "seeds": seeds}
    found["step_size"] = {"before": default.step_size, "after": winner.step_size}
    for name, (value, error) in rows.items():
        found[name] = dict(zip(places, value.tolist(), strict=True))
        found[f"{name}_stderr"] = dict(zip(places, error.tolist(), strict=True))
    return found
