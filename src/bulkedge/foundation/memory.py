"""How much memory there is, and one clear line before it would run out."""

from __future__ import annotations

import os
from pathlib import Path

from bulkedge.foundation.errors import BadInput

_SHARE = 0.92
"""Of what is free: the rest is for the interpreter, compiled programs and whoever else is there."""


def available_bytes() -> int:
    """Memory that can be used without swapping: of the machine, and of the control group where one limits it."""
    return min(_machine(), _control_group())


def require(argument: str, size: float, what: str) -> None:
    """Refuse with the size needed if `size` bytes for `what` are more than there are."""
    free = available_bytes()
    if size > _SHARE * free:
        raise BadInput(argument, f"{what} needs {gigabytes(size)} of memory and {gigabytes(free)} are free")


def gigabytes(size: float) -> str:
    """Such as '12.3 GB', in 10^9 bytes."""
    return f"{size / 1e9:.3g} GB"


def _machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    names = os.sysconf_names
    # Where free memory is not told (macOS), what is installed is the only bound there is.
    pages = "SC_AVPHYS_PAGES" if "SC_AVPHYS_PAGES" in names else "SC_PHYS_PAGES"
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def _control_group() -> int:
    folder = Path("/sys/fs/cgroup")
    try:
        limit = (folder / "memory.max").read_text().strip()
        used = int((folder / "memory.current").read_text())
    except (OSError, ValueError):
        return 1 << 62
    return 1 << 62 if limit == "max" else max(0, int(limit) - used)
