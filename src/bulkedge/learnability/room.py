"""What a prediction is asked with, checked before the work begins: its types, and that its samples fit into memory."""

from __future__ import annotations

from typing import Any

from bulkedge.dynamics.paths import power_of_two
from bulkedge.foundation import memory
from bulkedge.foundation.checks import instance
from bulkedge.foundation.numerics import Numerics
from bulkedge.models.problem import Problem

_TABLE, _RANK = 24, 12
"""Quasi-random rows, and left directions of a neuron that a long run needs at least; numbers kept of every path."""


def asked(problem: Any, numerics: Any) -> None:
    """Refuse what is no `Problem` and no `Numerics`."""
    instance("problem", problem, Problem)
    instance("numerics", numerics, Numerics)


def require_room(problem: Problem, steps: int, numerics: Numerics, *, kept: bool) -> None:
    """Refuse where the paths of the DMFT would not fit; kept: those of all replicas at once."""
    m, k = problem.m, problem.k
    rank = m * min(steps, _RANK)
    each = 8.0 * power_of_two(numerics.paths)
    sample, work = k + 2 * m + 2 * rank, 2 * _TABLE + 6 * m
    replicas = numerics.replicas if kept else 1
    what = f"{numerics.paths} paths of {m} neuron{'s' * (m > 1)} over {steps} steps"
    memory.require("paths", each * (replicas * sample + work), what)
