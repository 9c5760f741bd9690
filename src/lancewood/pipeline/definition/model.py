"""What a pipeline file says, as values: made and checked by ``load``, never changed after.

Knows words of the file and nothing of Spark, tables or repositories. Parameters are filled in;
secrets are not: an option that holds one is a ``Secret`` until the reader of a source asks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

_is_bare = re.compile(r"[A-Za-z0-9_-]+").fullmatch


def key_below(key: str, step: str | int) -> str:
    """The text of a key one step below another: ``targets[0]``, ``options."a.b"``."""
    if isinstance(step, int):
        return f"{key}[{step}]"
    text = step if _is_bare(step) else json.dumps(step, ensure_ascii=False)
    return f"{key}.{text}" if key else text


@dataclass(frozen=True, slots=True)
class Spot:
    """Where in a file something is said, for errors: ``photos.toml line 12: targets[0].mode``."""

    file: str
    key: str
    line: int | None = None
    lines: Mapping[str, int] = field(default_factory=dict, repr=False, compare=False)
    """The lines of the whole file's keys, by their texts, as far as they are known."""

    def at(self, *steps: str | int) -> Spot:
        """The spot of a key below this one, with its line where that is known."""
        key = self.key
        for step in steps:
            key = key_below(key, step)
        return Spot(self.file, key, self.lines.get(key), self.lines)

    def __str__(self) -> str:
        at = "" if self.line is None else f" line {self.line}"
        return f"{self.file}{at}: {self.key}"


@dataclass(frozen=True, slots=True)
class Secret:
    """A text with values of environment variables in it: never shown, stored or compared."""

    template: str
    """The text as the file has it, such as ``${env:DB_PASSWORD}``: what may be shown."""
    text: str = field(repr=False, compare=False)
    values: tuple[tuple[str, str], ...] = field(default=(), repr=False, compare=False)
    """The variables in it and what they hold, so that each can be hidden by itself."""

    def __str__(self) -> str:
        return self.template


Option: TypeAlias = str | Secret


@dataclass(frozen=True, slots=True)
class Reject:
    """Rows for which a Spark SQL predicate holds are bad, for this reason."""

    where: str
    reason: str
    spot: Spot


@dataclass(frozen=True, slots=True)
class Source:
    """Where rows come from: one of ``format``, ``table``, ``uri`` and ``sql``."""

    name: str
    spot: Spot
    format: str | None = None
    """A format of ``spark.read.format``: parquet, csv, json, orc, jdbc, binaryFile, …"""
    paths: tuple[str, ...] = ()
    """Absolute, or with a scheme; may have wild cards."""
    options: Mapping[str, Option] = field(default_factory=dict)
    schema: str | None = None
    """The columns as DDL: ``id LONG, name STRING``."""
    table: str | None = None
    """A table of the pipeline's repository."""
    uri: str | None = None
    """A Lance table anywhere."""
    revision: str | None = None
    """A revision of the repository for ``table`` (default: the branch that the run publishes into),
    of the table for ``uri``."""
    sql: str | None = None
    """Over other sources, by name."""
    incremental: bool = False
    """Only what is new since the last published run: files by path, size and time of change; of a
    Lance table, the rows that were inserted or updated since."""
    bad: str | None = None
    """The column that says why a row is bad; null for the good ones."""
    rejects: tuple[Reject, ...] = ()
    columns: tuple[str, ...] = ()
    """Only these columns; empty means all."""
    file_time: str | None = None
    """A further column: when the file of a row was last written."""
    is_from_start: bool = False
    """Whether all is read again that earlier runs have read, in a full refresh; not in the file."""

    @property
    def kind(self) -> str:
        """The format, in small letters; empty without one."""
        return (self.format or "").casefold()

    @property
    def options_said(self) -> dict[str, str]:
        """The options by names in small letters; of secrets only the templates."""
        return {name.casefold(): str(value) for name, value in self.options.items()}


