"""``lancewood.repo``: what other rooms need of repositories, and all that the shell asks for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.test_layers import SRC, imports

import lancewood.repo

CLI = SRC / "cli"
ROOMS = ("cli", "errors", "files", "items", "pipeline", "query")
"""Rooms of which the shell imports modules; of others it imports the face."""
FACES = {"lancewood", "lancewood.repo", "lancewood.spark", "lancewood.table"}


def dug_for(source: str) -> list[str]:
    """What a module of the shell imports past a face."""
    ours = (name for name, _ in imports(source) if name.split(".")[0] == "lancewood")
    return [name for name in ours if name not in FACES and name.split(".")[1] not in ROOMS]


def test_every_name_of_the_face_is_there() -> None:
    assert [each for each in lancewood.repo.__all__ if not hasattr(lancewood.repo, each)] == []


@pytest.mark.parametrize(
    "file",
    [*CLI.glob("repository/*.py"), *CLI.glob("pipeline/*.py"), CLI / "items.py"],
    ids=lambda file: file.relative_to(CLI).as_posix(),
)
def test_the_shell_asks_the_face_alone(file: Path) -> None:
    assert dug_for(file.read_text()) == []


@pytest.mark.parametrize(
    "planted",
    [
        "from lancewood.repo.outcome import Committed",
        "from lancewood.git.hashes import Hash",
        "def f():\n    import lancewood.engine.staging",
    ],
)
def test_what_is_dug_for_is_found(planted: str) -> None:
    assert dug_for(planted)
