"""Links the theory speaks of: finite, square-integrable, and functions of z."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from bulkedge.foundation.checks import integer
from bulkedge.foundation.errors import BadInput
from bulkedge.gaussian import quadrature
from bulkedge.models import latent
from bulkedge.models.problem import Problem
from bulkedge.models.target import MAX_DIRECTIONS, Target
from bulkedge.models.target import target as read_target

Progress = Callable[[str, int, int], None]
_LINES = 24
_MOST_TURNS = 300
_FAR = 37.0
"""Beyond this radius a Gaussian weight is no number any more."""


def read(given: Any, latent_dim: int | None = None) -> Target:
    """The admissible link of a target (expression, name, callable or `Target`) or of a `Problem`."""
    if not isinstance(given, (Problem, Target)):
        return admissible(read_target(given, latent_dim))
    link = given.link if isinstance(given, Problem) else given
    if latent_dim is not None and integer("latent_dim", latent_dim, low=1, high=MAX_DIRECTIONS) != link.latent_dim:
        raise BadInput("latent_dim", f"is {latent_dim}, but the target given has {link.latent_dim} already")
    return admissible(link)


def described(link: Target) -> dict[str, Any]:
    """What an answer about a link alone says of its problem."""
    return {"target": link.name, "latent_dim": link.latent_dim}


@functools.lru_cache(maxsize=128)
def admissible(link: Target) -> Target:
    """The link itself, or BadInput with the reason."""
    nodes = latent.nodes(link) if latent.active(link).shape[1] else None
    if nodes is None:
        raise BadInput("target", "does not depend on z: there is nothing to learn")
    wrong = ~np.isfinite(nodes.y) & (nodes.p > 0)
    if np.any(wrong):
        z = nodes.z[wrong][0]
        raise BadInput("target", f"is not finite at z = {np.round(z, 3).tolist()}; it must be for almost every z")
    where = _heavy(link)
    if where:
        raise BadInput("target", f"is not square-integrable: E[y^2] diverges {where}")
    turns = _turns(link)
    if turns > _MOST_TURNS:
        raise BadInput("target", f"oscillates too fast ({turns} turns along a line) for the law of y to be resolved")
    return link


def _turns(link: Target) -> int:
    """How often h turns round along random lines through the origin, between -9 and 9."""
    u = np.random.default_rng(20260206).standard_normal((4, link.latent_dim))
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    t = np.linspace(-quadrature.RADIUS, quadrature.RADIUS, 8192)
    y = latent.evaluate(link, t[:, None, None] * u, np.zeros((t.size, len(u))))
    step = np.diff(y, axis=0)
    step = np.where(np.abs(step) > 1e-12 * (1.0 + np.abs(y[1:])), np.sign(step), 0.0)
    return max(int(np.count_nonzero(np.diff(s[s != 0.0]))) for s in step.T)


def _heavy(link: Target) -> str:
    """Where E[y^2] diverges, judged on random lines through the origin and across the middle; empty if nowhere."""
    k = link.latent_dim
    rng = np.random.default_rng(20260203)
    u = rng.standard_normal((_LINES, k + 1))
    u[:, k] *= link.noisy
    u /= np.linalg.norm(u, axis=1, keepdims=True)
    if _grows(link, u):
        return "for large z"
    base = rng.standard_normal((_LINES, k + 1)) * np.append(np.ones(k), float(link.noisy))
    return "near a singularity" if _explodes(link, base, u) else ""


def _grows(link: Target, u: np.ndarray) -> bool:
    """Whether log(y^2) - r^2/2 fails to fall along a ray, between a radius of 12 and where numbers end."""
    k = link.latent_dim
    r = np.linspace(12.0, _FAR, 26)
    points = r[:, None, None] * u
    y = latent.evaluate(link, points[..., :k], points[..., k])
    overflow = ~np.isfinite(y)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        height = 2.0 * np.log(np.abs(y)) - 0.5 * r[:, None] ** 2
    # A ray that leaves the numbers before its Gaussian weight does cannot be integrated here.
    fast = np.any(overflow, axis=0) & ~np.any(np.isnan(y), axis=0)
    height = np.where(np.isfinite(height), height, -np.inf)
    return bool(np.any(fast | (np.max(height[-4:], axis=0) >= np.max(height[:4], axis=0)) & (height[-1] > -600.0)))


def _explodes(link: Target, base: np.ndarray, u: np.ndarray) -> bool:
    """Whether |y| grows like t^-1/2 or faster at a distance t from a zero of some switch, on the lines base + t u."""
    k = link.latent_dim
    n = k + 1

    def on_line(x: jax.Array) -> jax.Array:
        point = x[1 : 1 + n] + x[0] * x[1 + n :]
        return link.call(point[:k], point[k])

    found = quadrature.splits_on_lines(on_line, np.concatenate([np.zeros((len(u), 1)), base, u], axis=1))
    line = np.repeat(np.arange(len(u)), [z.size for z in found])
    if line.size == 0:
        return False
    t = np.concatenate(found)[:, None, None] + np.array([-1.0, 1.0])[:, None] * 4.0 ** -np.arange(4, 13)
    points = base[line, None, None] + t[..., None] * u[line, None, None]
    y = np.abs(latent.evaluate(link, points[..., :k], points[..., k]))
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.diff(np.log(y), axis=2)[:, :, -4:].mean(axis=2) / np.log(4.0)
    return bool(np.any(power[np.isfinite(power)] > 0.49))
