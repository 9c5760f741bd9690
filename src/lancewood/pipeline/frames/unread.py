"""The files and the rows of a source that no published run has read, and whether there are any.

Without Spark: of Lance tables versions are compared. Files on a disk of this machine are listed,
and taken for seen if published runs have read every one of them: Spark would list these or fewer.
Wherever that is not certain (another file system, patterns with brackets, a first run) Spark is
left to say.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from lancewood.errors import (
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    RetryableConflictError,
    UnsupportedError,
)
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Pipeline, Source
from lancewood.pipeline.definition.names import (
    checked_files_table,
    is_uri,
    literal,
    single_path,
    wrong,
)
from lancewood.pipeline.definition.toml_file import plain_options
from lancewood.pipeline.frames.reading import columns_read, open_source, read_files
from lancewood.pipeline.frames.refusals import Uses, refused_at, spark_errors
from lancewood.repo import MAIN
from lancewood.spark.reading.read import read_snapshot
from lancewood.spark.streaming.task import RowsBetween, find_between
from lancewood.spark.tasks import arrow_of, frame_of, slots
from lancewood.table import Table, called

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_NO_BOUND = str(1 << 60)
_TASKS_PER_SLOT = 4
_turn = threading.Lock()
_COLUMNS = "path string, size long, modified timestamp, run string"
_IDENTITY_SCHEMA = pa.schema(
    [("path", pa.string()), ("size", pa.int64()), ("modified", pa.timestamp("us", "UTC"))]
)
_IDENTITY = _IDENTITY_SCHEMA.names
_SCHEMA = _IDENTITY_SCHEMA.append(pa.field("run", pa.string()))
_LISTING_OPTIONS = frozenset(
    ["recursivefilelookup", "pathglobfilter", "modifiedbefore", "modifiedafter", "basepath"]
)
"""Spark's options that decide which files there are."""
_RECURSIVE, _BASE = "recursivefilelookup", "basepath"


class SourceFile(NamedTuple):
    path: str
    size: int
    modified: datetime
    root: int
    """The index of the source's path under which it was found first."""


@dataclass(frozen=True)
class NewFiles:
    """The new files of a source."""

    source: Source
    files: tuple[SourceFile, ...]
    seen_in: str
    """The table that records them once they are published."""

    @property
    def bytes(self) -> int:
        return sum(each.size for each in self.files)

    def frame(self, spark: SparkSession) -> DataFrame:
        """The rows of exactly these files."""
        if not self.files:
            return read_files(spark, self.source, self.source.paths).limit(0)
        by_root: dict[int, list[str]] = {}
        for each in self.files:
            by_root.setdefault(each.root, []).append(literal(each.path))
        frames = [self._read(spark, root, paths) for root, paths in sorted(by_root.items())]
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def _read(self, spark: SparkSession, root: int, paths: Sequence[str]) -> DataFrame:
        base = _base(self.source, root, paths)
        try:
            with opening_many(spark):
                frame = read_files(spark, self.source, paths, base)
                _ = frame.schema  # over Connect Spark does not look up files by itself
                return frame
        except Exception as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
            first_line = str(error).splitlines()[0]
            raise InvalidInputError(
                f"a file was removed or replaced after it was listed: {first_line}. Run again"
            ) from None

    def check_unchanged(self, spark: SparkSession) -> None:
        """Raise RetryableConflictError if a file was rewritten since it was listed: it is unknown
        which of its rows were read. Call it after reading. A file that is gone is fine."""
        from pyspark.sql import functions as F

        mine = self.table(spark, "").select(
            "path", F.col("size").alias("its_size"), F.col("modified").alias("its_time")
        )
        is_another = (F.col("size") != F.col("its_size")) | (F.col("modified") != F.col("its_time"))
        for root in sorted({each.root for each in self.files}):
            with listing_many(spark), _may_be_gone():
                now = _listed(spark, self.source, root).join(mine, "path")
                for each in now.where(is_another).select("path").limit(1).collect():
                    raise RetryableConflictError(
                        f"{each['path']} was written anew while the run read it; files have to "
                        "stay as they are: write another one beside it, or move it there when it "
                        "is done"
                    )

    def table(self, spark: SparkSession, run: str) -> DataFrame:
        """The files as rows of the table of seen files."""
        columns: list[tuple[Any, ...]] = list(zip(*self.files, strict=True)) or [()] * 4
        columns[3] = (run,) * len(self.files)
        arrays = [pa.array(each, kind) for each, kind in zip(columns, _SCHEMA.types, strict=True)]
        return frame_of(spark, pa.Table.from_arrays(arrays, schema=_SCHEMA), _COLUMNS)


