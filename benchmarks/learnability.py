"""Speed of what is asked of a target alone, and of the design loop.

    python benchmarks/learnability.py

delta_alg: of links that nothing was compiled for; the goals are 1 s for one direction and 10 s for a product of three.
design: over three parameters, without the training that verifies it; the goal is two minutes.
"""

from __future__ import annotations

import time

import bulkedge as be


def delta_alg() -> None:
    _ = be.delta_alg  # what is measured is the work, not the import of JAX
    for link, goal in (("tanh(1.07*z^2) + 0.37*e", 1), ("z^2/(1.03 + z^2)", 1), ("1.01*z1*z2*z3", 10)):
        began = time.perf_counter()
        found = be.delta_alg(link)
        print(f"delta_alg  {link}: {time.perf_counter() - began:.2f} s, {found.delta:.6g}   (goal {goal})")


def design() -> None:
    problem = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu", "pseudo-huber", step_size=0.5)
    over = {"second_layer": (0.05, 10.0), "bias": (-3.0, 3.0), "loss_scale": (0.1, 10.0)}
    began = time.perf_counter()
    found = be.design(problem, over, verify=False)
    print(
        f"design     over {', '.join(over)}: {time.perf_counter() - began:.1f} s, "
        f"{found.before['delta']:.4f} to {found.after['delta']:.4f}   (goal 120)"
    )


def main() -> None:
    delta_alg()
    design()


if __name__ == "__main__":
    main()
