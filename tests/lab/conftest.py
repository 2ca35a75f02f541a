import importlib
import os
import sys
from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)


@pytest.fixture(scope="module")
def tiny():
    """The module of small phenomena, under a name that other processes can import too."""
    with pytest.MonkeyPatch.context() as changes:
        changes.syspath_prepend(HERE)
        changes.setenv("PYTHONPATH", os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep))
        yield sys.modules.get("tiny") or importlib.import_module("tiny")


@pytest.fixture
def begun(tmp_path):
    """A folder in which TROUBLED counts how often each unit was begun; call it for the counts."""

    class Begun:
        folder = tmp_path / "begun"

        def __call__(self):
            return {p.name.split("-")[0]: len(p.read_text()) for p in self.folder.iterdir()}

        def __str__(self):
            return str(self.folder)

    Begun.folder.mkdir()
    return Begun()


@pytest.fixture
def installed(tmp_path):
    """The environment of a process in which a package of somebody else's declares its phenomena by entry points."""
    about = tmp_path / "site" / "somebody_elses-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-elses\nVersion: 1.0\n")
    names = {"tiny": "tiny:TINY", "troubled": "tiny:TROUBLED", "lost": "no_such_module:X", "phase-diagram": "tiny:TINY"}
    lines = "".join(f"{name} = {place}\n" for name, place in names.items())
    (about / "entry_points.txt").write_text(f"[bulkedge.phenomena]\n{lines}")
    path = os.pathsep.join(filter(None, [HERE, str(about.parent), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONPATH": path, "COLUMNS": "200"}
