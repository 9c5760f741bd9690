"""Landing: staged states become versions, at most once each, whoever brings them there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.metadata import FIELDS, QUIET
from tests.unit.engine.test_staging import (
    ROWS,
    Adding,
    append,
    config,
    files,
    fragment,
    new_stage,
    table,
)

import lancewood as lw
from lancewood.engine.commit.commit import CommitPolicy, commit
from lancewood.engine.commit.publish import PutIfAbsent
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.staging.landing import Landed, LandingState, find_landing, land
from lancewood.engine.staging.staging import Stage
from lancewood.engine.versions.finding import list_versions, load_manifest
from lancewood.engine.versions.history import load_transaction_of
from lancewood.errors import (
    BatchAppliedError,
    IncompatibleConflictError,
    IntegrityError,
    NotFoundError,
    RetryableConflictError,
)
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.format.manifest import content_digest, empty_manifest, encode_manifest_file
from lancewood.model.ids import FragmentId, Version
from lancewood.model.lines import Landing
from lancewood.model.manifest import Manifest
from lancewood.model.table_config import PUBLISHED_KEY, AppliedBatch, decode_mark
from lancewood.model.transaction import (
    Append,
    Delete,
    MapUpdate,
    Overwrite,
    ReserveFragments,
    Restore,
    Transaction,
    UpdateConfig,
)
from lancewood.store.base import PutOutcome, Store
from lancewood.store.disk import DiskStore
from lancewood.store.memory import MemoryStore
from lancewood.testing.faults import FaultyStore

READS = {"get", "get_range", "head", "list", "names", "stamp"}


def staged(base: Snapshot, *names: str) -> tuple[Stage, Landing]:
    """Appends and a key of the configuration, staged and written down."""
    stage = Stage(base)
    for each in names:
        append(stage.snapshot, each)
    config(stage.snapshot, mine="1")
    return stage, stage.publish()


def newest(base: Snapshot) -> Snapshot:
    return load_snapshot(base.location)


def put_steps(location: Location, landing: Landing, count: int) -> None:
    """A lander that dies after so many steps."""
    store = FaultyStore(location.store, at=count + 1, mode="kill")
    real = store._call

    def only_puts(verb: str, key: str, action: Callable[[], object]) -> object:
        return real(verb, key, action) if verb == "put_new" else action()

    store._call = only_puts  # type: ignore[method-assign, assignment]
    with pytest.raises(BaseException, match="died before"):
        land(Location(store), landing, QUIET)


# Nobody else wrote


def test_steps_become_the_next_versions_as_they_were_staged() -> None:
    base = table()
    stage, landing = staged(base, "one", "two")
    assert land(base.location, landing) == Landed((Version(2), Version(3), Version(4)), True)
    for number in range(3):
        state = stage.state(2 + number)
        landed = load_manifest(base.location.store, Version(2 + number), base.scheme)
        assert state is not None
        expected = state.manifest.message
        expected.timestamp.CopyFrom(landed.message.timestamp)
        assert landed.message == expected
        assert landed.index_section == state.manifest.index_section
        made = load_transaction_of(base.location.store, Version(2 + number), base.scheme)
        assert (made.uuid, made.read_version) == (landing.uuids[number], 1 + number)


def test_landing_what_landed_is_one_listing_and_one_small_read() -> None:
    base = table()
    _, landing = staged(base, "one", "two")
    done = land(base.location, landing)
    append(newest(base), "later")
    before = [each.key for each in base.location.store.list()]
    store = FaultyStore(base.location.store)
    assert land(Location(store), landing) == done
    assert [verb for verb, _ in store.calls] == ["names", "get_range"]
    assert find_landing(base.location, landing) == LandingState(done.versions)
    assert [each.key for each in base.location.store.list()] == before


def test_the_writer_need_not_read_what_it_staged() -> None:
    base = table()
    stage, landing = staged(base, "one")
    store = FaultyStore(base.location.store)
    assert land(Location(store), landing, stage=stage).is_exact
    assert [verb for verb, _ in store.calls] == ["put_new", "head", "names"] * 2


def test_a_long_directory_is_not_listed_by_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lancewood.engine.versions.finding.WORTH_IT", 1)
    uri = tmp_path / "p.lance"
    lw.create(uri, ROWS)
    for outsider in (False, True):
        store = FaultyStore(DiskStore(uri))
        stage = Stage(load_snapshot(Location(store)))
        lw.Table(stage.snapshot).set_config({"k": str(outsider)}).set_metadata({"m": "1"})
        before = len(store.calls)
        landing = stage.publish()
        if outsider:
            lw.open(uri).append(ROWS)
        assert stage.is_base_newest() is not outsider
        assert land(stage.location, landing, stage=stage).is_exact is not outsider
        listings = [verb for verb, _ in store.calls[before:] if verb == "names"]
        assert bool(listings) is outsider
    assert lw.open(uri).count_rows() == 6


def test_landed_times_never_run_back() -> None:
    base = table()
    _, landing = staged(base, "one", "two")
    put_steps(base.location, landing, 1)
    ahead = load_manifest(base.location.store, Version(2), base.scheme)
    late = ahead.timestamp_ns + 10**15
    ahead.message.timestamp.FromNanoseconds(late)
    _put_again(base.location.store, ahead)
    assert land(base.location, landing, replace(QUIET, clock=lambda: 1)).is_exact
    times = [
        load_manifest(base.location.store, Version(n), base.scheme).timestamp_ns for n in (3, 4)
    ]
    assert times == [late, late]


def _put_again(store: Store, manifest: Manifest) -> None:
    data = encode_manifest_file(
        manifest.message,
        index_section=manifest.index_section,
        transaction_section=manifest.transaction_section,
    )
    store.put(manifest_key(manifest.version, NamingScheme.V2), data)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_whoever_comes_lands_the_rest(count: int) -> None:
    base = table()
    _, landing = staged(base, "one", "two")
    put_steps(base.location, landing, count)
    assert len(list_versions(base.location.store).versions) == 1 + count
    assert find_landing(base.location, landing) == LandingState()
    assert land(base.location, landing, QUIET) == Landed((Version(2), Version(3), Version(4)), True)
    assert files(newest(base).manifest) == ["first", "one", "two"]


def test_a_lost_race_against_another_lander_is_no_loss() -> None:
    base = table()
    _, landing = staged(base, "one")
    calls = 0

    class Beaten(PutIfAbsent):
        def publish(
            self, store: Store, version: Version, scheme: NamingScheme, data: bytes
        ) -> PutOutcome:
            nonlocal calls
            calls += 1
            if calls == 1:
                land(base.location, landing)
            return super().publish(store, version, scheme, data)

    done = land(base.location, landing, replace(QUIET, publisher=Beaten()))
    assert (done.versions, done.is_exact) == ((2, 3), True)
    assert list_versions(base.location.store).versions == (3, 2, 1)


def test_tables_with_old_names_keep_them() -> None:
    location = Location(MemoryStore())
    location.store.put("data/one", b"rows")
    first = Transaction.new(Version(0), Overwrite((fragment("first"),), FIELDS))
    made = commit(location, empty_manifest("2.2", flags=2), NamingScheme.V1, first, QUIET)
    base = Snapshot(location, made, NamingScheme.V1)
    _, landing = staged(base, "one")
    assert find_landing(location, landing).is_waiting
    assert land(location, landing).versions == (2, 3)
    assert find_landing(location, landing).is_landed
    assert {"1.manifest", "2.manifest", "3.manifest"} < set(location.store.names("_versions"))


def test_an_empty_table_keeps_its_file_version(tmp_path: Path) -> None:
    photos = lw.create(tmp_path / "p.lance", ROWS, layout=lw.Layout(file_version="2.1"))
    stage = Stage(photos._snapshot)
    lw.Table(stage.snapshot).overwrite(ROWS.schema, layout=lw.Layout(file_version="2.0"))
    landing = stage.publish()
    photos.append(ROWS)
    assert not land(stage.location, landing).is_exact
    assert (photos.latest().file_version, photos.latest().count_rows()) == ("2.0", 0)


# Somebody else wrote


def test_a_writer_from_outside_costs_a_rebase() -> None:
    base = table()
    _, landing = staged(base, "one", "two")
    append(base, "theirs")
    state = find_landing(base.location, landing)
    assert state.is_waiting
    assert not state.is_exact
    done = land(base.location, landing)
    assert done == Landed((Version(3), Version(4), Version(5)), False)
    assert files(newest(base).manifest) == ["first", "theirs", "one", "two"]
    assert newest(base).manifest.config == {"mine": "1"}
    assert land(base.location, landing) == done
    assert find_landing(base.location, landing) == LandingState(done.versions, is_exact=False)


@pytest.mark.parametrize("count", [1, 2])
def test_a_writer_from_outside_between_two_steps_costs_a_rebase_of_the_rest(count: int) -> None:
    base = table()
    _, landing = staged(base, "one", "two")
    put_steps(base.location, landing, count)
    append(newest(base), "theirs")
    done = land(base.location, landing)
    assert not done.is_exact
    expected = [2, 3, 4, 5]
    expected.remove(2 + count)
    assert list(done.versions) == expected
    assert sorted(files(newest(base).manifest)) == ["first", "one", "theirs", "two"]
    assert newest(base).manifest.config == {"mine": "1"}
    assert land(base.location, landing) == done


def test_a_rebase_that_was_cut_off_is_finished() -> None:
    base = table()
    _, landing = staged(base, "one", "two")
    append(base, "theirs")
    put_steps(base.location, landing, 1)
    assert files(newest(base).manifest) == ["first", "theirs", "one"]
    append(newest(base), "again")
    done = land(base.location, landing)
    assert done.versions == (3, 5, 6)
    assert files(newest(base).manifest) == ["first", "theirs", "one", "again", "two"]


def test_what_does_not_go_together_has_diverged() -> None:
    base = table()
    stage, landing = staged(base, "one")
    config(base, mine="2")
    before = [each.key for each in base.location.store.list()]
    state = find_landing(base.location, landing)
    assert state.is_diverged
    assert isinstance(state.conflict, IncompatibleConflictError)
    with pytest.raises(IncompatibleConflictError, match="the same configuration key") as raised:
        land(base.location, landing)
    assert str(raised.value) == str(state.conflict)
    assert [each.key for each in base.location.store.list()] == before
    assert files(stage.published.manifest) == ["first", "one"]


def test_steps_that_depend_on_each_other_have_diverged(tmp_path: Path) -> None:
    photos = lw.create(tmp_path / "p.lance", ROWS)
    stage = Stage(photos._snapshot)
    lw.Table(stage.snapshot).append(ROWS).delete("a = 1")
    landing = stage.publish()
    photos.append(ROWS)
    with pytest.raises(IncompatibleConflictError, match="depend on each other"):
        land(stage.location, landing)
    assert find_landing(stage.location, landing).is_diverged
    assert lw.open(photos.uri, version=landing.version).count_rows() == 4


def test_the_rest_of_dependent_steps_lands_after_a_writer_from_outside(tmp_path: Path) -> None:
    photos = lw.create(tmp_path / "p.lance", ROWS)
    stage = Stage(photos._snapshot)
    lw.Table(stage.snapshot).append(ROWS).delete("a = 1")
    landing = stage.publish()
    put_steps(stage.location, landing, 1)
    photos.latest().append(pa.table({"a": [1], "s": ["outside"]}))
    assert land(stage.location, landing).versions == (2, 4)
    rows = photos.latest().to_arrow()
    assert rows["s"].to_pylist() == ["y", "z", "y", "z", "outside"]


def test_rows_deleted_on_both_sides_are_rebased_or_diverged(tmp_path: Path) -> None:
    for mine, theirs, left in (("a = 1", "a = 3", [2]), ("a < 3", "a = 2", None)):
        photos = lw.create(tmp_path / f"{theirs[-1]}.lance", ROWS)
        stage = Stage(photos._snapshot)
        lw.Table(stage.snapshot).delete(mine)
        landing = stage.publish()
        photos.delete(theirs)
        store = FaultyStore(stage.location.store)
        state = find_landing(Location(store), landing)
        assert {verb for verb, _ in store.calls} <= READS
        if left is None:
            assert isinstance(state.conflict, RetryableConflictError)
            with pytest.raises(RetryableConflictError, match="both change the row with _rowid 1"):
                land(stage.location, landing)
        else:
            assert state.is_waiting
            assert not land(stage.location, landing).is_exact
            assert photos.latest().to_arrow()["a"].to_pylist() == left


def test_a_composed_step_lands_after_its_base_and_nowhere_else() -> None:
    base = table()
    for outsider in (False, True):
        stage = Stage(newest(base))
        number = stage.base.version
        stage.compose(Transaction.new(number, ReserveFragments(1), Append(())), Adding())
        landing = stage.publish()
        if not outsider:
            assert land(base.location, landing).versions == (number + 1,)
            continue
        append(newest(base), "theirs")
        with pytest.raises(IncompatibleConflictError, match="it was composed of several"):
            land(base.location, landing)
        assert find_landing(base.location, landing).is_diverged


def test_a_serializable_step_lands_after_its_base_and_nowhere_else() -> None:
    base = table()
    stage = Stage(base)
    mine = Transaction.new(Version(1), Append((fragment("mine"),)))
    stage.snapshot.commit(mine, CommitPolicy(serializable=True))
    landing = stage.publish()
    append(base, "theirs")
    with pytest.raises(IncompatibleConflictError, match="it is serializable"):
        land(base.location, landing)


def test_a_rebased_batch_is_marked_and_one_that_was_loaded_is_not_loaded_again() -> None:
    base = table()
    policy = CommitPolicy(applied=AppliedBatch("app", 1))
    landings = []
    for name in ("one", "two"):
        stage = Stage(base)
        stage.snapshot.commit(Transaction.new(Version(1), Append((fragment(name),))), policy)
        landings.append(stage.publish())
    append(base, "theirs")
    assert land(base.location, landings[0]).versions == (3,)
    (text,) = newest(base).manifest.config.values()
    assert decode_mark("app", text).uuid == landings[0].uuid
    with pytest.raises(BatchAppliedError):
        land(base.location, landings[1])


def test_a_new_table_meets_one_that_somebody_made(tmp_path: Path) -> None:
    uri = tmp_path / "new.lance"
    stage = new_stage(Location(DiskStore(uri)))
    landing = stage.publish()
    assert find_landing(stage.location, landing).is_waiting
    lw.create(uri, ROWS.select(["a"]))
    with pytest.raises(IncompatibleConflictError, match="somebody else made one"):
        land(stage.location, landing)
    assert find_landing(stage.location, landing).is_diverged
    assert lw.open(uri).version == 1
    assert lw.open(uri, version=landing.version).to_arrow() == ROWS


def test_a_new_table_that_went_on_has_landed(tmp_path: Path) -> None:
    uri = tmp_path / "new.lance"
    stage = new_stage(Location(DiskStore(uri)))
    lw.Table(stage.snapshot).append(ROWS)
    landing = stage.publish()
    put_steps(stage.location, landing, 1)
    lw.open(uri).append(ROWS)
    assert land(stage.location, landing).versions == (1, 3)
    assert lw.open(uri).count_rows() == 9


def test_finding_out_writes_nothing() -> None:
    base = table()
    _, waiting = staged(base, "one")
    append(base, "theirs")
    store = FaultyStore(base.location.store)
    assert find_landing(Location(store), waiting).is_waiting
    assert {verb for verb, _ in store.calls} <= READS


# What is gone or odd


def test_staged_manifests_that_are_gone_are_told() -> None:
    base = table()
    _, landing = staged(base, "one")
    base.location.store.delete([manifest_key(landing.steps[0], base.scheme)])
    with pytest.raises(NotFoundError):
        land(base.location, landing)
    assert list_versions(base.location.store).versions == (1,)


def test_a_table_that_is_gone_is_told() -> None:
    base = table()
    _, landing = staged(base, "one")
    base.location.store.delete([manifest_key(Version(1), base.scheme)])
    for act in (land, find_landing):
        with pytest.raises(NotFoundError, match=r"version 1 of .* is gone"):
            act(base.location, landing)


def test_a_manifest_of_another_transaction_does_not_land() -> None:
    base = table()
    _, landing = staged(base, "one")
    _, other = staged(base, "two")
    mixed = Landing(landing.base, landing.uuid, (landing.steps[0], other.steps[1]))
    with pytest.raises(IntegrityError, match="is not step 2 of transaction"):
        land(base.location, mixed)
    assert list_versions(base.location.store).versions == (1,)
    shifted = Landing(Version(0), landing.uuid, landing.steps)
    with pytest.raises(IncompatibleConflictError):
        land(base.location, shifted)


def test_versions_that_were_cleaned_up_in_between_are_a_divergence_not_a_second_landing() -> None:
    base = table()
    _, landing = staged(base, "one")
    append(base, "theirs")
    land(base.location, landing)
    append(newest(base), "later")
    keys = [manifest_key(Version(each), base.scheme) for each in (2, 3, 4)]
    base.location.store.delete(keys)
    with pytest.raises(
        IncompatibleConflictError, match="whether it landed among them cannot be told"
    ):
        land(base.location, landing)
    assert list_versions(base.location.store).versions == (5, 1)


def test_versions_that_were_cleaned_up_before_the_last_step_do_not_matter() -> None:
    base = table()
    _, landing = staged(base, "one", "two")
    done = land(base.location, landing)
    base.location.store.delete([manifest_key(Version(each), base.scheme) for each in (1, 2, 3)])
    assert land(base.location, landing) == done


def test_a_restoration_lands_as_it_was_staged_and_after_others() -> None:
    base = append(table(), "one")
    for outsider in (False, True):
        stage = Stage(newest(base))
        number = stage.base.version
        stage.snapshot.commit(Transaction.new(number, Restore(Version(1))))
        landing = stage.publish()
        if outsider:
            append(newest(base), "theirs")
        assert land(base.location, landing).is_exact is not outsider
        assert files(newest(base).manifest) == ["first"]


def test_a_branch_that_was_closed_takes_no_landing() -> None:
    base = table(branch="exp")
    _, landing = staged(base, "one")
    mark = UpdateConfig(config=MapUpdate({PUBLISHED_KEY: "{}"}))
    base.commit(Transaction.new(Version(1), mark))
    with pytest.raises(IncompatibleConflictError, match="it was published"):
        land(base.location, landing)
    assert find_landing(base.location, landing).is_diverged


def test_content_is_the_same_after_an_exact_landing_only() -> None:
    base = table()
    stage, landing = staged(base, "one")
    pinned = content_digest(stage.published.manifest.message)
    land(base.location, landing)
    assert content_digest(newest(base).manifest.message) == pinned
    again, later = staged(newest(base), "two")
    append(newest(base), "theirs")
    land(base.location, later)
    assert content_digest(newest(base).manifest.message) != content_digest(
        again.published.manifest.message
    )


def test_a_landing_of_a_delete_of_all_fragments_counts_once() -> None:
    base = table()
    stage = Stage(base)
    stage.snapshot.commit(Transaction.new(Version(1), Delete((), (FragmentId(0),))))
    landing = stage.publish()
    assert [land(base.location, landing).versions for _ in range(3)] == [(2,)] * 3
    assert files(newest(base).manifest) == []


@pytest.mark.parametrize("has_outsider", [False, True], ids=["alone", "outsider"])
def test_a_state_whose_files_are_gone_never_becomes_a_version(has_outsider: bool) -> None:
    base = table()
    _, landing = staged(base, "one", "two")
    if has_outsider:
        append(base, "theirs")
    base.location.store.delete(["data/two"])
    before = list_versions(base.location.store).versions
    with pytest.raises(IncompatibleConflictError, match=r"data/two, which .* is gone") as refused:
        land(base.location, landing)
    assert refused.value.facts["file"] == "data/two"
    assert find_landing(base.location, landing).is_diverged
    assert list_versions(base.location.store).versions == before
    base.location.store.put("data/two", b"rows")
    assert find_landing(base.location, landing).is_waiting
    assert len(land(base.location, landing).versions) == 3


def test_a_state_whose_deletion_file_is_gone_never_becomes_a_version(tmp_path: Path) -> None:
    photos = lw.create(tmp_path / "photos.lance", ROWS)
    stage = Stage(photos._snapshot)
    lw.Table(stage.snapshot).delete("a = 1")
    landing = stage.publish()
    (lost,) = (tmp_path / "photos.lance" / "_deletions").iterdir()
    lost.unlink()
    with pytest.raises(IncompatibleConflictError, match=r"_deletions/.* is gone"):
        land(stage.location, landing)
    assert photos.latest().version == 1
