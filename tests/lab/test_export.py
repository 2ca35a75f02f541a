"""NetCDF holds the dataset as it is; Parquet and CSV hold its rows."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from bulkedge.foundation.errors import BadInput
from bulkedge.lab import run
from bulkedge.lab.export import exportable, rows


@pytest.fixture
def outcome(tiny, tmp_path):
    return run(tiny.TINY, store=tmp_path / "s", delta=(1.0, 2.5), seeds=3)


def test_netcdf_holds_everything(outcome, tmp_path):
    path = outcome.export(tmp_path / "out.nc")
    with xr.open_dataset(path, engine="scipy") as found:
        assert found.load().drop_attrs().identical(outcome.dataset.drop_attrs())
        assert found.attrs["question"] == "Is the square of a number its square?"
        assert found["seen"].attrs["role"] == "measured"


def test_netcdf_holds_coordinates_of_words(tmp_path):
    from bulkedge.lab.export import export

    table = xr.Dataset(
        {"y": (("loss", "x"), [[1.0, np.nan], [3.0, 4.0]])}, {"loss": ["squared", "ψ-huber"], "x": [1, 2]}
    )
    with xr.open_dataset(export(table, tmp_path / "w.nc"), engine="scipy") as found:
        assert found["loss"].values.tolist() == ["squared", "ψ-huber"]
        assert found["y"].equals(table["y"].assign_coords(loss=found["loss"].values))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_rows_round_trip(outcome, tmp_path, kind):
    path = outcome.export(tmp_path / f"out.{kind}")
    found = pd.read_parquet(path) if kind == "parquet" else pd.read_csv(path)
    for name, dims in (("seen", ["delta", "dimension"]), ("loss_each", ["delta", "dimension", "seed", "step"])):
        part = found[found["table"] == " x ".join(outcome.dataset[name].dims)].set_index(dims)[name].dropna()
        there = outcome.dataset[name].to_series().dropna()
        assert len(part) == len(there) == outcome.dataset[name].notnull().sum()
        assert np.allclose(part.to_xarray().values, there.to_xarray().values, rtol=1e-12)


def test_rows_that_no_run_is_at_are_left_out(outcome):
    table = rows(outcome.dataset)
    kinds = table.groupby("table").size().to_dict()
    assert kinds["delta x dimension"] == 2
    assert kinds["delta x dimension x step"] == 2 * 4  # the prediction has six steps, the measurement four
    assert kinds["delta x step"] == 2 * 6
    assert (table["seen_runs"].dropna() == 3).all()


def test_a_dataset_without_axes(tmp_path):
    table = rows(xr.Dataset({"x": 1.5, "x_runs": 1}))
    assert table.to_dict("records") == [{"table": "numbers", "x": 1.5, "x_runs": 1}]


@pytest.mark.parametrize("name", ["out", "out.txt", "out.xlsx"])
def test_other_formats_are_refused(name):
    with pytest.raises(BadInput, match=r"must end in one of \.nc, \.parquet, \.csv"):
        exportable(name)


def test_without_pyarrow_it_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(BadInput, match=r"install bulkedge\[export\]"):
        exportable(tmp_path / "x.parquet")
