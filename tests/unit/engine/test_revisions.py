"""From what a caller says to a version: numbers, moments, branches, tags, uris with an ``@``."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.engine.snapshot import Address
from lancewood.engine.snapshot.revisions import (
    Uri,
    branch_location,
    main_location,
    open_revision,
    resolve,
)
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.write.cloning import write_clone
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.format.layout import TREE_DIR
from lancewood.format.refs import branch_key, encode_branch, encode_tag, tag_key
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, Tag, TagName
from lancewood.store.locate import open_store
from lancewood.testing.faults import FaultyStore

ROWS = pa.table({"a": pa.array(range(10), pa.int64())})
_names = count()


def branched(source: Snapshot, name: str) -> Snapshot:
    """A branch of the source's version, recorded in the main root."""
    main = main_location(source)
    branch, head = BranchName(name), source.manifest
    made = write_clone(source, branch_location(main, branch), branch=branch)
    parent = None if head.branch is None else BranchName(head.branch)
    record = Branch(
        name=branch,
        parent_branch=parent,
        parent_version=head.version,
        created_at_seconds=1,
        manifest_size=7,
    )
    main.store.put(branch_key(branch), encode_branch(record))
    return made


def tagged(source: Snapshot, name: str, version: int | None = None) -> None:
    head = source.manifest
    tag = Tag(
        name=TagName(name),
        branch=None if head.branch is None else BranchName(head.branch),
        version=head.version if version is None else Version(version),
        manifest_size=3,
    )
    main_location(source).store.put(tag_key(tag.name), encode_tag(tag))


