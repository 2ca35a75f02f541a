"""Speed of the measurement, as ratios within one process.

    python benchmarks/finite.py [--full]

step: one stored descent step against one product X @ v (d = 2000, n = 20000); two products are 2, the limit is 1.8.
eigenpair: lowest Hessian eigenpair, matrix-free, against forming the matrix in float32 and a subset eigensolve
(d = 2000; with --full d = 5000, n = 50000, where it must be at least 10 times faster).
lazy: descent on a matrix that is not stored (d = 100,000, n = 600,000; with --full 500,000 and 3,000,000, under 20 s).
exponents: of the cost of lazy descent in dimension, samples, steps and width.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg

import bulkedge as be
from bulkedge.dynamics.descent import descend, initial
from bulkedge.dynamics.lazy_data import LazyData
from bulkedge.dynamics.stored_data import StoredData
from bulkedge.spectra.eigenpairs import eigenpairs

PROBLEM = be.Problem("2*(abs(z) > 0.6744897501960817)", network="gelu", step_size=0.5)


def seconds(run: Callable[[], Any]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def step() -> None:
    d, n = 2000, 20_000
    data = StoredData.drawn(PROBLEM, n, d, (0,))
    theta = initial(PROBLEM, d, (1,))
    x, v = jnp.asarray(data.matrix()), jnp.asarray(theta[0], jnp.float32)
    multiply = jax.jit(lambda x, v: x @ v)
    one, other = (lambda: multiply(x, v).block_until_ready()), (lambda: data.gradient(theta, 0))
    for f in (one, other):
        f()
    # Alternating, so that both meet the same weather.
    pairs = np.array([(seconds(one), seconds(other)) for _ in range(60)])
    product, whole = np.median(pairs, axis=0)
    ratio = whole / product
    print(f"step       d={d} n={n}: X @ v {product * 1e3:.2f} ms, descent step {whole * 1e3:.2f} ms, ratio {ratio:.2f}")


def eigenpair(d: int) -> None:
    n = 10 * d
    data = StoredData.drawn(PROBLEM, n, d, (0,))
    theta = initial(PROBLEM, d, (1,))
    with data.curvature(theta, 0) as product:
        product(theta[0])
        began = time.perf_counter()
        found = eigenpairs(product, d, 1)
        free = time.perf_counter() - began
    x = data.matrix()
    v = x @ theta[0].astype(np.float32)
    layer = (jnp.asarray(part, jnp.float32) for part in PROBLEM.layer)
    g = np.asarray(PROBLEM.pointwise.block(jnp.asarray(v)[None], jnp.asarray(data.labels), *layer))[0]
    began = time.perf_counter()
    # The faster of the ways to form it: one product of two matrices in float32.
    h = (x * (g / np.float32(n))[:, None]).T @ x
    formed = time.perf_counter() - began
    value = scipy.linalg.eigh(h, eigvals_only=False, subset_by_index=[0, 0], overwrite_a=True, check_finite=False)[0][0]
    dense = time.perf_counter() - began
    print(
        f"eigenpair  d={d} n={n}: matrix-free {free:.2f} s ({found.products} products, "
        f"residual {found.residual[0]:.1e}), dense {dense:.2f} s ({formed:.2f} to form), ratio {dense / free:.1f}; "
        f"values {found.values[0]:.6f} {value:.6f}"
    )


def descent_seconds(d: int, n: int, steps: int, width: int = 1) -> float:
    problem = be.Problem(PROBLEM.target, network=be.Network("gelu", width=width), step_size=0.5)
    theta = initial(problem, d, (1,))
    return seconds(lambda: descend(LazyData(problem, n, d, (0,), steps), theta, steps))


def lazy(d: int, n: int) -> None:
    descent_seconds(d, n, 2)
    print(f"lazy       d={d} n={n}, 20 steps: {descent_seconds(d, n, 20):.2f} s")
    small = (d // 4, n // 4, 20, 1)
    descent_seconds(*small[:2], 2, 4)
    base = descent_seconds(*small)
    grown = {"dimension": 0, "samples": 1, "steps": 2, "width": 3}
    times = {
        name: descent_seconds(*(4 * v if i == at else v for i, v in enumerate(small))) for name, at in grown.items()
    }
    told = ", ".join(f"{np.log(t / base) / np.log(4):.2f} in {name}" for name, t in times.items())
    print(f"exponents  of the time of lazy descent from d={d // 4} n={n // 4}, 20 steps, 1 neuron: {told}")


def main() -> None:
    full = "--full" in sys.argv[1:]
    step()
    eigenpair(5000 if full else 2000)
    lazy(*((500_000, 3_000_000) if full else (100_000, 600_000)))


if __name__ == "__main__":
    main()
