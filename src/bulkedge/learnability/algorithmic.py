"""delta_alg: samples per dimension for weak recovery of the hard directions by any first-order method (theory 02, 2a).

With E(y, z_E) = E[s s^T - I | y, z_E], s the hard and z_E the easy coordinates (which are found first),
1/delta_alg is the largest singular value of M -> E[E(y, z_E) M E(y, z_E)] on symmetric matrices; for one hard direction
1/delta_alg = E[(E[s^2 - 1 | y, z_E])^2]. Sources: Mondelli and Montanari (2018); Troiani et al. (2025).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np

from bulkedge.gaussian import breakpoints, quadrature
from bulkedge.learnability.labels import label_law
from bulkedge.models.directions import directions
from bulkedge.models.target import Target

_INFINITE = 1e5
"""1/delta below the inverse of this is numerically zero: the generative exponent exceeds 2."""


@functools.lru_cache(maxsize=64)
def hard_threshold(link: Target) -> tuple[float | None, tuple[str, ...]]:
    """(delta_alg of the hard directions given the easy ones, remarks); None where it is infinite or not computed."""
    classes = directions(link)
    easy, hard, inert = classes.easy.shape[1], classes.hard.shape[1], classes.inert.shape[1]
    if hard == 0:
        return None, ()
    rate: float | None = None
    if hard == 1:
        rate = _one_direction(link)
    if rate is None and easy == 0 and inert == 0:
        rate = _from_bins(link, hard)
    if rate is None:
        return None, ("delta_alg is not available for this link: its conditional law given y could not be resolved.",)
    if rate < 1.0 / _INFINITE:
        return None, ("delta_alg is infinite: no second-order statistic of (y, z) sees the hard directions.",)
    return 1.0 / rate, ()


def _from_bins(link: Target, r: int) -> float | None:
    """From the binned law of y; None where two resolutions differ by more than a percent."""
    found = []
    for refinement in (0.7, 1.0):
        labels = label_law(link, refinement)
        if labels is None or not (labels.discrete or link.latent_dim + int(link.noisy) > 1):
            return None
        found.append(operator_norm(labels.p, labels.moments, r))
    return found[1] if abs(found[1] - found[0]) <= 0.01 * found[1] or found[1] < 1.0 / _INFINITE else None


def operator_norm(p: np.ndarray, moments: np.ndarray, r: int) -> float:
    """Largest singular value of M -> E[E(y) M E(y)], from nodes of y with E[s_a s_b | y], a <= b."""
    i, j = np.triu_indices(r)
    e = np.zeros((p.size, r, r))
    e[:, i, j] = e[:, j, i] = (moments - (i == j)[:, None]).T
    tensor = np.einsum("n,nab,ncd->acbd", p, e, e).reshape(r * r, r * r)
    return float(np.linalg.norm(tensor, 2))


def _one_direction(link: Target) -> float | None:
    """E[(E[s^2 - 1 | y, z_E])^2] for a single hard direction, averaged over quadrature nodes of the easy ones."""
    classes = directions(link)
    frame = np.concatenate([classes.hard, classes.easy], axis=1)
    easy = classes.easy.shape[1]
    if easy > 2:
        return None

    def h(s: jax.Array, rest: jax.Array, e: jax.Array) -> jax.Array:
        return link(jnp.asarray(frame) @ jnp.concatenate([s[None], rest]), e)

    rest, mass = np.zeros((1, 0)), np.ones(1)
    for _ in range(easy):
        z, p = quadrature.nodes(width=1.5, order=6)
        rest = np.concatenate([np.repeat(rest, z.size, axis=0), np.tile(z, len(rest))[:, None]], axis=1)
        mass = np.multiply.outer(mass, p).ravel()
    kind = _noise(link)
    rule = {"none": _noiseless, "affine": _affine, "general": _discrete}[kind]
    total = 0.0
    with jax.enable_x64(True):
        context = _Context(h, easy)
        for point, weight in zip(rest[mass > 1e-12], mass[mass > 1e-12], strict=True):
            value = rule(context, point)
            if value is None:
                return None
            total += float(weight) * value
    return total


def _noise(link: Target) -> str:
    """How y depends on e: none, affine (y = g(z) + sigma(z) e), or general."""
    if not link.noisy:
        return "none"
    with jax.enable_x64(True):
        z = jnp.asarray(np.random.default_rng(5).standard_normal((256, link.latent_dim)))
        y = [jax.vmap(lambda z, e=e: link(z, jnp.asarray(e)))(z) for e in (0.0, 1.0, -1.7, 3.1)]
        slope = y[1] - y[0]
        fits = all(bool(jnp.allclose(v, y[0] + e * slope, atol=1e-9)) for v, e in zip(y[2:], (-1.7, 3.1), strict=True))
        return "affine" if fits and bool(jnp.all(jnp.abs(slope) > 1e-6)) else "general"


class _Context:
    """h, its slope in s and its switches along s as compiled functions of (s values, z_E point, e)."""

    def __init__(self, h: Callable[..., jax.Array], easy: int) -> None:
        zero = jnp.zeros(())
        switch = breakpoints.switches(h, zero, jnp.zeros(easy), zero)
        self.value = jax.jit(jax.vmap(h, (0, None, None)))
        self.slope = jax.jit(jax.vmap(jax.grad(h), (0, None, None)))
        self.switches = jax.jit(jax.vmap(switch, (0, None, None)))

    def splits(self, rest: np.ndarray, e: float = 0.0) -> np.ndarray:
        """Kinks and jumps of h along s."""
        fixed = jnp.asarray(rest), jnp.asarray(e)

        def values(x: np.ndarray) -> np.ndarray:
            return np.asarray(self.switches(jnp.asarray(x[:, 0]), *fixed)).reshape(len(x), -1)

        return breakpoints.zeros_along(values, 0, np.zeros((1, 1)), quadrature.RADIUS)[0]


def _phi(s: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * s * s) / np.sqrt(2.0 * np.pi)


def _noiseless(context: _Context, rest: np.ndarray) -> float | None:
    """Level sets: atoms where h is constant; elsewhere the preimages of y, one in each monotone piece, weighted by
    phi/|h'|.
    """
    fixed = jnp.asarray(rest), jnp.zeros(())

    def h(s: np.ndarray) -> np.ndarray:
        return np.asarray(context.value(jnp.asarray(s), *fixed))

    def slope(s: np.ndarray) -> np.ndarray:
        return np.asarray(context.slope(jnp.asarray(s), *fixed))

    pieces = _monotone_pieces(slope, context.splits(rest))
    flat = [np.ptp(h(np.linspace(a, b, 9)[1:-1])) < 1e-12 for a, b in pieces]
    atoms: dict[float, np.ndarray] = {}
    for (a, b), constant in zip(pieces, flat, strict=True):
        if constant:
            z, p = quadrature.on_panels([a, b])
            level = round(float(h(np.array([0.5 * (a + b)]))[0]), 10)
            atoms[level] = atoms.get(level, np.zeros(2)) + np.array([p.sum(), np.sum(p * (z * z - 1.0))])
    total = sum(v[1] ** 2 / v[0] for v in atoms.values() if v[0] > 0)
    curves = [piece for piece, constant in zip(pieces, flat, strict=True) if not constant]
    if not curves:
        return float(total)
    inner = 1e-9
    ends = np.array([[a + inner, b - inner] for a, b in curves])
    levels = h(ends.ravel()).reshape(ends.shape)
    for i, (a, b) in enumerate(curves):
        inside = _preimages(h, ends[i], levels[i], levels.ravel())
        z, p = quadrature.on_panels(np.concatenate([[a, b], inside[np.isfinite(inside)]]), 0.5)
        y = h(z)
        mass, moment = np.zeros(z.size), np.zeros(z.size)
        for j in range(len(curves)):
            s = z if i == j else _preimages(h, ends[j], levels[j], y)
            hit = np.isfinite(s)
            w = np.zeros(z.size)
            w[hit] = _phi(s[hit]) / np.maximum(np.abs(slope(s[hit])), 1e-300)
            mass += w
            moment[hit] += w[hit] * (s[hit] ** 2 - 1.0)
        total += float(np.sum(p * (moment / np.maximum(mass, 1e-300)) ** 2))
    return float(total)


def _monotone_pieces(slope: Callable[[np.ndarray], np.ndarray], splits: np.ndarray) -> list[tuple[float, float]]:
    """Intervals of [-9, 9] on which h is smooth and monotone."""
    marks = np.unique(np.concatenate([[-quadrature.RADIUS, quadrature.RADIUS], splits]))
    pieces: list[tuple[float, float]] = []
    for a, b in itertools.pairwise(marks):
        x = np.linspace(a, b, 1025)[1:-1]
        v = slope(x)
        turn = np.flatnonzero(v[:-1] * v[1:] < 0)
        low, high = x[turn].copy(), x[turn + 1].copy()
        sign = np.sign(v[turn])
        for _ in range(50 if turn.size else 0):
            middle = 0.5 * (low + high)
            left = np.sign(slope(middle)) == sign
            low, high = np.where(left, middle, low), np.where(left, high, middle)
        exact = x[1:-1][(v[1:-1] == 0.0) & (v[:-2] * v[2:] < 0)]
        cuts = np.concatenate([[a], np.sort(np.concatenate([0.5 * (low + high), exact])), [b]])
        pieces.extend((float(c), float(d)) for c, d in itertools.pairwise(cuts) if d - c > 1e-7)
    return pieces


def _preimages(h: Callable[[np.ndarray], np.ndarray], end: np.ndarray, level: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The s in the monotone piece `end` with h(s) = y; nan where y is not between its two levels."""
    inside = (y > level.min()) & (y < level.max())
    low, high = np.full(y.size, end[0]), np.full(y.size, end[1])
    rising = level[1] > level[0]
    for _ in range(54):
        middle = 0.5 * (low + high)
        below = (h(middle) < y) == rising
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(inside, 0.5 * (low + high), np.nan)


