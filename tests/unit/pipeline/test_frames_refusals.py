"""Errors of Spark, shortened to what a person can use."""

from __future__ import annotations

from pathlib import Path

import pytest

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.load import load
from lancewood.pipeline.frames.refusals import first_line, refused_at


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "[PATH_NOT_FOUND] Path does not exist: file:/nope. SQLSTATE: 42K03",
            "Path does not exist: file:/nope",
        ),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] A column `x` cannot be resolved. Did you mean "
            "[`id`]. SQLSTATE: 42703; line 3 pos 7;\n'Project ['x]\n+- Range",
            "A column `x` cannot be resolved. Did you mean [`id`]; line 2 pos 7",
        ),
        (
            "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 't'. SQLSTATE: 42601 (line 2, pos 5)\n"
            "\n== SQL ==\nWITH …",
            "Syntax error at or near 't' (line 1, pos 5)",
        ),
        (
            "An error occurred while calling o5.load.\n: java.sql.SQLException: No suitable driver"
            "\n\tat java.sql/java.sql.DriverManager",
            "SQLException: No suitable driver",
        ),
        (
            "An error occurred while calling o5.load.\n: org.apache.spark.SparkException: "
            "[NOT_THERE] It is not there. SQLSTATE: 1",
            "It is not there",
        ),
        (
            "An error occurred while calling o5.load.\n: java.lang.ClassNotFoundException: "
            "org.postgresql.Driver",
            "ClassNotFoundException: org.postgresql.Driver",
        ),
        (
            "requirement failed: Option 'url' is required.",
            "requirement failed: Option 'url' is required",
        ),
        (
            "An error occurred while calling o5.load.\n: "
            "org.apache.spark.SparkClassNotFoundException: "
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: jsno. SQLSTATE: 42K02",
            "Failed to find the data source: jsno",
        ),
        (
            "[UNRESOLVED_COLUMN.WITH_SUGGESTION] Did you mean [`id`, `_lancewood_corrupt`]",
            "Did you mean [`id`]",
        ),
        ("Did you mean [`_lancewood_corrupt`, `id`]", "Did you mean [`id`]"),
        ("", ""),
    ],
)
def test_first_line_says_what_is_wrong_without_codes_and_stacks(text: str, shown: str) -> None:
    assert first_line(text, lines_before=1) == shown


def test_file_with_a_colon_in_its_name_is_told_with_the_way_out(tmp_path: Path) -> None:
    """As Spark 4.3 says it for ``path = "in/*.csv"``."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    file = tmp_path / "zoo.toml"
    file.write_text(
        '[pipeline]\nname = "zoo"\n[sources.a]\nformat = "csv"\npath = "in/*.csv"\n'
        '[[targets]]\ntable = "a"\nfrom = "a"\nmode = "append"\n'
    )
    pipeline = load(file, {}, {})
    said = "java.net.URISyntaxException: Relative path in absolute URI: a:b.csv"
    told = "a:b.csv. Spark reads no file with a colon in its name from a disk: rename it"
    with (
        pytest.raises(InvalidInputError, match=told),
        refused_at(pipeline.sources[0].spot, pipeline),
    ):
        raise Py4JError(said)
