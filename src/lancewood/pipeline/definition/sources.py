"""The sections ``[sources.<name>]``, ``[steps.<name>]`` and ``[functions.<name>]``.

Checks which keys belong together and how SQL and Python functions are named. No function is
imported, and no SQL is analysed. Whether a source can be read is for Spark to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import Function, Reject, Source, Step
from lancewood.pipeline.definition.names import (
    checked_files_table,
    checked_format,
    checked_frame,
    checked_function,
    checked_python,
    errors_at,
    resolved,
    resolved_pattern,
    wrong,
)
from lancewood.pipeline.definition.section import Section
from lancewood.repo import checked_table

_GOES_WITH: Mapping[str, tuple[str, ...]] = {
    "format": ("path", "paths", "options", "schema", "incremental", "columns", "file_time"),
    "table": ("revision", "incremental", "columns"),
    "uri": ("revision", "incremental", "columns"),
    "sql": (),
}
"""The four kinds of sources, and the keys that each may have besides ``bad`` and ``reject``."""
_FURTHER = tuple(dict.fromkeys(key for keys in _GOES_WITH.values() for key in keys))
KEYS = (*_GOES_WITH, *_FURTHER, "bad", "reject")
_FILES = frozenset(["avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"])
"""Formats that are only read from paths."""
STEP_KEYS = ("sql", "python", "inputs", "arguments", "bad", "reject")
FUNCTION_KEYS = ("python", "returns")
REJECT_KEYS = ("where", "reason")


def read_sources(top: Section, folder: Path, pipeline: str) -> tuple[Source, ...]:
    """Every source, in the order of the file."""
    named = top.named_tables("sources", KEYS, checked_frame)
    return tuple(_read(name, section, folder, pipeline) for name, section in named)


def _read(name: str, section: Section, folder: Path, pipeline: str) -> Source:
    _check_kind(section)
    if "path" in section and "paths" in section:
        raise section.wrong("paths", "does not go with path: put all of them into paths")
    in_full = partial(resolved_pattern, folder)
    path = section.text("path", in_full)
    source = Source(
        name=name,
        spot=section.spot,
        format=section.text("format", _checked_format),
        paths=section.texts("paths", in_full) if path is None else (path,),
        options=section.options("options"),
        schema=section.text("schema"),
        table=section.text("table", checked_table),
        uri=section.text("uri", partial(resolved, folder)),
        revision=section.text("revision"),
        sql=section.sql("sql"),
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
    for key in _FURTHER:
        if key in section and key not in _GOES_WITH[kinds[0]]:
            raise section.wrong(key, f"does not go with {kinds[0]}")


def _checked_format(text: str) -> str:
    if checked_format(text).lower() == "lance":
        raise InvalidInputError(
            'a Lance table is a source of its own kind: uri = "…", or table = "…"'
        )
    return text


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
    return tuple(_step(*each) for each in top.named_tables("steps", STEP_KEYS, checked_frame))


def _step(name: str, section: Section) -> Step:
    if ("sql" in section) == ("python" in section):
        raise wrong(section.spot, "takes either sql or python")
    bad, rejects = section.text("bad"), _rejects(section)
    if "sql" in section:
        for key in ("inputs", "arguments"):
            if key in section:
                raise section.wrong(key, "goes with python: SQL names its frames itself")
        return Step(name, section.spot, sql=section.sql("sql"), bad=bad, rejects=rejects)
    if "inputs" not in section:
        raise wrong(section.spot, "the key 'inputs' is missing: the frames that python gets")
    return Step(
        name,
        section.spot,
        python=section.needed_text("python", checked_python),
        inputs=section.texts("inputs"),
        arguments=_arguments(section),
        bad=bad,
        rejects=rejects,
    )


def read_functions(top: Section) -> tuple[Function, ...]:
    """Every function, in the order of the file. Names may not differ in case only."""
    seen: dict[str, str] = {}
    found = []
    for name, section in top.named_tables("functions", FUNCTION_KEYS, checked_function):
        if seen.setdefault(name.casefold(), name) != name:
            raise wrong(section.spot, f"is the same name as {seen[name.casefold()]!r} to SQL")
        python = section.needed_text("python", checked_python)
        found.append(Function(name, section.spot, python, section.needed_text("returns")))
    return tuple(found)


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
