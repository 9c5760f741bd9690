"""Options of ``format("lance")``: texts to one value, and what is refused."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from lancewood.errors import InvalidInputError
from lancewood.spark.source.options import USES, SourceOptions, Use, check_use, parse_options


def parsed(**options: str) -> SourceOptions:
    return parse_options({"path": "/t", **options})


def test_spark_gives_names_in_lower_case_and_they_are_understood() -> None:
    found = parsed(
        withrowid="true",
        maxrowsperfile="5",
        asof="2026-05-01T12:30:00+02:00",
        batchrows="9",
        numpartitions="8",
    )
    assert found.with_row_id
    assert found.max_rows_per_file == 5
    assert found.as_of == datetime(2026, 5, 1, 10, 30, tzinfo=UTC)
    assert (found.batch_rows, found.partitions) == (9, 8)


@pytest.mark.parametrize(
    ("name", "text", "field", "value"),
    [
        ("versionasof", "3", "version", 3),
        ("timestampasof", "2026-05-01", "as_of", datetime(2026, 5, 1, tzinfo=UTC)),
        ("where", "a > 1", "where", "a > 1"),
        ("batch_size", "512", "batch_rows", 512),
        ("max_row_per_file", "7", "max_rows_per_file", 7),
        ("max_bytes_per_file", "7", "max_bytes_per_file", 7),
        ("enable_stable_row_ids", "false", "stable_row_ids", False),
        ("data_storage_version", "2.2", "file_version", "2.2"),
        ("file_format_version", "2.0", "file_version", "2.0"),
        ("data_storage_version", "STABLE", "file_version", None),
    ],
)
def test_names_of_the_jvm_connector_and_of_spark_habits_mean_the_same(
    name: str, text: str, field: str, value: Any
) -> None:
    assert getattr(parsed(**{name: text}), field) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a", ["a"]),
        ("a, b.c ,d", ["a", "b.c", "d"]),
        ('["a,b", "c"]', ["a,b", "c"]),
        ('{"x": "a + 1"}', {"x": "a + 1"}),
    ],
)
def test_columns_are_names_or_json(text: str, value: Any) -> None:
    assert parsed(columns=text).columns == value


def test_what_only_tunes_the_jvm_connector_and_what_spark_adds_is_taken_and_not_used() -> None:
    quiet = parsed(pushdownfilters="true", topn_push_down="false", block_size="1", __odd__="x")
    assert quiet == parsed(checkpointlocation="/c", queue_depth="3")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("brnach", "x", r"option 'brnach' is not known .*did you mean 'branch'\?"),
        ("colums", "x", r"did you mean 'columns'\?"),
        ("zzzz", "x", "there are path, branch, version"),
        ("nearest", "x", "vector search is not done here"),
        ("readChangeFeed", "true", r"not taken: .*onChange"),
        ("write_mode", "append", r"df.write.mode\("),
        ("version", "-1", "takes a whole number"),
        ("version", "0", "from 1"),
        ("version", "newest", "takes a whole number"),
        ("version", "18446744073709551616", "takes a whole number"),
        ("versionasof", "1.5", "option 'versionasof' takes a whole number"),
        ("withrowid", "yes", "takes true or false"),
        ("asof", "yesterday", "takes a moment"),
        ("columns", "a,,b", "is empty"),
        ("columns", '["a", 1]', "takes a, b or"),
        ("columns", '["a"', "is none"),
        ("columns", '{"a": "b", "a": "c"}', "'columns' names 'a' twice"),
        ("properties", '["a"]', "JSON object of texts"),
        ("filter", "  ", "is empty"),
        ("fileversion", "1.0", "file_version '1.0' cannot be written"),
        ("paths", '["/a", "/b"]', "one table at a time"),
        ("paths", "/a", "'paths' is to be JSON"),
        ("paths", "[1]", "JSON list of texts"),
        ("paths", '{"a": 1}', "JSON list of texts"),
    ],
)
def test_what_cannot_be_right_is_told_by_name(name: str, text: str, told: str) -> None:
    given = {name: text} if name == "paths" else {"path": "/t", name: text}
    with pytest.raises(InvalidInputError, match=told):
        parse_options(given)


def test_one_thing_said_by_two_names_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="'version' and 'versionasof' are the same one"):
        parsed(version="1", versionasof="1")


def test_a_detached_version_can_be_named() -> None:
    assert parsed(version="18446744073709551615").version == (1 << 64) - 1


def test_a_list_of_one_path_is_a_path() -> None:
    assert parse_options({"paths": '["/t"]'}).path == "/t"


def test_without_a_path_the_trap_of_the_catalog_is_told() -> None:
    with pytest.raises(InvalidInputError, match=r"needs a path.*CREATE TEMP VIEW"):
        parse_options({})
    with pytest.raises(InvalidInputError, match="CREATE TABLE … USING lance would not work"):
        parse_options({"path": "file:/t", "owner": "me", "provider": "lance", "location": "/t"})


def test_storage_options_have_a_prefix_or_a_name_that_everybody_knows() -> None:
    found = parsed(**{"storage.timeout": "5s", "aws_region": "eu", "endpoint": "http://x"})
    assert dict(found.storage_options or {}) == {
        "timeout": "5s",
        "aws_region": "eu",
        "endpoint": "http://x",
    }
    with pytest.raises(InvalidInputError, match=r"'storage.aws_region' are the same one"):
        parsed(**{"aws_region": "eu", "storage.aws_region": "us"})


def test_options_of_base_paths_keep_the_case_of_their_names() -> None:
    found = parsed(basestorageoptions='{"Cold": {"aws_region": "eu"}}')
    assert found.base_storage_options == {"Cold": {"aws_region": "eu"}}
    with pytest.raises(InvalidInputError, match="object of texts for every base path") as raised:
        parsed(basestorageoptions='{"cold": "hush-hush"}')
    assert "hush" not in str(raised.value)


def test_no_secret_shows_and_all_of_it_pickles() -> None:
    found = parsed(
        aws_secret_access_key="hush-1", basestorageoptions='{"a": {"aws_token": "hush-2"}}'
    )
    assert "hush" not in repr(found)
    assert pickle.loads(pickle.dumps(found)) == found


def test_options_of_streams_are_known_and_left_to_them() -> None:
    assert parsed(startingversion="latest", onchange="fail").streaming == {
        "startingVersion": "latest",
        "onChange": "fail",
    }


@pytest.mark.parametrize(
    ("name", "text"),
    [("filter", "a"), ("columns", "a"), ("limit", "1"), ("withRowId", "true")],
)
def test_what_would_narrow_a_metadata_table_is_refused_not_passed_over(
    name: str, text: str
) -> None:
    with pytest.raises(InvalidInputError, match=f"option {name!r} is not for metadata tables"):
        parsed(metadata="versions", **{name.lower(): text})
    assert parsed(metadata="versions", version="1", branch="b").version == 1


def test_options_that_narrow_a_read_are_listed() -> None:
    assert parsed(branch="b", maxrowsperfile="1", batchrows="1").narrowing == []
    assert parsed(version="1", filter="a", withrowid="true").narrowing == [
        "version",
        "filter",
        "withRowId",
    ]


EXAMPLES = {
    "columns": "a",
    "asOf": "2026-05-01",
    "fileVersion": "2.0",
    "properties": '{"a": "b"}',
    "baseStorageOptions": '{"a": {"region": "b"}}',
    "metadata": "versions",
    **dict.fromkeys(
        (
            "withRowId",
            "withRowAddress",
            "serializable",
            "stableRowIds",
            "mergeSchema",
            "overwriteSchema",
        ),
        "true",
    ),
}


@pytest.mark.parametrize("use", Use)
@pytest.mark.parametrize("name", USES)
def test_an_option_does_something_or_is_refused_but_for_what_a_view_carries(
    name: str, use: Use
) -> None:
    asked = parse_options({"path": "/t", name.lower(): EXAMPLES.get(name, "7")})
    is_carried = (use is Use.READ and Use.WRITE in USES[name]) or (
        use is Use.WRITE and name in ("batchRows", "numPartitions")
    )
    if use in USES[name] or is_carried:
        check_use(asked, use)
        return
    with pytest.raises(InvalidInputError, match=f"option {name!r} is (not )?for ") as refused:
        check_use(asked, use)
    assert refused.value.facts["option"] == name


def test_a_flag_that_is_off_is_no_option() -> None:
    for use in Use:
        check_use(parsed(withrowid="false", serializable="false"), use)
