"""Independent random streams, each a function of a seed and of what it is for."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import cpu_count

import numpy as np

BLOCK = 1 << 16
"""Entries one stream fills: the numbers do not depend on how many threads draw them."""


def stream(seed: int, *key: int) -> np.random.Generator:
    """The generator number `key` of a seed."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))


def fill_normal(out: np.ndarray, seed: int, *key: int) -> None:
    """Fill a contiguous float32 array with independent N(0, 1) entries, in parallel."""
    flat = out.reshape(-1)

    def draw(i: int) -> None:
        stream(seed, *key, i).standard_normal(out=flat[i * BLOCK : (i + 1) * BLOCK], dtype=np.float32)

    blocks = range(-(-flat.size // BLOCK))
    if len(blocks) <= 2:
        for i in blocks:
            draw(i)
        return
    with ThreadPoolExecutor(cpu_count() or 1) as pool:
        # list() raises what a thread raised.
        list(pool.map(draw, blocks, chunksize=8))
