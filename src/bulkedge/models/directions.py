"""Which latent directions are easy, hard or inert (theory 1.1; Montanari and Wang 2026).

A subspace U is hard if E[P_U z | y, P_U^perp z] = 0: first-order methods see nothing of it. The easy subspace is what
the *staircase* reaches: start with the directions of E[z | y]; while directions are known, add those of
E[z_perp | y, z_known]; what is never reached is the maximal hard subspace, and of it the inert part, on which y does
not depend at all, is split off.

How each is decided, and how sure one can be:
- inert: exactly, as the common null space of the gradients of h and of every switch of h (the arguments of its kinks
  and jumps), by automatic differentiation at random points.
- easy: statistically. Cells b of (y, z_known) give mu_b = E[z_perp 1_b]/P_b; the eigenvectors of sum_b P_b mu_b mu_b^T
  whose eigenvalue stands `SIGMAS` standard errors above sampling noise are easy. Any function of (y, z_known) averages
  hard directions to zero, so a false alarm needs a fluctuation of that size; a signal below `resolution` of the
  certificate (an explained variance) would be missed.
- The signed permutations of the coordinates that leave h unchanged are found first: E[z_perp | y, z_known] is fixed by
  each of them that fixes z_known, so a mirrored direction is hard outright and (1, 1)/sqrt 2 comes out exactly.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.gaussian.breakpoints import switches
from bulkedge.models.target import Target

SAMPLES = 1 << 18
SIGMAS = 8.0
_PROBES = 512


@dataclass(frozen=True, eq=False)
class Directions:
    """Orthonormal bases, one column a direction: easy (k, e), hard (k, r), inert (k, i).

    stages: the easy directions in the order the staircase reaches them. certificate: the statistic of each stage,
    {signal, noise, resolution}, and how hard directions were established.
    """

    easy: np.ndarray
    hard: np.ndarray
    inert: np.ndarray
    stages: tuple[np.ndarray, ...]
    certificate: dict[str, Any]

    @property
    def kinds(self) -> str:
        """Such as '1 easy, 1 hard'."""
        counts = ((self.easy, "easy"), (self.hard, "hard"), (self.inert, "inert"))
        return ", ".join(f"{basis.shape[1]} {name}" for basis, name in counts if basis.shape[1])


@functools.lru_cache(maxsize=256)
def directions(link: Target) -> Directions:
    """The three classes of latent directions of a link."""
    k = link.latent_dim
    rng = np.random.default_rng(20260201)
    z, e = rng.standard_normal((SAMPLES, k)), rng.standard_normal(SAMPLES)
    label = _labels(link)
    group = _symmetries(label, z[:_PROBES], e[:_PROBES])
    active = _active(link, z[:_PROBES], e[:_PROBES])
    certificate: dict[str, Any] = {
        "symmetries": len(group),
        "stages": [],
        "samples": SAMPLES,
    }
    easy = np.zeros((k, 0))
    stages: list[np.ndarray] = []
    y = label(z, e)
    while easy.shape[1] < active.shape[1]:
        new, evidence = _visible(y, z, easy, active, group)
        certificate["stages"].append(evidence)
        if new.shape[1] == 0:
            break
        stages.append(new)
        easy = np.concatenate([easy, new], axis=1)
    hard = _complement(easy, active)
    inert = _complement(active, np.eye(k))
    return Directions(_tidy(easy), _tidy(hard), _tidy(inert), tuple(_tidy(s) for s in stages), certificate)


def _labels(link: Target) -> Any:
    evaluate = jax.jit(jax.vmap(link.call))

    def label(z: np.ndarray, e: np.ndarray) -> np.ndarray:
        with jax.enable_x64(True):
            return np.asarray(evaluate(jnp.asarray(z), jnp.asarray(e)))

    return label


def _symmetries(label: Any, z: np.ndarray, e: np.ndarray) -> list[np.ndarray]:
    """The signed permutations g with h(g z, e) = h(z, e) at every probe."""
    k = z.shape[1]
    y = label(z, e)
    scale = 1e-9 * (1.0 + np.abs(y))
    found = []
    # All of them for k <= 3 (48 at most); mirrors and plain permutations beyond.
    signs = itertools.product((1.0, -1.0), repeat=k)
    for sign in signs:
        for order in itertools.permutations(range(k)):
            if k > 3 and order != tuple(range(k)) and min(sign) < 0:
                continue
            g = np.zeros((k, k))
            g[np.arange(k), order] = sign
            if np.all(np.abs(label(z @ g.T, e) - y) <= scale):
                found.append(g)
    return found


def _active(link: Target, z: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Basis of the directions on which y depends: the range of the gradients of h and of its switches."""
    k = link.latent_dim
    with jax.enable_x64(True):
        zero = jnp.zeros(k), jnp.zeros(())
        values = switches(link.call, *zero)
        slopes = jax.jit(
            jax.vmap(lambda z, e: jnp.concatenate([jax.jacobian(values)(z, e), jax.grad(link.call)(z, e)[None]]))
        )
        rows = np.asarray(slopes(jnp.asarray(z), jnp.asarray(e))).reshape(-1, k)
    rows = rows[np.all(np.isfinite(rows), axis=1)]
    size = np.linalg.norm(rows, axis=1)
    rows = rows[size > 1e-12] / size[size > 1e-12, None]
    if rows.shape[0] == 0:
        return np.eye(k)
    _, s, vt = np.linalg.svd(rows, full_matrices=False)
    return vt[s > 1e-7 * np.sqrt(rows.shape[0])].T


