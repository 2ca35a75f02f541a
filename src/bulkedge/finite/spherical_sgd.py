"""Online SGD of one neuron on the sphere, in any dimension at the cost of three random numbers a step.

Fresh sample x ~ N(0, I_d), y = h(z, e) with z = theta_*.x, student f(x) = h(u, 0) with u = theta.x, |theta| = 1:
    theta <- normalised theta - eta g (x - u theta),   g = (h(u, 0) - y) h'(u, 0).
Only m = theta.theta_* matters. With z, the coordinate w of x along the rest of theta, and the squared length
q ~ chi^2_{d-2} of all other coordinates, u = m z + (1 - m^2)^(1/2) w and
    m <- (m - eta g (z - u m))/(1 + eta^2 g^2 (z^2 + w^2 + q - u^2))^(1/2),
a Markov chain with exactly the law of the overlap in dimension d. Source: Ben Arous, Gheissari and Jagannath (2021).
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import quad

from bulkedge.foundation.checks import integer, positive
from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian import quadrature
from bulkedge.gaussian.hermite import hermite
from bulkedge.gaussian.streams import stream
from bulkedge.models import latent
from bulkedge.models.target import Target

_CHUNK = 1024
_DEGREES = 20
_VANISHES = 1e-6
SUCCESS = 0.5
MEDIAN = 0.6744897501960817
"""Of |N(0, 1)|: the median start has the overlap MEDIAN/sqrt(d)."""


def recovery_times(
    link: Target, dimension: int, step_size: float, most: int, seed: int = 0, runs: int = 32, share: float = 1.0
) -> np.ndarray:
    """Samples until the overlap exceeds one half, (runs,); NaN for a run that has not by then.

    Starts are uniform on the half of the sphere with a positive overlap. `most`: samples a run may use. share: all runs
    stop once this share of them has succeeded; for a median 0.5 is enough.
    """
    _need_slope(link)
    d = integer("dimension", dimension, low=3, high=10**12)
    eta, most = positive("step_size", step_size), integer("most", most, low=1)
    rng = stream(integer("seed", seed, low=0), d)
    n = integer("runs", runs, low=1, high=10**6)
    first = np.abs(rng.standard_normal(n))
    m = first / np.sqrt(first**2 + rng.chisquare(d - 1, n))
    times = np.where(m > SUCCESS, 0.0, np.nan)
    enough = max(1, int(np.ceil(share * n)))
    with jax.enable_x64(True):
        walk = _walk(link)
        for done in range(0, most, _CHUNK):
            if np.count_nonzero(np.isfinite(times)) >= enough:
                break
            noise = rng.standard_normal((3, _CHUNK, n))
            m, hit = walk(jnp.asarray(m), noise[0], noise[1], noise[2], rng.chisquare(d - 2, (_CHUNK, n)), eta)
            hit = np.asarray(hit)
            new = np.isnan(times) & (hit < min(_CHUNK, most - done))
            times[new] = done + hit[new] + 1.0
    return times


@functools.lru_cache(maxsize=16)
def _walk(link: Target) -> Any:
    """_CHUNK steps of all runs: the overlaps (runs,) after them, and at which step each passed one half first."""

    def student(u: jax.Array) -> jax.Array:
        return link.call(u[None], jnp.zeros(()))

    both = jax.vmap(jax.value_and_grad(student))
    label = jax.vmap(lambda z, e: link.call(z[None], e))

    @jax.jit
    def walk(m: jax.Array, z: jax.Array, w: jax.Array, e: jax.Array, q: jax.Array, eta: jax.Array) -> Any:
        def step(carry: Any, noise: Any) -> Any:
            m, hit = carry
            t, z, w, e, q = noise
            u = m * z + jnp.sqrt(jnp.maximum(1.0 - m * m, 0.0)) * w
            f, slope = both(u)
            move = eta * (f - label(z, e)) * slope
            m = (m - move * (z - u * m)) / jnp.sqrt(1.0 + move**2 * (z * z + w * w + q - u * u))
            return (m, jnp.where((m > SUCCESS) & (hit == _CHUNK), t, hit)), None

        start = (m, jnp.full(m.shape, _CHUNK))
        return jax.lax.scan(step, start, (jnp.arange(_CHUNK), z, w, e, q))[0]

    return walk


@functools.lru_cache(maxsize=64)
def _need_slope(link: Target) -> None:
    if link.latent_dim != 1:
        raise BadInput("target", f"must have one direction here, not {link.latent_dim}")
    points = jnp.asarray(np.random.default_rng(0).standard_normal(256))
    with jax.enable_x64(True):
        slope = np.asarray(jax.vmap(jax.grad(lambda u: link.call(u[None], jnp.zeros(()))))(points))
    if not np.any(slope):
        raise BadInput("target", "is piecewise constant: a student with this link has no gradient")


def quiet_step(link: Target, dimension: int, noise: float) -> float:
    """A step size eta = s d^(-max(1, p/2)) at which noise eats the share `noise` of the drift at the overlap d^(-1/2).

    With the labels' Hermite coefficients c_j, the student's a_j and p the first degree where c_p is not zero, one step
    adds eta p a_p c_p m^(p-1) to a small overlap m and takes eta^2 E[g^2] d m/2, which is `noise` times as much at
    m = d^(-1/2) for s = 2 noise p a_p c_p/E[g^2] (p >= 2; at m = 1 for p = 1).
    """
    (drift, squared), p = _law(link), first_degree(link)
    if drift[p - 1] < 0:
        raise BadInput("target", "drives its own student away: its noise changes the sign of its first Hermite degree")
    return float(2.0 * positive("noise", noise) * drift[p - 1] / squared * dimension ** -max(1.0, p / 2))


def first_degree(link: Target) -> int:
    """The first p >= 1 with E[y h_p(z)] and E[h(z, 0) h_p(z)] not zero."""
    found = np.flatnonzero(_law(link)[0])
    if not found.size:
        raise BadInput("target", f"has a mean E[y | z] without Hermite degrees 1 to {_DEGREES}: descent sees nothing")
    return int(found[0]) + 1


def expected_samples(link: Target, dimension: int, step_size: float) -> float:
    """Samples from the median start to the overlap 1/2 along the mean path; NaN if it never gets there.

    dm/dn = eta (1 - m^2) sum_j j a_j c_j m^(j-1) - eta^2 E[g^2] d m/2, with E[g^2] that of m = 0.
    """
    drift, squared = _law(link)
    j = np.arange(_DEGREES)

    def speed(m: float) -> float:
        return float((1 - m * m) * np.sum(drift * m**j) - 0.5 * step_size * squared * dimension * m)

    # In log m: the time is spent where m is small.
    low, high = np.log(MEDIAN) - 0.5 * np.log(dimension), np.log(SUCCESS)
    if min(speed(float(m)) for m in np.exp(np.linspace(low, high, 400))) <= 0:
        return float("nan")
    return float(quad(lambda t: np.exp(t) / speed(float(np.exp(t))), low, high, limit=200)[0] / step_size)


@functools.lru_cache(maxsize=64)
def _law(link: Target) -> tuple[np.ndarray, float]:
    """(j a_j c_j for j = 1.._DEGREES, E[g^2] at m = 0)."""
    _need_slope(link)
    z, p = quadrature.nodes(quadrature.one_dimensional_splits(lambda u: link.call(u[None], jnp.zeros(()))), 0.5, 20)

    def student(u: jax.Array) -> jax.Array:
        return link.call(u[None], jnp.zeros(()))

    with jax.enable_x64(True):
        f, slope = (np.asarray(v) for v in jax.vmap(jax.value_and_grad(student))(jnp.asarray(z)))
    labels = latent.nodes(link)
    s, y, q = labels.z[..., 0], labels.y, labels.p / len(labels.p)
    j = np.arange(1, _DEGREES + 1)
    a = np.array([np.sum(p * f * hermite(z[:, None], int(n))[:, 0]) for n in j])
    c = np.array([np.sum(q * y * hermite(s[..., None], int(n))[..., 0]) for n in j])
    mean, square = float(np.sum(q * y)), float(np.sum(q * y * y))
    squared = float(np.sum(p * slope**2 * (f * f - 2.0 * f * mean + square)))
    return j * np.where(np.abs(a * c) > _VANISHES, a * c, 0.0), squared
