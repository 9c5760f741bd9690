"""What refs answer, wherever they are kept: one contract for a disk and for a bucket."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lancewood.errors import (
    AlreadyExistsError,
    FormatError,
    InvalidInputError,
    NotFoundError,
)
from lancewood.git.bucket.refs import BucketRefs
from lancewood.git.bucket.repository import BucketRepository
from lancewood.git.ref_store import Head, LogEntry, RefStore
from lancewood.git.refs import Refs
from lancewood.git.repository import GitRepository
from lancewood.git.values import ZERO, Hash, Signature
from lancewood.store.base import Store
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore
from lancewood.store.retry import UNCLEAR_PUTS

MAIN = "refs/heads/main"
ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 0)
A, B, C = (Hash(each * 64) for each in "abc")


@pytest.fixture(params=["disk", "bucket"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Where a repository lies, for who looks behind it."""
    if request.param == "disk":
        return DiskStore(GitRepository.init(tmp_path / "repo").path)
    store = MemoryStore()
    BucketRepository.init(store.uri)
    return store


@pytest.fixture
def refs(store: Store) -> RefStore:
    if isinstance(store, DiskStore):
        return Refs(store.uri, patience=0.05)
    return BucketRefs(store, retry=replace(UNCLEAR_PUTS, sleep=lambda seconds: None))


def move(refs: RefStore, name: str, old: Hash | None, new: Hash | None) -> bool:
    return refs.move(name, old, new, why="test", by=ADA)


def left_over(store: Store) -> list[str]:
    """Locks, files that never got a name, and markers."""
    return [
        each.key
        for each in store.list()
        if each.key.rpartition("/")[2].startswith(".")
        or "lock" in each.key
        or store.get(each.key).startswith(b"lancewood: ")
    ]


def test_a_ref_moves_only_from_the_value_it_has(refs: RefStore, store: Store) -> None:
    assert refs.read(MAIN) is None
    assert not move(refs, MAIN, A, B)
    assert move(refs, MAIN, None, A)
    assert not move(refs, MAIN, None, B)
    assert not move(refs, MAIN, B, C)
    assert refs.read(MAIN) == A
    assert move(refs, MAIN, A, B)
    assert store.get(MAIN) == f"{B}\n".encode()
    assert not move(refs, MAIN, A, None)
    assert move(refs, MAIN, B, None)
    assert refs.read(MAIN) is None
    assert left_over(store) == []


def test_every_move_is_in_the_log_newest_first(refs: RefStore) -> None:
    assert move(refs, MAIN, None, A)
    assert refs.move(MAIN, A, B, why="commit: b\nand more", by=ADA)
    expected = [LogEntry(A, B, ADA, "commit: b and more"), LogEntry(ZERO, A, ADA, "test")]
    assert list(refs.log(MAIN)) == expected
    assert list(refs.log("HEAD")) == expected, "HEAD names the branch"
    assert move(refs, "refs/tags/v1", None, A)
    assert list(refs.log("refs/tags/v1")) == [LogEntry(ZERO, A, ADA, "test")]
    assert list(refs.log("HEAD")) == expected
    assert list(refs.log("refs/heads/none")) == []


def test_a_move_to_the_same_value_is_no_move(refs: RefStore) -> None:
    assert move(refs, MAIN, None, A)
    assert move(refs, MAIN, A, A)
    assert len(list(refs.log(MAIN))) == 1
    assert not move(refs, MAIN, B, B)


@pytest.mark.parametrize("is_packed", [False, True])
@pytest.mark.parametrize(("first", "second"), [("a", "a/b/c"), ("a/b/c", "a"), ("a/b", "a")])
def test_one_ref_cannot_be_a_directory_of_another(
    refs: RefStore, store: Store, first: str, second: str, is_packed: bool
) -> None:
    assert move(refs, f"refs/heads/{first}", None, A)
    if is_packed:
        store.put("packed-refs", f"{A} refs/heads/{first}\n".encode())
        store.delete([f"refs/heads/{first}"])
    with pytest.raises(AlreadyExistsError, match=f"refs/heads/{first} exists"):
        move(refs, f"refs/heads/{second}", None, B)
    assert refs.names("refs/heads/") == {f"refs/heads/{first}": A}
    assert move(refs, f"refs/heads/{first}", A, None)
    assert move(refs, f"refs/heads/{second}", None, B)
    assert left_over(store) == []


@pytest.mark.parametrize(
    "name", ["main", "refs/heads/../../x", "../refs/heads/x", "refs//x", "refs/heads/x.lock", ""]
)
def test_no_name_leads_out_of_refs(refs: RefStore, name: str) -> None:
    for call in (refs.read, refs.log):
        with pytest.raises(InvalidInputError):
            call(name)
    with pytest.raises(InvalidInputError):
        move(refs, name, None, A)
    with pytest.raises(InvalidInputError):
        refs.switch_head("../x", why="", by=ADA)
    with pytest.raises(InvalidInputError):
        refs.names("refs/../objects/")


@pytest.mark.parametrize("value", ["abc", "A" * 64, ZERO, "a" * 40])
def test_a_value_that_is_no_hash_is_refused(refs: RefStore, store: Store, value: str) -> None:
    for old, new in ((None, Hash(value)), (Hash(value), A)):
        with pytest.raises(InvalidInputError):
            move(refs, MAIN, old, new)
    with pytest.raises(InvalidInputError):
        refs.detach_head(Hash(value), why="", by=ADA)
    with pytest.raises(InvalidInputError, match="no move"):
        move(refs, MAIN, None, None)
    with pytest.raises(InvalidInputError):
        refs.move(MAIN, None, A, why="", by=Signature("", "", 0, 0))
    assert [*store.list("logs")] == [*store.list("lancewood")] == []


