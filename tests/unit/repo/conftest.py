"""A small repository, and no waiting for the disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.repo.rows import rows

import lancewood as lw


@pytest.fixture
def unsynced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


@pytest.fixture
def repo(tmp_path: Path, unsynced: None) -> lw.Repository:
    """Two tables on main, and a branch exp at the same commit."""
    made = lw.Repository.init(tmp_path / "r")
    with made.transaction("main", "begin") as changes:
        changes.create_table("photos", rows(1, 2, 3))
        changes.create_table("labels", rows(1, 2, 3))
    made.branches.create("exp")
    return made
