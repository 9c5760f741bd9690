"""Cleanup beside writers, stepped at every store call: whatever landed has all of its files.

Data files are names with a byte in them here: cleanup looks at names, never into files.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.breadth import daily
from tests.metadata import FIELDS, begin, commit_to, put_fragment

from lancewood.engine.commit.commit import CommitPolicy, commit
from lancewood.engine.commit.publish import Detached
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.descent import manifest_names
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.engine.versions.finding import load_version
from lancewood.errors import CommitUnknownError, ConflictError, FormatError, NotFoundError
from lancewood.format.layout import VERSIONS_DIR, NamingScheme, manifest_key
from lancewood.format.manifest import decode_manifest_file
from lancewood.format.refs import branch_key, encode_branch, encode_tag, tag_key
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep import retention
from lancewood.jobs.upkeep.cleanup import clean_up, names_in
from lancewood.jobs.upkeep.retention import Retention
from lancewood.model.ids import Version
from lancewood.model.refs import Branch, BranchName, Tag, TagName
from lancewood.model.transaction import Append, Overwrite, Restore, Transaction
from lancewood.store.base import Store
from lancewood.store.memory import MemoryStore
from lancewood.testing.schedule import ScheduleOutcome, explore

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ORDERS = daily(30, of=120)
"""How many orders of each case are tried."""


def fresh() -> Store:
    """Version 1, and 2 and 3 which share nothing with it; 4 adds to 3."""
    store = MemoryStore()
    one, two, three, four = (put_fragment(store, each) for each in ("one", "two", "three", "four"))
    begin(store, *(Overwrite((each,), FIELDS) for each in (one, two, three)), Append((four,)))
    return store


def cleaner(in_flight: timedelta = timedelta(days=7)) -> Callable[[Store], object]:
    def clean(store: Store) -> object:
        manifest, scheme = load_version(store, 4)
        wish = Retention.checked(None, 1, (), in_flight)
        now = datetime.now(UTC)
        runner = LocalRunner(workers=1)
        snapshot = Snapshot(Location(store), manifest, scheme)
        return clean_up(snapshot, wish, runner, now=now).versions

    return clean


def check_files(store: Store) -> None:
    """Everything that a version or a branch names is there."""
    there = {each.key for each in store.list("")}
    for root in ("", "tree/exp/"):
        names = manifest_names(store.at(root.rstrip("/")) if root else store)
        for name in names:
            key = f"{root}{VERSIONS_DIR}/{name}"
            for each in names_in(decode_manifest_file(store.get(key), name=key)):
                assert not each.startswith("data/") or f"{each}.lance" in there, (key, each)


def expected(outcome: ScheduleOutcome) -> None:
    cleaned, landed = outcome.results
    assert isinstance(cleaned, tuple), outcome
    assert not isinstance(landed, BaseException) or isinstance(landed, ConflictError), outcome


def append(store: Store) -> object:
    commit_to(store, Append((put_fragment(store, "new"),)), read=4)
    return "done"


def append_from_an_old_handle(store: Store) -> object:
    commit_to(store, Append((put_fragment(store, "new"),)), read=3)
    return "done"


def overwrite(store: Store) -> object:
    commit_to(store, Overwrite((put_fragment(store, "new"),), FIELDS), read=4)
    return "done"


@pytest.mark.parametrize("writer", [append, overwrite])
def test_a_writer_lands_and_loses_nothing(writer: Callable[[Store], object]) -> None:
    runs = 0
    for outcome in explore(fresh, [cleaner(), writer], limit=ORDERS, seed=7):
        expected(outcome)
        assert outcome.results[1] == "done"
        check_files(outcome.store)
        newest, _ = load_version(outcome.store)
        assert newest.version == 5
        assert "data/new" in names_in(newest)
        runs += 1
    assert runs == ORDERS


def test_a_writer_from_before_lands_or_is_told_of_the_conflict() -> None:
    told = set()
    for outcome in explore(fresh, [cleaner(), append_from_an_old_handle], limit=ORDERS, seed=8):
        check_files(outcome.store)
        result = outcome.results[1]
        told.add(type(result).__name__)
        if result == "done":
            assert "data/new" in names_in(load_version(outcome.store)[0])
        else:
            assert isinstance(result, ConflictError | NotFoundError), outcome
    assert "str" in told


def test_two_cleanups_do_not_disturb_each_other() -> None:
    for outcome in explore(fresh, [cleaner(), cleaner()], limit=ORDERS, seed=9):
        for each in outcome.results:
            assert isinstance(each, tuple), outcome
        check_files(outcome.store)
        assert {each.version for each in manifest_names(outcome.store).values()} == {4}
        assert {each.key for each in outcome.store.list("data")} == {
            "data/three.lance",
            "data/four.lance",
        }


def is_there(store: Store, version: int) -> bool:
    try:
        store.head(manifest_key(Version(version), NamingScheme.V2))
    except NotFoundError:
        return False
    return True


def restore(store: Store) -> object:
    """The commit looks whether the restored version is still there: whoever removes it from then
    on sees the new one, and leaves its files alone."""
    try:
        commit_to(store, Restore(Version(1)), read=4)
    except NotFoundError:
        return "gone before"
    except CommitUnknownError:
        return "in doubt"
    return "safe"


def detach(store: Store) -> object:
    base, scheme = load_version(store, 4)
    try:
        old, _ = load_version(store, 1)
    except NotFoundError:
        return "gone before"
    alone = CommitPolicy(publisher=Detached())
    added = Append((put_fragment(store, "new"),))
    try:
        commit(Location(store), old, scheme, Transaction.new(old.version, added), alone)
    except CommitUnknownError:
        return "in doubt"
    assert base.version == 4
    return "safe"


def branch(store: Store) -> object:
    """A branch from version 1: its manifest first, then its ref, as pylance makes them."""
    key = manifest_key(Version(1), NamingScheme.V2)
    try:
        data = store.get(key)
    except NotFoundError:
        return "gone before"
    store.put(f"tree/exp/{key}", data)
    ref = Branch(
        name=BranchName("exp"),
        parent_branch=None,
        parent_version=Version(1),
        created_at_seconds=1,
        manifest_size=1,
    )
    store.put(branch_key(ref.name), encode_branch(ref))
    return "safe" if is_there(store, 1) else "in doubt"


@pytest.mark.parametrize("writer", [restore, detach, branch])
def test_what_is_made_of_an_old_version_keeps_its_files(
    writer: Callable[[Store], object],
) -> None:
    seen = set()
    for outcome in explore(fresh, [cleaner(), writer], limit=2 * ORDERS, seed=10):
        seen.add(outcome.results[1])
        if outcome.results[1] == "safe":
            check_files(outcome.store)
        else:
            assert outcome.results[1] in ("gone before", "in doubt"), outcome
    assert {"safe", "gone before"} <= seen


def test_a_tag_keeps_its_version_or_finds_it_gone() -> None:
    def make(store: Store) -> object:
        ref = Tag(name=TagName("t"), branch=None, version=Version(1), manifest_size=1)
        store.put(tag_key(ref.name), encode_tag(ref))
        return is_there(store, 1)

    seen = set()
    for outcome in explore(fresh, [cleaner(), make], limit=2 * ORDERS, seed=11):
        check_files(outcome.store)
        seen.add((outcome.results[1], is_there(outcome.store, 1)))
    assert (True, True) in seen


def test_a_branch_that_is_deleted_meanwhile_stops_nothing_or_says_so() -> None:
    def with_branch() -> Store:
        store = fresh()
        branch(store)
        return store

    def delete(store: Store) -> object:
        store.delete([branch_key(BranchName("exp"))])
        store.delete([each.key for each in store.list("tree/exp")])
        return "done"

    for outcome in explore(with_branch, [cleaner(), delete], limit=ORDERS, seed=12):
        assert isinstance(outcome.results[0], tuple | FormatError), outcome
        check_files(outcome.store)


def lost(outcome: ScheduleOutcome) -> bool:
    """Whether a commit was told that it landed, and the newest version does not have it."""
    newest, _ = load_version(outcome.store)
    return outcome.results[1] == "done" and "data/new" not in names_in(newest)


@pytest.mark.parametrize("minutes", [0, 10])
def test_a_commit_that_hits_a_number_that_became_free_is_withdrawn_and_told(
    minutes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would land in the past. A number that a commit may be under way to does not become free in
    the first place."""

    def append_twice_and_clean(store: Store) -> object:
        for name in ("one more", "two more"):
            commit_to(store, Append((put_fragment(store, name),)))
        return cleaner()(store)

    monkeypatch.setattr(retention, "COMMITTING", timedelta(minutes=minutes))
    told = 0
    for outcome in explore(
        fresh, [append_twice_and_clean, append], limit=daily(80, of=600), seed=5
    ):
        assert not lost(outcome), outcome
        told += isinstance(outcome.results[1], ConflictError)
    assert (told > 0) == (minutes == 0)
