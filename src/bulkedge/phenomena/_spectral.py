"""The spectral method for a target: its limiting spectrum, the eigenpairs found on data, and a verdict on the two."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bulkedge.finite import data as training
from bulkedge.finite.spectral_method import SpectralMethod
from bulkedge.foundation.answers import Spectrum
from bulkedge.foundation.arrays import over_arrays
from bulkedge.foundation.checks import choice, integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.foundation.recovery import SpectralRecovery
from bulkedge.foundation.status import Status
from bulkedge.foundation.verdict import judge, overall, widening
from bulkedge.learnability.hessians import limiting_spectrum
from bulkedge.learnability.label_spectrum import label_laws, mixture
from bulkedge.learnability.lowest import Lowest, lowest
from bulkedge.learnability.preprocessing import best_direction, preprocessing
from bulkedge.models.target import Target
from bulkedge.models.target import target as read
from bulkedge.spectra import bulk

Progress = Callable[[str, int, int], None]
_BELOW = 1.1
"""Below delta_c no T sees the target; T*_delta of this multiple of delta_c is taken."""
_LEAST = 0.01
"""Where m is below it, T* = 1 - 1/m is floored: an unbounded T costs the search for its eigenvectors dear."""
_MOST_PRODUCTS = {"stored": 3000, "lazy": 400}


@over_arrays("delta")
def spectral_method(
    target: Any,
    delta: float,
    dimension: int | None = None,
    *,
    preprocess: Any = "bounded",
    components: int | None = None,
    seeds: int = 5,
    seed: int = 0,
    data: str = "stored",
    points: int = 400,
    latent_dim: int | None = None,
    progress: Progress | None = None,
) -> SpectralRecovery:
    """What the top eigenvectors of D = (1/n) sum_i T(y_i) x_i x_i^T know of the target, in the limit and on data.

    Args:
        target: an expression, a name, or a callable (z, e) -> y.
        delta: n/d.
        dimension: of the data; None for the prediction alone.
        preprocess: "bounded" (T*_delta), "best" (T*, the largest overlap; floored at 1 - 1/0.01), or a function of the
            labels (n,) -> (n,).
        components: eigenvectors looked at; as many as the limit has outliers above the bulk (at least one) if None.
        seeds: how many training sets.
        seed: training set i is drawn from (seed, i).
        data: "stored", or "lazy" (revealed by products; exact in law).
        points: of the density of the limit.
        latent_dim: number of directions, where the target does not say.
        progress: called as progress(what, done, total).

    The measured top eigenvalue is judged against the outlier, or against the edge with its Tracy-Widom shift; overlap2
    where the outlier stands clear of the bulk, on the scale 1. Of several outliers the means are judged.
    """
    began = clock.perf_counter()
    link = read(target, latent_dim)
    delta = positive("delta", delta)
    weights, chosen = _weights(link, delta, preprocess)
    spectrum, expected = _limit(link, weights, delta, integer("points", points, low=16, high=100_000))
    upper = _upper(spectrum)
    count = max(1, len(upper)) if components is None else integer("components", components, low=1, high=1000)
    answer = SpectralRecovery(
        **chosen,
        target=link.name,
        delta=delta,
        spectrum=spectrum,
        predicted_eigenvalues=[o.value for o in upper][:count] + [spectrum.right_edge] * (count - len(upper)),
        predicted_overlap2=[o.overlap2 for o in upper][:count] + [0.0] * (count - len(upper)),
        status=spectrum.status,
        warnings=[*_remarks(chosen, delta), *spectrum.warnings],
    )
    if dimension is None:
        return answer
    d = integer("dimension", dimension, low=max(2, link.latent_dim), high=10**9)
    runs, seed = integer("seeds", seeds, low=1, high=10**6), integer("seed", seed, low=0, high=2**63 - 1)
    kind = choice("data", data, ("stored", "lazy"))
    n = round(delta * d)
    if n < 1:
        raise BadInput("delta", f"leaves no sample at dimension {d}; it must be at least {1 / d:g}")
    found = []
    for i in range(runs):
        found.append(_measured(link, weights, n, d, count, kind, (seed, i)))
        if progress:
            progress("spectral method", i + 1, runs)
    values, overlap2 = (np.array([run[name] for run in found]) for name in ("eigenvalues", "overlap2"))
    word, sentence = _judged(expected(d), upper, values, overlap2, d, runs)
    poor = [i for i, run in enumerate(found) if not run["converged"]]
    return replace(
        answer,
        dimension=d,
        samples=n,
        eigenvalues=values.mean(axis=0).tolist(),
        overlap2=overlap2.mean(axis=0).tolist(),
        stderr={"eigenvalues": _stderr(values), "overlap2": _stderr(overlap2)},
        seeds=found,
        verdict=word,
        sentence=sentence,
        seconds=clock.perf_counter() - began,
        status=Status.NOT_CONVERGED if poor else answer.status,
        warnings=[
            *answer.warnings,
            *([f"The eigenvectors of {len(poor)} of {runs} runs are not exact."] if poor else []),
        ],
    )


def _weights(link: Target, delta: float, given: Any) -> tuple[Callable[[np.ndarray], Any], dict[str, Any]]:
    """T, and what the answer says of it."""
    delta_c, stderr, u = best_direction(link)
    common = {"delta_c": delta_c, "delta_c_stderr": stderr}
    if callable(given):
        return given, {**common, "preprocessing": "given", "direction": None}
    kind = choice("preprocess", given, ("bounded", "best"))
    if kind == "best":
        best = replace(preprocessing(link), least=_LEAST)
        return best, {**common, "preprocessing": "T*", "direction": u.tolist()}
    bounded = preprocessing(link, delta if delta_c is None else max(delta, _BELOW * delta_c))
    return bounded, {**common, "preprocessing": f"T*_delta at {bounded.delta:.6g}", "direction": u.tolist()}


def _remarks(chosen: dict[str, Any], delta: float) -> list[str]:
    """What must be known of the choice of T."""
    if chosen["delta_c"] is not None and delta <= chosen["delta_c"] and chosen["preprocessing"] != "given":
        return [f"No T sees the target below delta = {chosen['delta_c']:.6g}; {chosen['preprocessing']} is used."]
    return []


def _limit(
    link: Target, weights: Callable[[np.ndarray], Any], delta: float, points: int
) -> tuple[Spectrum, Callable[[int], Lowest | None]]:
    """The limiting spectrum, and what to expect at the upper end of a finite one (with the sign changed)."""
    laws = label_laws(link, weights)
    law = mixture(laws)
    spectrum = Spectrum(delta=delta, time=None, **limiting_spectrum(laws, law, delta, points, []))
    edge = bulk.left_edge(law.mirrored, delta)
    mirrored = replace(
        spectrum,
        edge=edge.value,
        edge_stderr=spectrum.right_edge_stderr,
        edge_scale=bulk.edge_scale(law.mirrored, delta, edge),
        outliers=[replace(o, value=-o.value) for o in reversed(spectrum.outliers)],
    )
    return spectrum, lambda d: lowest(mirrored, d)


def _upper(spectrum: Spectrum) -> list[Any]:
    """Outliers above the bulk, the highest first."""
    return [o for o in reversed(spectrum.outliers) if o.value > spectrum.right_edge and o.probability > 0.5]


def _measured(
    link: Target,
    weights: Callable[[np.ndarray], Any],
    n: int,
    d: int,
    count: int,
    kind: str,
    key: tuple[int, int],
) -> dict[str, Any]:
    """One training set: top eigenvalues, and the squared overlap of each eigenvector with the span of the truth."""
    most = _MOST_PRODUCTS[kind]
    if kind == "stored":
        x, y = training.stored(link, n, d, key)
    else:
        x, y = training.lazy(link, n, d, key, min(most, n, d) + 1)
    method = SpectralMethod(
        weights, count, tol=1e-5, max_products=min(most, max(d, 2 * count + 2)), random_state=key[1]
    )
    method.fit(x, y)
    return {
        "eigenvalues": method.eigenvalues_.tolist(),
        "overlap2": np.sum(method.components_[:, : link.latent_dim] ** 2, axis=1).tolist(),
        "residual": method.residual_.tolist(),
        "products": method.n_products_,
        "converged": method.status_ == Status.CONVERGED,
    }


@dataclass(frozen=True)
class _Pair:
    predicted: float
    predicted_stderr: float
    values: np.ndarray
    drift: float
    scale: float
    name: str


def _judged(
    expected: Lowest | None, upper: list[Any], values: np.ndarray, overlap2: np.ndarray, d: int, runs: int
) -> tuple[str, str]:
    pairs = []
    if expected is not None:
        group = min(len(upper), values.shape[1]) if expected.outlier is not None else 1
        top = [o.value for o in upper][:group] if expected.outlier is not None else [-expected.value]
        value, seen = float(np.mean(top)), values[:, :group].mean(axis=1)
        name = "top eigenvalue" if group == 1 else f"mean of the {group} top eigenvalues"
        pairs.append(_Pair(value, expected.stderr, seen, expected.drift, abs(value), name))
        if expected.outlier is not None:
            mean = float(np.mean([o.overlap2 for o in upper[:group]]))
            error = float(np.mean([o.overlap2_stderr for o in upper[:group]]))
            # The span of the truth has already r/d of any vector, and the bulk's fluctuations as much.
            pairs.append(_Pair(mean, error, overlap2[:, :group].mean(axis=1), 4.0 / d, 1.0, "squared overlap"))
    verdicts = []
    for pair in pairs:
        error = float(np.std(pair.values, ddof=1) / math.sqrt(runs) * widening(runs)) if runs > 1 else math.nan
        verdicts.append(
            judge(
                pair.predicted,
                pair.predicted_stderr,
                float(pair.values.mean()),
                error,
                scale=pair.scale,
                drift=pair.drift,
                name=pair.name,
            )
        )
    word = overall([v.verdict for v in verdicts])
    return word, " ".join(v.sentence for v in verdicts if v.verdict == word) or "Nothing could be compared."


def _stderr(values: np.ndarray) -> list[float]:
    """Of the means over runs; NaN for one."""
    if len(values) < 2:
        return [math.nan] * values.shape[1]
    return (values.std(axis=0, ddof=1) / math.sqrt(len(values))).tolist()
