"""A repository in a bucket: made, opened, checked to be one; its settings and its objects."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from tests.careless import CarelessStore

from lancewood.errors import (
    AlreadyExistsError,
    CommitUnknownError,
    FormatError,
    InvalidInputError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)
from lancewood.git import packs
from lancewood.git.bucket import repository as making
from lancewood.git.bucket.refs import BucketRefs
from lancewood.git.bucket.repository import BucketConfig, BucketRepository
from lancewood.git.names import below, is_uri, parse_repository_root, real_repository_root
from lancewood.git.repository import GitRepository, init_git, open_git
from lancewood.git.values import Hash, Signature
from lancewood.items.writing import PackedObjects, write_pack
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.store.memory import MemoryStore
from lancewood.testing.faults import FaultyStore

ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 0)
A = Hash("a" * 64)


@pytest.fixture
def uri() -> str:
    return f"memory://{uuid4().hex}/repo"


def test_a_new_repository_has_no_commit_and_is_opened_again(uri: str) -> None:
    made = init_git(uri, settings={"lancewood.id": "abc"})
    assert isinstance(made, BucketRepository)
    assert made.refs.head().branch == "main"
    found = open_git(uri)
    assert found.get("lancewood", "id") == "abc"
    assert found.root == made.root == uri
    assert [each.key for each in open_store(uri).list()] == ["HEAD", "config"]
    with pytest.raises(InvalidInputError, match="is in a bucket and has no path"):
        _ = found.path


def test_a_second_init_is_refused_and_one_that_was_cut_off_is_gone_on_with(uri: str) -> None:
    store = open_store(uri)
    first = init_git(uri, settings={"lancewood.id": "first"})
    with pytest.raises(AlreadyExistsError, match="open it"):
        init_git(uri, settings={"lancewood.id": "second"})
    assert first.get("lancewood", "id") == "first"
    store.delete(["HEAD"])
    with pytest.raises(NotFoundError, match="HEAD not found; init makes one"):
        open_git(uri)
    assert init_git(uri, settings={"lancewood.id": "third"}).get("lancewood", "id") == "first"


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (b"[core]\n\tbare = true\n", "sha1"),
        (b"[core]\n\trepositoryformatversion = 7\n", "format '7'"),
        (b"no settings", "config"),
    ],
)
def test_a_repository_of_another_kind_is_refused(uri: str, config: bytes, said: str) -> None:
    init_git(uri)
    open_store(uri).put("config", config)
    with pytest.raises((UnsupportedError, FormatError), match=said):
        open_git(uri)
    open_store(uri).delete(["config"])
    with pytest.raises(FormatError, match="config is missing"):
        open_git(uri)


def test_a_repository_with_a_work_tree_is_told(uri: str) -> None:
    open_store(uri).put(".git/HEAD", b"ref: refs/heads/main\n")
    with pytest.raises(UnsupportedError, match="with a work tree"):
        open_git(uri)


def test_a_store_that_ignores_conditions_is_refused_at_init_and_before_the_first_move(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    careless = CarelessStore(MemoryStore())
    monkeypatch.setattr(making, "open_store", lambda *given, **options: careless)
    with pytest.raises(UnsupportedError, match="does not honour conditional puts"):
        BucketRepository.init("memory://careless")
    assert [*careless.list()] == []
    refs = BucketRefs(careless)
    careless.put("HEAD", b"ref: refs/heads/main\n")
    for act in (
        lambda: refs.move("refs/heads/main", None, A, why="x", by=ADA),
        lambda: refs.switch_head("exp", why="x", by=ADA),
    ):
        with pytest.raises(UnsupportedError, match="nothing was written"):
            act()
    assert [each.key for each in careless.list()] == ["HEAD"]


def test_settings_are_kept_beside_others_and_seen_by_others(uri: str) -> None:
    mine, other = init_git(uri), open_git(uri)
    assert other.get("user", "nickname") is None
    mine.set("user", "nickname", "Ada")
    assert other.get("user", "nickname") == "Ada"
    other.set("lancewood", "exclusive", "true")
    assert mine.config.own("lancewood", "exclusive") == "true"
    assert mine.get("user", "nickname") == "Ada"
    with pytest.raises(InvalidInputError):
        mine.set("user", "nickname", "a\0b")


def test_a_setting_that_another_wrote_meanwhile_is_not_lost(uri: str) -> None:
    init_git(uri)
    store = open_store(uri)

    class Overtaken(FaultyStore):
        def get(self, key: str) -> bytes:
            found = super().get(key)
            if not self.is_used:
                self.is_used = True
                BucketConfig(store).set("user", "theirs", "1")
            return found

        is_used = False

    BucketConfig(Overtaken(store)).set("user", "ours", "2")
    settings = BucketConfig(store)
    assert (settings.own("user", "theirs"), settings.own("user", "ours")) == ("1", "2")


@pytest.mark.parametrize("mode", ["before", "after"])
def test_a_setting_whose_answer_is_lost_is_settled_by_reading(
    uri: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)
    init_git(uri)
    store = open_store(uri)
    calls = FaultyStore(store)
    BucketConfig(calls).set("user", "a", "1")
    at = [verb for verb, _ in calls.calls].index("replace") + 1
    BucketConfig(FaultyStore(store, at, mode)).set("user", "b", "2")  # type: ignore[arg-type]
    assert BucketConfig(store).own("user", "b") == "2"

    class Deaf(FaultyStore):
        def replace(self, key: str, data: bytes, expected_etag: str):  # type: ignore[no-untyped-def]
            raise StorageError("no answer")

    with pytest.raises(CommitUnknownError, match=r"user\.c was written"):
        BucketConfig(Deaf(store)).set("user", "c", "3")


def test_objects_are_put_if_absent_and_not_asked_for_twice(uri: str) -> None:
    init_git(uri)
    store: Store = open_store(uri)
    counted = FaultyStore(store)
    first = BucketRepository(counted)
    blob = first.objects.put_blob(b"x" * 100)
    first.objects.sync()
    assert [verb for verb, key in counted.calls if key.startswith("objects/")] == ["put_new"]
    assert first.objects.put_blob(b"x" * 100) == blob
    first.objects.sync()
    assert len(counted.calls) == 1, "what was put once is known to be there"
    written = store.head(f"objects/{blob[:2]}/{blob[2:]}").etag
    BucketRepository(store).objects.put_blob(b"x" * 100)
    other = BucketRepository(store)
    other.objects.put_blob(b"x" * 100)
    other.objects.sync()
    assert store.head(f"objects/{blob[:2]}/{blob[2:]}").etag == written


@pytest.mark.parametrize("mode", ["before", "after"])
def test_an_object_whose_answer_is_lost_is_put_again(uri: str, mode: str) -> None:
    init_git(uri)
    hurt = FaultyStore(open_store(uri), 1, mode)  # type: ignore[arg-type]
    git = BucketRepository(hurt)
    blob = git.objects.put_blob(b"x")
    git.objects.sync()
    assert open_git(uri).objects.blob(blob) == b"x"


def test_a_damaged_object_is_a_format_error_that_names_it(uri: str) -> None:
    git = init_git(uri)
    blob = git.objects.put_blob(b"x")
    git.objects.sync()
    key = f"objects/{blob[:2]}/{blob[2:]}"
    open_store(uri).put(key, b"nothing")
    with pytest.raises(FormatError, match=f"{uri}/{key}"):
        open_git(uri).objects.blob(blob)


def test_who_writes_passes_over_a_pack_that_somebody_removed(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packs, "_BLOCK", 512)  # an index that is not held as a whole
    init_git(uri)
    store, packed = open_store(uri), PackedObjects()
    hashes = [packed.put_blob(b"%d" % number) for number in range(100)]
    for file in map(Path, write_pack(str(tmp_path), packed.found)):
        store.put(f"objects/pack/{file.name}", file.read_bytes())
    git = open_git(uri)
    assert git.objects.blob(hashes[7]) == b"7"
    assert git.objects.put_blob(b"8") == hashes[8]
    git.objects.write()
    assert not [*store.names(f"objects/{hashes[8][:2]}")]
    store.delete([each.key for each in store.list("objects/pack")])
    for number in range(100):
        assert git.objects.put_blob(b"%d" % number) == hashes[number]


def test_a_place_is_a_directory_or_a_uri(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("repository_paths")
    assert is_uri("s3://bucket/x")
    assert not any(is_uri(each) for each in ("x", "/x", "file:///x", "C:x", path))
    assert below("s3://bucket/x/", "tables/a") == "s3://bucket/x/tables/a"
    assert below(path, "tables/a") == path / "tables/a"
    (path / "link").symlink_to(path)
    assert real_repository_root(path / "link") == real_repository_root(path)
    assert parse_repository_root(real_repository_root(path)) == path
    assert parse_repository_root("s3://bucket/x") == real_repository_root("s3://bucket/x/")
    made = init_git(f"file://{path}/made")
    assert type(made) is GitRepository
    assert open_git(str(path / "made")).root == path / "made"
