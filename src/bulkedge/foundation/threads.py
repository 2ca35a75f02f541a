"""How many threads BLAS uses."""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import ThreadpoolController


@functools.cache
def _controller() -> ThreadpoolController:
    import numpy  # noqa: F401  its BLAS is to be found among the loaded libraries

    return ThreadpoolController()


def one_blas_thread() -> AbstractContextManager[Any]:
    """A context in which a product uses one thread.

    Products that wait for memory gain nothing from a second one, and threads that wait for each other by spinning cost
    many times the work itself where the machine has other things to do.
    """
    return _controller().limit(limits=1, user_api="blas")