def _affine(context: _Context, rest: np.ndarray) -> float | None:
    """Gaussian noise y = g(s) + sigma(s) e: p(y | s) is known, and everything is a smooth integral."""
    point = jnp.asarray(rest)

    def g(s: np.ndarray, e: float) -> np.ndarray:
        return np.asarray(context.value(jnp.asarray(s), point, jnp.asarray(e)))

    splits = context.splits(rest)
    probe = np.linspace(-6.0, 6.0, 2001)
    level, size = g(probe, 0.0), np.abs(g(probe, 1.0) - g(probe, 0.0))
    # Inner panels must resolve a width of sigma/|g'|.
    steep = float(np.max(np.abs(np.gradient(level, probe)) / size))
    width = min(0.75, 3.0 / max(steep, 1e-9))
    if width < 0.004:
        return None
    s, p = quadrature.nodes(splits, width)
    centre = g(s, 0.0)
    sigma = np.abs(g(s, 1.0) - centre)
    outer, mass = quadrature.nodes(splits, 0.5, 8)
    e, q = quadrature.nodes((), 1.0, 8)
    outer_centre = g(outer, 0.0)
    y = outer_centre[:, None] + np.abs(g(outer, 1.0) - outer_centre)[:, None] * e
    total = 0.0
    weight = p / sigma
    moment = weight * (s * s - 1.0)
    for row, share in zip(y, mass, strict=True):
        if share < 1e-14:
            continue
        density = np.exp(-0.5 * ((row[:, None] - centre) / sigma) ** 2)
        below = density @ weight
        score = np.where(below > 0, (density @ moment) / np.maximum(below, 1e-300), 0.0)
        total += float(share) * float(np.sum(q * score**2))
    return total


def _discrete(context: _Context, rest: np.ndarray) -> float | None:
    """Any noise, if y takes few values: sums over nodes of (s, e) split on every line parallel to s."""
    point = jnp.asarray(rest)
    e, q = quadrature.nodes((), 0.25, 6)
    values, masses, moments = [], [], []
    for noise, share in zip(e, q, strict=True):
        s, p = quadrature.nodes(context.splits(rest, float(noise)), 1.0, 10)
        values.append(np.asarray(context.value(jnp.asarray(s), point, jnp.asarray(noise))))
        masses.append(share * p)
        moments.append(share * p * (s * s - 1.0))
    y, label = np.unique(np.round(np.concatenate(values), 10), return_inverse=True)
    if y.size > 64:
        return None
    mass = np.bincount(label, np.concatenate(masses))
    return float(np.sum(np.bincount(label, np.concatenate(moments)) ** 2 / mass))
