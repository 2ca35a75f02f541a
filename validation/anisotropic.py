"""Hessians at the start for inputs with a covariance: real matrices beside the separable theory.

    python validation/anisotropic.py [dimension ...]

Two eigenvalues of Sigma with theta_* in the upper one, in the lower one and anywhere; two far apart with a mixed
theta_*; power laws with theta_* anywhere. For each, below and above the threshold: the share of eigenvalues below the
predicted quantiles, both edges (with their Tracy-Widom shift), the hidden outlier and its overlap2 with theta_*. Ends
with exit code 1 where a value is off by more than four standard errors and the finite-size drift: 2/d of a share; 4/d
of the value and a quarter of the width of the edge for an outlier clear of the bulk; half that width for an edge; and
0.02 + 8/d for an overlap2. Edges of a power law are printed but not judged: the extreme eigenvalues of Sigma, with a
mass of 1/d each, make pieces of the spectrum that hold one eigenvalue, and such a piece has no Tracy-Widom edge.
"""

from __future__ import annotations

import sys

import numpy as np

import bulkedge as be
from bulkedge.finite.anisotropic import start_spectrum
from bulkedge.learnability import laws
from bulkedge.spectra import separable, separable_density
from bulkedge.spectra.separable import Population

PROBLEM = be.Problem("2*(abs(z) > 0.6744897501960817)", "gelu")
SEEDS = 8
LEVELS = np.array([0.02, 0.25, 0.75, 0.98])


def cases(d: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Eigenvalues of Sigma, one a dimension, and the spectral weights of theta_*; tr Sigma = d throughout."""
    near, far = np.repeat([0.5, 1.5], d // 2), np.repeat([0.1, 1.9], d // 2)
    flat = np.ones(d)
    return {
        "two, upper": (near, np.where(near > 1, 1.0, 0.0)),
        "two, lower": (near, np.where(near > 1, 0.0, 1.0)),
        "two, any": (near, flat),
        "far, mixed": (far, np.where(far > 1, 0.1, 0.9)),
        "power 1/2": (be.Covariance.power_law(0.5, d).tau, flat),
        "power 1/4": (be.Covariance.power_law(0.25, d).tau, flat),
    }


def row(name: str, tau: np.ndarray, weights: np.ndarray, delta: float) -> bool:
    inputs, law, d = be.Covariance(tau, target=weights), laws.initial(PROBLEM, 0), tau.size
    assert law is not None
    population = Population(inputs.tau, inputs.mass, inputs.measure(1))
    left, right = separable.left_edge(law, population, delta), separable.right_edge(law, population, delta)
    widths = [
        (separable.edge_scale(one, population, delta, edge) or 0.0) * d ** (-2 / 3)
        for one, edge in ((law, left), (law.mirrored, right))
    ]
    spikes = separable.below(law, population, delta)
    clear = bool(spikes) and left.value - spikes[0].value > 4.0 * widths[0]
    x, y, *_ = separable_density.density(law, population, delta, 200)
    mass = np.concatenate([[0.0], np.cumsum(0.5 * (y[1:] + y[:-1]) * np.diff(x))])
    quantiles = np.interp(LEVELS, mass, x)
    rows, shares = [], []
    for seed in range(SEEDS):
        found = start_spectrum(PROBLEM, inputs, delta, d, seed)
        values, along = found.values, found.overlap2
        shares.append(np.mean(values[:, None] < quantiles, axis=0))
        # A weight outlier lies above the right edge; below the left one there is the hidden outlier or nothing.
        rows.append((values[0], along[0], values[1] if clear else values[0], values[-2]))
    mean, error = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) / np.sqrt(SEEDS)
    expected = [left.value + 1.2065 * widths[0], right.value - 1.2065 * widths[1]]
    share, scatter = np.mean(shares, axis=0), np.std(shares, axis=0, ddof=1) / np.sqrt(SEEDS)
    good = bool(np.all(np.abs(share - LEVELS) < 4.0 * scatter + 2.0 / d))
    soft = np.count_nonzero(tau == tau.max()) > 20
    if soft:
        good &= abs(mean[3] - expected[1]) < 4.0 * error[3] + 0.5 * widths[1]
    if soft and (clear or not spikes):
        good &= abs(mean[2] - expected[0]) < 4.0 * error[2] + 0.5 * widths[0]
    text = "none" if not spikes else f"{spikes[0].value:.4f} overlap2 {spikes[0].overlap2:.3f}"
    if clear:
        good &= abs(mean[0] - spikes[0].value) < 4.0 * error[0] + 4.0 * abs(mean[0]) / d + 0.25 * widths[0]
        good &= abs(mean[1] - spikes[0].overlap2) < 4.0 * error[1] + 0.02 + 8.0 / d
    note = "" if clear or not spikes else "  (not clear)"
    print(
        f"{name:11s} d {d:5d} delta {delta:4.1f}  edges {expected[0]:.4f}, {expected[1]:.4f} : "
        f"{mean[2]:.4f}({error[2]:.4f}), {mean[3]:.4f}({error[3]:.4f})  outlier {text} : {mean[0]:.4f}({error[0]:.4f}) "
        f"{mean[1]:.3f}({error[1]:.3f})  shares off by {np.max(np.abs(share - LEVELS)):.4f}  "
        f"{'ok' if good else 'FAILS'}{note}",
        flush=True,
    )
    return bool(good)


def main() -> int:
    good = True
    for d in [int(v) for v in sys.argv[1:]] or [500, 1000]:
        for name, (tau, weights) in cases(d).items():
            threshold = be.anisotropic_threshold(PROBLEM, be.Covariance(tau, target=weights)).delta or np.nan
            print(f"{name}: threshold {threshold:.3f}")
            for delta in (4.0, 12.0):
                good &= row(name, tau, weights, delta)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
