"""A store: a folder of runs, one immutable file each, that survives any kill and any number of writers.

    store.json           what this folder is, and its schema
    runs/ab/abcd....json a run, named by the hash of its configuration; abcd....npz beside it if it has large arrays
    failed/abcd....json  the error of a unit that failed, until it succeeds
    plans/abcd....json   what was asked for: a phenomenon, its size, its knobs
    damaged/             files that could not be read and were put aside
    partial/             files being written
    index.sqlite         a table of the runs, made from the files (see `index`)

A file is written under another name, flushed to the disk, and renamed: it is there whole or not at all. The arrays
come before the JSON file, whose presence says that the run is complete and which holds their checksum.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import itertools
import json
import os
import shutil
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bulkedge.foundation.errors import BadInput
from bulkedge.lab.record import SCHEMA, digest, unpack

FORMAT = "bulkedge store"
LEAST_FREE = 32 << 20
"""Bytes that must be free when a run begins."""
_OLD, _RECENT = 7 * 86400.0, 60.0
_FOLDERS = ("runs", "failed", "plans", "damaged", "partial")
_count = itertools.count()

MIGRATIONS: dict[int, Any] = {}
"""{schema: function(path) that brings a store of that schema to the next one}"""


def default_store() -> Path:
    """The folder of the variable BULKEDGE_STORE, or bulkedge-store in the current one."""
    return Path(os.environ.get("BULKEDGE_STORE") or "bulkedge-store")


class Damaged(Exception):
    """A run file that does not hold what it says."""


class Store:
    """A folder of runs. write=False: it must exist and is not changed.

    Raises BadInput, naming `store`, for a folder that cannot be used.
    """

    def __init__(self, path: Any, *, write: bool = True) -> None:
        self.path = Path(path).expanduser()
        if not write and not (self.path / "store.json").is_file():
            raise BadInput("store", f"there is no store in {str(path)[:200]!r}")
        try:
            if write:
                self._prepare()
            self._check_schema()
        except OSError as error:
            raise unusable(self.path, error) from None

    def _prepare(self) -> None:
        mark = self.path / "store.json"
        self.path.mkdir(parents=True, exist_ok=True)
        if not mark.exists() and any(p.name not in _FOLDERS for p in self.path.iterdir()):
            # A store another process is making just now has its mark by the second look.
            time.sleep(0.2)
            if not mark.exists():
                raise BadInput("store", f"{str(self.path)[:200]!r} is not empty and is not a store")
        for name in _FOLDERS:
            (self.path / name).mkdir(exist_ok=True)
        free = shutil.disk_usage(self.path).free
        if free < LEAST_FREE:
            raise BadInput("store", f"the disk of {str(self.path)[:200]!r} is full: {free / 1e6:.1f} MB are free")
        probe = self.path / "partial" / f"probe.{_own_name()}"
        self.write(probe, b"\0" * 4096)
        probe.unlink(missing_ok=True)
        if not mark.exists():
            self.write(mark, json.dumps({"format": FORMAT, "schema": SCHEMA}).encode())
        self._sweep()

    def _check_schema(self) -> None:
        try:
            mark = json.loads((self.path / "store.json").read_text(encoding="utf-8"))
            known = mark["format"] == FORMAT
            schema = int(mark["schema"])
        except (ValueError, KeyError, TypeError):
            known, schema = False, 0
        if not known:
            raise BadInput("store", f"{str(self.path)[:200]!r} holds a store.json that is not of a bulkedge store")
        while schema in MIGRATIONS and schema < SCHEMA:
            MIGRATIONS[schema](self.path)
            schema += 1
            self.write(self.path / "store.json", json.dumps({"format": FORMAT, "schema": schema}).encode())
        if schema != SCHEMA:
            raise BadInput(
                "store",
                f"{str(self.path)[:200]!r} has schema {schema}; this version reads schema {SCHEMA}: "
                f"use another folder, or the version that wrote it",
            )

    # --- writing ---------------------------------------------------------------------------------------------------

    def put(self, header: Mapping[str, Any], small: Mapping[str, Any], large: Mapping[str, np.ndarray]) -> None:
        """Keep a run. If it is there already, the one that is there stays."""
        target = self._file(header["key"])
        if target.exists():
            return
        target.parent.mkdir(exist_ok=True)
        content = {**header, "result": dict(small), "arrays": None}
        if large:
            stream = io.BytesIO()
            named: dict[str, Any] = {name: np.ascontiguousarray(v) for name, v in large.items()}
            np.savez_compressed(stream, **named)
            content["arrays"] = hashlib.sha256(stream.getvalue()).hexdigest()
            # Named by its content: a writer of the same run on another machine cannot exchange it for other bytes.
            self.write(_arrays(target, content["arrays"]), stream.getvalue())
        text = json.dumps({**content, "digest": digest(content)}, allow_nan=False, sort_keys=True)
        self.write(target, text.encode())
        self._failure(header["key"]).unlink(missing_ok=True)

    def put_failure(self, header: Mapping[str, Any], error: str) -> None:
        """Keep the error of a unit."""
        content = {**header, "error": error[:4000]}
        self.write(self._failure(header["key"]), json.dumps(content, allow_nan=False).encode())

    def remember(self, plan: Mapping[str, Any]) -> None:
        """Keep what was asked for; the file's time is when that was last done."""
        target = self.path / "plans" / f"{plan['key']}.json"
        try:
            self.write(target, json.dumps({**plan, "schema": SCHEMA}, allow_nan=False).encode())
        except OSError as error:
            raise unusable(self.path, error) from None

    def plans(self) -> list[dict[str, Any]]:
        """What was asked for, the last first."""
        found = []
        folder = self.path / "plans"
        for path in folder.glob("*.json") if folder.is_dir() else ():
            with contextlib.suppress(OSError, ValueError):
                found.append((path.stat().st_mtime, path.name, json.loads(path.read_bytes())))
        return [plan for _, _, plan in sorted(found, key=lambda entry: entry[:2], reverse=True)]

    def write(self, target: Path, content: bytes) -> None:
        """Put a file there, whole or not at all."""
        partial = self.path / "partial" / _own_name(next(_count))
        try:
            with open(partial, "xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, target)
        except BaseException:
            with contextlib.suppress(OSError):
                partial.unlink(missing_ok=True)
            raise
        _flush_folder(target.parent)

    def _sweep(self) -> None:
        """Remove what writers that are gone have left half written."""
        here = socket.gethostname()
        for entry in (self.path / "partial").iterdir():
            with contextlib.suppress(OSError):
                host, _, rest = entry.name.removeprefix("probe.").rpartition("@")
                pid = rest.split(".")[0]
                gone = host == here and pid.isdigit() and not _alive(int(pid))
                age = time.time() - entry.stat().st_mtime
                # Two containers may share a host's name and a disk: what is being written now is nobody's to remove.
                if age > _OLD or (gone and age > _RECENT):
                    entry.unlink(missing_ok=True)

    # --- reading ---------------------------------------------------------------------------------------------------

    def keys(self) -> set[str]:
        """The runs that are there."""
        found: set[str] = set()
        runs = self.path / "runs"
        if not runs.is_dir():
            return found
        for folder in os.scandir(runs):
            if folder.is_dir():
                found.update(e.name[:-5] for e in os.scandir(folder.path) if e.name.endswith(".json"))
        return found

    def __contains__(self, key: str) -> bool:
        return self._file(key).exists()

    def header(self, key: str) -> dict[str, Any]:
        """The JSON of a run. Raises Damaged."""
        path = self._file(key)
        try:
            content = json.loads(path.read_bytes())
            claimed = content.pop("digest")
            if claimed != digest(content) or content["key"] != key:
                raise Damaged(f"{path.name} was changed after it was written")
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Damaged(f"{path.name} cannot be read") from None
        if content["schema"] != SCHEMA:
            raise BadInput("store", f"run {key} has schema {content['schema']}, and this version reads {SCHEMA}")
        return content

    def get(self, key: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """A run: its JSON without the result, and the result as arrays. Raises Damaged."""
        content = self.header(key)
        large: dict[str, np.ndarray] = {}
        if content["arrays"]:
            path = _arrays(self._file(key), content["arrays"])
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                raise Damaged(f"{path.name} is missing") from None
            if hashlib.sha256(data).hexdigest() != content["arrays"]:
                raise Damaged(f"{path.name} was changed after it was written")
            with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
                large = {name: arrays[name] for name in arrays.files}
        return content, unpack(content.pop("result"), large)

    def put_aside(self, key: str) -> None:
        """Move a damaged run out of the way, so that it is computed again."""
        folder = self.path / "damaged"
        folder.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            os.replace(self._file(key), folder / f"{key}.{int(time.time())}.json")

    def failures(self) -> Iterator[dict[str, Any]]:
        """Units that failed and have not succeeded since."""
        folder = self.path / "failed"
        for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
            if path.stem in self:
                continue
            try:
                yield json.loads(path.read_bytes())
            except (OSError, ValueError):
                continue

    def forget_failures(self, keys: set[str]) -> None:
        """Before units are tried again."""
        for key in keys:
            self._failure(key).unlink(missing_ok=True)

    def failed(self, key: str) -> bool:
        return self._failure(key).exists()

    def _file(self, key: str) -> Path:
        return self.path / "runs" / key[:2] / f"{key}.json"

    def _failure(self, key: str) -> Path:
        return self.path / "failed" / f"{key}.json"


def unusable(path: Path, error: OSError) -> BadInput:
    """The line for a folder or disk that does not do what is asked."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return BadInput("store", f"the disk of {str(path)[:200]!r} is full; what is stored stays")
    return BadInput("store", f"{str(path)[:200]!r} cannot be used: {error.strerror or error}")


def _arrays(run: Path, checksum: str) -> Path:
    return run.with_name(f"{run.stem}.{checksum[:12]}.npz")


def _own_name(number: int = 0) -> str:
    """A name no other writer has: host, process, and a number."""
    return f"{socket.gethostname()}@{os.getpid()}.{number}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _flush_folder(folder: Path) -> None:
    """Make a rename survive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
