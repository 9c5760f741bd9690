"""Who may write to a table that a repository keeps for itself, and what its versions say."""

from __future__ import annotations

import pytest

from lancewood.errors import UnsupportedError
from lancewood.format.manifest import empty_manifest
from lancewood.model.ids import Version
from lancewood.model.manifest import FLAG_CONFIG, FLAG_EXCLUSIVE, Manifest
from lancewood.model.table_config import (
    ANY_REPOSITORY,
    EXCLUSIVE_KEY,
    frees,
    keeper_of,
    keeping,
)
from lancewood.model.transaction import MapUpdate, Restore, Transaction, UpdateConfig
from lancewood.rules.apply import apply
from lancewood.rules.features import check_writable, known_writer_flags

MINE = "b4b5f6a1811d4608a5d8ec892cac53a2"


def manifest(keeper: str | None = None, version: int = 1) -> Manifest:
    found = empty_manifest("2.1")
    found.message.version = version
    if keeper is not None:
        found.message.config[EXCLUSIVE_KEY] = keeper
        found.message.writer_feature_flags |= FLAG_CONFIG | FLAG_EXCLUSIVE
    return found


@pytest.mark.parametrize("asked", [None, "another"])
def test_nobody_but_its_repository_may_write(asked: str | None) -> None:
    with pytest.raises(UnsupportedError, match="nobody else") as refused:
        check_writable(manifest(MINE), asked)
    assert refused.value.facts["repository"] == MINE


@pytest.mark.parametrize("asked", [MINE, ANY_REPOSITORY])
def test_its_repository_may_write_and_so_may_what_was_committed(asked: str) -> None:
    check_writable(manifest(MINE), asked)


@pytest.mark.parametrize("asked", [None, MINE])
def test_a_table_of_nobody_is_everybodys(asked: str | None) -> None:
    check_writable(manifest(), asked)
    assert keeper_of(manifest()) is None


def test_the_flag_is_known_only_with_the_key() -> None:
    odd = manifest()
    odd.message.writer_feature_flags |= FLAG_EXCLUSIVE
    assert not known_writer_flags(odd) & FLAG_EXCLUSIVE
    assert known_writer_flags(manifest(MINE)) & FLAG_EXCLUSIVE
    with pytest.raises(UnsupportedError, match="does not know"):
        check_writable(odd, MINE)


def test_the_flag_comes_and_goes_with_the_key() -> None:
    on = apply(manifest(), Transaction.new(Version(1), keeping(MINE)))
    assert on.flags[1] & FLAG_EXCLUSIVE
    assert not on.flags[0] & FLAG_EXCLUSIVE, "everybody reads"
    off = apply(manifest(MINE), Transaction.new(Version(1), keeping(None)))
    assert not off.flags[1] & FLAG_EXCLUSIVE
    other = UpdateConfig(config=MapUpdate({"a": "1"}))
    assert apply(manifest(MINE), Transaction.new(Version(1), other)).flags[1] & FLAG_EXCLUSIVE


@pytest.mark.parametrize(("now", "then"), [(MINE, None), (None, MINE), ("other", MINE)])
def test_restoring_changes_nothing_about_who_may_write(now: str | None, then: str | None) -> None:
    restoring = Transaction.new(Version(2), Restore(Version(1)))
    old = manifest(then)
    old.message.config["a"] = "1"
    patch = apply(manifest(now, version=2), restoring, old)
    assert bool(patch.flags[1] & FLAG_EXCLUSIVE) == (now is not None)
    expected = {"a": "1"} if now is None else {"a": "1", EXCLUSIVE_KEY: now}
    assert patch.head.config == expected


def test_giving_a_table_back_is_that_and_nothing_more() -> None:
    assert frees((keeping(None),))
    assert not frees((keeping(MINE),))
    assert not frees((keeping(None), keeping(None)))
    assert not frees((UpdateConfig(config=MapUpdate({EXCLUSIVE_KEY: None, "a": "1"})),))
    assert not frees((UpdateConfig(config=MapUpdate({EXCLUSIVE_KEY: None}, replace=True)),))
