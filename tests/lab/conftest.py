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
