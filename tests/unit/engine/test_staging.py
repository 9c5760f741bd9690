"""A stage: changes are built by the rules of any commit, and nothing is visible."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread

import pyarrow as pa
import pytest
from tests.metadata import FIELDS, QUIET, begin
from tests.metadata import fragment as fragment_of

import lancewood as lw
from lancewood.engine.commit.commit import CommitPolicy
from lancewood.engine.commit.composer import Composition
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.staging.landing import land
from lancewood.engine.staging.staging import Stage, StagedSnapshot
from lancewood.engine.versions.finding import list_versions, load_manifest
from lancewood.engine.versions.history import load_transaction
from lancewood.engine.write import WriteRequest, rows_to_append
from lancewood.errors import (
    AlreadyExistsError,
    BatchAppliedError,
    CommitUnknownError,
    ConflictError,
    IncompatibleConflictError,
    InvalidInputError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.format.manifest import content_digest
from lancewood.jobs.runner import LocalRunner
from lancewood.model.fragment import Fragment
from lancewood.model.ids import FragmentId, Version, is_detached
from lancewood.model.manifest import Manifest
from lancewood.model.table_config import AppliedBatch, decode_mark
from lancewood.model.transaction import (
    EXACT_PROPERTY,
    STAGED_PROPERTY,
    Append,
    Delete,
    HeadChanges,
    MapUpdate,
    Operation,
    Overwrite,
    ReserveFragments,
    Restore,
    Transaction,
    UpdateConfig,
    operation_name,
    step_uuid,
)
from lancewood.rules.patching import make_patch
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore

ROWS = pa.table({"a": [1, 2, 3], "s": ["x", "y", "z"]})


STAGED = ("one", "two", "mine", "theirs", "composed")


def fragment(name: str, rows: int = 5) -> Fragment:
    return fragment_of(name, rows)


def table(branch: str | None = None) -> Snapshot:
    """Version 1 with one fragment. Its file does not exist; those of fragments that are staged do,
    for who lands them looks for them."""
    location = Location(MemoryStore())
    for name in STAGED:
        location.store.put(f"data/{name}", b"rows")
    made = begin(location.store, Overwrite((fragment("first"),), FIELDS), branch=branch)
    return Snapshot(location, made, NamingScheme.V2)


def append(on: Snapshot, name: str) -> Snapshot:
    return on.commit(Transaction.new(on.manifest.version, Append((fragment(name),))), QUIET)


def config(on: Snapshot, **values: str) -> Snapshot:
    change = UpdateConfig(config=MapUpdate(dict(values)))
    return on.commit(Transaction.new(on.manifest.version, change), QUIET)


def files(manifest: Manifest) -> list[str]:
    return [file.path for each in manifest.fragments for file in each.files]


def names(location: Location) -> list[str]:
    return sorted(location.store.names("_versions"))


@pytest.fixture
def photos(tmp_path: Path) -> lw.Table:
    return lw.create(tmp_path / "photos.lance", ROWS)


# Building


def test_nothing_is_visible_and_nothing_is_written_while_steps_are_staged() -> None:
    base = table()
    before = [each.key for each in base.location.store.list()]
    stage = Stage(base)
    append(append(stage.snapshot, "one"), "two")
    assert [each.key for each in base.location.store.list()] == before
    assert files(stage.snapshot.manifest) == ["first", "one", "two"]
    assert [operation_name(each.operation) for each in stage.steps] == ["Append", "Append"]


def test_states_have_the_numbers_and_ids_of_the_versions_to_be() -> None:
    base = table()
    stage = Stage(base)
    append(append(stage.snapshot, "one"), "two")
    direct = append(append(base, "one"), "two").manifest
    staged = stage.snapshot.manifest
    assert staged.version == direct.version == 3
    assert staged.message.fragments == direct.message.fragments
    assert content_digest(staged.message) == content_digest(direct.message)
    assert [each.read_version for each in stage.steps] == [1, 2]


def test_steps_have_the_identities_that_follow_from_the_stages() -> None:
    stage = Stage(table())
    config(append(stage.snapshot, "one"), k="v")
    assert [each.uuid for each in stage.steps] == [stage.uuid, step_uuid(stage.uuid, 1)]
    for number, each in enumerate(stage.steps, 2):
        state = stage.state(number)
        assert state is not None
        assert load_transaction(stage.location.store, state.manifest).uuid == each.uuid


def test_two_writes_from_one_handle_are_both_there() -> None:
    stage = Stage(table())
    handle = stage.snapshot
    append(handle, "one")
    append(handle, "two")
    config(handle, k="v")
    assert files(stage.snapshot.manifest) == ["first", "one", "two"]
    assert stage.snapshot.manifest.config == {"k": "v"}
    assert [each.read_version for each in stage.steps] == [1, 2, 3]


def test_writes_that_do_not_go_together_are_judged_as_by_a_commit() -> None:
    stage = Stage(table())
    handle = stage.snapshot
    handle.commit(Transaction.new(Version(1), Delete((), (FragmentId(0),))))
    with pytest.raises(RetryableConflictError, match="both change fragment 0"):
        handle.commit(Transaction.new(Version(1), Delete((), (FragmentId(0),))))
    handle.newest().commit(Transaction.new(Version(2), Overwrite((fragment("o"),), FIELDS)))
    with pytest.raises(IncompatibleConflictError, match="meets Overwrite in version 3"):
        append(handle, "late")
    assert len(stage.steps) == 2


def test_a_serializable_write_is_refused_if_the_stage_went_on() -> None:
    stage = Stage(table())
    handle = stage.snapshot
    append(handle, "one")
    late = Transaction.new(Version(1), Append((fragment("two"),)))
    with pytest.raises(RetryableConflictError, match="serializable"):
        handle.commit(late, CommitPolicy(serializable=True))


def test_a_transaction_built_before_the_base_is_judged_by_what_landed_since() -> None:
    first = table()
    base = config(append(first, "landed"), k="v")
    stage = Stage(base)
    append(stage.snapshot, "staged")
    stage.snapshot.commit(Transaction.new(Version(1), Append((fragment("old"),))))
    assert files(stage.snapshot.manifest) == ["first", "landed", "staged", "old"]
    with pytest.raises(IncompatibleConflictError, match="the same configuration key"):
        stage.snapshot.commit(
            Transaction.new(Version(1), UpdateConfig(config=MapUpdate({"k": "w"})))
        )
    with pytest.raises(NotFoundError, match="version 9"):
        stage.snapshot.commit(Transaction.new(Version(9), Append((fragment("x"),))))


def test_staging_a_transaction_again_changes_nothing() -> None:
    stage = Stage(table())
    transaction = Transaction.new(Version(1), Append((fragment("one"),)))
    done = stage.snapshot.commit(transaction)
    append(stage.snapshot, "two")
    again = stage.snapshot.commit(transaction)
    assert again.manifest.version == done.manifest.version == 2
    assert len(stage.steps) == 2


def test_a_list_of_operations_becomes_a_step_each() -> None:
    stage = Stage(table())
    change = UpdateConfig(config=MapUpdate({"k": "v"}))
    stage.snapshot.commit(Transaction.new(Version(1), Append((fragment("one"),)), change))
    assert [operation_name(each.operation) for each in stage.steps] == ["Append", "UpdateConfig"]
    assert stage.snapshot.manifest.version == 3
    gone = Delete((), (FragmentId(0),))
    with pytest.raises(InvalidInputError, match="both change fragment 0"):
        stage.snapshot.commit(Transaction.new(Version(3), gone, gone))
    assert len(stage.steps) == 2


def test_a_batch_is_marked_with_the_identity_of_its_step_and_loaded_once() -> None:
    stage = Stage(table())
    append(stage.snapshot, "one")
    policy = CommitPolicy(applied=AppliedBatch("app", 7))
    newest = stage.snapshot
    after = newest.commit(Transaction.new(Version(2), Append((fragment("two"),))), policy)
    (text,) = after.manifest.config.values()
    assert decode_mark("app", text).uuid == stage.steps[1].uuid
    with pytest.raises(BatchAppliedError, match="is there already"):
        after.commit(Transaction.new(Version(3), Append((fragment("three"),))), policy)


def test_times_never_run_back() -> None:
    base = append(table(), "one")
    stage = Stage(base)
    slow = CommitPolicy(clock=lambda: 5)
    after = stage.snapshot.commit(
        Transaction.new(base.manifest.version, Append((fragment("two"),))), slow
    )
    assert after.manifest.timestamp_ns == base.manifest.timestamp_ns


def test_a_staged_snapshot_is_a_plain_one_elsewhere() -> None:
    stage = Stage(table())
    staged = append(stage.snapshot, "one")
    for there in (pickle.loads(pickle.dumps(staged)), staged.bare()):
        assert type(there) is Snapshot
        assert there.manifest.version == 2
    with pytest.raises(NotFoundError):
        append(pickle.loads(pickle.dumps(staged)), "lost")


def test_a_stage_begins_at_a_version_of_the_history() -> None:
    stage = Stage(table())
    append(stage.snapshot, "one")
    stage.publish()
    for each in (stage.snapshot, stage.published):
        with pytest.raises(InvalidInputError, match="not part of its history"):
            Stage(each)


def test_an_earlier_state_can_be_restored_and_one_that_was_not_staged_cannot() -> None:
    stage = Stage(table())
    append(append(stage.snapshot, "one"), "two")
    stage.snapshot.commit(Transaction.new(Version(3), Restore(Version(2))))
    assert files(stage.snapshot.manifest) == ["first", "one"]
    stage.snapshot.commit(Transaction.new(Version(4), Restore(Version(1))))
    assert files(stage.snapshot.manifest) == ["first"]
    assert stage.snapshot.manifest.next_row_id == 15
    with pytest.raises(NotFoundError, match="not staged"):
        stage.snapshot.commit(Transaction.new(Version(5), Restore(Version(8))))


def test_threads_may_stage_at_once() -> None:
    stage = Stage(table())
    handle = stage.snapshot
    done = LocalRunner(workers=8).run(
        lambda name: append(handle, name), [f"f{n}" for n in range(40)], what="appending"
    )
    assert len([*done]) == 40
    numbers = [each.id for each in stage.snapshot.manifest.fragments]
    assert numbers == [*range(41)]


def test_one_change_is_applied_before_the_next_one_is_looked_at() -> None:
    stage = Stage(table())
    seen = []

    def clock() -> int:
        other = Thread(target=lambda: seen.append(stage._lock.acquire(blocking=False)))
        other.start()
        other.join()
        return 1

    change = Transaction.new(Version(1), Append((fragment("one"),)))
    stage.snapshot.commit(change, CommitPolicy(clock=clock))
    assert seen == [False]


# Publishing


def test_publishing_writes_a_detached_version_for_each_step() -> None:
    base = table()
    stage = Stage(base)
    config(append(stage.snapshot, "one"), k="v")
    landing = stage.publish()
    assert (landing.base, landing.uuid) == (1, stage.uuid)
    assert all(is_detached(each) for each in landing.steps)
    assert list_versions(base.location.store).versions == (1,)
    for number, version in enumerate(landing.steps):
        found = load_manifest(base.location.store, version, base.scheme)
        made = load_transaction(base.location.store, found)
        assert made.uuid == landing.uuids[number]
        assert made.read_version == 1 + number
        state = stage.state(2 + number)
        assert state is not None
        assert content_digest(found.message) == content_digest(state.manifest.message)
        assert found.transaction_file is not None
        assert base.location.store.head(f"_transactions/{found.transaction_file}")
    assert stage.published.manifest.version == landing.version
    assert type(stage.published) is Snapshot


def test_publishing_again_writes_only_what_is_new() -> None:
    stage = Stage(table())
    append(stage.snapshot, "one")
    first = stage.publish()
    before = names(stage.location)
    assert stage.publish() == first
    assert names(stage.location) == before
    append(stage.snapshot, "two")
    second = stage.publish()
    assert second.steps[:1] == first.steps
    assert len(names(stage.location)) == len(before) + 1


def test_nothing_staged_is_nothing_to_publish() -> None:
    stage = Stage(table())
    with pytest.raises(InvalidInputError, match="nothing was staged"):
        stage.publish()
    with pytest.raises(InvalidInputError, match="was published"):
        _ = stage.published


def test_publishing_is_refused_if_the_base_was_cleaned_up_meanwhile() -> None:
    base = append(table(), "one")
    stage = Stage(base)
    stage.snapshot.commit(Transaction.new(Version(2), Restore(Version(1))))
    base.location.store.delete([manifest_key(Version(1), base.scheme)])
    with pytest.raises(RetryableConflictError, match=r"version 1 .* was removed"):
        stage.publish()


# A table that is to be made


def new_stage(location: Location) -> Stage:
    return Stage.new(location, ROWS, WriteRequest(file_version="2.2"), "begin")


def test_a_new_table_is_no_table_until_it_lands(tmp_path: Path) -> None:
    uri = tmp_path / "new.lance"
    stage = new_stage(Location(DiskStore(uri)))
    assert stage.base.version == 0
    assert lw.Table(stage.snapshot).append(ROWS).to_arrow().num_rows == 6
    assert not uri.joinpath("_versions").exists()
    landing = stage.publish()
    assert landing.base == 0
    assert not lw.exists(uri)
    assert land(stage.location, landing).versions == (1, 2)
    table = lw.open(uri)
    assert table.count_rows() == 6
    assert [each.message for each in table.versions()] == ["begin", "begin"]


def test_a_new_table_is_refused_where_one_is(photos: lw.Table) -> None:
    with pytest.raises(AlreadyExistsError):
        new_stage(photos._snapshot.location)


def test_a_new_table_is_not_built_anew_on_one_that_somebody_made(tmp_path: Path) -> None:
    uri = tmp_path / "new.lance"
    stage = new_stage(Location(DiskStore(uri)))
    other = lw.create(uri, ROWS)
    with pytest.raises(IncompatibleConflictError, match="somebody else made one"):
        stage.rebuild(other._snapshot)


# Verbs of the table


def test_every_verb_works_on_a_stage_and_sees_its_own_writes(photos: lw.Table) -> None:
    stage = Stage(photos._snapshot)
    table = lw.Table(stage.snapshot)
    table = table.append(pa.table({"a": [4, 5], "s": ["v", "w"]}), message="more")
    table = table.delete("a = 2")
    table = table.update({"s": "'new'"}, where="a = 4")
    table = table.merge(pa.table({"a": [5, 6], "s": ["m", "n"]}), on="a")
    table = table.add_columns({"b": "a * 10"})
    table = table.rename_column("s", "text")
    table = table.cast_column("b", pa.float64())
    table = table.drop_columns(["b"])
    table = table.compact()
    table = table.set_config({"k": "v"})
    assert table.to_arrow().sort_by("a").to_pydict() == {
        "a": [1, 3, 4, 5, 6],
        "text": ["x", "z", "new", "m", "n"],
    }
    assert table.latest().version == table.version
    table = table.restore(2)
    assert table.count_rows() == 5
    assert lw.open(photos.uri).version == 1
    done = land(stage.location, stage.publish())
    assert done.is_exact
    assert lw.open(photos.uri).to_arrow() == table.to_arrow()


def test_two_deletes_from_one_handle_take_the_rows_of_both(photos: lw.Table) -> None:
    stage = Stage(photos._snapshot)
    handle = lw.Table(stage.snapshot)
    handle.delete("a = 1")
    handle.delete("a = 3")
    handle.delete("a = 3")
    assert handle.latest().to_arrow()["a"].to_pylist() == [2]
    assert len(stage.steps) == 2


def test_a_table_checked_out_from_a_stage_writes_into_it(photos: lw.Table) -> None:
    photos.append(ROWS)
    photos.branches.create("exp")
    stage = Stage(photos.latest()._snapshot)
    handle = lw.Table(stage.snapshot).append(ROWS)
    assert handle.checkout(version=3).count_rows() == 9
    assert handle.checkout(version=2).append(ROWS).count_rows() == 12
    assert handle.checkout(version=1).append(ROWS).count_rows() == 15
    assert [len(stage.steps), lw.open(photos.uri).version] == [3, 2]
    with pytest.raises(NotFoundError, match="not staged"):
        handle.checkout(version=9)
    elsewhere = handle.checkout(branch="exp")
    assert elsewhere.count_rows() == 3
    with pytest.raises(InvalidInputError, match="this transaction writes to"):
        elsewhere.append(ROWS)


# Building anew


def test_an_append_is_built_anew_after_others_wrote() -> None:
    base = table()
    stage = Stage(base)
    config(append(stage.snapshot, "mine"), k="v")
    old = stage.publish()
    head = append(base, "theirs")
    fresh = stage.rebuild(head)
    assert fresh.uuid == stage.uuid
    assert fresh.base.version == 2
    assert files(fresh.snapshot.manifest) == ["first", "theirs", "mine"]
    assert [each.read_version for each in fresh.steps] == [2, 3]
    landing = fresh.publish()
    assert landing.uuids == old.uuids
    assert not set(landing.steps) & set(old.steps)
    assert land(base.location, landing).versions == (3, 4)


def test_a_stage_on_the_same_version_stays_as_it_is() -> None:
    base = table()
    stage = Stage(base)
    append(stage.snapshot, "mine")
    assert stage.rebuild(load_snapshot(base.location)) is stage


def test_an_empty_stage_moves_without_a_question() -> None:
    base = table()
    fresh = Stage(base).rebuild(append(base, "theirs"))
    assert (fresh.base.version, fresh.steps) == (2, ())


def test_it_is_built_on_the_given_version_and_not_on_what_came_after() -> None:
    base = table()
    stage = Stage(base)
    append(stage.snapshot, "mine")
    head = append(base, "theirs")
    append(head, "later")
    fresh = stage.rebuild(head)
    assert files(fresh.snapshot.manifest) == ["first", "theirs", "mine"]


@pytest.mark.parametrize(
    ("theirs", "kind"),
    [
        (Overwrite((fragment("o"),), FIELDS), IncompatibleConflictError),
        (Delete((), (FragmentId(0),)), RetryableConflictError),
    ],
)
def test_what_does_not_go_together_is_refused_and_nothing_changes(
    theirs: Operation, kind: type[ConflictError]
) -> None:
    base = table()
    stage = Stage(base)
    stage.snapshot.commit(Transaction.new(Version(1), Delete((), (FragmentId(0),))))
    head = base.commit(Transaction.new(Version(1), theirs))
    before = [each.key for each in base.location.store.list()]
    with pytest.raises(kind, match="version 2"):
        stage.rebuild(head)
    assert [each.key for each in base.location.store.list()] == before
    assert len(stage.steps) == 1


def test_steps_that_depend_on_each_other_are_not_built_anew(photos: lw.Table) -> None:
    stage = Stage(photos._snapshot)
    lw.Table(stage.snapshot).append(ROWS).delete("a = 1")
    head = photos.append(ROWS)
    with pytest.raises(RetryableConflictError, match=r"both change|rests on .* again"):
        stage.rebuild(head._snapshot)


def test_a_serializable_step_is_not_built_anew() -> None:
    base = table()
    stage = Stage(base)
    mine = Transaction.new(Version(1), Append((fragment("mine"),)))
    stage.snapshot.commit(mine, CommitPolicy(serializable=True))
    assert stage.steps[0].properties[EXACT_PROPERTY] == "it is serializable"
    with pytest.raises(RetryableConflictError, match="serializable"):
        stage.rebuild(append(base, "theirs"))


def test_a_delete_is_built_anew_on_a_fragment_that_lost_other_rows(photos: lw.Table) -> None:
    stage = Stage(photos._snapshot)
    lw.Table(stage.snapshot).delete("a = 1")
    fresh = stage.rebuild(photos.delete("a = 3")._snapshot)
    assert lw.Table(fresh.snapshot).to_arrow()["a"].to_pylist() == [2]
    landed = land(fresh.location, fresh.publish())
    assert landed.is_exact
    assert photos.latest().to_arrow()["a"].to_pylist() == [2]
    same = Stage(photos.latest()._snapshot)
    lw.Table(same.snapshot).delete("a = 2")
    with pytest.raises(RetryableConflictError):
        same.rebuild(photos.latest().delete("a = 2")._snapshot)


def test_a_batch_that_another_loaded_is_refused_when_it_is_built_anew() -> None:
    base = table()
    stage = Stage(base)
    policy = CommitPolicy(applied=AppliedBatch("app", 1))
    for each in (stage.snapshot, base):
        each.commit(Transaction.new(Version(1), Append((fragment("rows"),))), policy)
    with pytest.raises(BatchAppliedError):
        stage.rebuild(load_snapshot(base.location))


def test_what_landed_already_is_not_built_anew() -> None:
    base = table()
    stage = Stage(base)
    append(stage.snapshot, "mine")
    land(base.location, stage.publish())
    with pytest.raises(CommitUnknownError, match="as version 2: it was committed"):
        stage.rebuild(load_snapshot(base.location))


# Composed


@dataclass
class Adding:
    """Adds a fragment, whatever is newest, and remembers what it was asked."""

    judged: list[int] = field(default_factory=list)

    def judge(self, theirs: Transaction, version: Version) -> None:
        self.judged.append(version)

    def compose(self, newest: Manifest) -> Composition:
        number = FragmentId((newest.max_fragment_id or 0) + 1)
        made = fragment("composed").numbered(number)
        patch = make_patch(newest, HeadChanges(max_fragment_id=number), add=(made,))
        return Composition(Append((made,)), patch)


def test_a_composed_step_is_built_on_the_steps_before_it() -> None:
    base = table()
    stage = Stage(base)
    append(stage.snapshot, "one")
    composer = Adding()
    whole = Transaction.new(Version(1), ReserveFragments(1), Append(()), properties={"a": "b"})
    done = stage.compose(whole, composer)
    assert isinstance(done, StagedSnapshot)
    assert files(done.manifest) == ["first", "one", "composed"]
    assert composer.judged == [2]
    assert stage.compose(whole, composer).manifest.version == 3
    last = stage.steps[-1]
    assert last.uuid == step_uuid(stage.uuid, 1)
    assert last.properties == {
        "a": "b",
        EXACT_PROPERTY: "it was composed of several",
        STAGED_PROPERTY: stage.uuid,
    }
    with pytest.raises(RetryableConflictError, match="composed"):
        stage.rebuild(append(base, "theirs"))
    other = Stage(load_snapshot(base.location))
    other.compose(Transaction.new(Version(1), Append(())), Adding())
    assert land(base.location, other.publish()).versions == (3,)


def test_a_composed_step_alone_is_composed_anew() -> None:
    base = table()
    stage = Stage(base)
    composer = Adding()
    stage.compose(Transaction.new(Version(1), Append(())), composer)
    fresh = stage.rebuild(append(base, "theirs"))
    assert composer.judged == [2]
    assert files(fresh.snapshot.manifest) == ["first", "theirs", "composed"]
    assert fresh.steps[0].uuid == stage.uuid


def test_files_of_a_refused_write_go(photos: lw.Table) -> None:
    stage = Stage(photos._snapshot)
    handle = lw.Table(stage.snapshot)
    handle.overwrite(ROWS)
    data = Path(photos.uri) / "data"
    before = sorted(data.iterdir())
    with pytest.raises(IncompatibleConflictError):
        handle.append(ROWS)
    assert sorted(data.iterdir()) == before
    rows_to_append(stage.snapshot, ROWS).write()
    assert sorted(data.iterdir()) != before
