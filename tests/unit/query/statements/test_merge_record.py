"""MERGE leaves the rows that it leaves in Spark with Iceberg, and fails where it fails there, as
``make merges`` has recorded; what a case says that we do otherwise, we do otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.merges.cases import Case, chosen
from tests.merges.outcomes import is_expected, ours, recorded

import lancewood as lw

CASES = chosen()


@pytest.mark.sliced(4)
@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_merge_is_that_of_spark_with_iceberg(case: Case, tmp_path: Path) -> None:
    theirs = recorded()[case.name]["iceberg"]
    mine = ours(case, tmp_path, lambda sql, **given: lw.sql(sql, **given).to_arrow())
    assert is_expected(case, mine, theirs), (case.name, mine, theirs)


def test_every_case_is_recorded() -> None:
    assert set(recorded()) == {each.name for each in CASES}
