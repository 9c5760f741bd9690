"""How DuckDB is given a table in the laws of queries."""

from __future__ import annotations

import pytest

from lancewood.query import answer


@pytest.fixture(params=["source", "dataset", "everything"])
def pushdown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether conditions are pushed down; by DuckDB's own protocol, and by pyarrow's Dataset."""
    if request.param == "dataset":
        monkeypatch.setattr(answer, "TRIED_WITH", ("no release",))
    return bool(request.param != "everything")
