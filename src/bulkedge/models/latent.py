"""A link evaluated on nodes of its latent variables: the raw material of every conditional expectation."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.gaussian import quadrature
from bulkedge.gaussian.breakpoints import switches
from bulkedge.gaussian.cloud import REPLICAS, cloud
from bulkedge.models.target import Target

_PROBES = 4096


@dataclass(frozen=True, eq=False)
class Nodes:
    """Replicas of nodes: z (R, N, k) latent points, y (R, N) labels, p (R, N) probabilities."""

    z: np.ndarray
    y: np.ndarray
    p: np.ndarray


def evaluate(link: Target, z: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Labels in float64 at z (..., k) and e (...)."""
    flat = z.reshape(-1, z.shape[-1])
    # Few sizes, since each is compiled once.
    size = 1 << max(10, (len(flat) - 1).bit_length())
    points, noise = np.zeros((size, z.shape[-1])), np.zeros(size)
    points[: len(flat)], noise[: len(flat)] = flat, np.broadcast_to(e, z.shape[:-1]).ravel()
    with jax.enable_x64(True):
        return np.asarray(_many(link)(points, noise))[: len(flat)].reshape(z.shape[:-1])


@functools.lru_cache(maxsize=128)
def _many(link: Target) -> Any:
    return jax.jit(jax.vmap(link.call))


@functools.lru_cache(maxsize=8)
def nodes(link: Target, log2: int = 14) -> Nodes:
    """One latent variable and no noise: two Gauss rules as two replicas. Otherwise 2^log2 quasi-random points each."""
    basis = active(link)
    dimension = basis.shape[1] + int(link.noisy)
    if dimension == 1:
        return _on_line(link, basis[:, 0])
    found = cloud(dimension, log2, REPLICAS)
    z = found.points[:, :, : basis.shape[1]] @ basis.T
    e = found.points[:, :, -1] if link.noisy else np.zeros(found.p.shape)
    return Nodes(z, evaluate(link, z, e), found.p)


def _on_line(link: Target, direction: np.ndarray) -> Nodes:
    splits = quadrature.one_dimensional_splits(lambda s: link.call(direction * s, jnp.zeros(())))
    rules = [quadrature.nodes(splits, width, 12) for width in (0.2, 0.13)]
    size = max(s.size for s, _ in rules)
    # What fills up the smaller rule is a point of it, of no mass.
    s = np.stack([np.pad(rule[0], (0, size - rule[0].size), mode="edge") for rule in rules])
    p = np.stack([np.pad(rule[1], (0, size - rule[1].size)) for rule in rules])
    z = s[:, :, None] * direction
    return Nodes(z, evaluate(link, z, np.zeros(p.shape)), p)


@functools.lru_cache(maxsize=256)
def active(link: Target) -> np.ndarray:
    """Orthonormal basis (k, a) of the directions on which y depends: where h has a slope, or a jump across them."""
    k = link.latent_dim
    rng = np.random.default_rng(20260202)
    z, e = rng.standard_normal((_PROBES, k)), rng.standard_normal(_PROBES)
    with jax.enable_x64(True):
        slopes = np.asarray(jax.jit(jax.vmap(jax.grad(link.call)))(z, e))
    basis = _span(slopes, np.zeros((k, 0)))
    if basis.shape[1] < k:
        basis = _span(_jumps(link, z, e), basis)
    if k == 1 and not link.noisy and basis.shape[1] == 0 and np.ptp(_on_line(link, np.ones(1)).y) > 0:
        return np.eye(1)  # a jump that no random segment met
    return np.eye(k) if basis.shape[1] == k else basis


def _span(rows: np.ndarray, known: np.ndarray) -> np.ndarray:
    """`known` completed by the span of the rows."""
    rows = rows[np.all(np.isfinite(rows), axis=1)]
    size = np.linalg.norm(rows, axis=1)
    rows = rows[size > 1e-12] / size[size > 1e-12, None]
    rest = rows - rows @ known @ known.T
    if len(rest) == 0:
        return known
    _, s, vt = np.linalg.svd(rest, full_matrices=False)
    return np.concatenate([known, vt[s > 1e-7 * np.sqrt(len(rest))].T], axis=1)


def _jumps(link: Target, z: np.ndarray, e: np.ndarray) -> np.ndarray:
    """Normals of the surfaces across which h jumps, met on random segments: gradients of the switch zero there."""
    k = link.latent_dim
    with jax.enable_x64(True):
        switch = switches(link.call, jnp.zeros(k), jnp.zeros(()))
        values = jax.jit(jax.vmap(switch))
        normals = jax.jit(jax.vmap(jax.jacobian(switch)))
        ends = np.roll(z, 1, axis=0)
        start, stop = np.asarray(values(z, e)), np.asarray(values(ends, e))
        if start.shape[1] == 0:
            return np.zeros((0, k))
        rows = []
        for c in range(start.shape[1]):
            crossing = start[:, c] * stop[:, c] < 0
            low, high = np.zeros(len(z)), np.ones(len(z))
            for _ in range(40):
                middle = 0.5 * (low + high)
                left = np.asarray(values(z + middle[:, None] * (ends - z), e))[:, c] * start[:, c] > 0
                low, high = np.where(left, middle, low), np.where(left, high, middle)
            before, after = (evaluate(link, z + t[:, None] * (ends - z), e) for t in (low - 1e-9, high + 1e-9))
            step = np.abs(after - before)
            jumps = crossing & (step > 1e-6 * (np.abs(before) + np.abs(after)) + 1e-9)
            rows.append(np.asarray(normals(z + low[:, None] * (ends - z), e))[jumps, c])
    return np.concatenate(rows)
