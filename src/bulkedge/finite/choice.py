"""Stored or lazily revealed data: what each costs, and which to take."""

from __future__ import annotations

from bulkedge.dynamics.lazy_data import PRODUCTS, LazyData
from bulkedge.dynamics.stored_data import StoredData
from bulkedge.foundation import memory
from bulkedge.foundation.checks import choice
from bulkedge.models.problem import Problem

DATA = ("auto", "stored", "lazy")
_DRAW = 16.0
"""A Gaussian number costs as much as reading this many float32 from memory."""
_SWEEPS = 7.0
"""How often a step over lazy data reads what is known so far."""
_OVERHEAD = 3e5
"""Reads in the time a step over lazy data needs beside them."""


def choose(data: str, problem: Problem, n: int, d: int, steps: int, spectra: int, hessian: str | None) -> str:
    """Stored or lazy: as asked for, or the cheaper of those that fit, stored unless lazy is twice as cheap.

    spectra: how many times the eigenpairs of the `hessian` are searched for.
    """
    if choice("data", data, DATA) != "auto":
        return data
    free = 0.9 * memory.available_bytes()
    if LazyData.bytes_needed(problem, n, d, steps, hessian) > free:
        return "stored"
    if StoredData.bytes_needed(problem, n, d) > free:
        return "lazy"
    m, searched = problem.m, 0.4 * PRODUCTS * problem.m
    stored = float(n) * d * (_DRAW + steps + spectra * searched)
    width = m * steps
    revealed = float(n + d) * (2 * _DRAW * width + _SWEEPS * m * steps * width / 2)
    revealed += float(n + d) * spectra * (2 * _DRAW * searched + _SWEEPS * searched * (width + searched / 2))
    lazy = revealed + _OVERHEAD * (steps + spectra * searched)
    return "lazy" if 2 * lazy < stored else "stored"