def _visible(
    y: np.ndarray, z: np.ndarray, easy: np.ndarray, active: np.ndarray, group: list[np.ndarray]
) -> tuple[np.ndarray, dict[str, float]]:
    """The new directions of E[z_perp | y, z_easy], and the evidence."""
    # The conditional mean is fixed by every symmetry that leaves the known coordinates alone.
    fixing = [g for g in group if np.allclose(g @ easy, easy, atol=1e-6)]
    rest = _complement(easy, active)
    fixed = sum(fixing) / len(fixing) @ rest
    none = {"signal": 0.0, "spread": 0.0, "resolution": 0.0, "largest_unseen": 0.0}
    if np.linalg.norm(fixed) < 1e-9:
        return np.zeros((z.shape[1], 0)), none
    rest = _complement(np.zeros((z.shape[1], 0)), fixed)
    cell = _cells(y, 64 if easy.shape[1] == 0 else 16)
    for i in range(easy.shape[1]):
        cell = cell * 8 + _cells(z @ easy[:, i], 8)
    _, cell = np.unique(cell, return_inverse=True)
    count, n, x = np.bincount(cell), y.size, z @ rest
    means = np.stack([np.bincount(cell, c) for c in x.T], axis=1) / count[:, None]
    power = np.bincount(cell, np.max(x * x, axis=1)) / count
    between = (means.T * (count / n)) @ means
    value, vector = np.linalg.eigh(between)
    # Under the null a cell's squared mean, times its mass, is about power/n with relative fluctuation sqrt 2.
    noise, spread = float(power.sum()) / n, float(np.sqrt(2.0 * np.sum(power**2))) / n
    seen = value > noise + SIGMAS * spread
    evidence = {
        "signal": float(value[-1]) - noise,
        "spread": spread,
        "resolution": SIGMAS * spread,
        "largest_unseen": float(np.max(value[~seen] - noise, initial=0.0)),
    }
    return rest @ vector[:, seen], evidence


def _cells(values: np.ndarray, most: int) -> np.ndarray:
    """Labels 0.. of cells of nearly equal mass; a repeated value is a cell of its own."""
    distinct, index, count = np.unique(values, return_inverse=True, return_counts=True)
    if distinct.size <= most:
        return index
    level = np.floor((np.cumsum(count) - 0.5 * count) / values.size * most).astype(int)
    return level[index]


def _complement(inner: np.ndarray, outer: np.ndarray) -> np.ndarray:
    """Basis of the part of span(outer) orthogonal to span(inner)."""
    left = outer - inner @ (inner.T @ outer)
    u, s, _ = np.linalg.svd(left, full_matrices=False)
    return u[:, s > 0.5]


def _tidy(basis: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the same span, along coordinate axes where it can be, largest entries positive."""
    if basis.shape[1] == 0:
        return basis
    left = basis @ basis.T
    columns = []
    for _ in range(basis.shape[1]):
        # The axis that lies most within what is left; ties go to the first.
        i = int(np.argmax(np.round(np.diag(left), 9)))
        v = left[:, i] / np.linalg.norm(left[:, i])
        columns.append(v * np.sign(v[np.argmax(np.round(np.abs(v), 9))]))
        left = left - np.outer(v, v) @ left
        left = 0.5 * (left + left.T)
    out = np.stack(columns, axis=1)
    return np.where(np.abs(out) < 1e-12, 0.0, out)