@pytest.fixture(params=["memory", "disk"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "disk":
        return str(tmp_path / "t.lance")
    return f"memory://revisions/{next(_names)}.lance"


@pytest.fixture
def main(uri: str) -> Snapshot:
    """Version 3; branch ``exp`` left version 2 and has version 3, branch ``exp/deep`` left that."""
    table = lw.create(uri, ROWS).append(ROWS)
    exp = lw.Table(branched(table._snapshot, "exp")).append(ROWS.slice(0, 1))
    branched(exp._snapshot, "exp/deep")
    tagged(table._snapshot, "v1", 1)
    tagged(exp._snapshot, "good")
    return table.append(ROWS)._snapshot


def where(found: Snapshot) -> tuple[str | None, int]:
    return found.manifest.branch, found.manifest.version


ON_MAIN = [
    (None, (None, 3)),
    (2, (None, 2)),
    (":2", (None, 2)),
    ("main", (None, 3)),
    ("main:1", (None, 1)),
    (":", (None, 3)),
    ("exp", ("exp", 3)),
    ("exp:", ("exp", 3)),
    ("exp:2", ("exp", 2)),
    ("exp/deep", ("exp/deep", 3)),
    ("exp/deep:3", ("exp/deep", 3)),
    ("v1", (None, 1)),
    ("tag:v1", (None, 1)),
    ("good", ("exp", 3)),
]


@pytest.mark.parametrize(("at", "meant"), ON_MAIN)
def test_at_is_resolved_from_main(main: Snapshot, at: Any, meant: tuple[str | None, int]) -> None:
    assert where(resolve(main, at)) == meant


@pytest.mark.parametrize(("at", "meant"), [each for each in ON_MAIN if isinstance(each[0], str)])
def test_a_text_means_the_same_from_a_branch_of_a_branch(
    main: Snapshot, at: str, meant: tuple[str | None, int]
) -> None:
    deep = resolve(main, "exp/deep")
    assert where(resolve(deep, at)) == meant
    assert where(resolve(pickle.loads(pickle.dumps(deep)), at)) == meant


def test_a_number_and_a_moment_are_looked_up_on_the_branch_at_hand(main: Snapshot) -> None:
    exp = resolve(main, "exp")
    assert where(resolve(exp, 2)) == ("exp", 2)
    assert where(resolve(exp, datetime.now(UTC) + timedelta(hours=1))) == ("exp", 3)
    assert resolve(exp, None) is exp
    first = resolve(exp, 2).manifest.timestamp
    assert where(resolve(exp, first)) == ("exp", 2)
    assert where(open_revision(main.location, branch="exp", as_of=first)) == ("exp", 2)
    with pytest.raises(NotFoundError, match="the oldest is of"):
        resolve(exp, first - timedelta(days=1))


def test_a_version_before_the_fork_is_pointed_to(main: Snapshot) -> None:
    exp = resolve(main, "exp")
    looks: list[Callable[[], object]] = [
        lambda: resolve(exp, 1),
        lambda: resolve(main, "exp:1"),
        lambda: open_revision(main.location, branch="exp", version=1),
    ]
    for look in looks:
        with pytest.raises(NotFoundError, match="left main at version 2: ask for 'main:1'"):
            look()
    with pytest.raises(NotFoundError, match="left branch 'exp' at version 3: ask for 'exp:2'"):
        resolve(main, "exp/deep:2")
    with pytest.raises(NotFoundError, match=r"the newest is 3$"):
        resolve(exp, 9)


def test_a_damaged_record_does_not_keep_a_branch_from_opening(main: Snapshot) -> None:
    main.location.store.put(branch_key(BranchName("exp")), b"{")
    assert where(resolve(main, "exp:")) == ("exp", 3)
    with pytest.raises(NotFoundError, match=r"the newest is 3$"):
        resolve(main, "exp:1")


def test_digits_are_a_tag_and_never_a_version(main: Snapshot) -> None:
    with pytest.raises(NotFoundError, match=r"no tag or branch called '2'.*the number 2.*':2'"):
        resolve(main, "2")
    tagged(resolve(main, 1), "2")
    assert where(resolve(main, "2")) == (None, 1)


def test_a_name_that_is_both_a_branch_and_a_tag_is_refused_with_both_spellings(
    main: Snapshot,
) -> None:
    tagged(resolve(main, 1), "exp")
    with pytest.raises(InvalidInputError, match="'exp:' for the branch, 'tag:exp' for the tag"):
        resolve(main, "exp")
    assert where(resolve(main, "exp:")) == ("exp", 3)
    assert where(resolve(main, "tag:exp")) == (None, 1)
    tagged(resolve(main, 2), "main")
    with pytest.raises(InvalidInputError, match="'main:' for the branch"):
        resolve(main, "main")
    assert where(resolve(main, "tag:main")) == (None, 2)


def test_a_branch_called_tag_is_reached_by_its_own_words(main: Snapshot) -> None:
    branched(main, "tag")
    assert where(resolve(main, "tag:")) == ("tag", 3)
    assert where(open_revision(main.location, branch="tag", version=3)) == ("tag", 3)
    with pytest.raises(NotFoundError, match="give branch='tag', version=3"):
        resolve(main, "tag:3")


def test_what_is_not_there_is_told_with_what_is(main: Snapshot) -> None:
    with pytest.raises(NotFoundError, match=r"branch 'exq' .*not found: there are branches 'exp'"):
        open_revision(main.location, branch="exq")
    with pytest.raises(NotFoundError, match=r"tag 'v2' .*not found: there are tags 'good', 'v1'"):
        open_revision(main.location, tag="v2")
    with pytest.raises(NotFoundError, match=r"called 'zzz': there are branches .*, .* tags "):
        resolve(main, "zzz")


def test_a_table_without_refs_says_so(uri: str) -> None:
    bare = lw.create(uri, ROWS)._snapshot
    with pytest.raises(NotFoundError, match=r"there is no branch$"):
        open_revision(bare.location, branch="x")
    with pytest.raises(NotFoundError, match=r"there is no branch, there is no tag$"):
        resolve(bare, "x")


@pytest.mark.parametrize("asked", [{"branch": "x"}, {"tag": "x"}, {"at": "x"}, {"at": "x:1"}])
def test_where_there_is_no_table_no_name_is_looked_for(uri: str, asked: dict[str, Any]) -> None:
    with pytest.raises(NotFoundError, match="no table at"):
        lw.open(uri, **asked)


def test_a_tag_on_what_is_gone_says_what_to_do(main: Snapshot) -> None:
    tagged(resolve(main, "exp"), "lost", 77)
    with pytest.raises(
        NotFoundError, match=r"tag 'lost' .*version 77 of branch 'exp', which is gone.*Move the tag"
    ):
        resolve(main, "lost")
    gone = Tag(name=TagName("gone"), branch=BranchName("no"), version=Version(1), manifest_size=1)
    main.location.store.put(tag_key(gone.name), encode_tag(gone))
    with pytest.raises(NotFoundError, match="version 1 of branch 'no', which is gone"):
        open_revision(main.location, tag="gone")


def test_a_branch_whose_files_are_gone_says_what_to_do(main: Snapshot) -> None:
    store = main.location.store
    store.delete(each.key for each in list(store.list(f"{TREE_DIR}/exp/deep")))
    with pytest.raises(NotFoundError, match=r"is recorded, but its root .* holds no version"):
        resolve(main, "exp/deep:")


def test_a_branch_that_was_never_recorded_is_told_from_one_that_is_not_there(
    main: Snapshot,
) -> None:
    main.location.store.delete([branch_key(BranchName("exp/deep"))])
    with pytest.raises(
        NotFoundError, match=r"is not recorded, but .*/tree/exp/deep holds versions"
    ):
        open_revision(main.location, branch="exp/deep")
    assert lw.open(f"{main.location.uri}/tree/exp/deep").branch == "exp/deep"


def test_a_branch_root_opens_as_a_path_and_finds_the_refs(main: Snapshot, uri: str) -> None:
    exp = lw.open(f"{uri}/tree/exp")
    assert (exp.branch, exp.version) == ("exp", 3)
    assert lw.open(f"{uri}/tree/exp", version=2).version == 2
    assert lw.open(f"{uri}/tree/exp", tag="v1").branch is None
    assert lw.open(f"{uri}/tree/exp", branch="main").version == 3
    assert lw.open(f"{uri}/tree/exp", branch="exp/deep").branch == "exp/deep"
    assert exp.checkout(branch="main").uri == lw.open(uri).uri
    assert exp.uri == lw.open(uri, branch="exp").uri


def test_a_branch_that_was_brought_elsewhere_opens_but_has_no_refs(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", ROWS)
    branched(table._snapshot, "exp")
    (tmp_path / "t/tree/exp").rename(tmp_path / "x")
    brought = lw.open(tmp_path / "x")
    assert brought.branch == "exp"
    assert brought.checkout(version=1).version == 1
    assert brought.latest().version == 1
    asked: list[dict[str, Any]] = [{"tag": "v1"}, {"at": "main"}, {"branch": "main"}]
    for each in asked:
        with pytest.raises(InvalidInputError, match="does not lie at tree/exp below a main root"):
            brought.checkout(**each)


def test_a_table_below_some_directory_called_tree_is_no_branch(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "tree/t", ROWS)
    branched(table._snapshot, "exp")
    assert lw.open(tmp_path / "tree/t", branch="exp").branch == "exp"
    assert lw.open(str(tmp_path / "tree/t") + "@exp").checkout(branch="main").branch is None


CONTRADICTIONS = [
    ({"version": 1, "tag": "v1"}, "version= and tag= each say"),
    ({"version": 1, "at": 1}, "version= and at= each say"),
    ({"as_of": datetime.now(UTC), "at": "exp"}, "as_of= and at= each say"),
    ({"branch": "exp", "tag": "v1"}, "tag= says which branch is meant"),
    ({"branch": "exp", "at": 1}, "at= says which branch is meant"),
    ({"branch": "exp", "version": 1, "as_of": datetime.now(UTC)}, "version= and as_of= each say"),
]


@pytest.mark.parametrize(("asked", "why"), CONTRADICTIONS)
def test_a_version_is_said_in_one_way(main: Snapshot, asked: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInputError, match=why):
        lw.open(main.location.uri, **asked)
    with pytest.raises(InvalidInputError, match=why):
        lw.Table(main).checkout(**asked)


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"at": 0}, "at takes a version number"),
        ({"at": True}, "at takes a version number"),
        ({"at": 1.5}, "at takes a version number"),
        ({"at": b"x"}, "at takes a version number"),
        ({"at": ""}, "the revision is empty"),
        ({"branch": 7}, "a branch name is a text"),
        ({"branch": ""}, "it is empty"),
        ({"branch": "a//b"}, "contains '//'"),
        ({"branch": "../x"}, "contains '..'"),
        ({"tag": "a/b"}, "contains '/'"),
        ({"tag": 1}, "a tag name is a text"),
    ],
)
def test_what_cannot_be_a_revision_is_refused(
    main: Snapshot, asked: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidInputError, match=why):
        lw.open(main.location.uri, **asked)
    with pytest.raises(InvalidInputError, match=why):
        lw.Table(main).checkout(**asked)


