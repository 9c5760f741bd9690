"""What becomes of a commit where the manifest store answers in odd ways."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.manifests import MemoryManifests

from lancewood.errors import CommitUnknownError, IntegrityError, StorageError
from lancewood.external.base import ManifestEntry, path_of, staged_name
from lancewood.external.store import ExternalStore
from lancewood.format.layout import NamingScheme, manifest_key, manifest_name
from lancewood.model.ids import Version
from lancewood.store.base import PutOutcome
from lancewood.store.memory import MemoryStore
from lancewood.store.readback import put_new_settled
from lancewood.store.retry import UNCLEAR_PUTS

KEY = manifest_key(Version(7), NamingScheme.V2)
NAME = manifest_name(Version(7), NamingScheme.V2)


class MeetsItself(MemoryManifests):
    """Asks twice, and says what the second answer was."""

    def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
        super().put_if_not_exists(base, entry)
        return super().put_if_not_exists(base, ManifestEntry(*entry))


class Silent(MemoryManifests):
    """Fails every put without saying whether it was done, and does it late or never."""

    def __init__(self, is_done: bool) -> None:
        super().__init__()
        self.is_done = is_done

    def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
        if self.is_done:
            super().put_if_not_exists(base, entry)
        raise StorageError("no answer")


def test_a_store_that_meets_itself_has_committed() -> None:
    store = ExternalStore(MemoryStore(), MeetsItself(), "t")
    assert store.put_new(KEY, b"mine") is PutOutcome.CREATED
    assert store.get(KEY) == b"mine"
    assert [*store.names("_versions")] == [NAME]
    assert store.put_new(KEY, b"other") is PutOutcome.EXISTS


def test_an_unclear_answer_is_settled_by_what_is_there() -> None:
    store = ExternalStore(MemoryStore(), Silent(is_done=True), "t")
    assert store.put_new(KEY, b"mine") is PutOutcome.CREATED
    assert [*store.names("_versions")] == [NAME]


def test_what_stays_unclear_is_said_and_nothing_is_deleted() -> None:
    store = ExternalStore(MemoryStore(), Silent(is_done=False), "t")
    with pytest.raises(CommitUnknownError, match="nothing was deleted"):
        put_new_settled(
            store, KEY, b"mine", replace(UNCLEAR_PUTS, attempts=2, sleep=lambda seconds: None)
        )
    assert all(each.startswith(f"{NAME}-") for each in store.names("_versions"))


def test_a_version_that_was_removed_without_the_manifest_store_is_not_made_again() -> None:
    manifests = MemoryManifests()
    store = ExternalStore(MemoryStore(), manifests, "t")
    store.put_new(KEY, b"first")
    store.inner.delete([KEY])
    with pytest.raises(IntegrityError, match="knows version 7 of"):
        store.put_new(KEY, b"second")
    assert [*store.inner.names("_versions")] == []


def test_a_loser_leaves_nothing_behind_and_the_winner_is_completed() -> None:
    manifests = MemoryManifests()
    store = ExternalStore(MemoryStore(), manifests, "t")
    staged = staged_name(NAME)
    store.inner.put(f"_versions/{staged}", b"winner")
    manifests.put_if_not_exists("t", ManifestEntry(Version(7), path_of("t", staged), None))
    assert store.put_new(KEY, b"loser") is PutOutcome.EXISTS
    assert store.get(KEY) == b"winner"
    assert manifests.get("t", Version(7)) == ManifestEntry(Version(7), path_of("t", NAME), 6)
    assert [*store.inner.names("_versions")] == [NAME]


def test_who_comes_late_to_a_table_that_was_made_again_leaves_its_entry_alone() -> None:
    inner, theirs = MemoryStore(), staged_name(NAME)

    class MadeAgain(MemoryManifests):
        """Right after the entry is put, somebody drops the table, and makes another."""

        def put_if_not_exists(self, base: str, entry: ManifestEntry) -> bool:
            super().put_if_not_exists(base, entry)
            inner.delete([each.key for each in inner.list()])
            inner.put(f"_versions/{theirs}", b"theirs")
            return super().put_if_exists(base, ManifestEntry(Version(7), path_of(base, theirs)))

    store = ExternalStore(inner, MadeAgain(), "t")
    assert store.put_new(KEY, b"mine") is PutOutcome.CREATED  # as it was, for a moment
    assert store.get(KEY) == b"theirs"


def test_manifests_beside_the_history_and_other_objects_need_no_entry() -> None:
    manifests = MemoryManifests()
    store = ExternalStore(MemoryStore(), manifests, "t")
    detached = manifest_key(Version(2**63 + 1), NamingScheme.V2)
    for key in (detached, "_refs/tags/v1.json", "data/x.lance"):
        assert store.put_new(key, b"1") is PutOutcome.CREATED
        assert store.put_new(key, b"2") is PutOutcome.EXISTS
        assert store.get(key) == b"1"
    assert manifests.entries == {}


def test_the_age_of_the_directory_tells_nothing_of_manifests() -> None:
    store = ExternalStore(MemoryStore(), MemoryManifests(), "t")
    assert store.stamp("_versions") is None
    assert store.at("tree/x").stamp("_versions") is None
    assert store.probed_as is None
