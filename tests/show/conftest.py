import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def made():
    """The module of answers made by hand."""
    spec = importlib.util.spec_from_file_location("handmade", Path(__file__).parents[1] / "handmade.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
