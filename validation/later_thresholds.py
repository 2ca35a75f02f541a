"""The second hard direction, once the first is learned: Hessians of real networks beside the prediction.

    python validation/later_thresholds.py [static] [training] [natural]

static: fresh data, weights planted at an overlap with direction 1, over delta (below and above the threshold) and over
the dimension. training: the same networks trained from there, the Hessian looked at on the way, beside the DMFT from
the same overlap. At finite d the outlier of direction 2 shares its eigenvector with that of direction 1 where the two
lie close together. So overlap2 is summed over all eigenvectors outside the bulk, and the eigenvalue is their mean with
these weights; in the limit both are those of the one outlier. natural: networks from a random start, whose overlap with
direction 1 grows by itself, beside the DMFT whose initial overlap ends at the same overlap (which leaves out the noise
of a finite dimension on the way, and supposes that direction 2 has no overlap yet); overlap2 is judged to 0.1, averaged
over networks and times. Ends with exit code 1 where a measured value is off by more than that, or than four standard
errors and the finite-size drift that each line states.
"""

from __future__ import annotations

import sys

import numpy as np

import bulkedge as be
from bulkedge.dynamics.descent import descend, initial
from bulkedge.dynamics.stored_data import START, StoredData
from bulkedge.finite.planted import planted_spectra
from bulkedge.learnability import later
from bulkedge.spectra import bulk, outliers
from bulkedge.spectra.eigenpairs import eigenpairs
from bulkedge.spectra.law import pooled

PROBLEM = be.Problem("4*tanh(z1^2) + 2*tanh(z2^2)", "gelu", step_size=0.1)
OVERLAP = np.array([[0.9, 0.0]])
HIDDEN = np.array([[0.0], [1.0]])
NUMERICS = be.Numerics(paths=65536, replicas=4)
PAIRS = 6
"""The lowest eigenvalues that are looked at: the learned direction has an outlier too."""


def predicted(delta: float, time: int) -> tuple[float, float, float, float]:
    """(eigenvalue, overlap2) of the outlier, or the edge and 0; the edge; gamma of its fluctuations."""
    law = pooled(later.hidden_laws(later.planted(PROBLEM, delta, time, NUMERICS, OVERLAP, HIDDEN), 0, HIDDEN))
    edge = bulk.left_edge(law, delta)
    gamma = bulk.edge_scale(law, delta, edge) or 0.0
    found = outliers.below(law, delta, edge)
    return (found[0].value, found[0].overlap2, edge.value, gamma) if found else (edge.value, 0.0, edge.value, gamma)


def measured(delta: float, d: int, times: tuple[int, ...], seed: int) -> list[np.ndarray]:
    """At each time (2, PAIRS): the lowest eigenvalues, and the squared overlaps of their vectors with direction 2."""
    found = planted_spectra(PROBLEM, OVERLAP, delta, d, times, pairs=PAIRS, seed=seed)
    return [np.stack([values, parts[1] ** 2]) for values, parts in found]


def row(delta: float, d: int, time: int, found: list[np.ndarray]) -> bool:
    """Print one comparison; False where it fails."""
    value, overlap2, edge, gamma = predicted(delta, time)
    width = gamma * d ** (-2 / 3)
    clear = edge - value > 4.0 * width
    outside = [(values, along * (values < edge)) for values, along in found]
    total = np.array([weights.sum() for _, weights in outside])
    centre = np.array([values @ weights / weights.sum() for values, weights in outside if weights.sum() > 0.0])
    share, error = total.mean(), total.std(ddof=1) / np.sqrt(total.size)
    good = abs(share - overlap2) < 4.0 * error + (0.02 + 8.0 / d if clear else 0.15)
    text = "none outside the bulk"
    if centre.size > 1:
        drift = 4.0 * abs(value) / d + 0.25 * width
        mean, spread = centre.mean(), centre.std(ddof=1) / np.sqrt(centre.size)
        good &= not clear or abs(mean - value) < 4.0 * spread + drift
        text = f"{mean:8.4f}({spread:.4f}) drift {drift:.4f}"
    print(
        f"delta {delta:5.1f}  d {d:5d}  t {time:2d}  value {value:8.4f} : {text}  "
        f"overlap2 {overlap2:.3f} : {share:.3f}({error:.3f})  {'ok' if good else 'FAILS'}"
        f"{'' if clear else '  (none, or within the width of the edge)'}",
        flush=True,
    )
    return bool(good)


