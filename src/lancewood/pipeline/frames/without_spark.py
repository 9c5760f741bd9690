"""What can be known before Spark starts: that nothing is new, and that the file's Python is there.

Of Lance tables versions are compared. Files on a disk of this machine are listed, and taken for
seen if published runs have read every one of them: Spark would list these or fewer. Wherever that
is not certain (another file system, patterns with brackets, a first run) Spark is left to say.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import InvalidInputError
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Pipeline, Source
from lancewood.pipeline.definition.names import checked_files_table, is_uri, single_path
from lancewood.pipeline.frames.functions import Modules, check_step
from lancewood.pipeline.frames.reading import open_source
from lancewood.pipeline.frames.refusals import Uses, refused_at
from lancewood.pipeline.frames.unread import rows_since
from lancewood.spark.running.failures import calls_of

_LOCAL = "file:"
_SCHEMA = pa.schema(
    [("path", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("us", "UTC"))]
)
_IDENTITY = _SCHEMA.names
_UNDERSTOOD = frozenset(["recursivefilelookup", "pathglobfilter", "basepath"])
_LISTING = _UNDERSTOOD | {"modifiedbefore", "modifiedafter"}
_PIECES = re.compile(r"\\(.)|([*?])|([\[\]{}\\])|([^\\*?\[\]{}]+)", re.DOTALL)
_MARKER = re.compile(r"_SUCCESS|_(?:committed|started)_.*|_(?:common_)?metadata|\..*\.crc")
_PYSPARK = re.compile(r"[/\\]pyspark[/\\]")
_WILD = {"*": ".*", "?": "."}


def has_no_news(pipeline: Pipeline, context: RunContext, states: Mapping[str, Any]) -> bool:
    """Whether it is certain that no incremental source has anything new.

    False where there is none, and where only Spark knows. Raises what opening a table raises.
    """
    needed = Uses.of(pipeline).counts
    sources = [each for each in pipeline.sources if each.incremental and each.name in needed]
    return bool(sources) and all(_is_old(pipeline, each, context, states) for each in sources)


def check_python(pipeline: Pipeline) -> None:
    """Raise InvalidInputError for a function that is not there, or does not take what it would be
    given.

    A module that needs a session while it loads, as ``@udf`` does, is left for later; so are the
    warnings of modules, which are loaded again then.
    """
    modules = Modules(pipeline.file.parent)
    for function in pipeline.functions:
        with _left_to_spark():
            modules.function(function.python, function.spot.at("python"))
    for step in pipeline.steps:
        if step.python is not None:
            with _left_to_spark():
                check_step(step, modules)


@contextmanager
def _left_to_spark() -> Iterator[None]:
    """Pass over what PySpark itself raises: without a session it can do little."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except InvalidInputError as refused:
        calls = () if refused.__cause__ is None else calls_of(refused.__cause__)
        if not calls or not _PYSPARK.search(calls[-1].file):
            raise


def _is_old(
    pipeline: Pipeline, source: Source, context: RunContext, states: Mapping[str, Any]
) -> bool:
    with refused_at(source.spot, pipeline):
        if source.format is None:
            opened = open_source(pipeline, source, context)
            return rows_since(source, opened, context, states.get(source.name)).row_count == 0
        seen_in = checked_files_table(pipeline.name, source.name)
        if not context.has(seen_in):
            return False
        listed = _listed(source)
        if listed is None:
            return False
        seen = context.open(seen_in).scan(columns=_IDENTITY).to_arrow().cast(_SCHEMA)
        # That these were read from this disk says that a path without a scheme means it.
        is_local = pc.all(pc.starts_with(seen["path"], _LOCAL)).as_py()
        return bool(is_local) and not listed.join(seen, _IDENTITY, join_type="left anti").num_rows


