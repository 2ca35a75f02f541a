"""The numerical choices of an answer, stored with it."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from bulkedge.foundation.checks import integer, positive


@dataclass(frozen=True)
class Numerics:
    """Accuracy settings of a prediction.

    paths: samples of the effective process in one replica.
    replicas: independent repetitions; standard errors come from their spread.
    seed: everything random is a function of it.
    rtol: relative accuracy asked of quadratures.
    """

    paths: int = 65536
    replicas: int = 8
    seed: int = 0
    rtol: float = 1e-6

    def __post_init__(self) -> None:
        object.__setattr__(self, "paths", integer("paths", self.paths, low=64, high=10**8))
        object.__setattr__(self, "replicas", integer("replicas", self.replicas, low=2, high=10**4))
        object.__setattr__(self, "seed", integer("seed", self.seed, low=0, high=2**63 - 1))
        object.__setattr__(self, "rtol", positive("rtol", self.rtol))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def updated(self, **changes: Any) -> Numerics:
        """A copy with the given fields replaced; None means: keep."""
        return replace(self, **{k: v for k, v in changes.items() if v is not None})


DEFAULT = Numerics()
