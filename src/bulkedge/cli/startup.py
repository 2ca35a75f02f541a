"""What the command sets before JAX starts: a cache of compiled programs, which halves the start of the next command.

Only the command does this, never the library. The cache is in the user's cache folder, apart for every kind of
processor, because a home folder may be shared by machines and compiled programs may not be. A user's own setting of
JAX's cache is left alone; without a folder to write to there is no cache, and nothing else changes.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import warnings
from pathlib import Path

MOST_ENTRIES = 4000
"""About 50 MB; beyond that the cache starts afresh, since JAX lets it grow without end."""


def prepare() -> Path | None:
    """Point JAX to the cache; returns its folder, or None where there is none."""
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return None
    folder = cache_folder() / _processor()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if sum(1 for _ in os.scandir(folder)) > MOST_ENTRIES:
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError:
        return None
    if not os.access(folder, os.W_OK):
        return None
    os.environ["JAX_COMPILATION_CACHE_DIR"] = str(folder)
    # Most programs here compile in milliseconds, and there are many of them.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")
    # An entry another process is writing just now cannot be read: that costs a compilation and no more.
    warnings.filterwarnings("ignore", message="Error (reading|writing) persistent compilation cache entry")
    return folder


def cache_folder() -> Path:
    """The folder of this package's caches, by the rules of the system."""
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "bulkedge"
    home = Path(os.path.expanduser("~"))
    return home / ("Library/Caches" if platform.system() == "Darwin" else ".cache") / "bulkedge"


def _processor() -> str:
    """A short name for what the processor can do."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        able = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        able = platform.processor()
    return f"{platform.machine()}-{hashlib.sha256(able.encode()).hexdigest()[:12]}"
