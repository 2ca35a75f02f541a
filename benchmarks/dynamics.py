"""Speed of the theory of descent, as ratios within one process.

    python benchmarks/dynamics.py

paths: the DMFT at T = 40 with 2^17 paths (1e5, rounded up as we do) against the same equations in plain NumPy,
vectorised over as many paths; the goal is 3 times faster, and both must find the same train and test losses. Then the
ratio of the times that both need for the same standard error of those losses, which is what a user waits for.
wide: four neurons, two directions, T = 20, 1e5 paths; the goal is 60 s.
threshold: at t = 5, to one percent standard error; the goal is 60 s.
exponents: of the cost of the DMFT in paths, steps and width.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import ndtr

import bulkedge as be
from bulkedge.dynamics import dmft

TARGET = "2*(abs(z) > 0.6744897501960817)"
PROBLEM = be.Problem(TARGET, "gelu", step_size=0.5)
DELTA, STEPS, PATHS = 10.0, 40, 1 << 17


def plain_numpy(delta: float, eta: float, steps: int, paths: int, seed: int) -> np.ndarray:
    """Train and test loss (2, steps + 1) of one gelu neuron with squared loss on `TARGET`: theory 1.5 in plain NumPy.

    The noise is sampled through the triangular factor of an incremental, twice repeated orthogonalisation of the
    gradients; responses come from Stein's lemma in the same basis, so that no step costs more than O(t N).
    """
    rng = np.random.default_rng(seed)
    x, spare = rng.standard_normal((steps + 1, paths)), rng.standard_normal(paths)
    y = 2.0 * (np.abs(rng.standard_normal(paths)) > 0.6744897501960817)
    f, c = np.zeros((steps, paths)), np.zeros(steps + 1)
    c[0] = 1.0
    loss = np.empty((2, steps + 1))
    for t in range(steps + 1):
        v = c[: t + 1] @ x[: t + 1]
        below = ndtr(v)
        u = v * below - y
        loss[0, t] = 0.5 * np.mean(u * u)
        fresh = np.sqrt(np.sum(c * c)) * spare
        loss[1, t] = 0.5 * np.mean((fresh * ndtr(fresh) - y) ** 2)
        if t == steps:
            break
        g = eta * u * (below + v * np.exp(-0.5 * v * v) / np.sqrt(2.0 * np.pi))
        new = g.copy()
        for _ in range(2):
            new -= (f[:t] @ new / paths) @ f[:t]
        f[t] = new / np.sqrt(np.mean(new * new))
        x[t + 1] -= f[t] / np.sqrt(delta)
        c[: t + 2] -= x[: t + 2] @ g / paths
    return loss


def seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    answer = run()
    return time.perf_counter() - began, answer


def paths() -> None:
    def ours(seed: int) -> np.ndarray:
        run = dmft.solve(PROBLEM, DELTA, STEPS, paths=PATHS, seed=(seed,))
        return np.stack([run.train_loss, run.test_loss])

    ours(0)
    times, losses = [], []
    # Alternating, with seeds that neither has seen, so that both meet the same weather and nothing is remembered.
    for seed in range(1, 25):
        one, a = seconds(lambda seed=seed: ours(seed))
        other, b = seconds(lambda seed=seed: plain_numpy(DELTA, 0.5, STEPS, PATHS, seed))
        times.append((one, other))
        losses.append((a, b))
    fast, slow = np.median(np.array(times), axis=0)
    mean, spread = np.mean(losses, axis=0), np.std(losses, axis=0, ddof=1)
    error = spread / np.sqrt(len(losses))
    apart = np.max(np.abs(mean[0] - mean[1]) / np.hypot(error[0], error[1]).clip(1e-12))
    # The time for a given error goes as time a run times variance of a run; geometric mean over train and test loss.
    gain = np.exp(np.mean(2.0 * np.log(spread[1, :, 1:] / spread[0, :, 1:]), axis=0)) * slow / fast
    print(
        f"paths      T={STEPS} N={PATHS}: bulkedge {fast:.3f} s, plain NumPy {slow:.3f} s, ratio {slow / fast:.1f}; "
        f"losses at most {apart:.1f} standard errors apart\n"
        f"accuracy   for the same standard error, plain NumPy needs {gain[4]:.0f} times as long at t = 5, "
        f"{gain[19]:.0f} at t = 20, {gain[39]:.0f} at t = 40"
    )


def wide() -> None:
    network = be.Network("gelu", width=4, second_layer=(1.0, -1.0, 0.5, -0.5))
    problem = be.Problem("tanh(z1*z2) + 0.3*z1", network, step_size=0.5)
    cold, _ = seconds(lambda: dmft.solve(problem, DELTA, 20, paths=PATHS, seed=(0,)))
    warm, _ = seconds(lambda: dmft.solve(problem, DELTA, 20, paths=PATHS, seed=(1,)))
    print(f"wide       m=4 k=2 T=20 N={PATHS}: {cold:.2f} s, compiled {warm:.2f} s   (goal 60)")


def threshold() -> None:
    took, answer = seconds(lambda: be.threshold(PROBLEM, time=5))
    print(
        f"threshold  at t = 5: {took:.1f} s, delta {answer.delta:.4f} +- {answer.stderr:.4f} "
        f"({100 * answer.stderr / answer.delta:.2f} percent)   (goal 60 s at 1 percent)"
    )


def exponents() -> None:
    base = {"paths": 65_536, "steps": 20, "width": 4}

    def run(paths: int, steps: int, width: int) -> float:
        problem = be.Problem(TARGET, be.Network("gelu", width=width), step_size=0.5)
        return min(seconds(lambda: dmft.solve(problem, DELTA, steps, paths=paths, seed=(0,)))[0] for _ in range(3))

    start = run(**base)
    grown = {name: run(**(base | {name: 2 * value})) for name, value in base.items()}
    told = ", ".join(f"{np.log2(t / start):.2f} in {name}" for name, t in grown.items())
    print(f"exponents  of the time of the DMFT from {base}: {told}")


def main() -> None:
    paths()
    wide()
    threshold()
    exponents()


if __name__ == "__main__":
    main()
