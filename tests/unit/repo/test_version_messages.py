"""What versions of tables say about the commit of the repository that made them."""

from __future__ import annotations

import lance
import pytest
from tests.unit.repo.rows import rows

import lancewood as lw
from lancewood.errors import StorageError
from lancewood.repo.outcome import NotLandedWarning


def test_versions_carry_the_first_line_of_the_commit_that_made_them(repo: lw.Repository) -> None:
    with repo.transaction("exp", "more photos\n\nof the zoo") as changes:
        photos = changes.table("photos").append(rows(4))
        photos.append(rows(5), message="the last one")
        changes.create_table("cages", rows(1))
    with repo.transaction("main", "new labels") as changes:
        changes.table("labels").append(rows(4))
    repo.merge("exp")
    repo.revert("HEAD")
    repo.cherry_pick("HEAD~1")

    def told(name: str, branch: str | None = None) -> list[str | None]:
        table = lw.open(repo.path / "tables" / f"{name}.lance", branch=branch)
        return [each.message for each in table.versions()][::-1]

    merged = "Merge branch 'exp'"
    assert told("photos", "exp")[1:] == ["more photos", "the last one"]
    assert told("cages", "exp")[1:] == ["more photos"]
    assert told("labels") == ["begin", "new labels"]
    assert told("photos") == ["begin", merged, f'Revert "{merged}"', merged]
    assert told("cages")[1:] == [merged]


def test_a_version_that_another_lands_carries_the_message_too(
    repo: lw.Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise StorageError("away")

    with monkeypatch.context() as patch:
        patch.setattr("lancewood.repo.commit.transaction.land", fail)
        changes = repo.transaction("main", "waits")
        changes.table("photos").append(rows(4))
        with pytest.warns(NotLandedWarning):
            changes.commit()
    lance.write_dataset(rows(9), repo.path / "tables/photos.lance", mode="append")
    with lw.Repository.open(repo.path).transaction("main", "next") as changes:
        changes.table("photos").append(rows(5))
    table = lw.open(repo.path / "tables/photos.lance")
    assert [each.message for each in table.versions()] == ["next", "waits", None, "begin"]
    assert sorted(table.to_arrow()["id"].to_pylist()) == [1, 2, 3, 4, 5, 9]