def find_new_files(
    spark: SparkSession, pipeline: Pipeline, source: Source, context: RunContext
) -> NewFiles:
    """The files that are there now and that no published run has read; one small Spark job."""
    from pyspark.sql import functions as F

    seen_in = checked_files_table(pipeline.name, source.name)
    listed = reduce(
        lambda one, other: one.unionByName(other),
        (_listed(spark, source, root) for root in range(len(source.paths))),
    )
    if len(source.paths) > 1:
        listed = listed.groupBy(*_IDENTITY).agg(F.min("root").alias("root"))
    if context.has(seen_in) and not source.is_from_start:
        seen = context.read(spark, seen_in).select(*_IDENTITY)
        listed = listed.join(seen, _IDENTITY, "left_anti")
    # As a number: Spark returns datetimes in the time zone of this machine.
    with listing_many(spark):
        found = arrow_of(listed.withColumn("modified", F.unix_micros("modified")))
    return NewFiles(source, tuple(sorted(_files(found))), seen_in)


def _listed(spark: SparkSession, source: Source, root: int) -> DataFrame:
    """Path, size and time of the files below one path, without their content."""
    from pyspark.sql import functions as F

    reader = spark.read.format("binaryFile")
    for name, value in plain_options(source.options).items():
        if name.casefold() in _LISTING_OPTIONS:
            reader = reader.option(name, value)
    files = reader.load(source.paths[root])
    return files.select(
        "path",
        F.col("length").alias("size"),
        F.col("modificationTime").alias("modified"),
        F.lit(root).alias("root"),
    )


def _files(found: pa.Table) -> Iterable[SourceFile]:
    columns: list[list[Any]] = [found.column(n).to_pylist() for n in (*_IDENTITY, "root")]
    for path, size, modified, root in zip(*columns, strict=True):
        seconds, micros = divmod(modified, 1_000_000)
        moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
        yield SourceFile(path, size, moment, root)


def _is_recursive(source: Source) -> bool:
    return source.options_said.get(_RECURSIVE, "").casefold() == "true"


def _base(source: Source, root: int, paths: Sequence[str]) -> str | None:
    """The directory below which partitions (``day=7``) start: Spark cannot tell from files
    alone."""
    is_said = _is_recursive(source) or _BASE in source.options_said
    has_partitions = any("=" in each.rpartition("/")[0] for each in paths)
    return single_path(source.paths[root]) if has_partitions and not is_said else None


@contextmanager
def listing_many(spark: SparkSession) -> Iterator[None]:
    """List files with as many tasks as run at once: Spark would make a task for every 128 MB,
    although it reads none of them."""
    with _set(spark, {"spark.sql.files.maxPartitionBytes": _NO_BOUND}):
        yield


@contextmanager
def opening_many(spark: SparkSession) -> Iterator[None]:
    """Look up named files with a few tasks: Spark would make a task for each file."""
    tasks = max(8, _TASKS_PER_SLOT * slots(spark))
    name = "spark.sql.sources.parallelPartitionDiscovery.parallelism"
    with _set(spark, {name: str(tasks)}):
        yield


