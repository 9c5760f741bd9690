"""Clones beside cleanup and drop, stepped at every store call: a clone that was made has its files.

Data files are names with a byte in them here: neither looks into files.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.breadth import daily
from tests.metadata import FIELDS, begin, put_fragment

from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.upkeep.pins import CLEANUPS_DIR
from lancewood.engine.versions.finding import load_version, newest_version
from lancewood.errors import CommitUnknownError, NotFoundError, RetryableConflictError
from lancewood.format.refs import TAGS_DIR
from lancewood.jobs.clone import clone_shallow
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.cleanup import clean_up, names_in
from lancewood.jobs.upkeep.retention import Retention
from lancewood.model.ids import Version
from lancewood.model.transaction import Overwrite
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.store.memory import MemoryStore
from lancewood.testing.schedule import explore

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ORDERS = daily(100, of=250)


def fresh() -> Store:
    """Versions 1 to 3, which share nothing."""
    store = MemoryStore()
    images = [put_fragment(store, each) for each in ("one", "two", "three")]
    begin(store, *(Overwrite((each,), FIELDS) for each in images))
    return store


def clean(store: Store) -> object:
    snapshot = load_snapshot(Location(store), version=3)
    wish = Retention.checked(None, 1, (), timedelta(days=7))
    return clean_up(snapshot, wish, LocalRunner(workers=1), now=datetime.now(UTC)).versions


def cloner(version: int) -> Callable[[Store], object]:
    def clone(store: Store) -> object:
        try:
            manifest, scheme = load_version(store, version)
        except NotFoundError:
            return "gone before"
        target = Location(MemoryStore())
        try:
            clone_shallow(Snapshot(Location(store), manifest, scheme), target)
        except NotFoundError:
            result = "gone meanwhile"
        except RetryableConflictError:
            result = "told"
        except CommitUnknownError:
            return "in doubt"
        else:
            return target.uri
        assert newest_version(target.store) is None
        return result

    return clone


def test_a_clone_that_was_made_has_its_files_whatever_a_cleanup_does() -> None:
    seen = set()
    for outcome in explore(fresh, [clean, cloner(1)], limit=ORDERS, seed=3):
        cleaned, made = outcome.results
        assert isinstance(cleaned, tuple), outcome
        there = {each.key for each in outcome.store.list()}
        assert not [each for each in there if each.startswith(CLEANUPS_DIR)]
        if str(made).startswith("memory://"):
            clone, _ = load_version(open_store(str(made)))
            assert names_in(clone) >= {"data/one"}
            assert "data/one.lance" in there, outcome.calls
            assert Version(1) not in cleaned
            made = "made"
        else:
            assert made in ("gone before", "gone meanwhile", "told"), outcome
            assert not [each for each in there if each.startswith(TAGS_DIR)], outcome
        seen.add(made)
    assert {"made", "told"} <= seen


def test_two_clones_of_one_version_have_a_pin_each() -> None:
    for outcome in explore(fresh, [cloner(3), cloner(3)], limit=60, seed=4):
        assert all(str(each).startswith("memory://") for each in outcome.results), outcome
        assert len([*outcome.store.names(TAGS_DIR)]) == 2
