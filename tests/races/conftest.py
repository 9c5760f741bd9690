"""Where the races of this folder take place."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.races.held_scene import Scene


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Scene]:
    yield Scene(str(tmp_path / "t"))
    shutil.rmtree(tmp_path)
