"""The texts that become statements are Spark's SQL, as far as Spark has such statements: its own
parser takes them, and what it refuses is no statement to us."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.spark.dialect.texts import KNOWN

from lancewood.errors import InvalidInputError
from lancewood.query.statements.model import Passed
from lancewood.spark.abilities import release_here, shown
from lancewood.spark.dialect.script import parse_script
from lancewood.spark.dialect.settings import Settings

_OURS = ("@", "BRANCH", " TAG ", "RESTORE", "OPTIMIZE", "INTO 'a", "ADD COLUMN a AS")
"""What only we have in texts, or Delta and Iceberg."""
_WIDER = ("IF NOT EXISTS a INT", "SET DATA TYPE", "VERSION AS OF", "AS n(id")
"""What other engines have in these statements, and Spark has not."""
_SINCE = {
    "MERGE WITH SCHEMA": (4, 0),
    "INTO photos FROM s": (4, 0),
    "PRIMARY KEY": (4, 1),
    "INSERT WITH SCHEMA": (4, 2),
}
"""What Spark has in them from some release on."""
SPARKS = [each for each in KNOWN if not any(word in each for word in (*_OURS, *_WIDER))]


@pytest.fixture(scope="module")
def parse(spark: Any) -> Any:
    return spark._jsparkSession.sessionState().sqlParser().parsePlan


@pytest.mark.parametrize("text", SPARKS)
def test_spark_parses_what_we_take_and_refuses_its_parts_as_we_do(parse: Any, text: str) -> None:
    for part, since in _SINCE.items():
        if part in text and release_here()[:2] < since:
            pytest.skip(f"Spark has {part} from {shown(since)} on")
    parse(text)
    words = text.split(" ")
    for end in range(1, len(words)):
        part = " ".join(words[:end])
        if not part.lower().endswith(("select", ",")) and _is_taken(part):
            parse(part)  # a query is judged by the engine that answers it


def _is_taken(text: str) -> bool:
    try:
        return not isinstance(parse_script(text, Settings())[0], Passed)
    except InvalidInputError:
        return False
