"""What a phenomenon came to: the table of its results, the verdict on every judged quantity, and what is missing."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Self

import xarray as xr

from bulkedge.foundation.phenomenon import Phenomenon
from bulkedge.foundation.result import Result, jsonable
from bulkedge.foundation.verdict import Verdict


@dataclasses.dataclass(frozen=True, kw_only=True)
class Outcome(Result):
    """phenomenon, size, settings: what was asked. dataset: the results (see `dataset`).

    verdict: agrees, disagrees or undecided over all judged quantities, or None where nothing is judged; verdicts: of
    each. sentences: what was found. done, total: units; failures: [{unit, error}, ...] of those that failed.
    seconds: of work in all stored units. store: the folder.
    """

    phenomenon: str
    question: str
    references: list[str]
    size: str
    settings: dict[str, Any]
    verdict: str | None
    sentences: list[str]
    verdicts: dict[str, Verdict]
    rows: list[dict[str, Any]]
    dataset: xr.Dataset
    done: int
    total: int
    failures: list[dict[str, Any]]
    seconds: float
    store: str
    declared: Phenomenon | None = dataclasses.field(default=None, repr=False, compare=False)
    """The phenomenon itself; not part of the dictionary."""

    def keys(self) -> list[str]:
        names = super().keys()
        return [name for name in names if name != "declared"]

    def declaration(self) -> Phenomenon:
        """What it was declared as."""
        from bulkedge.lab.plan import locate

        return self.declared or locate(self.phenomenon)

    def cite(self) -> str:
        """BibTeX of what the phenomenon rests on."""
        from bulkedge.foundation.citations import cite

        return cite(*self.references)

    def to_dict(self) -> dict[str, Any]:
        """The fields in JSON types; the dataset as its coordinates and variables."""
        found = {name: jsonable(getattr(self, name)) for name in self.keys() if name != "dataset"}
        return {**found, "dataset": jsonable(self.dataset.to_dict())}

    @classmethod
    def _restore(cls, name: str, value: Any) -> Any:
        if name == "dataset":
            return xr.Dataset.from_dict(value)
        if name == "verdicts":
            return {key: Verdict.from_dict(v) for key, v in value.items()}
        return super()._restore(name, value)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        found = super().from_dict(data)
        for variable in found.dataset.data_vars:
            if found.dataset[variable].dtype == object:
                found.dataset[variable] = found.dataset[variable].astype(float)
        return found

    def export(self, path: Any) -> Path:
        """Write the dataset as .nc (NetCDF), .parquet or .csv (one row for each point), by the suffix."""
        from bulkedge.lab.export import export

        return export(self.dataset, path)
