"""Orthogonal maps g of the latent variables that leave a link unchanged: h(g z, e) = h(z, e) or h(z, -e).

Signed permutations of the coordinates are tried one by one. In other coordinates, *involutions* g = I - 2 P, P a
projection on m directions, are searched for: the residuals h(g z_i) - h(z_i), and those of the places where h is not
smooth (which alone say something where h is piecewise constant), vanish together at a symmetry, so that a few steps of
least squares find it to machine precision. Whatever is found is kept only if h is the same at every probe.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.gaussian.breakpoints import switches
from bulkedge.models import latent
from bulkedge.models.target import Target

_PROBES = 256
_ALL_PERMUTATIONS = 4
_FEW_PROBES = 96
_STARTS = {1: 1, 2: 8, 3: 16, 4: 24}
_STEPS = 30
_TOLERANCE = 1e-6
_SAME = 1e-4


@functools.lru_cache(maxsize=256)
def signed_permutations(link: Target) -> tuple[np.ndarray, ...]:
    """Those that leave h unchanged, the identity among them.

    All of them for k <= 4; beyond, mirrors, exchanges of two coordinates and their products only.
    """
    k = link.latent_dim
    z, e, y = _probes(link)
    identity = tuple(range(k))
    orders = itertools.permutations(identity) if k <= _ALL_PERMUTATIONS else _exchanges(k)
    found = []
    for order in orders:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=k)))
        same = _unchanged(link, signs[:, None, :] * z[None][:, :, order], e, y)
        for sign in signs[same]:
            g = np.zeros((k, k))
            g[np.arange(k), order] = sign
            found.append(g)
    return tuple(found)


def _exchanges(k: int) -> list[tuple[int, ...]]:
    found = [tuple(range(k))]
    for i, j in itertools.combinations(range(k), 2):
        order = list(range(k))
        order[i], order[j] = j, i
        found.append(tuple(order))
    return found


def _probes(link: Target) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(20260201)
    z, e = rng.standard_normal((_PROBES, link.latent_dim)), rng.standard_normal(_PROBES)
    return z, e, latent.evaluate(link, z, e)


def _unchanged(link: Target, moved: np.ndarray, e: np.ndarray, y: np.ndarray, rtol: float = 1e-9) -> np.ndarray:
    """Which maps, given by the moved probes (maps, probes, k), leave every label as it is."""
    same = np.zeros(len(moved), bool)
    for flip in (1.0, -1.0) if link.noisy else (1.0,):
        labels = latent.evaluate(link, moved, np.broadcast_to(flip * e, moved.shape[:2]))
        same |= np.all(np.abs(labels - y) <= rtol * (1.0 + np.abs(y)), axis=1)
    return same


def involutions(link: Target, within: np.ndarray) -> tuple[np.ndarray, ...]:
    """Symmetries that turn the sign of 1 to r directions close to the span of `within` (k, r)."""
    k, r = within.shape
    if r not in _STARTS:
        return ()
    z, e, y = _probes(link)
    found: list[np.ndarray] = []
    rng = np.random.default_rng(20260205)
    for m in range(1, r + 1):
        starts = within @ rng.standard_normal((_STARTS[r] if m < r else 1, r, m))
        for flip, places in itertools.product((1.0, -1.0) if link.noisy else (1.0,), (True, False)):
            x, residual, slope = _polished(_residuals(link, flip, places, m), starts, z, e)
            exact = np.max(np.abs(residual), axis=1) < _TOLERANCE
            if not places:
                # Where h is constant in pieces nearly all maps leave the probes alone: h itself must pin g down.
                size = np.linalg.svd(slope, compute_uv=False)
                exact &= np.count_nonzero(size > 1e-6 * size[:, :1] + 1e-30, axis=1) >= m * (k - m)
            maps = involution(x[exact].reshape(-1, k, m))
            good = _unchanged(link, np.einsum("nij,pj->npi", maps, z), e, y, _TOLERANCE)
            found += [g for g in _distinct(maps[good]) if not any(np.allclose(g, h, atol=_SAME) for h in found)]
            if found and places:
                break
    return tuple(found)


def _distinct(maps: np.ndarray) -> list[np.ndarray]:
    out: list[np.ndarray] = []
    for g in maps:
        if not any(np.allclose(g, h, atol=_SAME) for h in out):
            out.append(g)
    return out


@functools.lru_cache(maxsize=64)
def _residuals(link: Target, flip: float, places: bool, m: int) -> Callable[[Any, Any, Any], Any]:
    """Of x (k m,), probes z and noise e: what h and its switches change by under I - 2 P, P on the columns of x."""
    k = link.latent_dim
    with jax.enable_x64(True):
        switch = switches(link.call, jnp.zeros(k), jnp.zeros(()))

    def signature(z: Any, e: Any, turn: float) -> Any:
        label = link.call(z, turn * e)
        parts = [label / jnp.sqrt(1.0 + label * label)]
        if places:
            value = jnp.sort(jnp.abs(switch(z, turn * e)))
            parts.append(value / jnp.sqrt(1.0 + value * value))
        return jnp.concatenate([jnp.atleast_1d(p) for p in parts])

    def residual(x: Any, z: Any, e: Any) -> Any:
        moved = z @ involution(x.reshape(k, m), jnp)
        change = jax.vmap(lambda z, e: signature(z, e, flip))(moved, e) - jax.vmap(lambda z, e: signature(z, e, 1.0))(
            z, e
        )
        return change.ravel()

    def both(x: Any, z: Any, e: Any) -> Any:
        return residual(x, z, e), jax.jacfwd(residual)(x, z, e)

    return jax.jit(jax.vmap(both, (0, None, None)))


def involution(x: Any, of: Any = np) -> Any:
    """I - 2 P, with P the projection on the columns of x (..., k, m)."""
    gram = of.swapaxes(x, -1, -2) @ x
    return of.eye(x.shape[-2]) - 2.0 * x @ of.linalg.solve(gram, of.swapaxes(x, -1, -2))


def _polished(
    function: Callable[[Any, Any, Any], Any], starts: np.ndarray, z: np.ndarray, e: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Damped least squares from all starts (S, k, m) at once: x (S, k m), residuals (S, N), slopes (S, N, k m)."""
    z, e = z[:_FEW_PROBES], e[:_FEW_PROBES]
    count, k, m = starts.shape
    x = np.linalg.qr(starts)[0].reshape(count, k * m)
    damping = np.full(count, 1e-2)

    def at(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with jax.enable_x64(True):
            residual, slope = (np.asarray(v) for v in function(x, z, e))
        # Probes that cross a jump on the way say nothing; no probe says more than the others.
        usable = np.isfinite(residual) & np.all(np.isfinite(slope), axis=2)
        return np.where(usable, residual, 0.0), np.where(usable[:, :, None], slope, 0.0)

    residual, slope = at(x)
    cost = np.sum(np.abs(residual), axis=1)
    for _ in range(_STEPS):
        # Weights of least absolute deviations: exact at a symmetry although some probes lie beyond a jump.
        weight = 1.0 / np.maximum(np.abs(residual), 1e-3 * (np.median(np.abs(residual), axis=1)[:, None] + 1e-12))
        weight /= weight.max(axis=1, keepdims=True)
        normal = np.einsum("sni,sn,snj->sij", slope, weight, slope)
        size = np.einsum("sii->s", normal)[:, None, None] / normal.shape[1] + 1e-30
        right = np.einsum("sni,sn,sn->si", slope, weight, residual)
        step = np.linalg.solve(normal + damping[:, None, None] * size * np.eye(k * m), right[:, :, None])[:, :, 0]
        trial = np.linalg.qr((x - step).reshape(count, k, m))[0].reshape(count, k * m)
        new_residual, new_slope = at(trial)
        new_cost = np.sum(np.abs(new_residual), axis=1)
        better = new_cost < cost
        x = np.where(better[:, None], trial, x)
        residual = np.where(better[:, None], new_residual, residual)
        slope = np.where(better[:, None, None], new_slope, slope)
        cost = np.where(better, new_cost, cost)
        damping = np.where(better, np.maximum(0.2 * damping, 1e-12), np.minimum(8.0 * damping, 1e6))
    return x, residual, slope
