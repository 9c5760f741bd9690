"""What people may say about a commit."""

from __future__ import annotations

import pytest

from lancewood.errors import InvalidInputError
from lancewood.model.transaction import MARKS_PROPERTY, MOVED_PROPERTY, commit_properties


@pytest.mark.parametrize("key", [MARKS_PROPERTY, MOVED_PROPERTY, "lancewood.branch"])
def test_properties_that_say_how_a_version_is_read_are_not_for_people(key: str) -> None:
    with pytest.raises(InvalidInputError, match="choose another name"):
        commit_properties(None, {key: "exact"})


def test_message_and_properties_are_one_map() -> None:
    found = commit_properties("why", {"run": "7"})
    assert found == {"__lance_commit_message": "why", "run": "7"}