@dataclass(frozen=True, slots=True)
class Step:
    """A transformation: ``sql`` over sources and steps by name, or a Python function."""

    name: str
    spot: Spot
    sql: str | None = None
    python: str | None = None
    """``module:function``; the module is looked for beside the pipeline file first."""
    inputs: tuple[str, ...] = ()
    """The frames that the function gets, in order."""
    arguments: Mapping[str, object] = field(default_factory=dict)
    """Further keyword arguments of the function."""
    bad: str | None = None
    rejects: tuple[Reject, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """A Python function that SQL of the pipeline can call by name."""

    name: str
    spot: Spot
    python: str
    returns: str
    """A Spark type as DDL: ``binary``, ``array<float>``."""


class Mode(StrEnum):
    """How a frame gets into a table."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    MERGE = "merge"
    ADD_COLUMNS = "add-columns"


FAIL = "fail"
OnConflict: TypeAlias = str | Mapping[str, str]
"""``fail``, ``ours``, ``theirs``, or what cells become, by column."""


@dataclass(frozen=True, slots=True)
class TargetIndex:
    """An index that a table has after each load: built once, and extended from then on."""

    name: str
    column: str
    spot: Spot = field(compare=False)
    kind: str | None = None
    """A kind such as ``BTREE``; ``lookup``, ``search`` and None choose by the column's type."""
    metric: str | None = None
    partitions: int | None = None
    sub_vectors: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """What ``Indices.create`` takes beside column and kind."""
        return {
            "name": self.name,
            "metric": self.metric,
            "partitions": self.partitions,
            "sub_vectors": self.sub_vectors,
            "options": self.options,
        }


@dataclass(frozen=True, slots=True)
class Target:
    """One table that a run writes, in the order of the file. A table may be written twice."""

    table: str
    spot: Spot
    mode: Mode
    source: str | None = None
    """The frame (``from``); None for add-columns, which reads the table itself."""
    uri: str | None = None
    """Where the table lives if that is not below the repository."""
    on: tuple[str, ...] = ()
    """The keys of a merge."""
    matched: str = "update"
    not_matched: str = "insert"
    not_matched_by_source: str = "keep"
    deleted: str | None = None
    """Merge: a Spark SQL predicate over the frame; rows for which it holds are deleted, for
    change data capture. Columns that only it needs are left out by ``columns_left_out``."""
    keep: str | None = None
    """Merge: which row of the frame counts where several have one key, ``first`` or ``last``."""
    order_by: tuple[str, ...] = ()
    """The columns of the frame that tell what is first and last."""
    columns_left_out: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """Add-columns: new columns and their Spark SQL, which may call ``functions``."""
    overwrite: bool = False
    """Add-columns: compute every row anew, not only rows that have no value."""
    types: Mapping[str, str] = field(default_factory=dict)
    """Arrow types of a new table or new columns that Spark cannot say, such as
    ``fixed_size_list<float>[16]`` (those of ``lw table create --type``)."""
    partitions: int | None = None
    max_rows_per_file: int | None = None
    on_conflict: OnConflict = FAIL
    """What rows become that the run changed, and others on the branch that it publishes into, while
    it was at work. The same in all targets of a table."""
    indices: tuple[TargetIndex, ...] = ()
    is_anew: bool = False
    """Whether the table begins without rows, as if new, in a full refresh; not in the file."""

    @property
    def replaces_all(self) -> bool:
        """Whether no row stays that was there before."""
        return self.is_anew or self.mode is Mode.OVERWRITE


@dataclass(frozen=True, slots=True)
class Check:
    """Something that must be true; the subclasses are the kinds."""

    name: str
    spot: Spot
    is_warning: bool
    """Told, but it does not keep the run from publishing."""


@dataclass(frozen=True, slots=True)
class SqlCheck(Check):
    """A query that must return no rows. Tables go by name as the run leaves them; with
    ``published.`` before the name, as they were before it."""

    sql: str


@dataclass(frozen=True, slots=True)
class NotNullCheck(Check):
    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UniqueCheck(Check):
    table: str
    columns: tuple[str, ...]
    """Together: no two rows have the same values; nulls are not counted."""


@dataclass(frozen=True, slots=True)
class AcceptedCheck(Check):
    table: str
    column: str
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class RowsCheck(Check):
    table: str
    least: int | None = None
    most: int | None = None
    least_change: float | None = None
    """Against the last published version: -0.1 means at most a tenth fewer rows."""
    most_change: float | None = None


class SchemaRule(StrEnum):
    UNCHANGED = "unchanged"
    WIDENED = "widened"
    """New columns and wider types are fine."""


@dataclass(frozen=True, slots=True)
class SchemaCheck(Check):
    table: str
    rule: SchemaRule


@dataclass(frozen=True, slots=True)
class ReferenceCheck(Check):
    """Every value of the columns is among those of another table's; nulls refer to nothing."""

    table: str
    columns: tuple[str, ...]
    other: str
    other_columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quarantine:
    """Where bad rows go, and how many a run may have."""

    table: str = "quarantine"
    most_rows: int | None = 0
    """Number of bad rows that a run may have; None: no such limit. The default lets none pass."""
    most_share: float | None = None
    """Share of bad rows in the rows of their source or step."""


@dataclass(frozen=True, slots=True)
class Stream:
    """Run as a structured stream: ``source`` comes in micro-batches, the others stand still."""

    source: str
    trigger: str
    """``available-now``, or an interval such as ``10 seconds``."""
    checkpoint: str
    """The directory of the stream's checkpoint."""
    spot: Spot
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the reader of the stream, beside those of the source: ``maxFilesPerTrigger``."""


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A whole file."""

    name: str
    file: Path
    repository: str
    """The path of the repository; ``.lancewood/<name>`` beside the file if the file names none."""
    digest: str
    """The digest of what the file and the parameters say; of secrets only their templates count."""
    spot: Spot
    branch: str = "main"
    tag: str | None = None
    """May hold ``{run}``, ``{pipeline}`` and ``{date}``; the same tag twice is refused early."""
    message: str | None = None
    author: str | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Parameters as they were filled in, without secrets."""
    sources: tuple[Source, ...] = ()
    steps: tuple[Step, ...] = ()
    functions: tuple[Function, ...] = ()
    targets: tuple[Target, ...] = ()
    checks: tuple[Check, ...] = ()
    quarantine: Quarantine = field(default_factory=Quarantine)
    attempts: int = 3
    """How often a run is executed when the target moved and the two do not go together."""
    keep_failed: timedelta = timedelta(days=7)
    """How long branches of runs that did not publish are kept."""
    kept_rows: int = 1_000
    """Number of bad rows that are kept of each failing check."""
    spark: Mapping[str, str] = field(default_factory=dict)
    """Settings of the session, ``master`` among them."""
    storage_options: Mapping[str, Option] = field(default_factory=dict)
    stream: Stream | None = None
    full_refresh: tuple[str, ...] = ()
    """The tables that a run is to make anew; not of the file. See ``running.full_refresh``."""

    @property
    def on_conflict(self) -> dict[str, OnConflict]:
        """What decides rows that others changed meanwhile, by table. Without tables where nothing
        does, and those of which the run leaves no row that was there."""
        anew = {each.table for each in self.targets if each.replaces_all}
        return {
            each.table: each.on_conflict
            for each in self.targets
            if each.on_conflict != FAIL and each.table not in anew
        }
