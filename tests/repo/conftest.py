"""A repository for each test, and the judgement that follows every one of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from zlib import crc32

import pytest
from tests.breadth import daily
from tests.repo.judge import judge
from tests.repo.locations import DISK, PATIENCE, Where, is_for_campaigns, is_in_a_bucket
from tests.repo.scene import Scene

from lancewood.errors import NotFoundError
from lancewood.git.repository import open_git
from lancewood.repo.repository import Repository

PARTS = daily(6, of=1)
"""After one of so many tests git works on with what it finds, always after the same ones."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = [each for each in items if is_for_campaigns(each)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [each for each in items if not is_for_campaigns(each)]
    for each in items:
        if is_in_a_bucket(each):
            each.add_marker(pytest.mark.timeout(PATIENCE))


@pytest.fixture(autouse=True)
def _me(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Ada Lovelace")
    monkeypatch.setenv("GIT_AUTHOR_EMAIL", "ada@example.org")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "repo"


@pytest.fixture
def kind(request: pytest.FixtureRequest) -> str:
    """Where the repository is; ``tests.repo.locations`` has the marks that ask for others."""
    return str(getattr(request, "param", DISK))


@pytest.fixture
def where(kind: str, path: Path, request: pytest.FixtureRequest) -> Where:
    if kind == DISK:
        return Where(path)
    root = request.getfixturevalue("s3_root")
    return Where(f"{root}/repo", request.getfixturevalue("s3_options"))


@pytest.fixture(autouse=True)
def judged(path: Path, _me: None, where: Where, request: pytest.FixtureRequest) -> Iterator[None]:
    """Stock git judges what the test left at ``path``, or a download of what it left in a bucket;
    of that the logs are folded first, as gc does it."""
    if shutil.which("git") is None:
        pytest.skip("stock git is the judge here, and there is none on this machine")
    yield
    if not where.is_on_disk:
        with suppress(NotFoundError):
            open_git(where.root, storage_options=where.options).tidy()
        where.download(path)
    if (path / "HEAD").exists():
        judge(path, works_on=crc32(request.node.name.encode()) % PARTS == 0)


@pytest.fixture
def scene(where: Where) -> Scene:
    """Two tables of three rows each, in one commit."""
    scene = Scene(Repository.init(where.root, storage_options=where.options), where)
    scene.begin()
    return scene
