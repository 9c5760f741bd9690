"""Which batches may be loaded, and how many applications are remembered."""

from __future__ import annotations

from typing import Any

import pytest

from lancewood.errors import BatchAppliedError, FormatError, InvalidInputError
from lancewood.model.table_config import (
    APPLIED_PREFIX,
    LATEST,
    MOST_APPS,
    AppliedBatch,
    Mark,
    marks,
    newest_batch,
)
from lancewood.rules.features import check_new, is_applied, with_mark


def config_of(**batches: int) -> dict[str, str]:
    config = {"other": "stays"}
    for at, (app, batch) in enumerate(batches.items()):
        config = with_mark(config, AppliedBatch(app, batch), f"uuid-{app}", at)
    return config


@pytest.mark.parametrize("batch", [0, 6, 7])
def test_an_equal_or_older_batch_is_refused(batch: int) -> None:
    with pytest.raises(BatchAppliedError) as refused:
        check_new(config_of(loader=7), AppliedBatch("loader", batch))
    assert refused.value.facts == {"app": "loader", "batch": batch, "applied": 7}


def test_a_later_batch_of_another_application_and_no_batch_pass() -> None:
    config = config_of(loader=7)
    check_new(config, AppliedBatch("loader", 8))
    check_new(config, AppliedBatch("reader", 0))
    check_new({}, AppliedBatch("loader", 0))
    check_new(config, None)


@pytest.mark.parametrize(
    ("wanted", "is_there"),
    [
        (AppliedBatch("loader", 6), True),
        (AppliedBatch("loader", 7), True),
        (AppliedBatch("loader", 8), False),
        (AppliedBatch("reader", 0), False),
        (None, False),
    ],
)
def test_whether_a_batch_is_there_is_told_without_an_error(
    wanted: AppliedBatch | None, is_there: bool
) -> None:
    assert is_applied(config_of(loader=7), wanted) is is_there


def test_a_mark_replaces_the_one_before_and_leaves_the_rest() -> None:
    config = with_mark(config_of(a=1, b=2), AppliedBatch("a", 5), "uuid", 9)
    assert dict(marks(config)) == {"a": Mark(5, "uuid", 9), "b": Mark(2, "uuid-b", 1)}
    assert config["other"] == "stays"
    assert newest_batch(config, "a") == 5
    assert newest_batch(config, "c") is None


def test_the_applications_that_loaded_longest_ago_make_room() -> None:
    config = config_of(**{f"app{each}": each for each in range(MOST_APPS)})
    config = with_mark(config, AppliedBatch("app0", 1), "again", MOST_APPS)
    config = with_mark(config, AppliedBatch("new", 1), "uuid", MOST_APPS + 1)
    known = dict(marks(config))
    assert len(known) == MOST_APPS
    assert "app1" not in known
    assert {"app0", "app2", "new"} <= known.keys()


@pytest.mark.parametrize("ahead", [5_000, LATEST])
def test_a_clock_that_is_behind_makes_no_application_the_first_to_go(ahead: int) -> None:
    config = config_of(**{f"app{each}": each for each in range(MOST_APPS - 1)})
    config = with_mark(config, AppliedBatch("ahead", 1), "uuid", ahead)
    for each in ("behind", "next"):
        config = with_mark(config, AppliedBatch(each, 1), "uuid", 0)
    known = dict(marks(config))
    assert len(known) == MOST_APPS
    assert {"ahead", "behind", "next"} <= known.keys()
    assert "app0" not in known


@pytest.mark.parametrize(
    ("app", "batch"),
    [
        ("", 1),
        ("a" * 201, 1),
        (7, 1),
        ("\ud800", 1),
        ("a", -1),
        ("a", True),
        ("a", "1"),
        ("a", 1.0),
        ("a", 1 << 63),
        ("a", None),
        (None, 1),
    ],
)
def test_what_is_no_batch_is_told(app: Any, batch: Any) -> None:
    with pytest.raises(InvalidInputError):
        AppliedBatch.asked_for(app, batch)


def test_neither_app_nor_batch_is_no_batch() -> None:
    assert AppliedBatch.asked_for(None, None) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[]",
        "null",
        "{}",
        '{"batch": -1, "uuid": "u", "at": 1}',
        '{"batch": true, "uuid": "u", "at": 1}',
        '{"batch": 1, "uuid": 2, "at": 1}',
        '{"batch": 1, "uuid": "u", "at": 1e99}',
        "[" * 100_000,
    ],
)
def test_a_damaged_mark_is_an_error_and_no_guess(text: str) -> None:
    config = {APPLIED_PREFIX + "loader": text}
    with pytest.raises(FormatError, match="loader"):
        check_new(config, AppliedBatch("loader", 99))
