"""Three problems that nobody has published, theory against trained networks: python validation/three_problems.py.

Unequal neurons with biases, easy and hard directions, noise, three losses, and in one of them each momentum with weight
decay, and mini-batches. For each:
- curves: losses, every norm, every overlap with an easy direction, at 20000 dimensions of lazily revealed data;
- growth: the covariance of the hidden overlaps of all neurons (theory 1.7), over many small networks;
- spectra: every outlier of each neuron's block and of the whole Hessian, with its kind, against all eigenvalues of
  networks trained by a plain loop that shares no code with the theory.
Prints a table and returns the number of disagreements. With names of problems as arguments only these.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections import defaultdict

import jax
import numpy as np

import bulkedge as be
from bulkedge.models.directions import directions

PROBLEMS = {
    "noisy bump": (
        be.Problem(
            "z1*exp(-z2^2) + 0.2*e",
            be.Network("tanh", second_layer=(3.0, -2.0, 1.5), bias=(0.3, 0.0, -0.5)),
            "pseudo-huber",
            step_size=1.2,
            momentum=0.3,
            weight_decay=0.05,
        ),
        8.0,
    ),
    "two hidden factors": (
        be.Problem(
            "sin(2*z1) + abs(z2)*cos(z3)",
            be.Network("swish", second_layer=(3.0, -1.5), bias=(0.0, 0.4)),
            "pseudo-huber",
            step_size=1.5,
            batch=0.8,
        ),
        12.0,
    ),
    "noisy parabola": (
        be.Problem(
            "sign(z1 + z2^2 - 1 + 0.3*e)",
            be.Network("softplus", second_layer=(4.0, -6.0, 5.0, -3.0), bias=(0.5, 0.0, -0.5, 0.0)),
            "logistic",
            step_size=1.0,
        ),
        15.0,
    ),
}
STEPS, LOOK = 8, (0, 4)
CLEAR, ALIGNED = 0.03, 0.4
"""An outlier is compared if it is further from the bulk than this share of the bulk's width, or its overlap2 is larger
than that: others hide in the fluctuations of the edge.
"""
NUMERICS = be.Numerics(paths=32768, replicas=8)


def line(good: bool, *words: object) -> int:
    print("  ok  " if good else "  BAD ", *words, flush=True)
    return 0 if good else 1


def curves(problem: be.Problem, delta: float) -> int:
    """Limits against 6 networks in 20000 dimensions; the verdict is that of `compare`."""
    result = be.compare(problem, delta, 20_000, STEPS, seeds=6, data="lazy", numerics=NUMERICS)
    failed = 0
    for name, verdict in result.verdicts.items():
        last = [row for row in result.rows if row["quantity"] == name][-1]
        failed += line(
            verdict.verdict == "agrees",
            f"{name:14} at t = {STEPS}: {last['predicted']:.4f}({last['predicted_stderr']:.4f}) and",
            f"{last['measured']:.4f}({last['measured_stderr']:.4f}); worst of all times {verdict.sigmas:.1f} errors,",
            f"resolution {verdict.resolution:.2%}",
        )
    return failed


def growth(problem: be.Problem, delta: float) -> int:
    """v(t) against 400 networks in 400 dimensions: to four standard errors and ten over d."""
    d, seeds = 400, 400
    expected = be.trajectory(problem, delta, STEPS, numerics=NUMERICS)
    measured = be.simulate(problem, delta, d, STEPS, seeds=seeds, data="stored")
    failed = 0
    for t in (2, 5, STEPS):
        v, w = expected.hidden_variance[t], measured.hidden_variance[t]
        error = np.hypot(expected.stderr["hidden_variance"][t], measured.stderr["hidden_variance"][t])
        size = np.sqrt(np.multiply.outer(np.diag(v), np.diag(v)))
        # Of the entries of a covariance the greatest distance is looked at: five errors for a hundred of them.
        worst = float(np.max((np.abs(v - w) - 10.0 / d * size) / error))
        ends = f"{np.round(np.diag(v), 2).tolist()} and {np.round(np.diag(w), 2).tolist()}"
        failed += line(worst < 5.0, f"hidden variance at t = {t}: {ends}; worst entry {worst:.1f} errors beyond 10/d")
    return failed


def trained(problem: be.Problem, delta: float, d: int, seed: int) -> dict[int, tuple[np.ndarray, ...]]:
    """A plain loop in float64: {time: (X, weights (m, m, n) of m Hess Risk, span of theta(0..t))}."""
    rng = np.random.default_rng([seed, 77])
    n, m, k = round(delta * d), problem.m, problem.k
    x = rng.standard_normal((n, d))
    y = problem.labels(x[:, :k], rng.standard_normal(n))
    theta = rng.standard_normal((m, d))
    theta /= np.linalg.norm(theta, axis=1, keepdims=True)
    before, seen, found = theta, [], {}
    a, b = problem.layer
    sigma, loss = problem.network.sigma, problem.loss_function

    def risk(v, y):  # of one sample
        return loss(y, (a * jax.vmap(sigma)(v + b)).mean())

    with jax.enable_x64(True):
        slope, bend = (jax.jit(jax.vmap(f(risk))) for f in (jax.grad, jax.hessian))
        for t in range(max(LOOK) + 1):
            seen.append(theta)
            v = x @ theta.T
            if t in LOOK:
                found[t] = (x, m * np.asarray(bend(v, y)), np.concatenate(seen))
            mask = (rng.random(n) < problem.batch) / problem.batch
            push = (np.asarray(slope(v, y)) * mask[:, None]).T @ x / n + problem.weight_decay * theta
            theta, before = theta - problem.step_size * push + problem.momentum * (theta - before), theta
    return found


def parts(problem: be.Problem, vectors: np.ndarray, seen: np.ndarray, m: int) -> dict[str, np.ndarray]:
    """Squared projections of eigenvectors (m d, p) on the hard and easy directions and on the span of the weights."""
    d = seen.shape[1]
    link, v = directions(problem.link), vectors.reshape(m, d, -1)
    own = np.linalg.qr(seen.T)[0]
    return {
        "hidden": np.einsum("kr,jkp->jrp", link.hard, v[:, : problem.k]),
        "easy": np.einsum("kr,jkp->jrp", link.easy, v[:, : problem.k]),
        "weight": np.einsum("dr,jdp->jrp", own, v),
    }


def spectra(problem: be.Problem, delta: float, hessian: str, d: int, seeds: int) -> int:
    """All outliers of the Hessian, at d dimensions."""
    found = defaultdict(list)
    matrices = range(problem.m) if hessian == "block" else [None]
    for seed in range(seeds):
        for t, (x, g, seen) in trained(problem, delta, d, seed).items():
            for j in matrices:
                if j is None:
                    both = range(problem.m)
                    rows = [[x.T @ (g[:, i, o, None] * x) / len(x) for o in both] for i in both]
                    values, vectors = np.linalg.eigh(np.block(rows))
                else:
                    values, vectors = np.linalg.eigh(x.T @ (g[:, j, j, None] * x) / len(x))
                ends = np.r_[0:6, -6:0]
                squared = parts(problem, vectors[:, ends], seen, problem.m if j is None else 1)
                found[t, j].append((values[ends], {k: np.sum(v**2, axis=(0, 1)) for k, v in squared.items()}))
    failed = 0
    for t in LOOK:
        limit = be.spectrum(problem, delta, t, hessian=hessian, numerics=NUMERICS)
        for j, block in zip(matrices, limit.blocks or [limit], strict=True):
            failed += outliers(f"{hessian} {'' if j is None else j} t = {t}", block, found[t, j])
    return failed


def outliers(name: str, block: be.foundation.answers.Spectrum, runs: list) -> int:
    """Outliers clear of the bulk, one by one from the outermost, and the edge behind them."""
    width, failed = block.right_edge - block.edge, 0
    for below in (True, False):
        edge = block.edge if below else block.right_edge
        mine = [o for o in block.outliers if (o.value < edge) == below]
        mine = sorted(mine, key=lambda o: o.value, reverse=not below)
        far = lambda o, edge=edge: abs(o.value - edge) > CLEAR * width or o.overlap2 > ALIGNED  # noqa: E731
        clear = list(itertools.takewhile(far, mine))
        for i, o in enumerate(clear):
            at = i if below else -1 - i
            seen = np.array([(values[at], squared[o.kind][at]) for values, squared in runs])
            mean, error = seen.mean(axis=0), seen.std(axis=0, ddof=1) / np.sqrt(len(seen))
            good = abs(mean[0] - o.value) < 4 * np.hypot(error[0], o.stderr) + 0.01 * width
            good &= abs(mean[1] - o.overlap2) < 4 * np.hypot(error[1], o.overlap2_stderr) + 0.03
            failed += line(
                good,
                f"{name}: {o.kind} outlier {o.value:.3f} and {mean[0]:.3f}({error[0]:.3f}), overlap2",
                f"{o.overlap2:.3f} and {mean[1]:.3f}({error[1]:.3f})",
            )
        # Behind the clear outliers the spectrum ends near the edge: nothing has been forgotten.
        at = len(clear) if below else -1 - len(clear)
        rest = np.mean([values[at] for values, _ in runs])
        gap = (edge - rest) / width * (1 if below else -1)
        failed += line(-0.08 < gap < CLEAR + 0.02, f"{name}: bulk ends at {edge:.3f} and {rest:.3f}")
    return failed


def main() -> int:
    began, failed = time.perf_counter(), 0
    chosen = {name: PROBLEMS[name] for name in sys.argv[1:]} or PROBLEMS
    for name, (problem, delta) in chosen.items():
        print(f"{name}: {problem.target}, delta = {delta:g} ({directions(problem.link).kinds})")
        failed += curves(problem, delta) + growth(problem, delta)
        failed += spectra(problem, delta, "block", 600, 5) + spectra(problem, delta, "full", 300, 5)
    print(f"{failed} disagreements; {time.perf_counter() - began:.0f} s")
    return failed


if __name__ == "__main__":
    sys.exit(main())
