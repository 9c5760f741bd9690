"""Tags of repositories beside each other and beside a cleanup, stepped at every store call."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.breadth import daily
from tests.metadata import FIELDS, begun

from lancewood.catalog.membership import join, protect, protection_tag, repositories_of, unprotect
from lancewood.engine.location.location import Location
from lancewood.engine.snapshot.snapshot import Snapshot, load_snapshot
from lancewood.engine.versions.refs import load_tag
from lancewood.errors import NotFoundError, RetryableConflictError
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.jobs.runner import LocalRunner
from lancewood.jobs.upkeep.cleanup import clean_up
from lancewood.jobs.upkeep.retention import Retention
from lancewood.model.ids import Version
from lancewood.model.transaction import MapUpdate, Overwrite, UpdateConfig
from lancewood.store.base import Store
from lancewood.testing.schedule import explore

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

ID = "1234abcd-0000-4000-8000-000000000000"
REF = "refs/tags/v1"
ORDERS = daily(30, of=150)


def fresh() -> Store:
    """Versions 1, 2 and 3 of an empty table."""
    steps = [UpdateConfig(config=MapUpdate({"n": str(each)})) for each in range(2)]
    return begun(Overwrite((), FIELDS), *steps)


def at(store: Store, version: int) -> Snapshot:
    return load_snapshot(Location(store), version=version)


def joiner(name: str) -> Callable[[Store], object]:
    return lambda store: join(at(store, 3), Path("/repo"), ID, name)


def cleaner(store: Store) -> object:
    wish = Retention.checked(None, 1, (), timedelta(days=7))
    return clean_up(at(store, 3), wish, LocalRunner(workers=1), now=datetime.now(UTC)).versions


def protector(version: int) -> Callable[[Store], object]:
    def act(store: Store) -> object:
        try:
            return protect(at(store, version), REF, ID)
        except (NotFoundError, RetryableConflictError) as told:
            return type(told).__name__

    return act


def test_two_names_of_one_table_are_both_noted() -> None:
    for outcome in explore(fresh, [joiner("one"), joiner("two")], limit=ORDERS, seed=1):
        assert True in outcome.results, outcome
        (found,) = repositories_of(at(outcome.store, 3))
        assert found.names == ("one", "two"), outcome


def test_a_version_is_protected_or_its_protector_is_told_that_it_goes() -> None:
    told = set()
    for outcome in explore(fresh, [protector(1), cleaner], limit=ORDERS, seed=2):
        result = outcome.results[0]
        tag = load_tag(outcome.store, protection_tag(REF))
        told.add(str(result))
        if result is True:
            assert tag is not None
            assert tag.version == 1
            outcome.store.head(manifest_key(Version(1), NamingScheme.V2))
        else:
            assert result in ("NotFoundError", "RetryableConflictError"), outcome
            assert tag is None, outcome
    assert {"True", "NotFoundError"} <= told


def test_two_who_protect_leave_one_tag_on_a_version_of_theirs() -> None:
    for outcome in explore(fresh, [protector(2), protector(3)], limit=ORDERS, seed=3):
        assert True in outcome.results, outcome
        tag = load_tag(outcome.store, protection_tag(REF))
        assert tag is not None
        assert tag.version in (2, 3)


def test_taking_back_beside_protecting_leaves_a_whole_tag_or_none() -> None:
    def taker(store: Store) -> object:
        return unprotect(Location(store), REF, ID)

    for outcome in explore(fresh, [protector(2), taker], limit=ORDERS, seed=4):
        tag = load_tag(outcome.store, protection_tag(REF))
        assert (tag is None) == (outcome.results[1] is True), outcome
