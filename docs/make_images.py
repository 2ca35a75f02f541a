"""Make the pictures of the README: `.venv/bin/python docs/make_images.py`."""

from __future__ import annotations

from pathlib import Path

import bulkedge as be
from bulkedge.cli.demo import PROBLEM, SETTINGS
from bulkedge.show import draw, save

IMAGES = Path(__file__).parent / "images"


def main() -> None:
    """The demo's comparison as one figure."""
    IMAGES.mkdir(exist_ok=True)
    comparison = be.compare(be.Problem(**PROBLEM), **SETTINGS)
    print(save(draw(comparison), IMAGES / "comparison.png", dpi=200))


if __name__ == "__main__":
    main()