@contextmanager
def _set(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    with _turn:
        before = {name: spark.conf.get(name, None) for name in settings}
        try:
            for name, value in settings.items():
                spark.conf.set(name, value)
            yield
        finally:
            for name, was in before.items():
                if was is None:
                    spark.conf.unset(name)
                else:
                    spark.conf.set(name, was)


@contextmanager
def _may_be_gone() -> Iterator[None]:
    """A path that no longer exists has no rewritten file."""
    try:
        yield
    except spark_errors() as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise


_KEYS = {"uri": str, "branch": str, "version": int, "transaction": str}
_WAY_OUT = (
    "Run once with incremental = false, which reads the whole table and remembers where it stands"
)


@dataclass(frozen=True)
class TableRows:
    """A Lance table as a source reads it: whole, or what is new since a version."""

    source: Source
    opened: Table
    """The table that is read where everything is new."""
    until: Table
    """The state that is read, as a version of the table's history, as ``landed`` finds it."""
    since: Table | None = None
    """The state from which on rows are new; None: everything is new."""

    @property
    def row_count(self) -> int | None:
        """Number of these rows; None where that is unknown without reading them."""
        return self.opened.stats().rows if self.since is None else self._between.row_count

    @property
    def since_text(self) -> str | None:
        """The version that it is read since, for people; None if it is read whole."""
        return None if self.since is None else f"version {self.since.version}"

    def frame(self, spark: SparkSession) -> DataFrame:
        if self.since is None:
            return read_snapshot(spark, self.opened._snapshot, columns_read(self.source))
        return self._between.frame(spark)

    def state(self) -> dict[str, Any] | None:
        """What the next run has to know; None for a state beside the history of the table."""
        until = self.until
        if until.is_detached:
            return None
        return {
            "uri": until.uri,
            "branch": until.branch or MAIN,
            "version": int(until.version),
            "transaction": until.transaction_of(until.version).uuid,
        }

    @cached_property
    def _between(self) -> RowsBetween:
        assert self.since is not None
        try:
            return find_between(
                self.since._snapshot, self.until._snapshot, columns_read(self.source)
            )
        except NotFoundError as gone:
            raise wrong(self.source.spot, f"{gone.message}. {_WAY_OUT}") from gone


def landed(source: Source, opened: Table, context: RunContext) -> Table:
    """The version of the table's own history that has what a commit pins.

    A transaction of the repository pins a state beside the history, which then lands on it as it
    is. The state itself where it has not, or not alone.
    """
    if source.table is None or not opened.is_detached:
        return opened
    revision = source.revision or context.base
    assert revision is not None, "a table was opened, so there is a commit"
    return context.repository.at(revision).landed(source.table) or opened


def whole_table(source: Source, opened: Table, context: RunContext) -> TableRows:
    """All that a table has."""
    return TableRows(source, opened, landed(source, opened, context))


def rows_since(source: Source, opened: Table, context: RunContext, state: object) -> TableRows:
    """What a table has that was not there when the state was kept; all of it without a state.

    Raises InvalidInputError for a state of another table, and where the version is gone.
    """
    spot, until = source.spot.at("incremental"), landed(source, opened, context)
    if until.is_detached:
        raise wrong(
            spot,
            f"{until.uri} has not got what the commit pins, or has more than that: "
            "somebody wrote to it beside the repository. 'lw status' tells more; commit the table "
            "as it stands, and run again",
        )
    if not until.has_stable_row_ids:
        raise wrong(
            spot,
            f"{until.uri} has no stable row ids, so that nobody can tell which of its "
            "rows are new: read it whole, or make the table anew with them",
        )
    if state is None:
        return TableRows(source, opened, until)
    last = _checked_state(state, source)
    version, uri, newest = last["version"], until.uri, until.version
    if version > newest:
        raise wrong(
            spot,
            f"the last run has read version {version}, and now version {newest} of "
            f"{called(until.branch)} of {uri} is meant, which is older. {_WAY_OUT}",
        )
    try:
        since = until if version == newest else until.earlier(version)
        identity = until.transaction_of(version).uuid
    except NotFoundError as gone:
        raise wrong(
            spot,
            f"version {version} of {uri}, which the last run has read, was cleaned up: what came "
            f"after it cannot be told. {_WAY_OUT}, and let cleanup keep versions for longer",
        ) from gone
    if identity != last["transaction"] or (not identity and last["uri"] != uri):
        raise wrong(
            spot,
            f"the last run has read version {version} of {last['uri']}, and version {version} of "
            f"{uri} is another one: the table was made again, or is another table. {_WAY_OUT}",
        )
    try:
        if version != newest:
            until.changes(version)  # refuses what cannot be compared
    except (NotFoundError, UnsupportedError) as refused:
        raise wrong(spot, f"{refused.message}. {_WAY_OUT}") from refused
    except LancewoodError as refused:
        raise wrong(spot, refused.message) from refused
    return TableRows(source, opened, until, since)


def _checked_state(state: object, source: Source) -> dict[str, Any]:
    if isinstance(state, dict) and all(isinstance(state.get(k), t) for k, t in _KEYS.items()):
        return state
    raise wrong(
        source.spot.at("incremental"),
        "what the last run has left about this source is not known to this Lancewood: "
        f"{state!r:.200}",
    )


_LOCAL = "file:"
_UNDERSTOOD = frozenset(["recursivefilelookup", "pathglobfilter", "basepath"])
_PIECES = re.compile(r"\\(.)|([*?])|([\[\]{}\\])|([^\\*?\[\]{}]+)", re.DOTALL)
_MARKER = re.compile(r"_SUCCESS|_(?:committed|started)_.*|_(?:common_)?metadata|\..*\.crc")
_WILD = {"*": ".*", "?": "."}


def has_no_news(pipeline: Pipeline, context: RunContext, states: Mapping[str, Any]) -> bool:
    """Whether it is certain that no incremental source has anything new.

    False where there is none, and where only Spark knows. Raises what opening a table raises.
    """
    needed = Uses.of(pipeline).counts
    sources = [each for each in pipeline.sources if each.incremental and each.name in needed]
    return bool(sources) and all(_is_old(pipeline, each, context, states) for each in sources)


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
        listed = _listed_here(source)
        if listed is None:
            return False
        seen = context.open(seen_in).scan(columns=_IDENTITY).to_arrow().cast(_IDENTITY_SCHEMA)
        # That these were read from this disk says that a path without a scheme means it.
        is_local = pc.all(pc.starts_with(seen["path"], _LOCAL)).as_py()
        return bool(is_local) and not listed.join(seen, _IDENTITY, join_type="left anti").num_rows


def passed_over(source: Source) -> int | None:
    """How many files Spark leaves out for their names; None where that is not known.

    Files that programs put beside data, such as ``_SUCCESS`` and checksums, are not counted.
    """
    only, is_deep = _pattern(source.options_said.get("pathglobfilter", "*")), _is_recursive(source)
    if only is None or not source.paths:
        return None
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


def _listed_here(source: Source) -> pa.Table | None:
    """Path, size and time of every file that Spark would list, and perhaps of some others; None
    where that is not certain."""
    said = source.options_said
    only, is_deep = _pattern(said.get("pathglobfilter", "*")), _is_recursive(source)
    if only is None or not _LISTING_OPTIONS.intersection(said) <= _UNDERSTOOD:
        return None
    found: dict[str, os.stat_result] = {}
    try:
        for path in source.paths:
            roots = _roots(path)
            if roots is None:
                return None
            found.update(_files_here(roots, is_deep=is_deep))
    except OSError:
        return None
    files = {path: at for path, at in found.items() if only.fullmatch(os.path.basename(path))}
    micros = [each.st_mtime_ns // 1_000_000 * 1_000 for each in files.values()]
    columns = [[f"{_LOCAL}{each}" for each in files], [each.st_size for each in files.values()]]
    return pa.table([*columns, pa.array(micros, pa.int64())], names=_IDENTITY).cast(
        _IDENTITY_SCHEMA
    )


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


def _files_here(roots: list[str], *, is_deep: bool) -> dict[str, os.stat_result]:
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
