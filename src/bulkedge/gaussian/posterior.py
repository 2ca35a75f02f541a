"""Latent coordinates given a label: moments of z ~ N(w, V) in R^k conditional on y = h(z, e), e ~ N(0, 1).

A likelihood p(y | z) is held as weighted points of z, so that every moment is a sum with Gaussian weights:
- `Fibre`: the level set of y, for a continuous y without noise (k = 1, 2), or with any noise (k = 1: a curve in the
  plane of (z, e)); see `level_sets`;
- `Table`: nodes of z with p(y | z), for labels of few values (k = 1, 2, any noise) and for y = g(z) + sigma e
  (k = 1, 2).
Both are refined when V becomes narrow. What neither covers is refused.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr

from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian import breakpoints, level_sets, quadrature

_PROBES = 1 << 14
_DISCRETE = 64
_MOST_POINTS = 40_000_000
_MOST_NODES = 150_000
_CHUNK = 400_000
_REACH = 7.5
_FAINT = 0.03
"""Additive noise below this fraction of the slope is treated as a level set in the plane of (z, e)."""


@dataclass(frozen=True, eq=False)
class Moments:
    """Of z - w given y, one row a label: shift (n, k) = E[z - w | y], second (n, k, k) = E[(z - w)(z - w)^T | y]."""

    shift: np.ndarray
    second: np.ndarray


class Given(Protocol):
    """The likelihood of given labels."""

    def moments(self, mean: np.ndarray, cov: np.ndarray) -> Moments:
        """For z ~ N(mean_i, cov), with mean (n, k) or (k,) and cov (k, k)."""
        ...

    def shift(self, mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
        """E[z - mean | y] alone, (n, k), for less work."""
        ...


@functools.lru_cache(maxsize=32)
def posterior(link: Link) -> Posterior:
    """The conditional law of a link, its nodes and compiled functions kept for the next call."""
    return Posterior(link.call, link.latent_dim, link.noisy)


class Link(Protocol):
    """What is used of a target."""

    @property
    def call(self) -> Callable[[Any, Any], Any]: ...

    @property
    def latent_dim(self) -> int: ...

    @property
    def noisy(self) -> bool: ...

    def __hash__(self) -> int: ...


class Posterior:
    """The conditional law of z given y for one link.

    Args:
        h: traceable, (z of shape (k,), e) -> y.
        k: number of latent directions.
        noisy: whether h depends on e.

    Attributes:
        kind: "fibre", "discrete" or "additive".
        noise: sigma, of additive noise.
    """

    def __init__(self, h: Callable[[Any, Any], Any], k: int, noisy: bool) -> None:
        if k > 2:
            raise BadInput("target", f"has {k} directions: conditional moments given y are computed for one or two")
        self.h, self.k, self.noisy = h, k, noisy
        rng = np.random.default_rng(11)
        z, e = rng.standard_normal((_PROBES, k)), rng.standard_normal(_PROBES)
        with jax.enable_x64(True):
            self._label = jax.jit(jax.vmap(h))
            y = np.asarray(self._label(jnp.asarray(z), jnp.asarray(e)))
        if not np.all(np.isfinite(y)):
            raise BadInput("target", "is not finite everywhere: its labels have no conditional law to compute with")
        values, count = np.unique(np.round(y, 12), return_counts=True)
        self._nodes: dict[int, Nodes] = {}
        self.noise = _additive(self._label, z, e) if noisy else None
        if values.size <= _DISCRETE:
            self.kind, self.values = "discrete", values
        elif count.max() > 1 and (noisy or k > 1):
            raise BadInput(
                "target", "mixes isolated values of y with a continuum, which is done for k = 1 without noise"
            )
        elif self.noise is not None and (k > 1 or self.noise > _FAINT * self.steepest):
            self.kind = "additive"
        elif noisy and k > 1:
            raise BadInput(
                "target", "has noise that is not additive and labels of many values, which is done for k = 1 only"
            )
        else:
            self.kind = "fibre"

    @functools.cached_property
    def steepest(self) -> float:
        """The slope |dg/dz| of y = g(z) + sigma e that is exceeded only far out."""
        g = level_sets.Smooth(lambda x: self.h(x, jnp.zeros(())), self.k)
        probe = 1.2 * np.random.default_rng(3).standard_normal((4096, self.k))
        return float(np.quantile(np.linalg.norm(g.slope(probe), axis=1), 0.999))

    def given(self, y: np.ndarray) -> Given:
        """The likelihood of the labels y (n,)."""
        y = np.asarray(y, float)
        return Fibre(self, y) if self.kind == "fibre" else Table(self, y)

    @functools.cached_property
    def plane(self) -> level_sets.Smooth:
        """The function whose level sets are the fibres: h of z, or of (z, e) where there is noise."""
        k = self.k
        if self.noisy:
            return level_sets.Smooth(lambda x: self.h(x[:k], x[k]), k + 1)
        return level_sets.Smooth(lambda x: self.h(x, jnp.zeros(())), k)

    def nodes(self, scale: float) -> Nodes:
        """Nodes for Gaussians of width `scale` or more, kept for the next call."""
        rung = max(0, int(np.ceil(2.0 * np.log2(1.0 / max(scale, 1e-12)))))
        if rung not in self._nodes:
            discrete = self.kind == "discrete"
            z, weight = (_discrete_nodes if discrete else _smooth_nodes)(self, 2.0 ** (-0.5 * rung))
            near = np.all(np.abs(z) < _REACH, axis=1)
            z, weight = z[near], weight[near]
            levels = _class_levels(self, z) if discrete else self.label(z, np.zeros(len(z)))[None]
            self._nodes[rung] = Nodes(z, weight, levels)
        return self._nodes[rung]

    def label(self, z: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Labels (n,) of z (n, k) and e (n,)."""
        with jax.enable_x64(True):
            return np.asarray(self._label(jnp.asarray(z, float), jnp.asarray(e, float)))