def natural() -> bool:
    """A target and a network whose second outlier stands out while the first direction is learned."""
    problem = be.Problem("4*tanh(z1^2) + 2*tanh(z2^2)", "quad", "pseudo-huber", step_size=0.1)
    delta, d, times, gaps = 60.0, 600, (24, 40, 48), []
    for seed in range(3):
        data, seen = StoredData.drawn(problem, round(delta * d), d, (seed,)), {}

        def visit(t: int, theta: np.ndarray, data: StoredData = data, seen: dict = seen) -> None:
            if t in times:
                with data.curvature(theta, 0) as product:
                    pairs = eigenpairs(product, d, PAIRS, tolerance=1e-4, seed=t)
                seen[t] = pairs.values, pairs.vectors[1] ** 2

        run = descend(data, initial(problem, d, (seed, START)), times[-1], visit=visit)
        low, high = 1e-3, 0.9
        for _ in range(9):
            start = np.array([[np.sqrt(low * high), 0.0]])
            path = later.planted(problem, delta, times[-1], be.Numerics(16384, 2), start, HIDDEN).runs[0]
            small = path.overlap[-1, 0, 0] < abs(run.overlap[-1, 0, 0])
            low, high = (float(start[0, 0]), high) if small else (low, float(start[0, 0]))
        for t in times:
            sample = later.planted(problem, delta, t, be.Numerics(16384, 2), start, HIDDEN)
            law = pooled(later.hidden_laws(sample, 0, HIDDEN))
            edge = bulk.left_edge(law, delta).value
            found = outliers.below(law, delta)
            value, overlap2 = (found[0].value, found[0].overlap2) if found else (edge, 0.0)
            values, along = seen[t]
            along = along * (values < edge)
            centre = float(values @ along / max(float(along.sum()), 1e-12))
            gaps.append(float(along.sum()) - overlap2)
            print(
                f"natural, seed {seed}  t {t}  overlap with direction 1 {abs(run.overlap[t, 0, 0]):.3f} "
                f"(DMFT {path.overlap[t, 0, 0]:.3f})  value {value:.4f} : {centre:.4f}  overlap2 {overlap2:.3f} : "
                f"{along.sum():.3f}",
                flush=True,
            )
    print(f"mean gap of overlap2: {np.mean(gaps):+.3f}")
    return abs(float(np.mean(gaps))) < 0.1


def static() -> bool:
    found = be.later_threshold(PROBLEM, [[1, 0]], overlap=OVERLAP, numerics=NUMERICS)
    print(f"threshold of direction 2 at overlap {OVERLAP[0, 0]}: {found.delta:.3f}({found.stderr:.3f})")
    good = True
    for delta, d, seeds in (
        (6, 800, 6),
        (9, 800, 6),
        (13, 800, 6),
        (18, 800, 6),
        (30, 400, 8),
        (30, 800, 6),
        (30, 1600, 4),
    ):
        good &= row(delta, d, 0, [measured(delta, d, (0,), seed)[0] for seed in range(seeds)])
    return good


def training() -> bool:
    good, times = True, (0, 2, 5, 10)
    for delta, d, seeds in ((20.0, 1000, 5), (40.0, 1000, 5)):
        each = [measured(delta, d, times, seed) for seed in range(seeds)]
        for i, t in enumerate(times):
            good &= row(delta, d, t, [one[i] for one in each])
        found = be.later_threshold(PROBLEM, [[1, 0]], overlap=OVERLAP, time=times[-1], numerics=be.Numerics(8192, 4))
        print(f"threshold at t = {times[-1]}: {found.delta} windows {found.windows}")
    return good


if __name__ == "__main__":
    cases = {"static": static, "training": training, "natural": natural}
    passed = {name: cases[name]() for name in sys.argv[1:] or list(cases)}
    sys.exit(0 if all(passed.values()) else 1)