@pytest.mark.parametrize(("at", "meant"), [each for each in ON_MAIN if isinstance(each[0], str)])
def test_a_uri_carries_a_revision(
    main: Snapshot, uri: str, at: str, meant: tuple[str | None, int]
) -> None:
    assert where(lw.open(f"{uri}@{at}")._snapshot) == meant
    assert lw.exists(f"{uri}@{at}")


def test_a_uri_with_a_slash_before_its_revision_is_the_same(main: Snapshot, uri: str) -> None:
    assert lw.open(f"{uri}/@exp").branch == "exp"


def test_a_uri_whose_revision_is_longer_than_a_file_name_is_parted(tmp_path: Path) -> None:
    root, name = tmp_path / f"{'long' * 20}.lance", "b" * 200
    lw.create(root, ROWS).branches.create(name)
    assert lw.open(f"{root}@{name}").branch == name
    assert not lw.exists(f"{root}@{name * 3}")


def test_a_uri_that_is_itself_a_table_wins(tmp_path: Path) -> None:
    root = tmp_path / "u.lance"
    lw.create(root, ROWS)
    lw.create(Path(f"{root}@exp"), ROWS.slice(0, 3))
    branched(lw.open(root)._snapshot, "exp")
    assert lw.open(f"{root}@exp").count_rows() == 3
    assert lw.open(f"{root}@exp:").count_rows() == 10


