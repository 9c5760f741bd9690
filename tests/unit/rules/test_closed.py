from __future__ import annotations

from dataclasses import replace

import pytest

from lancewood.errors import FormatError, IncompatibleConflictError
from lancewood.model.ids import Version
from lancewood.model.manifest import ManifestHead
from lancewood.model.table_config import PUBLISHED_KEY, Closing
from lancewood.proto import table_pb2
from lancewood.rules.features import check_open, is_closed

CLOSING = Closing("p/q", "some-uuid", Version(7), Version(3), Version(5))


def test_a_closing_is_read_as_it_was_written() -> None:
    for closing in (CLOSING, replace(CLOSING, landed=Version(6))):
        config = {PUBLISHED_KEY: closing.encode(), "other": "x"}
        assert Closing.found_in(config, "v7") == closing
    assert Closing.found_in({"other": "x"}, "v7") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "7",
        '{"onto": 1, "uuid": "u", "head": 1, "fork": 1, "after": 1}',
        '{"onto": null, "uuid": null, "head": 1, "fork": 1, "after": 1}',
        '{"onto": null, "uuid": "u", "head": true, "fork": 1, "after": 1}',
        '{"onto": null, "uuid": "u", "head": -1, "fork": 1, "after": 1}',
        "[" * 100_000,
    ],
)
def test_an_odd_closing_is_damage_with_a_name(text: str) -> None:
    with pytest.raises(FormatError, match=r"v7: the configuration lancewood\.published"):
        Closing.found_in({PUBLISHED_KEY: text}, "v7")


def test_nothing_follows_a_closed_version() -> None:
    head = ManifestHead(table_pb2.Manifest(version=8, branch="exp"))
    check_open(head)
    head.message.config[PUBLISHED_KEY] = "whatever it says"
    assert is_closed(head)
    with pytest.raises(IncompatibleConflictError, match=r"'exp' is closed at version 8.*[Rr]eset"):
        check_open(head)


def test_main_is_open_whatever_pylance_copied_into_it() -> None:
    head = ManifestHead(table_pb2.Manifest(version=8, config={PUBLISHED_KEY: CLOSING.encode()}))
    assert not is_closed(head)
    check_open(head)
