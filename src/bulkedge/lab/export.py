"""A dataset as a file for other programs: NetCDF, Parquet, CSV."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xarray as xr

from bulkedge.foundation.errors import BadInput

if TYPE_CHECKING:
    import pandas as pd

EXPORTS = ("nc", "parquet", "csv")


def exportable(path: Any, argument: str = "path") -> str:
    """The format a file name asks for, if it is known and can be written here."""
    target = Path(path)
    kind = target.suffix.lower().removeprefix(".")
    if kind not in EXPORTS:
        raise BadInput(argument, f"must end in one of {', '.join(f'.{e}' for e in EXPORTS)}, not {target.name[:60]!r}")
    if not target.parent.is_dir():
        raise BadInput(argument, f"the folder {str(target.parent)[:200]!r} does not exist")
    if kind == "parquet":
        try:
            importlib.import_module("pyarrow")
        except ImportError:
            raise BadInput(argument, "Parquet needs the package pyarrow: install bulkedge[export]") from None
    return kind


def export(dataset: xr.Dataset, path: Any) -> Path:
    """Write it. NetCDF holds it as it is; in Parquet and CSV the kinds of rows are told apart by the column `table`.

    Variables over the same dimensions make a table, with a row for each point that a run is at.
    """
    kind = exportable(path)
    target = Path(path)
    if kind == "nc":
        dataset.to_netcdf(target, engine="scipy")
    elif kind == "parquet":
        rows(dataset).to_parquet(target, engine="pyarrow", index=False)
    else:
        rows(dataset).to_csv(target, index=False)
    return target


def rows(dataset: xr.Dataset) -> pd.DataFrame:
    """The dataset as rows: one for each point of each set of variables with the same dimensions."""
    import pandas as pd

    groups: dict[tuple[str, ...], list[str]] = {}
    for name, variable in dataset.data_vars.items():
        groups.setdefault(tuple(str(d) for d in variable.dims), []).append(str(name))
    frames = []
    for dims, names in groups.items():
        part = dataset[names]
        if dims:
            frame = part.to_dataframe().reset_index()
        else:
            frame = pd.DataFrame({name: [part[name].item()] for name in names})
        frame = frame[[*dims, *names]]
        counts = [name for name in names if name.endswith("_runs")]
        there = frame[counts].sum(axis=1) > 0 if counts else frame.notna().any(axis=1)
        frame.insert(0, "table", " x ".join(dims) or "numbers")
        frames.append(frame[there])
    return pd.concat([f for f in frames if len(f)], ignore_index=True) if any(map(len, frames)) else frames[0]
