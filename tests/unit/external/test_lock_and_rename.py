"""Committing under a lock, and by a rename: for stores that have neither put-if-absent nor a
manifest store."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from tests.careless import CarelessStore
from tests.commit_locks import free
from tests.manifests import MemoryManifests

import lancewood as lw
from lancewood.external.lock import LockedStore
from lancewood.external.opening import RenamingStore, open_table_store, through
from lancewood.store.base import PutOutcome, ReplaceOutcome, Store
from lancewood.store.memory import MemoryStore
from lancewood.store.probe import check_put_if_absent

ROWS = pa.table({"a": [1]})
KEY = "_versions/7.manifest"


class Locks:
    """A lock for each version, and which were taken."""

    def __init__(self) -> None:
        self.taken: list[int] = []
        self._lock = threading.Lock()

    @contextmanager
    def __call__(self, version: int) -> Iterator[None]:
        with self._lock:
            self.taken.append(version)
            yield


def test_every_commit_is_made_under_the_lock_of_its_version(tmp_path: Path) -> None:
    locks = Locks()
    table = lw.create(tmp_path / "t.lance", ROWS, access=lw.Access(commit_lock=locks)).append(ROWS)
    table.branches.create("exp")
    lw.open(tmp_path / "t.lance", branch="exp", access=lw.Access(commit_lock=locks)).append(ROWS)
    assert locks.taken == [1, 2, 2, 3]
    assert lw.exists(tmp_path / "t.lance", access=lw.Access(commit_lock=locks))


def test_of_many_writers_under_a_lock_one_creates_although_the_store_would_let_all() -> None:
    store = LockedStore(CarelessStore(MemoryStore()), Locks())
    check_put_if_absent(store, "_transactions")

    def put(me: int) -> PutOutcome:
        return store.put_new(KEY, b"%d" % me)

    with ThreadPoolExecutor(8) as pool:
        outcomes = [*pool.map(put, range(40))]
    assert outcomes.count(PutOutcome.CREATED) == 1


def test_a_lock_that_refuses_ends_the_commit_and_nothing_is_there(tmp_path: Path) -> None:
    def refuse(version: int) -> object:
        raise TimeoutError(f"version {version} is locked")

    with pytest.raises(TimeoutError, match="version 1 is locked"):
        lw.create(tmp_path / "t.lance", ROWS, access=lw.Access(commit_lock=refuse))  # type: ignore[arg-type]
    assert not lw.exists(tmp_path / "t.lance")


class Swallowing:
    """A lock that lets nothing out that is raised inside."""

    def __init__(self, version: int) -> None: ...

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> bool:
        return True


def test_a_lock_that_swallows_a_failure_does_not_make_it_a_commit() -> None:
    class Full(MemoryStore):
        def put(self, key: str, data: bytes) -> None:
            raise lw.StorageError("full")

    with pytest.raises(lw.StorageError, match="full"):
        LockedStore(Full(), Swallowing).put_new(KEY, b"1")


def test_a_lock_that_fails_when_it_is_released_leaves_the_commit_unknown(tmp_path: Path) -> None:
    @contextmanager
    def expired(version: int) -> Iterator[None]:
        yield
        raise TimeoutError("the lease ran out")

    lw.create(tmp_path / "t.lance", ROWS)
    table = lw.open(tmp_path / "t.lance", access=lw.Access(commit_lock=expired))
    with pytest.raises(lw.CommitUnknownError, match="the lease ran out") as told:
        table.append(ROWS)
    assert isinstance(told.value.__cause__, TimeoutError)
    assert lw.open(tmp_path / "t.lance").count_rows() == 2
    taken = MemoryStore()
    taken.put(KEY, b"another's")
    with pytest.raises(TimeoutError):  # nothing was put, so nothing is unknown
        LockedStore(taken, expired).put_new(KEY, b"mine")


@pytest.mark.parametrize("given", [None, 5])
def test_a_lock_that_gives_no_context_manager_is_refused(tmp_path: Path, given: object) -> None:
    lw.create(tmp_path / "t.lance", ROWS)
    table = lw.open(tmp_path / "t.lance", access=lw.Access(commit_lock=lambda version: given))  # type: ignore[arg-type,return-value]
    with pytest.raises(lw.InvalidInputError, match="not a context manager"):
        table.append(ROWS)
    assert table.latest().version == 1


def test_a_lock_travels_if_it_can_and_without_it_nothing_is_committed() -> None:
    travels = pickle.loads(pickle.dumps(LockedStore(MemoryStore("locks"), free)))
    assert travels.put_new(KEY, b"1") is PutOutcome.CREATED
    stays = pickle.loads(pickle.dumps(LockedStore(MemoryStore("locks"), lambda version: free(1))))
    assert stays.get(KEY) == b"1"
    assert stays.put_new("other", b"1") is PutOutcome.CREATED
    with pytest.raises(lw.UnsupportedError, match="stayed where the table was opened"):
        stays.put_new("_versions/8.manifest", b"2")


def test_commits_by_rename_lose_nothing_on_a_real_server(
    s3_root: str, s3_options: dict[str, str]
) -> None:
    options = {**s3_options, "copy_if_not_exists": "multipart"}
    given = {"storage_options": options, "manifest_store": "rename-if-absent"}
    store = open_table_store(s3_root, **given)  # type: ignore[arg-type]
    assert isinstance(store, RenamingStore)
    assert store.probed_as != store.inner.probed_as

    def put(me: int) -> PutOutcome:
        return store.put_new(KEY, b"%d" % me)

    with ThreadPoolExecutor(4) as pool:
        outcomes = [*pool.map(put, range(8))]
    won = outcomes.index(PutOutcome.CREATED)
    assert outcomes.count(PutOutcome.CREATED) == 1
    assert store.get(KEY) == b"%d" % won
    assert [*store.names("_versions")] == [KEY.removeprefix("_versions/")]


def test_a_store_without_a_rename_if_absent_is_refused(
    s3_root: str, s3_options: dict[str, str]
) -> None:
    with pytest.raises(lw.UnsupportedError, match="does not honour put-if-absent"):
        lw.create(
            f"{s3_root}/t",
            ROWS,
            access=lw.Access(storage_options=s3_options, manifest_store="rename-if-absent"),
        )


class Refusing(MemoryStore):
    """A store that has no conditional puts."""

    def put_new(self, key: str, data: bytes) -> PutOutcome:
        raise lw.UnsupportedError("no such request")

    def replace(self, key: str, data: bytes, expected_etag: str) -> ReplaceOutcome:
        raise lw.UnsupportedError("no such request")


@pytest.mark.parametrize(
    "around",
    [lambda inner: LockedStore(inner, free), lambda inner: through(inner, MemoryManifests())],
)
def test_branches_and_tags_do_without_conditional_puts(around: Callable[[Store], Store]) -> None:
    store = around(Refusing())
    key = "_refs/tags/v1.json"
    assert store.put_new(key, b"1") is PutOutcome.CREATED
    assert store.put_new(key, b"2") is PutOutcome.EXISTS
    etag = store.head(key).etag
    assert store.replace(key, b"3", etag) is ReplaceOutcome.REPLACED
    assert store.replace(key, b"4", etag) is ReplaceOutcome.CHANGED
    assert store.replace("_refs/tags/v2.json", b"4", etag) is ReplaceOutcome.CHANGED
    assert store.get(key) == b"3"
    assert store.put_new(KEY, b"1") is PutOutcome.CREATED
    assert store.put_new(KEY, b"2") is PutOutcome.EXISTS


def test_a_table_has_branches_and_tags_on_a_server_without_conditional_puts(
    s3_root: str, s3_options: dict[str, str], tmp_path: Path
) -> None:
    options = {**s3_options, "aws_conditional_put": "disabled"}
    manifests = f"sqlite://{tmp_path}/manifests.db"
    table = lw.create(
        s3_root, ROWS, access=lw.Access(storage_options=options, manifest_store=manifests)
    )
    table.tags.create("v1")
    branch = table.branches.create("exp").append(ROWS)
    assert (branch.version, [*table.tags.list()], table.latest().version) == (2, ["v1"], 1)
    assert branch.tags.update("v1").version == 2
    with pytest.raises(lw.AlreadyExistsError):
        table.tags.create("v1")
