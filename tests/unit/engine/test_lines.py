"""The versions that two states have in common, by what each of them holds."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.manifests import edit_manifest, manifest_path

import lancewood as lw
from lancewood.engine.snapshot import merge_bases, vector_of
from lancewood.errors import NotFoundError
from lancewood.model.ids import Version
from lancewood.model.lines import (
    LINE_KEY,
    MERGED_KEY,
    Reached,
    has_own_ids,
    held_by,
    line_of,
    merged_into,
)
from lancewood.model.transaction import MapUpdate, Transaction, UpdateConfig

_names = count()


def rows(*values: int) -> pa.Table:
    return pa.table({"a": pa.array(values, pa.int64())})


@pytest.fixture
def table() -> lw.Table:
    return lw.create(f"memory://lines/{next(_names)}", rows(1, 2)).append(rows(3))


def merged(ours: lw.Table, theirs: lw.Table) -> lw.Table:
    """Ours after theirs was merged into it, as far as that is recorded."""
    head = ours.latest()._snapshot
    held = merged_into(head.manifest, held_by(theirs._snapshot.manifest))
    change = UpdateConfig(config=MapUpdate({MERGED_KEY: held}))
    return lw.Table(head.commit(Transaction.new(head.manifest.version, change)))


def bases(one: lw.Table, other: lw.Table) -> set[tuple[str | None, int]]:
    found, mirrored = (
        [(each.manifest.branch, int(each.manifest.version)) for each in merge_bases(*sides)]
        for sides in ((one._snapshot, other._snapshot), (other._snapshot, one._snapshot))
    )
    assert len({*found}) == len(found)
    assert {*found} == {*mirrored}
    return {*found}


def test_a_branch_and_its_parent_have_the_fork(table: lw.Table) -> None:
    exp = table.branches.create("exp")
    assert bases(table, exp) == {(None, 2)}
    assert bases(table.append(rows(4)), exp.append(rows(5))) == {(None, 2)}


def test_a_version_and_an_earlier_one_of_its_line_have_the_earlier_one(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(4))
    assert bases(exp, exp.append(rows(5))) == {("exp", 3)}
    assert bases(exp, exp) == {("exp", 3)}


def test_siblings_have_the_older_fork(table: lw.Table) -> None:
    one = table.branches.create("one").append(rows(4))
    other = table.append(rows(5)).branches.create("other").append(rows(6))
    assert bases(one, other) == {(None, 2)}


def test_a_branch_of_a_branch_has_what_it_began_from(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(4))
    child = exp.branches.create("child").append(rows(5))
    assert bases(child, exp.append(rows(6))) == {("exp", 3)}
    assert bases(child, table.append(rows(7))) == {(None, 2)}


def test_after_a_merge_it_is_what_was_merged(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(4))
    main = merged(table.append(rows(5)), exp)
    assert bases(main, exp.append(rows(6))) == {("exp", 3)}
    back = merged(exp.latest(), main)
    assert bases(main.append(rows(7)), back) == {(None, 4)}


def test_two_branches_that_merged_a_third_have_that(table: lw.Table) -> None:
    third = table.branches.create("third").append(rows(4))
    one = merged(table.branches.create("one").append(rows(5)), third)
    other = merged(table.branches.create("other").append(rows(6)), third.append(rows(7)))
    assert bases(one, other) == {("third", 3)}


def test_two_that_were_merged_crosswise_have_two(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(4))
    main = table.append(rows(5))
    ours, theirs = merged(main, exp), merged(exp, main)
    assert bases(ours.append(rows(6)), theirs) == {(None, 3), ("exp", 3)}


def test_a_reset_branch_has_its_new_fork(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(4))
    main = merged(table.append(rows(5)), exp)
    again = main.branches.reset("exp", force=True).append(rows(6))
    assert bases(main, again) == {(None, 4)}
    assert bases(exp, again) == {("exp", 3)}, "main had merged it"
    child = exp.branches.create("child", 3)
    assert bases(child, again) == {("exp", 3)}


def test_a_renamed_branch_is_found(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(4))
    main = merged(table.append(rows(5)), exp)
    renamed = table.branches.rename("exp", "new")
    assert line_of(renamed._snapshot.manifest).uuid == line_of(exp._snapshot.manifest).uuid
    assert bases(main, renamed.append(rows(6))) == {("new", 3)}


def test_a_branch_whose_name_was_used_before_is_another_line(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(4))
    main = merged(table.append(rows(5)), exp)
    table.branches.delete("exp")
    again = main.branches.create("exp", 2).append(rows(6))
    assert bases(main, again) == {(None, 2)}


def test_what_is_merged_and_gone_matters_only_if_nothing_later_holds_it(table: lw.Table) -> None:
    exp = table.branches.create("exp").append(rows(4))
    main = merged(table.append(rows(5)), exp)
    other = merged(table.branches.create("other", 2).append(rows(6)), exp)
    fresh = main.branches.create("fresh").append(rows(7))
    table.branches.delete("exp")
    assert bases(main.append(rows(8)), fresh) == {(None, 4)}
    with pytest.raises(NotFoundError, match=r"version 3 of branch 'exp' of .* is gone"):
        merge_bases(main._snapshot, other._snapshot)


def test_a_base_that_was_cleaned_up_is_named(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", rows(1)).append(rows(2))
    exp = table.branches.create("exp").append(rows(3))
    main = table.append(rows(4))
    manifest_path(tmp_path / "t", 2).unlink()
    with pytest.raises(NotFoundError, match=r"version 2 of main of .* is gone"):
        merge_bases(main._snapshot, exp._snapshot)


def pylance_branch(uri: Path, name: str, at: tuple[str | None, int]) -> lw.Table:
    lance.dataset(str(uri)).checkout_version(at).create_branch(name)
    return lw.open(uri, branch=name)


def test_a_branch_that_pylance_made_has_the_version_it_was_made_from(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    table = lw.create(uri, rows(1)).append(rows(2))
    theirs = pylance_branch(uri, "theirs", (None, 2)).append(rows(3))
    assert not has_own_ids(theirs._snapshot.manifest)
    assert bases(theirs, table.append(rows(4))) == {(None, 2)}
    exp = table.branches.create("exp").append(rows(5))
    child = pylance_branch(uri, "child", ("exp", 3)).append(rows(6))
    assert line_of(child._snapshot.manifest).id == "/child"
    assert bases(child, exp.append(rows(7))) == {("exp", 3)}
    assert bases(child, table.latest()) == {(None, 2)}
    ours = child.branches.create("ours").append(rows(8))
    assert not has_own_ids(ours._snapshot.manifest), "its rows share ids with others"
    assert vector_of(ours._snapshot)["/child"] == Reached(Version(4), "child")
    assert bases(ours, child.append(rows(9))) == {("child", 4)}
    assert bases(ours, exp.latest()) == {("exp", 3)}


def test_another_life_of_a_branch_that_pylance_made_is_no_base(tmp_path: Path) -> None:
    uri = tmp_path / "t"
    table = lw.create(uri, rows(1)).append(rows(2))
    theirs = pylance_branch(uri, "theirs", (None, 1)).append(rows(3))
    theirs.branches.create("ours").append(rows(4))
    edit = {MERGED_KEY: "main:1:main /theirs:2:theirs"}
    edit_manifest(f"{uri}/tree/ours", lambda message: message.config.update(edit))
    again = table.branches.reset("theirs", force=True)
    edit_manifest(f"{uri}/tree/theirs", lambda message: message.config.update({LINE_KEY: ""}))
    found = merge_bases(lw.open(uri, branch="ours")._snapshot, again.latest()._snapshot)
    assert [each.manifest.branch for each in found] == [None]