def _additive(label: Callable[..., Any], z: np.ndarray, e: np.ndarray) -> float | None:
    """The level sigma of noise in y = g(z) + sigma e; None if the noise enters otherwise."""
    with jax.enable_x64(True):
        points = jnp.asarray(z)
        y = [np.asarray(label(points, jnp.full(len(z), c))) for c in (0.0, 1.0, -2.3)]
        mixed = np.asarray(label(points, jnp.asarray(e)))
    sigma = float(np.median(y[1] - y[0]))
    scale = 1e-9 * (1.0 + np.abs(y[0]))
    same = all(np.all(np.abs(v - y[0] - c * sigma) <= scale) for v, c in ((y[1], 1.0), (y[2], -2.3), (mixed, e)))
    return abs(sigma) if same and sigma != 0.0 else None


@dataclass(eq=False)
class Fibre:
    """Labels whose fibres are points: `level_sets`, found once and again with a finer spacing for narrow V."""

    posterior: Posterior
    y: np.ndarray
    _found: level_sets.Fibres | None = None
    _scale: float = np.inf
    _base: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(0))

    def moments(self, mean: np.ndarray, cov: np.ndarray) -> Moments:
        row, z, p, mass = self._weighted(mean, cov)
        k = z.shape[1]
        second = np.empty((self.y.size, k, k))
        for a, b in zip(*np.triu_indices(k), strict=True):
            second[:, a, b] = second[:, b, a] = np.bincount(row, p * z[:, a] * z[:, b], self.y.size) / mass
        return Moments(self._means(row, z, p, mass), second)

    def shift(self, mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
        return self._means(*self._weighted(mean, cov))

    def _means(self, row: np.ndarray, z: np.ndarray, p: np.ndarray, mass: np.ndarray) -> np.ndarray:
        return np.stack([np.bincount(row, p * c, self.y.size) / mass for c in z.T], axis=1)

    def _weighted(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Of every point of the fibres: its label, z - mean (C, k) and weight; and the sum of weights of each label."""
        k = self.posterior.k
        cov = np.asarray(cov, float).reshape(k, k)
        w = np.broadcast_to(np.asarray(mean, float), (self.y.size, k))
        fibres = self._fibres(float(np.sqrt(np.linalg.eigvalsh(cov)[0])))
        row, z = fibres.row, fibres.points[:, :k] - w[fibres.row]
        scaled = z @ np.linalg.cholesky(np.linalg.inv(cov))
        exponent = self._base - 0.5 * np.einsum("ca,ca->c", scaled, scaled)
        start = np.flatnonzero(np.diff(row, prepend=-1))
        top = np.zeros(self.y.size)
        top[row[start]] = np.maximum.reduceat(exponent, start)
        p = np.exp(exponent - top[row])
        return row, z, p, np.bincount(row, p, self.y.size)

    def _fibres(self, scale: float) -> level_sets.Fibres:
        if self._found is not None and scale >= 0.7 * self._scale:
            return self._found
        plane, self._scale = self.posterior.plane, min(scale, 1.0)
        if plane.dimension == 1:
            found = level_sets.on_line(plane, self.y, 1.5 * self._scale)
        else:
            spacing = 0.1 * self._scale
            if self.y.size * 50.0 / spacing > _MOST_POINTS:
                raise BadInput("target", f"its level sets cannot be resolved at an uncertainty of {scale:.2g}")
            found = level_sets.in_plane(plane, self.y, spacing)
        missing = self.y.size - np.unique(found.row).size
        if missing:
            raise BadInput("y", f"holds {missing} labels that this target never gives")
        self._found = found
        # With noise the last coordinate of a point is e, standard Gaussian.
        with np.errstate(divide="ignore"):
            self._base = np.log(found.weight) - 0.5 * np.sum(found.points[:, self.posterior.k :] ** 2, axis=1)
        return found


class Table:
    """Nodes z (J, k) with p(y | z): of each value a label can have, or Gaussian around g(z)."""

    def __init__(self, posterior: Posterior, y: np.ndarray) -> None:
        self.posterior, self.y = posterior, y
        self._groups: list[tuple[int, np.ndarray]] = [(0, np.arange(y.size))]
        if posterior.kind == "discrete":
            values = posterior.values
            index = np.argmin(np.abs(y[:, None] - values), axis=1)
            wrong = np.abs(values[index] - y) > 1e-5 * (1.0 + np.abs(y))
            if wrong.any():
                raise BadInput("y", f"holds {int(wrong.sum())} labels that this target never gives")
            self._groups = [(v, np.flatnonzero(index == v)) for v in np.unique(index).tolist()]

    def moments(self, mean: np.ndarray, cov: np.ndarray) -> Moments:
        k = self.posterior.k
        cov = np.asarray(cov, float).reshape(k, k)
        w = np.broadcast_to(np.asarray(mean, float), (self.y.size, k))
        nodes = self.posterior.nodes(float(np.sqrt(np.linalg.eigvalsh(cov)[0])))
        inverse = np.linalg.inv(cov)
        i, j = np.triu_indices(k)
        basis = np.column_stack([np.ones(len(nodes.z)), nodes.z, nodes.z[:, i] * nodes.z[:, j]])
        # The exponent is bilinear in (w, y) and (z, g): a matrix product.
        left = np.column_stack([w @ inverse, -0.5 * np.einsum("na,ab,nb->n", w, inverse, w), np.ones(len(w))])
        right = np.column_stack(
            [nodes.z, np.ones(len(nodes.z)), -0.5 * np.einsum("ja,ab,jb->j", nodes.z, inverse, nodes.z)]
        )
        if self.posterior.kind == "additive":
            sigma2 = (self.posterior.noise or 1.0) ** 2
            left = np.column_stack([left, self.y / sigma2, -0.5 * self.y**2 / sigma2])
            right[:, -1] -= 0.5 * nodes.levels[0] ** 2 / sigma2
            right = np.column_stack([right, nodes.levels[0], np.ones(len(right))])
        sums = np.empty((self.y.size, basis.shape[1]))
        for value, rows in self._groups:
            weight = nodes.weight if self.posterior.kind == "additive" else nodes.weight * nodes.levels[value]
            seen = weight > 0
            sums[rows] = _exponential_sums(left[rows], right[seen], weight[seen, None] * basis[seen])
        sums /= sums[:, :1]
        centre = sums[:, 1 : k + 1]
        shift = centre - w
        second = np.empty((self.y.size, k, k))
        for c, (a, b) in enumerate(zip(i, j, strict=True)):
            value = sums[:, k + 1 + c] - centre[:, a] * centre[:, b] + shift[:, a] * shift[:, b]
            second[:, a, b] = second[:, b, a] = value
        return Moments(shift, second)

    def shift(self, mean: np.ndarray, cov: np.ndarray) -> np.ndarray:
        return self.moments(mean, cov).shift


def _exponential_sums(left: np.ndarray, right: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums over j of exp(left_i . right_j) values_j up to a factor of each row, (n, columns of values)."""
    out = np.empty((len(left), values.shape[1]))
    step = max(1, _CHUNK // len(right))
    for part in (slice(a, a + step) for a in range(0, len(left), step)):
        exponent = left[part] @ right.T
        out[part] = np.exp(exponent) @ values
        faint = ~(out[part, 0] > 1e-200)
        if faint.any():
            rest = exponent[faint]
            out[part][faint] = np.exp(rest - rest.max(axis=1, keepdims=True)) @ values
    return out


@dataclass(frozen=True, eq=False)
class Nodes:
    """Points z (J, k) with Lebesgue weights (J,) and levels: g(z) (1, J), or P(y = v | z) (values, J)."""

    z: np.ndarray
    weight: np.ndarray
    levels: np.ndarray


def _discrete_nodes(posterior: Posterior, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes split where the label jumps (at one value of the noise, so at every jump that does not depend on it)."""
    k, e = posterior.k, jnp.asarray(0.3712)
    width, order = (0.5 * scale, 12) if k == 1 else (1.2 * scale, 6)
    found = quadrature.tensor_nodes(lambda x: posterior.h(x, e), k, width, order, limit=_MOST_NODES)
    if found is None:
        raise BadInput("target", f"where its labels change cannot be resolved at an uncertainty of {scale:.2g}")
    return found[0], _lebesgue(*found)


def _lebesgue(z: np.ndarray, p: np.ndarray) -> np.ndarray:
    return p * np.exp(0.5 * np.sum(z * z, axis=1) + 0.5 * z.shape[1] * np.log(2.0 * np.pi))


def _smooth_nodes(posterior: Posterior, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes that resolve a Gaussian of width `scale` and the likelihood of y = g(z) + sigma e, of width sigma/|g'|."""
    k, zero = posterior.k, jnp.zeros(())
    g = level_sets.Smooth(lambda x: posterior.h(x, zero), k)
    steep = posterior.steepest
    fine = min(scale, (posterior.noise or 1.0) / max(steep, 1e-9))
    what = f"the noise {posterior.noise:.3g} is too small beside the slope {steep:.3g} of the target to be resolved"
    if k == 1:
        width = 1.5 * fine
        if 2 * quadrature.RADIUS / width * 12 > _MOST_NODES:
            raise BadInput("target", what)
        z, p = quadrature.nodes(g.splits(), width)
        return z[:, None], _lebesgue(z[:, None], p)
    if g.switches(np.ones((1, k))).size:
        found = quadrature.tensor_nodes(lambda x: posterior.h(x, zero), k, 2.0 * fine, 6, limit=_MOST_NODES)
        if found is None:
            raise BadInput("target", what)
        return found[0], _lebesgue(*found)
    # A smooth function against Gaussians: the trapezoidal rule converges exponentially.
    step = 0.9 * fine
    if (14.0 / step) ** k > _MOST_NODES:
        raise BadInput("target", what)
    axis = np.arange(-7.0, 7.0 + step, step)
    grid = np.stack([a.ravel() for a in np.meshgrid(*[axis] * k, indexing="ij")], axis=1)
    return grid, np.full(len(grid), step**k)


def _class_levels(posterior: Posterior, z: np.ndarray) -> np.ndarray:
    """The probabilities P(y = v | z), (values, J): along e, the label is constant between its jumps."""
    values = posterior.values
    if not posterior.noisy:
        y = posterior.label(z, np.zeros(len(z)))
        near = np.abs(y - values[:, None]) <= 1e-9 * (1.0 + np.abs(values[:, None]))
        return near.astype(float)
    k = posterior.k
    switch = posterior.plane.switches
    cuts = breakpoints.zeros_along(switch, k, np.column_stack([z, np.zeros(len(z))]), quadrature.RADIUS, 513)
    count = np.array([c.size + 1 for c in cuts])
    owner = np.repeat(np.arange(len(z)), count)
    ends = [np.concatenate([[-quadrature.RADIUS], c, [quadrature.RADIUS]]) for c in cuts]
    low, high = np.concatenate([c[:-1] for c in ends]), np.concatenate([c[1:] for c in ends])
    y = posterior.label(z[owner], 0.5 * (low + high))
    which = np.argmin(np.abs(y[:, None] - values), axis=1)
    mass = np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low))
    p = np.bincount(which * len(z) + owner, mass, values.size * len(z)).reshape(values.size, len(z))
    return p
