"""The sections ``[sources.<name>]``, ``[steps.<name>]`` and ``[functions.<name>]``.

Checks which keys belong together and how SQL and Python functions are named. No function is
imported, and no SQL is analysed. Whether a source can be read is for Spark to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from lancewood.pipeline.definition.model import Function, Reject, Source, Step
from lancewood.pipeline.definition.names import (
    checked_files_table,
    checked_format,
    checked_frame,
    checked_function,
    checked_python,
    errors_at,
    parsed_query,
    resolved,
    resolved_pattern,
    wrong,
)
from lancewood.pipeline.definition.section import Section
from lancewood.repo import checked_table

KEYS = (
    "format",
    "path",
    "paths",
    "options",
    "schema",
    "table",
    "uri",
    "revision",
    "sql",
    "incremental",
    "columns",
    "file_time",
    "bad",
    "reject",
)
_GOES_WITH: Mapping[str, tuple[str, ...]] = {
    "format": ("path", "paths", "options", "schema", "incremental", "columns", "file_time"),
    "table": ("revision", "incremental", "columns"),
    "uri": ("revision", "incremental", "columns"),
    "sql": (),
}
"""The four kinds of sources, and the keys that each may have besides ``bad`` and ``reject``."""
_FILES = frozenset(["avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"])
"""Formats that are only read from paths."""
STEP_KEYS = ("sql", "python", "inputs", "arguments", "bad", "reject")
FUNCTION_KEYS = ("python", "returns")
REJECT_KEYS = ("where", "reason")


def read_sources(top: Section, folder: Path, pipeline: str) -> tuple[Source, ...]:
    """Every source, in the order of the file."""
    above = top.needed_table("sources", None)
    return tuple(_read(name, above, folder, pipeline) for name in above.names())


def _read(name: str, above: Section, folder: Path, pipeline: str) -> Source:
    spot = above.spot.at(name)
    with errors_at(spot):
        checked_frame(name)
    section = above.needed_table(name, KEYS)
    _check_kind(section)
    source = Source(
        name=name,
        spot=section.spot,
        format=_format(section),
        paths=_paths(section, folder),
        options=section.options("options"),
        schema=section.text("schema"),
        table=_table(section),
        uri=_uri(section, folder),
        revision=section.text("revision"),
        sql=_sql(section),
        incremental=section.flag("incremental"),
        bad=section.text("bad"),
        rejects=_rejects(section),
        columns=section.texts("columns"),
        file_time=section.text("file_time"),
    )
    _check_files(section, source, pipeline)
    return source


def _check_kind(section: Section) -> None:
    """Exactly one kind, and only the keys that go with it."""
    kinds = [each for each in _GOES_WITH if each in section]
    if len(kinds) > 1:
        raise section.wrong(kinds[1], f"does not go with {kinds[0]}: a source is one of the two")
    if not kinds:
        hint = " (a path needs a format, such as parquet)" if "path" in section else ""
        raise wrong(section.spot, f"takes one of {', '.join(_GOES_WITH)}{hint}")
    others = {key for keys in _GOES_WITH.values() for key in keys} - {*_GOES_WITH[kinds[0]]}
    for key in KEYS:
        if key in others and key in section:
            raise section.wrong(key, f"does not go with {kinds[0]}")


def _format(section: Section) -> str | None:
    found = section.text("format")
    if found is None:
        return None
    with errors_at(section.spot.at("format")):
        checked_format(found)
    if found.lower() == "lance":
        raise section.wrong(
            "format", 'a Lance table is a source of its own kind: uri = "…", or table = "…"'
        )
    return found


def _paths(section: Section, folder: Path) -> tuple[str, ...]:
    if "path" in section and "paths" in section:
        raise section.wrong("paths", "does not go with path: put all of them into paths")
    one = section.text("path")
    if one is not None:
        with errors_at(section.spot.at("path")):
            return (resolved_pattern(folder, one),)
    found = []
    for index, each in enumerate(section.texts("paths")):
        with errors_at(section.spot.at("paths", index)):
            found.append(resolved_pattern(folder, each))
    return tuple(found)


def _uri(section: Section, folder: Path) -> str | None:
    found = section.text("uri")
    with errors_at(section.spot.at("uri")):
        return None if found is None else resolved(folder, found)


def _table(section: Section) -> str | None:
    found = section.text("table")
    with errors_at(section.spot.at("table")):
        return None if found is None else checked_table(found)


def _sql(section: Section) -> str | None:
    found = section.sql("sql")
    if found is not None:
        with errors_at(section.spot.at("sql")):
            parsed_query(found)
    return found


def _check_files(section: Section, source: Source, pipeline: str) -> None:
    if source.format is None:
        return
    if source.format.lower() in _FILES and not source.paths:
        raise wrong(section.spot, f"the key 'path' is missing: {source.format} is read from files")
    if source.incremental and not source.paths:
        raise section.wrong("incremental", "takes a source of files, with a path, or a Lance table")
    if source.file_time is not None and source.format.lower() not in _FILES:
        known = ", ".join(sorted(_FILES))
        raise section.wrong("file_time", f"is for files: {known}; {source.format} is none of these")
    if source.incremental:
        with errors_at(section.spot):
            checked_files_table(pipeline, source.name)


def read_steps(top: Section) -> tuple[Step, ...]:
    """Every step, in the order of the file."""
    above = top.needed_table("steps", None)
    return tuple(_step(name, above) for name in above.names())


def _step(name: str, above: Section) -> Step:
    with errors_at(above.spot.at(name)):
        checked_frame(name)
    section = above.needed_table(name, STEP_KEYS)
    if ("sql" in section) == ("python" in section):
        raise wrong(section.spot, "takes either sql or python")
    bad, rejects = section.text("bad"), _rejects(section)
    if "sql" in section:
        for key in ("inputs", "arguments"):
            if key in section:
                raise section.wrong(key, "goes with python: SQL names its frames itself")
        sql = section.needed_sql("sql")
        with errors_at(section.spot.at("sql")):
            parsed_query(sql)
        return Step(name, section.spot, sql=sql, bad=bad, rejects=rejects)
    if "inputs" not in section:
        raise wrong(section.spot, "the key 'inputs' is missing: the frames that python gets")
    return Step(
        name,
        section.spot,
        python=_python(section),
        inputs=section.texts("inputs"),
        arguments=_arguments(section),
        bad=bad,
        rejects=rejects,
    )


def read_functions(top: Section) -> tuple[Function, ...]:
    """Every function, in the order of the file. Names may not differ in case only."""
    above = top.needed_table("functions", None)
    seen: dict[str, str] = {}
    found = []
    for name in above.names():
        spot = above.spot.at(name)
        with errors_at(spot):
            checked_function(name)
        if seen.setdefault(name.casefold(), name) != name:
            raise wrong(spot, f"is the same name as {seen[name.casefold()]!r} to SQL")
        section = above.needed_table(name, FUNCTION_KEYS)
        found.append(Function(name, section.spot, _python(section), section.needed_text("returns")))
    return tuple(found)


def _python(section: Section) -> str:
    found = section.needed_text("python")
    with errors_at(section.spot.at("python")):
        return checked_python(found)


def _arguments(section: Section) -> dict[str, object]:
    found = section.table("arguments", None)
    if found is None:
        return {}
    for name in found.names():
        if not name.isidentifier():
            raise found.wrong(name, "is no name of an argument in Python")
    return {name: found.value(name) for name in found.names()}


def _rejects(section: Section) -> tuple[Reject, ...]:
    """Which rows of a source or a step are bad, and why, in the order of the file."""
    return tuple(
        Reject(each.needed_expression("where"), each.needed_text("reason"), each.spot)
        for each in section.tables("reject", REJECT_KEYS)
    )
