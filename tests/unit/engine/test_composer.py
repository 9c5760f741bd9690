"""The commit's door for a version that somebody else composes."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from tests.metadata import FIELDS, QUIET, commit_to
from tests.metadata import fragment as fragment_of

from lancewood.engine.commit.commit import CommitPolicy, commit
from lancewood.engine.commit.composer import Composition
from lancewood.engine.location.location import Location
from lancewood.engine.versions.finding import list_versions
from lancewood.engine.versions.history import load_transaction
from lancewood.errors import IncompatibleConflictError
from lancewood.format.layout import NamingScheme
from lancewood.format.manifest import empty_manifest
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version
from lancewood.model.manifest import Manifest
from lancewood.model.table_config import PUBLISHED_KEY
from lancewood.model.transaction import (
    Append,
    HeadChanges,
    MapUpdate,
    Overwrite,
    ReserveFragments,
    Transaction,
    UpdateConfig,
    operation_name,
)
from lancewood.rules.patching import make_patch
from lancewood.store.base import PutOutcome, Store
from lancewood.store.memory import MemoryStore


def fragment(name: str) -> Fragment:
    return fragment_of(name, 5)


@dataclass
class Recorder:
    """Adds a fragment, whatever is newest, and remembers what it was asked."""

    judged: list[tuple[str, int]] = field(default_factory=list)
    composed: list[int] = field(default_factory=list)
    refuses: str = ""

    def judge(self, theirs: Transaction, version: Version) -> None:
        name = operation_name(theirs.operation)
        self.judged.append((name, version))
        if name == self.refuses:
            raise IncompatibleConflictError("it does not go together")

    def compose(self, newest: Manifest) -> Composition:
        self.composed.append(newest.version)
        number = FragmentId((newest.max_fragment_id or 0) + 1)
        made = fragment("composed").numbered(number)
        patch = make_patch(newest, HeadChanges(max_fragment_id=number), add=(made,))
        return Composition(Append((made,)), patch)


def table(branch: str = "") -> tuple[Store, Manifest]:
    store = MemoryStore()
    first = Transaction.new(Version(0), Overwrite((fragment("first"),), FIELDS))
    empty = empty_manifest("2.2")
    if branch:
        empty.message.branch = branch
    return store, commit(Location(store), empty, NamingScheme.V2, first, QUIET)


def append(store: Store, name: str) -> None:
    commit_to(store, Append((fragment(name),)))


def many(base: Manifest) -> Transaction:
    return Transaction.new(base.version, ReserveFragments(1), Append(()), properties={"a": "b"})


def composed(store: Store, base: Manifest, transaction: Transaction, by: Recorder) -> Manifest:
    return commit(Location(store), base, NamingScheme.V2, transaction, QUIET, by)


def test_several_operations_become_the_one_version_that_was_composed() -> None:
    store, base = table()
    transaction = many(base)
    done = composed(store, base, transaction, Recorder())
    assert done.version == 2
    assert [each.files[0].path for each in done.fragments] == ["first", "composed"]
    recorded = load_transaction(store, done)
    assert recorded.uuid == transaction.uuid
    assert isinstance(recorded.operation, Append)
    assert recorded.properties == {"a": "b"}


def test_every_version_since_is_judged_once_the_oldest_first() -> None:
    store, base = table()
    append(store, "one")
    append(store, "two")
    recorder = Recorder()
    done = composed(store, base, many(base), recorder)
    assert recorder.judged == [("Append", 2), ("Append", 3)]
    assert recorder.composed == [3]
    assert load_transaction(store, done).read_version == 3


def test_a_lost_race_is_judged_and_composed_anew() -> None:
    store, base = table()

    class Late(MemoryStore):
        def put_new(self, key: str, data: bytes) -> PutOutcome:
            if len(list_versions(store).versions) == 1:
                append(store, "faster")
            return super().put_new(key, data)

    recorder = Recorder()
    late = Late(store.uri.removeprefix("memory://"))
    done = composed(late, base, many(base), recorder)
    assert recorder.judged == [("Append", 2)]
    assert recorder.composed == [1, 2]
    assert [each.id for each in done.fragments] == [0, 1, 2]


def test_a_refusal_leaves_nothing_visible() -> None:
    store, base = table()
    append(store, "one")
    with pytest.raises(IncompatibleConflictError, match="not go together"):
        composed(store, base, many(base), Recorder(refuses="Append"))
    assert list_versions(store).versions == (2, 1)


def test_a_transaction_that_landed_is_not_composed_again() -> None:
    store, base = table()
    transaction = many(base)
    first = composed(store, base, transaction, Recorder())
    append(store, "later")
    recorder = Recorder()
    again = composed(store, base, transaction, recorder)
    assert again.version == first.version
    assert (recorder.judged, recorder.composed) == ([], [])


def test_nobody_but_the_publisher_writes_after_a_closed_version() -> None:
    store, base = table("exp")
    mark = UpdateConfig(config=MapUpdate({PUBLISHED_KEY: "{}"}))
    closed = commit(
        Location(store), base, NamingScheme.V2, Transaction.new(base.version, mark), QUIET
    )
    for handle in (base, closed):
        transaction = Transaction.new(handle.version, Append((fragment("late"),)))
        with pytest.raises(IncompatibleConflictError, match="it was published"):
            commit(Location(store), handle, NamingScheme.V2, transaction, QUIET)
    assert list_versions(store).versions == (2, 1)
    relaxed = CommitPolicy(may_be_closed=True)
    opening = UpdateConfig(config=MapUpdate({PUBLISHED_KEY: None}))
    transaction = Transaction.new(closed.version, opening)
    commit(Location(store), closed, NamingScheme.V2, transaction, relaxed)
    append(store, "open again")
    assert list_versions(store).newest == 4
