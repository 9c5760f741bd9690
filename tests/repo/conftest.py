"""A repository for each test, and the judgement that follows every one of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.repo.judge import judge
from tests.repo.scene import Scene

from lancewood.repo.repository import Repository


@pytest.fixture(autouse=True)
def _me(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada Lovelace")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "repo"


@pytest.fixture(autouse=True)
def judged(path: Path, _me: None) -> Iterator[None]:
    """Stock git judges what the test left at ``path``."""
    if shutil.which("git") is None:
        pytest.skip("stock git is the judge here, and there is none on this machine")
    yield
    if (path / "HEAD").exists():
        judge(path)


@pytest.fixture
def scene(path: Path) -> Scene:
    """Two tables of three rows each, in one commit."""
    scene = Scene(Repository.init(path))
    scene.begin()
    return scene