@pytest.mark.parametrize(
    "text", ["", "\n", "a" * 40, "A" * 64, ZERO, "a" * 64 + " more", "ref: ../x", "ref: ", "\xff"]
)
def test_a_damaged_ref_is_a_format_error_that_names_the_file(
    refs: RefStore, store: Store, text: str
) -> None:
    file = f"{store.uri}/{MAIN}"
    store.put(MAIN, text.encode("latin-1"))
    for call in (
        lambda: refs.read(MAIN),
        lambda: refs.names("refs/"),
        refs.head,
        lambda: move(refs, MAIN, None, A),
        lambda: move(refs, MAIN, A, B),
    ):
        with pytest.raises(FormatError, match=file):
            call()
    assert store.get(MAIN) == text.encode("latin-1")


@pytest.mark.parametrize("text", ["no refs\n", f"{A} refs/heads/a..b\n", f"{'a' * 40} {MAIN}\n"])
def test_damaged_packed_refs_are_a_format_error(refs: RefStore, store: Store, text: str) -> None:
    store.put("packed-refs", text.encode())
    with pytest.raises(FormatError, match="packed-refs"):
        refs.read(MAIN)
    store.put("packed-refs", b"")
    assert refs.read(MAIN) is None


def test_packed_refs_that_another_wrote_meanwhile_are_seen(refs: RefStore, store: Store) -> None:
    for value in (A, B, C):
        text = f"# pack-refs with: peeled fully-peeled sorted \n{value} {MAIN}\n"
        store.put("packed-refs", text.encode())
        assert refs.read(MAIN) == value


def test_a_ref_may_stand_for_another(refs: RefStore, store: Store) -> None:
    assert move(refs, MAIN, None, A)
    store.put("refs/heads/alias", f"ref: {MAIN}\n".encode())
    store.put("refs/heads/nowhere", b"ref: refs/heads/none\n")
    assert refs.read("refs/heads/alias") == A
    assert refs.names("refs/") == {"refs/heads/alias": A, MAIN: A}
    with pytest.raises(InvalidInputError, match=f"stands for {MAIN}"):
        move(refs, "refs/heads/alias", A, B)
    store.put(MAIN, b"ref: refs/heads/alias\n")
    with pytest.raises(FormatError, match="from ref to ref"):
        refs.read(MAIN)


def test_head_names_a_branch_or_a_commit(refs: RefStore, store: Store) -> None:
    assert refs.head() == Head("main", None)
    assert move(refs, MAIN, None, A)
    assert refs.head() == Head("main", A)
    assert refs.read("HEAD") == A
    refs.switch_head("new/one", why="switch", by=ADA)
    assert refs.head() == Head("new/one", None)
    assert refs.current() == "new/one"
    refs.detach_head(B, why="detach", by=ADA)
    assert refs.head() == Head(None, B)
    assert refs.current() is None
    assert move(refs, MAIN, A, C)
    assert move(refs, "HEAD", B, C)
    assert not move(refs, "HEAD", B, C)
    refs.switch_head("main", why="back", by=ADA)
    assert [(each.old, each.new, each.why) for each in refs.log("HEAD")] == [
        (C, C, "back"),
        (B, C, "test"),
        (ZERO, B, "detach"),
        (ZERO, A, "test"),
    ]
    with pytest.raises(InvalidInputError, match=f"stands for {MAIN}: move that one"):
        move(refs, "HEAD", C, A)
    store.put("HEAD", b"ref: refs/tags/v1\n")
    with pytest.raises(FormatError, match="not a branch"):
        refs.head()
    store.delete(["HEAD"])
    with pytest.raises(NotFoundError, match="no HEAD"):
        refs.head()


def test_head_cannot_be_deleted(refs: RefStore) -> None:
    refs.detach_head(A, why="", by=ADA)
    with pytest.raises(InvalidInputError, match="cannot be deleted"):
        move(refs, "HEAD", A, None)


def test_switching_to_where_head_is_does_nothing(refs: RefStore) -> None:
    assert move(refs, MAIN, None, A)
    refs.switch_head("main", why="again", by=ADA)
    assert len(list(refs.log("HEAD"))) == 1


def test_names_are_in_order_and_begin_with_what_was_asked(refs: RefStore) -> None:
    for name in ("refs/heads/b", "refs/heads/a/x", "refs/tags/v1", "refs/heads/ab"):
        assert move(refs, name, None, A)
    assert list(refs.names("refs/heads/")) == ["refs/heads/a/x", "refs/heads/ab", "refs/heads/b"]
    assert list(refs.names("refs/heads/a")) == ["refs/heads/a/x", "refs/heads/ab"]
    assert list(refs.names("refs/tags")) == ["refs/tags/v1"]
    assert refs.names("refs/notes/") == {}
    assert len(refs.names()) == 4


def test_files_that_are_no_refs_are_not_listed(refs: RefStore, store: Store) -> None:
    assert move(refs, MAIN, None, A)
    for name in ("x.lock", ".hidden", "a b"):
        store.put(f"refs/heads/{name}", b"nothing")
    assert list(refs.names("refs/")) == [MAIN]
