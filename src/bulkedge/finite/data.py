"""Gaussian training sets for a link alone: x ~ N(0, I_d), y = h(Theta_*^T x, e), Theta_* the first k axes."""

from __future__ import annotations

import numpy as np

from bulkedge.dynamics.stored_data import DATA, NOISE
from bulkedge.foundation import memory
from bulkedge.gaussian.lazy import LazyGaussian
from bulkedge.gaussian.streams import fill_normal, stream
from bulkedge.models.latent import evaluate
from bulkedge.models.target import Target


def stored(link: Target, n: int, d: int, key: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """X (n, d) in float32 and y (n,), a function of `key`."""
    memory.require("data", 8.0 * n * d, f"storing {n} samples in {d} dimensions")
    x = np.empty((n, d), np.float32)
    fill_normal(x, key[0], *key[1:], DATA)
    return x, _labels(link, x[:, : link.latent_dim], key)


def lazy(link: Target, n: int, d: int, key: tuple[int, ...], products: int) -> tuple[LazyGaussian, np.ndarray]:
    """A matrix revealed by at most that many products from each side, and y (n,)."""
    k = link.latent_dim
    x = LazyGaussian(n, d, (*key, DATA), left=products, right=products + k, together=k)
    return x, _labels(link, x.times(np.eye(k, d)).T, key)


def _labels(link: Target, z: np.ndarray, key: tuple[int, ...]) -> np.ndarray:
    e = stream(*key, NOISE).standard_normal(len(z)) if link.noisy else np.zeros(len(z))
    return evaluate(link, z.astype(float), e)
