"""Clones and branches that become independent while others write, and pins that go or stay."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.counted import counts_of

import lancewood as lw
from lancewood.engine.upkeep import pins as engine_pins
from lancewood.errors import FormatError, InvalidInputError, RetryableConflictError
from lancewood.jobs.runner import LocalRunner
from lancewood.model.transaction import Append

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ROWS = pa.table({"a": [1, 2, 3]})
NOW = timedelta(0)


class Meddler(LocalRunner):
    """Lets somebody else act once the copies are made."""

    def __init__(self, act: Callable[[], object]) -> None:
        super().__init__(1)
        self._act = [act]

    def run(self, *args: Any, **options: Any) -> Iterator[Any]:
        yield from super().run(*args, **options)
        if self._act:
            self._act.pop()()


@pytest.fixture
def source(tmp_path: Path) -> lw.Table:
    """Three fragments, one of them with a deletion file."""
    made = lw.create(tmp_path / "t", ROWS, access=lw.Access(fsync=False)).append(ROWS).append(ROWS)
    return made.delete("_rowid = 4")


@pytest.fixture
def clone(source: lw.Table, tmp_path: Path) -> lw.Table:
    return source.clone(tmp_path / "c")


def pins(uri: str | Path) -> list[str]:
    return sorted(os.listdir(Path(uri, "_refs", "tags")))


def test_a_table_of_its_own_is_left_as_it_is(source: lw.Table) -> None:
    after = source.detach()
    assert after.version == source.version
    assert (
        counts_of(after, lw.DetachCounts).files,
        counts_of(after, lw.DetachCounts).still_pinned,
    ) == (0, ())


def test_what_was_copied_is_told(source: lw.Table, clone: lw.Table) -> None:
    after = clone.detach(message="m", commit=lw.CommitOptions(properties={"p": "q"}))
    assert (
        counts_of(after, lw.DetachCounts).fragments,
        counts_of(after, lw.DetachCounts).files,
    ) == (3, 4)
    inside = [*Path(clone.uri, "data").iterdir(), *Path(clone.uri, "_deletions").iterdir()]
    assert counts_of(after, lw.DetachCounts).bytes == sum(each.stat().st_size for each in inside)
    names = {each.name for each in Path(source.uri, "data").iterdir()}
    assert names.isdisjoint(each.name for each in Path(clone.uri, "data").iterdir())
    assert clone.to_arrow() == after.to_arrow() == source.to_arrow()
    (latest, *_) = after.versions()
    assert (latest.message, latest.properties["p"]) == ("m", "q")


def test_changes_do_not_mention_it(clone: lw.Table) -> None:
    after = clone.detach().append(ROWS)
    changed = after.changes(clone.version)
    assert changed.inserted.to_arrow().num_rows == 3
    assert changed.updated.to_arrow().num_rows == 0


def test_an_old_handle_detaches_what_came_after_it(clone: lw.Table, source: lw.Table) -> None:
    clone.append(ROWS).delete("_rowid = 1")
    after = clone.detach()
    assert after.base_paths == ()
    shutil.rmtree(source.uri)
    assert after.to_arrow()["a"].to_pylist() == [1, 3, 1, 3, 1, 2, 3, 1, 2, 3]


@pytest.mark.usefixtures("pages_decoded_here")
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda t: t.append(ROWS), 11),
        (lambda t: t.delete("_rowid = 1"), 7),
        (lambda t: t.delete("_rowid < 3"), 5),
        (lambda t: t.update({"a": 9}, "_rowid = 1", rewrite="rows"), 8),
        (lambda t: t.update({"a": 9}, "_rowid = 1", rewrite="columns"), 8),
        (lambda t: t.add_columns({"b": "a + 1"}), 8),
        (lambda t: t.rename_column("a", "b"), 8),
        (lambda t: t.compact(), 8),
        (lambda t: t.overwrite(ROWS), 3),
        (lambda t: t.set_config({"x": "y"}), 8),
        (lambda t: t.restore(), 8),
    ],
)
def test_what_others_do_meanwhile_is_kept(
    clone: lw.Table, source: lw.Table, act: Callable[[lw.Table], lw.Table], expected: int
) -> None:
    landed = []
    after = clone.detach(runner=Meddler(lambda: landed.append(act(clone))))
    assert after.base_paths == ()
    assert after.to_arrow() == landed[0].to_arrow()
    shutil.rmtree(source.uri)
    found = lw.open(clone.uri)
    assert found.count_rows() == len(found.to_arrow()) == expected
    assert found.verify(deep=True).problems == ()


def test_a_serializable_one_refuses_if_somebody_wrote(clone: lw.Table) -> None:
    with pytest.raises(RetryableConflictError, match="is serializable"):
        clone.detach(
            runner=Meddler(lambda: clone.append(ROWS)), commit=lw.CommitOptions(serializable=True)
        )
    assert len(clone.latest().base_paths) == 1


def test_what_is_appended_to_a_branch_meanwhile_is_brought_in_as_well(source: lw.Table) -> None:
    branch = source.branches.create("exp").append(ROWS)
    after = branch.detach(runner=Meddler(lambda: branch.append(ROWS)))
    assert after.base_paths == ()
    assert all(file.base_id is None for each in after.fragments for file in each.files)
    assert after.count_rows() == 14
    shutil.rmtree(f"{source.uri}/data")
    assert len(lw.open(branch.uri).to_arrow()) == 14


def test_rows_that_were_written_for_a_home_that_is_gone_are_refused(source: lw.Table) -> None:
    branch = source.branches.create("exp")
    written = branch.write_fragments(ROWS)
    transaction = branch.transaction(Append(written))
    branch.detach()
    with pytest.raises(RetryableConflictError, match="does not declare; run it again"):
        branch.commit(transaction)
    assert branch.latest().append(ROWS).count_rows() == 11


def test_homes_that_hold_no_table_stay_declared(source: lw.Table, tmp_path: Path) -> None:
    cold = source.add_base(tmp_path / "cold", name="cold").move_fragments([0], base="cold")
    clone = cold.clone(tmp_path / "c")
    after = clone.detach()
    assert [each.name for each in after.base_paths] == ["cold"]
    shutil.rmtree(source.uri)
    shutil.rmtree(tmp_path / "cold")
    assert len(lw.open(clone.uri).to_arrow()) == 8


def test_a_failure_leaves_the_old_version_and_no_data_files(
    source: lw.Table, clone: lw.Table
) -> None:
    victim = sorted(Path(source.uri, "data").iterdir())[1]
    victim.write_bytes(victim.read_bytes()[:-1])
    with pytest.raises(FormatError, match="it was not copied"):
        clone.detach()
    assert clone.latest().version == clone.version
    left = Path(clone.uri, "data")
    assert not left.exists() or [*left.iterdir()] == []


@pytest.mark.parametrize("wrong", [{"message": 3}, {"runner": 5}, {"commit": "x"}])
def test_a_wrong_argument_is_refused(clone: lw.Table, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError):
        clone.detach(**wrong)


def test_a_pin_stays_until_no_version_reads_from_the_source(
    source: lw.Table, clone: lw.Table
) -> None:
    clone.tags.create("keep")
    after = clone.detach()
    (kept,) = counts_of(after, lw.DetachCounts).still_pinned
    assert kept.root == source.uri
    assert f"version {clone.version} of {clone.uri} reads from it" in kept.why
    assert after.cleanup(older_than=NOW, in_flight=NOW).unpinned == ()
    assert len(pins(source.uri)) == 1
    clone.tags.delete("keep")
    assert after.cleanup(older_than=NOW, in_flight=NOW, dry_run=True).unpinned == ()
    report = after.cleanup(older_than=NOW, in_flight=NOW)
    assert [each.root for each in report.unpinned] == [source.uri]
    assert pins(source.uri) == []
    shutil.rmtree(source.uri)
    assert counts_of(after.detach(), lw.DetachCounts).still_pinned == ()
    assert lw.open(clone.uri).to_arrow() == after.to_arrow()


def test_a_branch_of_a_clone_keeps_its_pin(source: lw.Table, clone: lw.Table) -> None:
    branch = clone.branches.create("exp")
    after = clone.detach()
    after.cleanup(older_than=NOW, in_flight=NOW)
    assert len(pins(source.uri)) == 1
    gone = branch.detach()
    assert counts_of(gone, lw.DetachCounts).still_pinned != ()
    assert gone.base_paths == ()
    gone.cleanup(older_than=NOW, in_flight=NOW)
    assert len(pins(source.uri)) == 1  # the branch began at a version of main that reads from it
    clone.branches.delete("exp")
    report = after.cleanup(older_than=NOW, in_flight=NOW)
    assert len(report.unpinned) == 1
    assert pins(source.uri) == []


def test_a_source_that_cannot_be_reached_does_not_stop_it(
    source: lw.Table, clone: lw.Table
) -> None:
    after = clone.detach()
    after.cleanup(older_than=NOW, in_flight=timedelta(days=1))
    shutil.rmtree(source.uri)
    Path(source.uri).write_text("not a directory any more")
    again = after.latest().detach()
    assert counts_of(again, lw.DetachCounts).files == 0
    assert again.version == after.version


def test_a_pin_that_cannot_be_removed_is_told(
    source: lw.Table, clone: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    after = clone.detach()

    def refuse(*_: object) -> None:
        raise lw.StorageError("no permission", final=True)

    monkeypatch.setattr(engine_pins, "load_tag", refuse)
    after.cleanup(older_than=NOW, in_flight=NOW)
    told = counts_of(after.latest().detach(), lw.DetachCounts).still_pinned
    assert [each.root for each in told] == [source.uri]
    assert told[0].why.endswith("stays: no permission")


def test_the_pin_of_a_clone_that_was_moved_goes(
    source: lw.Table, clone: lw.Table, tmp_path: Path
) -> None:
    shutil.move(clone.uri, tmp_path / "moved")
    after = lw.open(tmp_path / "moved").detach()
    assert "reads from it" in counts_of(after, lw.DetachCounts).still_pinned[0].why
    report = after.cleanup(older_than=NOW, in_flight=NOW)
    assert [each.root for each in report.unpinned] == [source.uri]
    assert (report.still_pinned, pins(source.uri)) == ((), [])


def test_a_pin_that_may_be_of_another_clone_is_told(
    source: lw.Table, clone: lw.Table, tmp_path: Path
) -> None:
    shutil.copytree(clone.uri, tmp_path / "copy")
    after = lw.open(tmp_path / "copy").detach()
    report = after.cleanup(older_than=NOW, in_flight=NOW)
    for told in (counts_of(after, lw.DetachCounts), report):
        ((root, why),) = told.still_pinned
        assert root == source.uri
        assert why.endswith(f"names the clone at {clone.uri}, where there still is a table")
        assert told.unpinned == ()
    assert len(pins(source.uri)) == 1


def test_a_clone_whose_old_place_cannot_be_looked_at_leaves_its_pin(
    source: lw.Table, clone: lw.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.move(clone.uri, tmp_path / "moved")

    def refuse(*_: object) -> None:
        raise lw.StorageError("no permission", final=True)

    monkeypatch.setattr(engine_pins, "newest_version", refuse)
    (told,) = counts_of(lw.open(tmp_path / "moved").detach(), lw.DetachCounts).still_pinned
    assert told.why.endswith("whether that is still there is not known: no permission")
    assert len(pins(source.uri)) == 1


def test_a_clone_that_came_from_a_disk_that_is_not_here_leaves_its_pin(
    source: lw.Table, tmp_path: Path
) -> None:
    source.clone(tmp_path / "disk" / "c")
    shutil.move(tmp_path / "disk" / "c", tmp_path / "moved")
    (tmp_path / "disk").rmdir()
    with pytest.warns(UserWarning, match="keeps a pin: tag .* cannot be seen from here"):
        lw.drop(tmp_path / "moved")
    assert len(pins(source.uri)) == 1


def test_a_clone_that_is_reached_by_a_link_is_the_same_one(
    source: lw.Table, clone: lw.Table, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(clone.uri)
    after = lw.open(tmp_path / "link").detach()
    assert len(after.cleanup(older_than=NOW, in_flight=NOW).unpinned) == 1
    assert pins(source.uri) == []


@pytest.mark.parametrize("branch", [None, "exp"])
def test_the_pin_at_a_source_that_was_moved_goes(
    source: lw.Table, tmp_path: Path, branch: str | None
) -> None:
    made = source if branch is None else source.branches.create(branch).append(ROWS)
    clone = made.clone(tmp_path / "c").set_config({"x": "y"})
    shutil.move(source.uri, tmp_path / "moved")
    for base in clone.base_paths:
        goal = base.path.replace(source.uri, str(tmp_path / "moved"), 1)
        clone = clone.set_base(base.id, goal)
    assert clone.config["x"] == "y"
    assert len(clone.to_arrow()) == made.count_rows()
    assert "reads from it" in counts_of(clone.detach(), lw.DetachCounts).still_pinned[0].why
    lw.drop(clone.uri)
    assert pins(tmp_path / "moved") == []


def test_a_source_that_was_copied_is_unpinned_at_both_places(
    source: lw.Table, clone: lw.Table, tmp_path: Path
) -> None:
    shutil.copytree(source.uri, tmp_path / "copy")
    clone.set_base(clone.base_paths[0].id, tmp_path / "copy").set_base(
        clone.base_paths[0].id, source.uri
    )
    lw.drop(clone.uri)
    assert pins(source.uri) == pins(tmp_path / "copy") == []
