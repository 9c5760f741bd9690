"""How moments are told, also those that no calendar has."""

from __future__ import annotations

import pytest

from lancewood.cli.repository import iso, moment
from lancewood.git.objects import Signature


@pytest.mark.parametrize("seconds", [9_999_999_999_999, 2**63 - 1])
def test_a_moment_that_no_calendar_has_is_told_in_seconds(seconds: int) -> None:
    by = Signature("Ada", "ada@example.org", seconds, 60)
    assert moment(by) == iso(by) == f"@{seconds}"


def test_the_end_of_the_calendar_is_told_in_every_zone() -> None:
    by = Signature("Ada", "ada@example.org", 253_370_678_400, 23 * 60)
    assert moment(by).endswith("9998 +2300")
    assert iso(by).startswith("9998-12-31T00:00:00")
