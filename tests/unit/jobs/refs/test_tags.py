"""Tags: made, moved, listed and deleted; guards and hostile arguments."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.format.refs import encode_tag
from lancewood.jobs.refs import tags as tags_module

ROWS = pa.table({"a": [1, 2, 3]})


@pytest.fixture
def table(tmp_path: Path) -> lw.Table:
    """Three versions."""
    made = lw.create(tmp_path / "t.lance", ROWS, access=lw.Access(fsync=False))
    return made.append(ROWS).append(ROWS)


def record(table: lw.Table, name: str) -> dict[str, Any]:
    found = (Path(table.uri) / "_refs" / "tags" / f"{name}.json").read_text()
    decoded: dict[str, Any] = json.loads(found)
    return decoded


def test_a_tag_is_on_the_version_of_the_handle_unless_another_is_asked_for(
    table: lw.Table,
) -> None:
    old = table.checkout(version=2)
    assert old.tags.create("here").version == 2
    assert old.tags.create("first", 1).version == 1
    assert old.tags.create("newest", "main:").version == 3
    assert old.tags.create("again", "first").version == 1
    assert old.tags.create("then", datetime.now(UTC)).version == 3
    assert {name: tag.version for name, tag in table.tags.list().items()} == {
        "again": 1,
        "first": 1,
        "here": 2,
        "newest": 3,
        "then": 3,
    }


def test_a_tag_on_a_branch_is_kept_in_the_main_root(table: lw.Table) -> None:
    branch = table.branches.create("exp").append(ROWS)
    tag = branch.tags.create("b")
    assert (tag.branch, tag.version) == ("exp", 4)
    assert table.tags.get("b") == tag
    assert table.tags.create("inherited", "exp:3").branch == "exp"
    assert table.checkout(tag="b").count_rows() == 12
    assert branch.tags.create("on-main", ":1").branch is None


def test_the_record_has_both_spellings_and_the_size_of_the_manifest(table: lw.Table) -> None:
    table.tags.create("v1", metadata={"by": "me"})
    found = record(table, "v1")
    (manifest,) = (Path(table.uri) / "_versions").glob(f"{2**64 - 1 - 3:020d}.manifest")
    assert found["manifestSize"] == found["manifest_size"] == manifest.stat().st_size
    assert found["version"] == 3
    assert found["branch"] is None
    assert found["metadata"] == {"by": "me"}
    assert found["createdAt"] == found["updatedAt"]


def test_a_second_tag_of_the_same_name_is_refused(table: lw.Table) -> None:
    first = table.tags.create("v1", 1)
    with pytest.raises(lw.AlreadyExistsError, match=r"tag 'v1' of .* exists already; update moves"):
        table.tags.create("v1", 2)
    assert table.tags.get("v1") == first


@pytest.mark.parametrize("at", [0, -1, 4, 2**64, True, 1.5, "nothing", "main:9", "a b", object()])
def test_a_version_that_is_not_there_is_refused_before_anything_is_written(
    table: lw.Table, at: Any
) -> None:
    table.tags.create("v1", 1)
    with pytest.raises((lw.NotFoundError, lw.InvalidInputError)):
        table.tags.create("v2", at)
    with pytest.raises((lw.NotFoundError, lw.InvalidInputError)):
        table.tags.update("v1", at)
    assert {name: tag.version for name, tag in table.tags.list().items()} == {"v1": 1}


@pytest.mark.parametrize("metadata", [{"a": 1}, {1: "a"}, "text", [("a", "b")], {"a": "x" * 2**23}])
def test_metadata_that_is_no_mapping_of_texts_is_refused(table: lw.Table, metadata: Any) -> None:
    with pytest.raises(lw.InvalidInputError):
        table.tags.create("v1", metadata=metadata)
    with pytest.raises(lw.InvalidInputError):
        table.branches.create("b", metadata=metadata)
    assert not table.tags.list()
    assert not table.branches.list()
    assert not (Path(table.uri) / "tree").exists()


def test_a_detached_version_is_not_tagged(table: lw.Table) -> None:
    from lancewood.engine.commit.commit import CommitPolicy
    from lancewood.engine.commit.publish import Detached
    from lancewood.model.transaction import UpdateConfig

    policy = CommitPolicy(publisher=Detached())
    aside = table._snapshot.commit(table.transaction(UpdateConfig()), policy)
    with pytest.raises(lw.InvalidInputError, match="is detached, and a tag would not keep"):
        table.tags.create("v1", aside.manifest.version)
    with pytest.raises(lw.InvalidInputError, match="is detached, and a branch"):
        lw.Table(aside).branches.create("b")


def test_update_keeps_when_it_was_created_its_metadata_and_what_it_does_not_know(
    table: lw.Table,
) -> None:
    table.tags.create("v1", 1, metadata={"by": "me"})
    file = Path(table.uri) / "_refs" / "tags" / "v1.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "newer": {"x": [1]}}))
    before = table.tags.get("v1")
    moved = table.tags.update("v1", 2)
    assert moved == table.tags.get("v1")
    assert (moved.version, moved.metadata) == (2, {"by": "me"})
    assert moved.created_at_ns == before.created_at_ns
    assert (moved.updated_at_ns or 0) > (before.updated_at_ns or 0)
    assert record(table, "v1")["newer"] == {"x": [1]}


def test_update_of_a_record_in_the_seeds_spelling_writes_both(table: lw.Table) -> None:
    directory = Path(table.uri) / "_refs" / "tags"
    directory.mkdir(parents=True)
    (directory / "v1.json").write_text('{"version": 1, "manifest_size": 7}')
    assert table.tags.get("v1").version == 1
    assert table.checkout(tag="v1").count_rows() == 3
    table.tags.update("v1")
    assert record(table, "v1")["manifestSize"] > 7


def test_what_is_not_there_is_not_found(table: lw.Table) -> None:
    for act in (
        lambda: table.tags.get("nope"),
        lambda: table.tags.update("nope", 1),
        lambda: table.tags.delete("nope"),
    ):
        with pytest.raises(lw.NotFoundError, match=r"tag 'nope' of .* not found"):
            act()


def test_a_deleted_tag_is_gone_and_may_be_made_again(table: lw.Table) -> None:
    table.tags.create("v1", 1)
    table.tags.delete("v1")
    assert table.tags.list() == {}
    assert table.tags.create("v1", 2).version == 2


def test_a_damaged_tag_is_named_by_a_listing_and_can_be_deleted(table: lw.Table) -> None:
    table.tags.create("good", 1)
    (Path(table.uri) / "_refs" / "tags" / "bad.json").write_text("{")
    with pytest.raises(lw.FormatError, match=r"bad\.json"):
        table.tags.list()
    table.tags.delete("bad")
    assert list(table.tags.list()) == ["good"]


@pytest.mark.parametrize("name", ["lw.clone.0123", "lw.publish.abc"])
def test_guards_are_not_listed_nor_made_nor_removed_by_hand(table: lw.Table, name: str) -> None:
    for act in (lambda: table.tags.create(name), lambda: table.tags.delete(name)):
        with pytest.raises(lw.InvalidInputError, match="force=True does it all the same"):
            act()
    table.tags.create(name, force=True)
    with pytest.raises(lw.InvalidInputError, match="cannot be moved"):
        table.tags.update(name, 1)
    assert table.tags.list() == {}
    assert list(table.tags.list(pins=True)) == [name]
    table.tags.delete(name, force=True)
    assert table.tags.list(pins=True) == {}


def test_a_version_that_is_cleaned_up_while_it_is_tagged_leaves_no_tag(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cleanup passes between the look at the version and the tag."""
    table.tags.create("moving", 1)
    manifest = Path(table.uri) / "_versions" / f"{2**64 - 1 - 2:020d}.manifest"
    kept = manifest.read_bytes()

    def meanwhile(before: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **more: Any) -> Any:
            manifest.unlink()
            return before(*arguments, **more)

        return wrapped

    for name, verb in (("encode_tag", "create"), ("encode_tag", "update")):
        manifest.write_bytes(kept)
        with monkeypatch.context() as patch:
            patch.setattr(tags_module, name, meanwhile(encode_tag))
            with pytest.raises(lw.NotFoundError, match="version 2 of main was cleaned up"):
                getattr(table.tags, verb)("new" if verb == "create" else "moving", 2)
    assert {name: tag.version for name, tag in table.tags.list().items()} == {"moving": 1}


def test_an_update_beside_another_one_is_the_later_one(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.tags.create("v1", 1)
    raced: list[bool] = []

    def race(tag: Any) -> bytes:
        if not raced:
            raced.append(True)
            table.tags.update("v1", 3)
        return encode_tag(tag)

    monkeypatch.setattr(tags_module, "encode_tag", race)
    assert table.tags.update("v1", 2).version == 2
    assert table.tags.get("v1").version == 2


def test_an_update_that_never_wins_says_so(
    table: lw.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.tags.create("v1", 1)
    file = Path(table.uri) / "_refs" / "tags" / "v1.json"

    def lose(tag: Any) -> bytes:
        file.write_bytes(file.read_bytes() + b" ")
        return encode_tag(tag)

    monkeypatch.setattr(tags_module, "encode_tag", lose)
    with pytest.raises(lw.RetryableConflictError, match="was changed by others 10 times"):
        table.tags.update("v1", 2)
    assert table.tags.get("v1").version == 1