def test_a_uri_is_parted_at_the_first_at_sign_after_a_table(tmp_path: Path) -> None:
    root = str(tmp_path / "a@b" / "t@c")
    table = lw.create(root, ROWS)
    branched(table._snapshot, "exp")
    assert lw.open(root).branch is None
    assert lw.open(f"{root}@exp").branch == "exp"
    with pytest.raises(InvalidInputError, match="contains '@'"):
        lw.open(f"{root}@exp@1")
    with pytest.raises(NotFoundError, match=r"no table at .*/a@b/u@exp: it has no"):
        lw.open(str(tmp_path / "a@b" / "u@exp"))


def test_a_path_never_carries_a_revision(tmp_path: Path) -> None:
    table = lw.create(tmp_path / "t", ROWS)
    branched(table._snapshot, "exp")
    with pytest.raises(NotFoundError, match=r"no table at .*t@exp"):
        lw.open(tmp_path / "t@exp")
    assert not lw.exists(tmp_path / "t@exp")
    assert lw.create(tmp_path / "t@exp", ROWS).branch is None


def test_a_uri_with_a_revision_and_another_wish_is_refused(main: Snapshot, uri: str) -> None:
    with pytest.raises(InvalidInputError, match="carries the revision 'exp', and version= says"):
        lw.open(f"{uri}@exp", version=1)
    with pytest.raises(InvalidInputError, match="and branch= says one, too"):
        lw.open(f"{uri}@exp", branch="exp")


def test_a_revision_that_is_not_there_does_not_exist(main: Snapshot, uri: str) -> None:
    for each in ("zzz", "exp:77", ":77", "tag:zzz", "7"):
        assert not lw.exists(f"{uri}@{each}")
    assert not lw.exists(f"{uri}x@exp")
    tagged(main, "exp")
    with pytest.raises(InvalidInputError, match="a branch and a tag"):
        lw.exists(f"{uri}@exp")


def test_a_damaged_version_exists(main: Snapshot, uri: str) -> None:
    exp = resolve(main, "exp")
    newest = exp.manifest.name.removeprefix(f"{exp.location.uri}/")
    exp.location.store.put(newest, b"not a manifest")
    assert lw.exists(f"{uri}@exp")


@pytest.mark.parametrize(
    "verb",
    [
        lambda uri: lw.create(uri, ROWS),
        lw.drop,
        lw.migrate_names,
        lw.repair,
    ],
    ids=["create", "drop", "migrate_names", "repair"],
)
def test_verbs_on_whole_tables_refuse_a_revision(
    main: Snapshot, uri: str, verb: Callable[[str], object]
) -> None:
    before = sorted(each.key for each in main.location.store.list())
    with pytest.raises(InvalidInputError, match=r"takes a whole table, and .* is revision 'new'"):
        verb(f"{uri}@new")
    assert sorted(each.key for each in main.location.store.list()) == before


def test_a_table_may_have_an_at_sign_in_its_name(tmp_path: Path) -> None:
    uri = str(tmp_path / "mail@home.lance")
    lw.create(uri, ROWS)
    assert lw.open(uri).count_rows() == 10
    assert lw.exists(uri)
    lw.drop(uri)
    assert not lw.exists(uri)


def test_an_at_sign_costs_one_listing_and_nothing_else_costs_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, calls in (("plain", []), ("m@t", ["names"]), ("plain@exp", ["names", "names"])):
        stores: list[FaultyStore] = []

        def opened(uri: Uri, stores: list[FaultyStore] = stores, **options: object) -> FaultyStore:
            stores.append(FaultyStore(open_store(uri)))
            return stores[-1]

        uri = str(tmp_path / name)
        if name != "plain@exp":
            with monkeypatch.context() as real:
                real.undo()
                lw.create(uri, ROWS)
        monkeypatch.setattr("lancewood.external.opening.open_table_store", opened)
        Address(uri).find()
        assert [verb for each in stores for verb, _ in each.calls] == calls


def test_tags_that_lancewood_keeps_for_itself_are_not_offered(uri: str) -> None:
    table = lw.create(uri, ROWS)._snapshot
    tagged(table, "lw.clone.1")
    with pytest.raises(NotFoundError, match=r"tag 'lw.clone' .*: there is no tag$"):
        open_revision(table.location, tag="lw.clone")
    tagged(table, "v1")
    with pytest.raises(NotFoundError, match=r"there is tag 'v1'$"):
        open_revision(table.location, tag="v2")
