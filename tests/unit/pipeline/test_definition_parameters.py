"""Parameters: declared, given, filled in, and kept where they are put."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import sqlglot
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp
from tests.unit.pipeline.definition_files import GOOD, HEAD, SOURCE, TARGET, loaded, refused

from lancewood.errors import InvalidInputError
from lancewood.pipeline import run
from lancewood.pipeline.definition.model import Spot
from lancewood.pipeline.definition.toml_file import Filling, read_parameters

SPOT = Spot("zoo.toml", "steps.s.sql")
DAY = '[params]\nday = "2026-01-31"\n'


def with_path(path: str) -> str:
    return HEAD + f'[sources.animals]\nformat = "csv"\npath = {path} #!\n' + TARGET


def test_parameters_are_filled_in_everywhere(tmp_path: Path) -> None:
    text = (
        HEAD.replace("zoo", "${zoo}")
        + '[params]\nzoo = "berlin"\nday = { required = true, help = "YYYY-MM-DD" }\n'
        + 'kind = { default = "" }\n'
        + '[sources.animals]\nformat = "csv"\npath = "in/${day}/${day}$${x}.csv"\n'
        + 'options = { sep = "${kind}", note = "$${env:NOT}" }\n'
        + "[steps.s]\nsql = \"SELECT '${day}' AS day, * FROM animals\"\n"
        + '[steps.p]\npython = "m:f"\ninputs = ["s"]\narguments = { a = ["${day}", 1] }\n'
        + TARGET
        + '[[checks]]\ntable = "t"\ncolumn = "c"\naccepted = ["${day}"]\n'
        + '[spark]\nspark.app.day = "${day}"\n'
    )
    found = loaded(tmp_path, text, {"day": "2026-02-01"})
    assert found.name == "berlin"
    assert found.parameters == {"zoo": "berlin", "day": "2026-02-01", "kind": ""}
    assert found.sources[0].paths == (f"{tmp_path}/in/2026-02-01/2026-02-01${{x}}.csv",)
    assert found.sources[0].options == {"sep": "", "note": "${env:NOT}"}
    assert found.steps[0].sql == "SELECT '2026-02-01' AS day, * FROM animals"
    assert found.steps[1].arguments == {"a": ["2026-02-01", 1]}
    assert found.spark == {"spark.app.day": "2026-02-01"}


def test_values_are_not_filled_again(tmp_path: Path) -> None:
    text = DAY + with_path('"${day}"')
    found = loaded(tmp_path, text, {"day": "${day}${env:HOME}"})
    assert found.sources[0].paths == (f"{tmp_path}/${{day}}${{env:HOME}}",)


@pytest.mark.parametrize(
    ("line", "key", "told"),
    [
        ("day = 3 #!", ".day", "write it in quotes"),
        ('"a b" = "x" #!', '."a b"', "the name of a parameter"),
        ('day = "${x}" #!', ".day", "a default has no ${…}"),
        ("day = {} #!", ".day", 'either default = "…" or required = true'),
        ('day = { default = "a", required = true } #!', ".day", "either"),
        ("day = { required = false } #!", ".day", "either"),
        ("day = { required = 1 } #!", ".day.required", "takes true or false"),
        ("day = { default = 1 } #!", ".day.default", "takes a text"),
        ('day = { defualt = "x" } #!', ".day.defualt", "did you mean 'default'?"),
        ('day = { required = true, help = "the day" } #!', ".day", "day=… (the day)"),
        ('day = "x" #!', ".day", "nothing uses ${day}"),
        ('day = "\\u0000" #!', ".day", "cannot hold a NUL"),
    ],
)
def test_a_wrong_parameter_is_refused(tmp_path: Path, line: str, key: str, told: str) -> None:
    assert told in refused(tmp_path, f"{GOOD}[params]\n{line}\n", f"params{key}")


@pytest.mark.parametrize(
    ("text", "given_", "key", "told"),
    [
        (DAY.replace("[params]", "[params] #!"), {"dya": "x"}, "params", "did you mean 'day'?"),
        ("", {"day": "x"}, "params", "there is no parameter 'day': there are none"),
        ("params = 1 #!\n", {}, "params", "takes a table [params]"),
        (DAY.replace('31"', '31" #!'), {"day": "a\0"}, "params.day", "a text in UTF-8"),
        (DAY.replace('31"', '31" #!'), {"day": "a\udc80"}, "params.day", "a text in UTF-8"),
    ],
)
def test_what_is_given_is_checked(
    tmp_path: Path, text: str, given_: Mapping[str, str], key: str, told: str
) -> None:
    path = with_path('"x"').replace(" #!", "")
    assert told in refused(tmp_path, text + path, key, given_)


def test_what_is_given_is_a_text() -> None:
    number: Any = {"day": 3}
    with pytest.raises(InvalidInputError, match="takes a text in UTF-8, got the number 3"):
        read_parameters({"day": "x"}, number, Spot("zoo.toml", "params"))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ('"${dya}"', "did you mean 'day'?"),
        ('"${}"', "${} is not declared in [params]"),
        ('"${day"', "a '${' is not closed"),
        ('"${day}${"', "a '${' is not closed"),
        ('"${env:HOME}"', "secrets are allowed in the options of sources and in storage_options"),
        ('"${ day }"', "is not declared"),
    ],
)
def test_what_stands_for_nothing_is_refused(tmp_path: Path, path: str, told: str) -> None:
    assert told in refused(tmp_path, DAY + with_path(path), "sources.animals.path")


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT '${x}'", "a'b"),
        ("SELECT '${x}'", "a\\"),
        ('SELECT "a ${x} b"', 'a"b'),
        ("SELECT 'it''s ${x}'", "'"),
        ("SELECT 'it\\'s ${x}'", "'"),
        ("SELECT r'\\' || '${x}'", "'"),
        ("SELECT `${x}`", "a`b"),
        ("SELECT 1 -- ${x}\n", "a\nb"),
        ("SELECT 1 /* ' ${x} */", "*/"),
        ("SELECT 1 -- it's\n WHERE '${x}' = 1", "'"),
        ("SELECT ${x}", "1; DROP TABLE t"),
        ("SELECT ${x} FROM t", "1 --"),
        ("SELECT ${x} FROM t", "1 /*"),
        ("SELECT '${x}'", "${env:HOME}"),
        ("SELECT '$${x}'", "a"),
    ],
)
def test_a_value_that_leaves_its_place_in_sql_is_refused(sql: str, value: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^zoo\.toml: steps\.s\.sql: the "):
        Filling({"x": value}, {}).sql(sql, SPOT)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("SELECT '${x}'", 'a"b -- ; /* `'),
        ("SELECT ${x}", "label = 'cat'"),
        ("SELECT `${x}`", "it's"),
        ("SELECT 1 -- it's ${x}\n", "a'b"),
        ("SELECT 'a' || ${x} || \"b\"", "'c'"),
    ],
)
def test_a_value_that_stays_in_its_place_is_filled_in(sql: str, value: str) -> None:
    assert Filling({"x": value}, {}).sql(sql, SPOT) == sql.replace("${x}", value)


@given(st.text("ab'\"\\`;-/* \n$é", max_size=6))
@example("' OR 1 = 1 -- ")
def test_a_value_between_quotes_is_one_text_to_sql_or_refused(value: str) -> None:
    sql = "SELECT * FROM animals WHERE name = '${x}' AND age > 3"
    try:
        filled = Filling({"x": value}, {}).sql(sql, SPOT)
    except InvalidInputError:
        return
    where = sqlglot.parse_one(filled, dialect="spark").find(exp.Where)
    assert where is not None
    texts = [each.this for each in where.find_all(exp.Literal) if each.is_string]
    assert texts == [value]
    assert isinstance(where.this, exp.And)


def test_sql_that_is_filled_is_what_is_checked(tmp_path: Path) -> None:
    step = '[steps.s]\nsql = "SELECT * FROM ${table}" #!\n'
    text = GOOD + '[params]\ntable = "animals"\n' + step
    assert loaded(tmp_path, text).steps[0].sql == "SELECT * FROM animals"
    told = refused(tmp_path, text, "steps.s.sql", {"table": "plants"})
    assert "there is no source or step 'plants'" in told


def test_a_source_without_parameters_needs_no_section(tmp_path: Path) -> None:
    assert loaded(tmp_path, HEAD + SOURCE + TARGET).parameters == {}


def test_a_loaded_pipeline_takes_no_parameters_when_it_runs(tmp_path: Path) -> None:
    why = r"loaded already: give .* to load\(\)"
    with pytest.raises(InvalidInputError, match=why):
        run(loaded(tmp_path, GOOD), parameters={})
    with pytest.raises(InvalidInputError, match=why):
        run(loaded(tmp_path, GOOD), environment={})
