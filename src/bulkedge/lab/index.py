"""A table of the runs of a store, in SQLite: index.sqlite beside them, for questions that should not open every file.

It is a snapshot, made from the run files and exchanged by a rename, never changed in place: there is nothing to lock on
a shared disk, and nothing to lose. Whatever it lacks, or has too much, is put right whenever it is opened; if it is
gone or cannot be read it is made again.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator
from typing import Any

from bulkedge.lab.store import Damaged, Store

NAME = "index.sqlite"
_VERSION = 1
_COLUMNS = ("key", "phenomenon", "part", "role", "version", "parameters", "seed", "seconds", "host", "finished", "code")
_CREATE = f"CREATE TABLE runs ({', '.join(_COLUMNS)}, PRIMARY KEY (key))"
_INSERT = f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' for _ in _COLUMNS)})"


@contextlib.contextmanager
def opened(store: Store) -> Iterator[sqlite3.Connection]:
    """The table `runs` of a store, up to date with its files."""
    with contextlib.closing(_snapshot(store)) as connection:
        known = {key for (key,) in connection.execute("SELECT key FROM runs")}
        there = store.keys()
        gone, new = known - there, there - known
        connection.executemany("DELETE FROM runs WHERE key = ?", [(key,) for key in gone])
        connection.executemany(_INSERT, _entries(store, new))
        connection.commit()
        if gone or new or not (store.path / NAME).exists():
            _save(store, connection)
        yield connection


def summary(store: Store) -> list[dict[str, Any]]:
    """For each phenomenon and part: how many runs there are, and the seconds they took."""
    ask = "SELECT phenomenon, part, COUNT(*), SUM(seconds), MAX(finished) FROM runs GROUP BY 1, 2 ORDER BY 1, 2"
    names = ("phenomenon", "part", "runs", "seconds", "last")
    with opened(store) as connection:
        return [dict(zip(names, row, strict=True)) for row in connection.execute(ask)]


def _snapshot(store: Store) -> sqlite3.Connection:
    """The snapshot, copied into memory; an empty table where there is none that can be used."""
    connection = sqlite3.connect(":memory:")
    try:
        connection.deserialize((store.path / NAME).read_bytes())
        if connection.execute("PRAGMA user_version").fetchone() == (_VERSION,):
            connection.execute("SELECT key FROM runs").fetchall()
            return connection
    except (OSError, sqlite3.DatabaseError):
        pass
    connection.close()
    connection = sqlite3.connect(":memory:")
    connection.execute(_CREATE)
    connection.execute(f"PRAGMA user_version = {_VERSION}")
    return connection


def _entries(store: Store, keys: Iterable[str]) -> Iterator[tuple[Any, ...]]:
    for key in keys:
        try:
            run = store.header(key)
        except (Damaged, FileNotFoundError):
            continue
        texts = {name: json.dumps(run.get(name), sort_keys=True) for name in ("parameters", "code")}
        yield tuple({**run, **texts}.get(name) for name in _COLUMNS)


def _save(store: Store, connection: sqlite3.Connection) -> None:
    """Where the folder cannot be written the table is only in memory, which changes nothing but the time."""
    if os.access(store.path, os.W_OK):
        with contextlib.suppress(OSError):
            store.write(store.path / NAME, connection.serialize())