def passed_over(source: Source) -> int | None:
    """How many files Spark leaves out for their names; None where that is not known.

    Files that programs put beside data, such as ``_SUCCESS`` and checksums, are not counted.
    """
    said = {name.casefold(): str(value) for name, value in source.options.items()}
    only = _pattern(said.get("pathglobfilter", "*"))
    if only is None or not source.paths:
        return None
    is_deep = said.get("recursivefilelookup", "").casefold() == "true"
    found = set[str]()
    try:
        for path in source.paths:
            for root in _roots(path) or ():
                for depth, file in _below(root):
                    name = os.path.basename(file)
                    if only.fullmatch(name) and _is_hidden(name) and not _MARKER.fullmatch(name):
                        is_seen = is_deep or not depth or "=" in os.path.dirname(file)
                        found.update([file] if is_seen else ())
    except OSError:
        return None
    return None if any(map(is_uri, source.paths)) else len(found)


def _listed(source: Source) -> pa.Table | None:
    """Path, size and time of every file that Spark would list, and perhaps of some others; None
    where that is not certain."""
    said = {name.casefold(): str(value) for name, value in source.options.items()}
    only = _pattern(said.get("pathglobfilter", "*"))
    if only is None or not _LISTING.intersection(said) <= _UNDERSTOOD:
        return None
    is_deep = said.get("recursivefilelookup", "").casefold() == "true"
    found: dict[str, os.stat_result] = {}
    try:
        for path in source.paths:
            roots = _roots(path)
            if roots is None:
                return None
            found.update(_files(roots, is_deep=is_deep))
    except OSError:
        return None
    files = {path: at for path, at in found.items() if only.fullmatch(os.path.basename(path))}
    micros = [each.st_mtime_ns // 1_000_000 * 1_000 for each in files.values()]
    columns = [[f"{_LOCAL}{each}" for each in files], [each.st_size for each in files.values()]]
    return pa.table([*columns, pa.array(micros, pa.int64())], names=_IDENTITY).cast(_SCHEMA)


def _roots(path: str) -> list[str] | None:
    """The files and directories that a path of the file stands for; None if Spark has to say."""
    if is_uri(path):
        return None
    found = ["/"]
    for part in path.strip("/").split("/"):
        name, pattern = single_path(part), _pattern(part)
        if name is not None:
            below = (os.path.join(above, name) for above in found)
            found = [each for each in below if os.path.exists(each)]
        elif pattern is not None:
            above = [each for each in found if os.path.isdir(each)]
            below = (os.path.join(each, name) for each in above for name in os.listdir(each))
            found = [each for each in below if pattern.fullmatch(os.path.basename(each))]
        else:
            return None
    return found or None


def _files(roots: list[str], *, is_deep: bool) -> dict[str, os.stat_result]:
    """Files that have something in them. Those in directories below the roots count if Spark is
    told to look there, or may take one of the directories for a partition."""
    found: dict[str, os.stat_result] = {}
    shallow = set[str]()
    for root in roots:
        for depth, path in _below(root):
            at = os.stat(path)
            if at.st_size and not _is_hidden(os.path.basename(path)):
                found[path] = at
                is_deep |= "=" in os.path.dirname(path)
                if not depth:
                    shallow.add(path)
    return found if is_deep else {each: found[each] for each in shallow}


def _below(root: str, depth: int = 0) -> Iterator[tuple[int, str]]:
    """Every file of a directory, or the file itself, and how many directories lie in between."""
    if not os.path.isdir(root):
        yield 0, root
        return
    for name in os.listdir(root):
        path = os.path.join(root, name)
        if not os.path.isdir(path):
            yield depth, path
        elif not _is_hidden(name):
            yield from _below(path, depth + 1)


def _is_hidden(name: str) -> bool:
    """Whether Spark passes over a name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _pattern(text: str) -> re.Pattern[str] | None:
    """A name with wild cards; None for those that only Spark understands."""
    found = []
    for escaped, wild, other, plain in _PIECES.findall(text):
        if other:
            return None
        found.append(_WILD[wild] if wild else re.escape(escaped or plain))
    return re.compile("".join(found), re.DOTALL)
