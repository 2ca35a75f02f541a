"""How much a label says of second moments: T_ijkl = E[E_ij E_kl], E(y, c) = E[s s^T - I | y, c] (theory 02, 2a).

s are the unknown and c the known coordinates. One unknown and no noise, or Gaussian noise: exact level sets and smooth
integrals. Otherwise regression on quasi-random nodes. Known coordinates are integrated by quadrature around either.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.gaussian import breakpoints, quadrature
from bulkedge.gaussian.cloud import cloud, jackknife
from bulkedge.gaussian.conditional import explained, levels
from bulkedge.gaussian.hermite import fixed
from bulkedge.learnability import level_sets
from bulkedge.models import latent
from bulkedge.models.directions import symmetries
from bulkedge.models.target import Target

_LOG2 = {0: 16, 1: 11, 2: 8}
"""Nodes in each replica, for the number of known coordinates (11 and fewer for three of them)."""
_MOST_ENTRIES = 20_000_000


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """T: (R + 1, r, r, r, r), from all replicas of the nodes and from all but one. coarse: from a coarser rule.

    exact: the same in every replica, so that the only error is that of the rule.
    """

    fine: np.ndarray
    coarse: np.ndarray
    method: str

    def estimate(self, functional: object) -> tuple[float, float]:
        """(value, standard error) of a function of T, which maps (r, r, r, r) to a number."""
        assert callable(functional)
        value, error = jackknife([functional(t) for t in self.fine])
        other, _ = jackknife([functional(t) for t in self.coarse])
        return float(value), float(np.hypot(error, value - other))

    @property
    def mean(self) -> np.ndarray:
        return jackknife(self.fine)[0]


@functools.lru_cache(maxsize=64)
def _cached(link: Target, known: bytes, unknown: bytes, e: int, r: int) -> SecondMoments:
    k = link.latent_dim
    c, s = np.frombuffer(known).reshape(k, e), np.frombuffer(unknown).reshape(k, r)
    found = _by_level_sets(link, c, s) if r == 1 else None
    if found is None:
        found = _by_regression(link, c, s)
    return _symmetrised(found, link, c, s)


def second_moments(link: Target, known: np.ndarray, unknown: np.ndarray) -> SecondMoments:
    """Known (k, e), unknown (k, r): orthonormal columns."""
    e, r = known.shape[1], unknown.shape[1]
    return _cached(link, np.ascontiguousarray(known).tobytes(), np.ascontiguousarray(unknown).tobytes(), e, r)


# --- one unknown ---


def line_of(link: Target, known: np.ndarray, unknown: np.ndarray) -> level_sets.Line:
    """The link along one unknown direction (k, 1)."""
    frame = np.concatenate([unknown, known], axis=1)

    def h(s: jax.Array, c: jax.Array, e: jax.Array) -> jax.Array:
        return link(frame.astype(s.dtype) @ jnp.concatenate([s[None], c]), e)

    return level_sets.Line(h, known.shape[1])


def noise_kind(link: Target) -> str:
    """How y depends on e: none, affine (y = g(z) + sigma(z) e), or general."""
    if not link.noisy:
        return "none"
    z = np.random.default_rng(5).standard_normal((256, link.latent_dim))
    y = [latent.evaluate(link, z, np.full(256, e)) for e in (0.0, 1.0, -1.7, 3.1)]
    slope = y[1] - y[0]
    fits = all(np.allclose(v, y[0] + e * slope, atol=1e-9) for v, e in zip(y[2:], (-1.7, 3.1), strict=True))
    return "affine" if fits else "general"


def posteriors(
    link: Target, line: level_sets.Line, point: np.ndarray, width: float
) -> list[level_sets.Posterior] | None:
    """The law of the one unknown given y at fixed known coordinates; None where it is not known exactly."""
    kind = noise_kind(link)
    if kind == "none":
        return level_sets.noiseless(line, point, width)
    if kind == "affine":
        found = level_sets.affine(line, point, width)
        return None if found is None else [found]
    return None


def of_one(
    link: Target, known: np.ndarray, unknown: np.ndarray, functions: Sequence[level_sets.Function]
) -> tuple[np.ndarray, np.ndarray] | None:
    """E[E[phi(s) | y, c]^2] of one unknown s for several phi, by a fine and a coarse rule; None where the law of s is
    not known exactly.
    """
    if known.shape[1] > 2 or noise_kind(link) == "general":
        return None
    line = line_of(link, known, unknown)
    rates = []
    for coarseness in (1.0, 1.5):
        points, mass = known_nodes(link, known, unknown, coarseness)
        rate = np.zeros(len(functions))
        for point, weight in zip(points, mass, strict=True):
            found = posteriors(link, line, point, 0.5 * coarseness)
            if found is None:
                return None
            rate += float(weight) * np.array([sum(part.explained(phi) for part in found) for phi in functions])
        rates.append(rate)
    return rates[0], rates[1]


def _by_level_sets(link: Target, known: np.ndarray, unknown: np.ndarray) -> SecondMoments | None:
    found = of_one(link, known, unknown, [lambda s: s * s - 1.0])
    if found is None:
        return None
    fine, coarse = (np.full((3, 1, 1, 1, 1), float(rate[0])) for rate in found)
    return SecondMoments(fine, coarse, "level sets")


# --- several unknowns, or any noise ---


def _by_regression(link: Target, known: np.ndarray, unknown: np.ndarray) -> SecondMoments:
    e, r = known.shape[1], unknown.shape[1]
    dimension = r + int(link.noisy)
    log2 = _LOG2.get(e, 7) - (1 if e == 0 and dimension == 2 else 0)
    if e and np.all(levels(latent.nodes(link).y)[0] >= 0):
        log2 += 2  # few values of y: nothing to fit, and only the edges of regions to resolve
    inner = cloud(max(dimension, 1), log2)
    s = inner.points[:, :, :r]
    noise = inner.points[:, :, -1] if link.noisy else np.zeros(inner.p.shape)
    i, j = np.triu_indices(r)
    phi = s[:, :, i] * s[:, :, j] - (i == j)
    results = []
    for coarseness in (1.0, 1.5) if e else (1.0,):
        points, mass = known_nodes(link, known, unknown, coarseness)
        total = None
        for point, weight in zip(points, mass, strict=True):
            y = latent.evaluate(link, s @ unknown.T + known @ point, noise)
            part = explained(y, phi, inner.p) * float(weight)
            total = part if total is None else total + part
        assert total is not None
        results.append(total)
    coarse = results[0].coarse if e == 0 else results[1].fine
    return SecondMoments(_tensor(results[0].fine, r), _tensor(coarse, r), "regression")


def _tensor(gram: np.ndarray, r: int) -> np.ndarray:
    place = np.zeros((r, r), int)
    i, j = np.triu_indices(r)
    place[i, j] = place[j, i] = np.arange(i.size)
    return gram[:, place[:, :, None, None], place[None, None]]


def known_nodes(
    link: Target, known: np.ndarray, unknown: np.ndarray, coarseness: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, e) and masses of the known coordinates, split where h has kinks or jumps in one of them alone."""
    e, r = known.shape[1], unknown.shape[1]
    if e == 0:
        return np.zeros((1, 0)), np.ones(1)
    frame = np.concatenate([known, unknown], axis=1)

    def h(x: jax.Array) -> jax.Array:
        return link(frame.astype(x.dtype) @ x[: e + r], x[e + r])

    switch = quadrature.compiled_switches(h, e + r + 1)
    probes = np.random.default_rng(11).standard_normal((3, e + r + 1))
    points, mass = np.zeros((1, 0)), np.ones(1)
    turns = np.zeros(0)
    if e == 1 and r == 1:
        # Where the places at which h is not smooth along s appear, vanish or cross.
        def along(c: np.ndarray) -> list[np.ndarray]:
            lines = np.stack([c, np.zeros(c.size), np.zeros(c.size)], axis=1)
            return breakpoints.zeros_along(switch, 1, lines, quadrature.RADIUS, 513)

        turns = quadrature.folds(along)
    order = {1: 8, 2: 5}.get(e, 4)
    for axis in range(e):
        splits = quadrature.common(breakpoints.zeros_along(switch, axis, probes, quadrature.RADIUS))
        # Functions of |c| are common.
        z, p = quadrature.nodes(np.concatenate([splits, turns, [0.0]]), 3.0 * coarseness, order)
        z, p = z[p > 1e-9], p[p > 1e-9]
        points = np.concatenate([np.repeat(points, z.size, axis=0), np.tile(z, len(points))[:, None]], axis=1)
        mass = np.multiply.outer(mass, p).ravel()
    keep = mass > 1e-8
    return points[keep], mass[keep] / mass[keep].sum()


def _symmetrised(found: SecondMoments, link: Target, known: np.ndarray, unknown: np.ndarray) -> SecondMoments:
    """Averaged over the symmetries of the link that respect the split into known and unknown."""
    turns = []
    for g in symmetries(link) if link.latent_dim <= 4 else []:
        moved = g @ known
        turn = unknown.T @ g @ unknown
        kept = np.allclose(known @ (known.T @ moved), moved, atol=1e-4)
        if kept and np.allclose(turn @ turn.T, np.eye(len(turn)), atol=1e-4):
            turns.append(turn)
    if len(turns) < 2:
        return found

    def fourfold(g: np.ndarray) -> np.ndarray:
        twice = np.kron(g, g)
        return np.kron(twice, twice)

    projection = fixed(np.mean([fourfold(g) for g in turns], axis=0))

    def average(t: np.ndarray) -> np.ndarray:
        return (t.reshape(len(t), -1) @ projection).reshape(t.shape)

    return SecondMoments(average(found.fine), average(found.coarse), found.method)
