import os

import pytest

from bulkedge.cli import startup


@pytest.fixture
def environment(monkeypatch, tmp_path):
    """An environment of its own: what is set here does not stay."""
    monkeypatch.setattr(os, "environ", {"XDG_CACHE_HOME": str(tmp_path)})
    return os.environ


@pytest.fixture(autouse=True)
def same_warnings(recwarn):
    """`prepare` filters warnings; the fixture puts the filters back."""
    return recwarn


def test_the_cache_is_in_the_folder_of_the_user(environment, tmp_path):
    folder = startup.prepare()
    assert folder.parent == tmp_path / "bulkedge"
    assert environment["JAX_COMPILATION_CACHE_DIR"] == str(folder)
    assert folder.stat().st_mode & 0o077 == 0


def test_the_setting_of_the_user_stays(environment):
    environment["JAX_COMPILATION_CACHE_DIR"] = "mine"
    assert startup.prepare() is None
    assert environment["JAX_COMPILATION_CACHE_DIR"] == "mine"


def test_no_folder_is_no_failure(environment, tmp_path):
    (tmp_path / "bulkedge").write_text("a file")
    assert startup.prepare() is None
    assert "JAX_COMPILATION_CACHE_DIR" not in environment


def test_a_cache_that_has_grown_starts_afresh(environment, monkeypatch):
    folder = startup.prepare()
    (folder / "entry").write_text("")
    del environment["JAX_COMPILATION_CACHE_DIR"]
    monkeypatch.setattr(startup, "MOST_ENTRIES", 0)
    assert startup.prepare() == folder
    assert list(folder.iterdir()) == []


def test_without_a_setting_the_home_folder_is_used(monkeypatch):
    monkeypatch.setattr(os, "environ", {"HOME": "/home/somebody"})
    monkeypatch.setattr(startup.platform, "system", lambda: "Linux")
    assert str(startup.cache_folder()) == "/home/somebody/.cache/bulkedge"
    monkeypatch.setattr(startup.platform, "system", lambda: "Darwin")
    assert str(startup.cache_folder()) == "/home/somebody/Library/Caches/bulkedge"
