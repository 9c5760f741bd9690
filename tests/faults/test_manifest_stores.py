"""A failure, a lost answer or a death at every call of a commit through a manifest store, of the
object store and of the manifest store alike.

Afterwards the table is old or new, never between, and no version is skipped: the next reader
completes what was left, pylance without the manifest store is at most one version behind. What was
reported as failed did not land, and what was reported as done did.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import lance
import pyarrow as pa
import pytest
from tests.breadth import daily
from tests.faults.hurting import MODES, copied, every_call
from tests.manifests import WatchedManifests
from tests.pylance import judged

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.external.base import base_by_uri
from lancewood.external.opening import open_manifest_store
from lancewood.external.store import ExternalStore, Root
from lancewood.model.ids import Version
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import FaultyStore, Killed, Mode

pytestmark = pytest.mark.usefixtures("no_waiting")
Act = Callable[[lw.Table], object]


def append(table: lw.Table) -> object:
    return table.append(pa.table({"a": [3]}))


def restore(table: lw.Table) -> object:
    return table.restore(1)


def hurt(manifests: str, faulty: FaultyStore) -> lw.Table:
    """A handle on the newest version, through stores that are hurt at a call."""
    uri = faulty.uri
    old = lw.open(uri, access=lw.Access(manifest_store=manifests))._snapshot
    beside = WatchedManifests(open_manifest_store(manifests), faulty)
    store = ExternalStore(faulty, beside, base_by_uri(uri))
    return lw.Table(Snapshot(Location(store), old.manifest, old.scheme))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("act", [append, restore])
def test_line_66_a_commit_that_is_hurt_at_any_call_is_whole_or_not_there(
    act: Act, mode: Mode, tmp_path: Path
) -> None:
    uri, manifests = str(tmp_path / "t.lance"), f"sqlite://{tmp_path}/manifests.db"
    lw.create(uri, pa.table({"a": [1]}), access=lw.Access(manifest_store=manifests)).append(
        pa.table({"a": [2]})
    )
    newest = 2
    for attempt in every_call(mode, lambda _: DiskStore(uri)):
        attempt.run(act, hurt(manifests, attempt.store))
        before = lance.dataset(uri).version
        after = lw.open(uri, access=lw.Access(manifest_store=manifests))
        attempt.check(after.version, newest, newest + 1)
        assert before in (after.version - 1, after.version)
        judge = judged(uri)
        assert (judge.version, judge.count_rows()) == (after.version, after.count_rows())
        assert [each.version for each in after.versions()] == [*range(after.version, 0, -1)]
        newest = after.version
    assert newest > 3


@pytest.mark.parametrize("mode", MODES)
def test_line_66_a_reader_that_is_hurt_while_it_completes_reads_no_older_version(
    mode: Mode, tmp_path: Path
) -> None:
    uri, manifests = str(tmp_path / "t.lance"), f"sqlite://{tmp_path}/manifests.db"
    lw.create(uri, pa.table({"a": [1]}), access=lw.Access(manifest_store=manifests))
    refused = 0
    for attempt in every_call(mode, lambda _: DiskStore(uri)):
        newest = lw.open(uri, access=lw.Access(manifest_store=manifests)).version
        table = hurt(manifests, attempt.store)
        die_after_the_entry(uri, manifests)
        try:
            assert table.latest().version == newest + 1
        except (lw.StorageError, Killed):
            refused += 1
        assert lw.open(uri, access=lw.Access(manifest_store=manifests)).version == newest + 1
        assert lance.dataset(uri).version == newest + 1
        assert len(list((tmp_path / "t.lance" / "_versions").glob("*.manifest"))) == newest + 1
    assert refused > daily(1, of=2)


def die_after_the_entry(uri: str, manifests: str) -> None:
    """A writer that dies between the second step and the third."""

    def die(*_: object) -> bool:
        raise Killed("after the second step")

    table = lw.open(uri, access=lw.Access(manifest_store=manifests))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Root, "_copy", die)
        with pytest.raises(Killed):
            table.append(pa.table({"a": [3]}))


@pytest.mark.sliced(3)
@pytest.mark.parametrize("mode", ["kill-after", "before"])
def test_a_cleanup_that_is_hurt_at_any_call_leaves_a_table_that_reads(
    mode: Mode, tmp_path: Path, no_commit_under_way: None
) -> None:
    whole = tmp_path / "whole"
    made = lw.create(
        whole, pa.table({"a": [1]}), access=lw.Access(manifest_store=f"sqlite://{tmp_path}/of.db")
    )
    made.append(pa.table({"a": [2]})).append(pa.table({"a": [3]}))
    for attempt in every_call(mode, lambda at: copied(whole, tmp_path / str(at))):
        uri, manifests = attempt.store.uri, f"sqlite://{tmp_path}/{attempt.at}.db"
        for number in (1, 2, 3):
            lw.open(uri, version=number, access=lw.Access(manifest_store=manifests))
        attempt.run(
            lambda each: each.cleanup(keep_versions=1, older_than=timedelta(0)),
            hurt(manifests, attempt.store),
        )
        after = lw.open(uri, access=lw.Access(manifest_store=manifests))
        left = [each.version for each in after.versions()]
        for number in (1, 2, 3):
            if number in left:
                assert (
                    lw.open(
                        uri, version=number, access=lw.Access(manifest_store=manifests)
                    ).count_rows()
                    == number
                )
            else:
                with pytest.raises(lw.NotFoundError, match=f"version {number} of"):
                    lw.open(uri, version=number, access=lw.Access(manifest_store=manifests))
    assert left == [3]
    assert open_manifest_store(manifests).get(base_by_uri(uri), Version(1)) is None
