"""bulkedge: when, and how, does training find the features?

Exact high-dimensional predictions for two-layer networks on multi-index targets, measurements on networks really
trained, and a verdict on the two. Start with `bulkedge.Problem`, then `threshold`, `spectrum`, `trajectory`,
`simulate`, `compare`.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_PUBLIC = {
    "Problem": "bulkedge.models",
    "Network": "bulkedge.models",
    "from_convention": "bulkedge.models",
    "Numerics": "bulkedge.foundation.numerics",
    "BadInput": "bulkedge.foundation.errors",
    "threshold": "bulkedge.learnability",
    "spectrum": "bulkedge.learnability",
    "trajectory": "bulkedge.learnability",
    "learning_time": "bulkedge.learnability",
    "outliers": "bulkedge.learnability",
    "subspaces": "bulkedge.learnability.subspaces",
    "delta_alg": "bulkedge.learnability.algorithmic",
    "delta_it": "bulkedge.learnability.information",
    "exponents": "bulkedge.learnability.exponents",
    "sensitivity": "bulkedge.learnability.sensitivity",
    "design": "bulkedge.phenomena._design",
    "later_threshold": "bulkedge.learnability.later",
    "later_thresholds": "bulkedge.learnability.later",
    "Covariance": "bulkedge.models.covariance",
    "anisotropic_threshold": "bulkedge.learnability.anisotropic",
    "anisotropic_spectrum": "bulkedge.learnability.anisotropic",
    "simulate": "bulkedge.finite",
    "compare": "bulkedge.phenomena._comparison",
    "preprocessing": "bulkedge.learnability.preprocessing",
    "state_evolution": "bulkedge.learnability.state_evolution",
    "spectral_method": "bulkedge.phenomena._spectral",
    "amp": "bulkedge.phenomena._message_passing",
    "linearised_amp": "bulkedge.phenomena._linearised",
    "run": "bulkedge.lab",
}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    # Rooms load when first used: `bulkedge --help` must not wait for JAX.
    if name not in _PUBLIC:
        raise AttributeError(f"module 'bulkedge' has no attribute {name!r}")
    value = getattr(importlib.import_module(_PUBLIC[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
