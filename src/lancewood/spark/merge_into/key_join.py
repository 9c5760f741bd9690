"""The part of a merge that is Spark's: joining keys, and bringing pairs to the tasks of their rows.

Only coded keys and addresses travel. Knows frames, and nothing of tables or files: what reads and
writes them comes as functions that run on executors. Works on classic sessions and over Connect.

Spark guesses the size of what a Python function gives from the size of what it takes, which here
is next to nothing, and would send a whole table's keys to every executor. So every join
names its strategy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

import pyarrow as pa

from lancewood.jobs.merge_into.keys import Key
from lancewood.spark.merge_into.keys import ADDRESSES, code_names, coded_ddl
from lancewood.spark.merge_into.planning import ChangeTasks
from lancewood.spark.merge_into.task_rows import SOURCE, TARGET, TaskRows, answer_with_rows
from lancewood.spark.runner import Arriving, all_in_order, last_attempt
from lancewood.spark.running.answers import Shared
from lancewood.spark.running.failures import as_our_error
from lancewood.spark.tasks import MESSAGE, TASK, arrow_of, frame_of, placed, slots, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Work: TypeAlias = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for mapInArrow; it pickles."""

R = TypeVar("R")

FEW_ROWS = 100_000
"""Number of rows up to which a source goes to every executor instead of being shuffled."""
FEW_PAIRS = 1_000_000
CHANGE = "change"
"""The column that says what becomes of rows, where a query has found it."""
_FRAGMENT = "fragment"


class FoundIn(NamedTuple):
    """How many rows of a fragment are matched by the source, and how many are not."""

    pairs: int
    alone: int


class KnownChanges(NamedTuple):
    """The numbers of changes, where a query has found what changes."""

    inserted: int
    updated: int
    deleted: int
    deletes_repeatedly: bool
    """Whether a row may be deleted several times."""


class KnownCounts(NamedTuple):
    """How many rows there are of each change, in each fragment and in each staged file."""

    kinds: Mapping[int, int]
    found: Mapping[int, FoundIn]
    inserted: Mapping[int, int]


class Wanted(Enum):
    """Which rows of the table a task is to get."""

    ALL = None
    PAIRED = f"{SOURCE} is not null"
    ALONE = f"{SOURCE} is null"


class KeyJoin:
    """The frames of one merge. What is found is kept, on disk where it must, until ``close``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._key: Key | None = None
        self._source: Any = None
        self._is_small = False
        self._joined: Any = None
        self._left: Any = None

    @property
    def slots(self) -> int:
        """How many tasks run at once."""
        return slots(self._spark)

    def read_source(
        self, key: Key, read: Work, messages: Sequence[bytes], *, is_small: bool
    ) -> tuple[int, int] | None:
        """Take up the keys of the source; gives two rows that have the same, None if all differ."""
        self.close()
        self._key, self._is_small = key, is_small
        names = code_names(key)
        frame = spread(self._spark, messages).mapInArrow(read, coded_ddl(key, SOURCE))
        self._source = frame.persist()
        twice = (
            self._source.selectExpr(*names, f"{SOURCE} as low", f"{SOURCE} as high")
            .groupBy(*names)
            .agg({"low": "min", "high": "max"})
            .selectExpr("`min(low)` as low", "`max(high)` as high")
            .where("low < high")
            .orderBy("low")
            .limit(1)
        )
        with _in_our_words("reading the keys of the source"):
            found = twice.collect()
        return (found[0]["low"], found[0]["high"]) if found else None

    def match(
        self, read: Work, messages: Sequence[bytes], *, keeps_unmatched: bool
    ) -> dict[int, FoundIn]:
        """Pair rows of the table with rows of the source; gives what there is in each fragment.

        Rows of the table that match none are found only if they are to be kept.
        """
        assert self._key is not None
        self._forget()
        table = spread(self._spark, messages).mapInArrow(read, coded_ddl(self._key, TARGET))
        source = self._source.hint("broadcast" if self._is_small else "merge")
        how = "left" if keeps_unmatched else "inner"
        joined = table.join(source, code_names(self._key), how).selectExpr(TARGET, SOURCE)
        self._joined = joined.persist()
        return self._found("matching keys")

    def take(self, pairs: DataFrame, changes: KnownChanges) -> KnownCounts | None:
        """Take up pairs that are known already, with the ``CHANGE`` of each; gives how many rows
        there are of each kind, None if a row of the table is in several pairs."""
        self._forget()
        self._source = pairs.persist()
        with _in_our_words("finding what changes"):
            counted = arrow_of(self._source.groupBy(CHANGE).count())
            if not changes.deletes_repeatedly and self._has_repeats():
                return None
        kinds = dict(zip(*(counted[each].to_pylist() for each in (CHANGE, "count")), strict=True))
        gone = self._source.where(f"{CHANGE} = {changes.deleted}")
        gone = gone.selectExpr(TARGET, f"cast(null as bigint) as {SOURCE}")
        gone = gone.distinct() if changes.deletes_repeatedly else gone
        moved = self._source.where(f"{CHANGE} = {changes.updated}").selectExpr(TARGET, SOURCE)
        self._joined = moved.union(
            gone.distinct() if changes.deletes_repeatedly else gone
        ).persist()
        new = self._source.where(f"{CHANGE} = {changes.inserted}")
        self._left = new.selectExpr(SOURCE).persist()
        what = "finding what changes"
        found = self._found(what) if {changes.updated, changes.deleted} & kinds.keys() else {}
        inserted = self._found_left(what) if changes.inserted in kinds else {}
        return KnownCounts(kinds, found, inserted)

    def _has_repeats(self) -> bool:
        """Whether a row of the table is there twice."""
        rows = self._source.where(f"{TARGET} is not null").groupBy(TARGET).count()
        return bool(rows.where("count > 1").limit(1).collect())

    def _found(self, what: str) -> dict[int, FoundIn]:
        """Counts of pairs and of rows without a match in each fragment."""
        counted = (
            self._joined.selectExpr(
                f"shiftrightunsigned({TARGET}, 32) as {_FRAGMENT}",
                f"cast({SOURCE} is not null as bigint) as pairs",
                f"cast({SOURCE} is null as bigint) as alone",
            )
            .groupBy(_FRAGMENT)
            .agg({"pairs": "sum", "alone": "sum"})
            .selectExpr(_FRAGMENT, "`sum(pairs)` as pairs", "`sum(alone)` as alone")
        )
        with _in_our_words(what):
            found = arrow_of(counted)
        columns = (found[each].to_pylist() for each in (_FRAGMENT, "pairs", "alone"))
        return {each: FoundIn(*counts) for each, *counts in zip(*columns, strict=True)}

    def unmatched(self, read: Work, messages: Sequence[bytes], pairs: int) -> dict[int, int]:
        """The rows of the source in no pair; gives how many there are in each staged file."""
        frame = spread(self._spark, messages).mapInArrow(read, ADDRESSES)
        if pairs:
            matched = self._joined.where(f"{SOURCE} is not null").selectExpr(SOURCE)
            hint = "broadcast" if pairs <= FEW_PAIRS else "merge"
            frame = frame.join(matched.hint(hint), [SOURCE], "left_anti")
        self._left = frame.persist()
        return self._found_left("finding new keys")

    def _found_left(self, what: str) -> dict[int, int]:
        """How many rows of each staged file are new."""
        counted = (
            self._left.selectExpr(f"shiftrightunsigned({SOURCE}, 32) as {_FRAGMENT}")
            .groupBy(_FRAGMENT)
            .count()
        )
        with _in_our_words(what):
            found = arrow_of(counted)
        numbers, rows = (found[each].to_pylist() for each in (_FRAGMENT, "count"))
        return dict(sorted(zip(numbers, rows, strict=True)))

    def run(
        self,
        work: Callable[[TaskRows], R],
        tasks: ChangeTasks,
        *,
        what: str,
        wanted: Wanted = Wanted.ALL,
        leftover: Callable[[R], object] | None = None,
    ) -> list[R]:
        """Bring each task its rows: those of the table that are ``wanted``, and its unmatched rows
        of the source; gives the results in the order of the tasks.

        Raises the error of a task. Then ``leftover`` is called with the results of those that
        finished, as far as they are known.
        """
        count = len(tasks.messages)
        frame = placed(self._spark, self._all_rows(tasks, wanted), count)
        shared = Shared.of(work, last_attempt(self._spark))
        answering = partial(answer_with_rows, shared)
        arriving = Arriving(self._spark, frame, answering, tasks=count, what=what)
        return all_in_order(arriving, what, leftover)

    def _all_rows(self, tasks: ChangeTasks, wanted: Wanted) -> DataFrame:
        """The rows of all tasks, each with the number of its task."""
        no_address, no_message = "cast(null as bigint)", f"cast(null as binary) as {MESSAGE}"
        frame = self._message_rows(tasks.messages)
        if tasks.targets:
            rows = self._joined if wanted.value is None else self._joined.where(wanted.value)
            owned = self._owned(rows, TARGET, tasks.targets)
            frame = frame.union(owned.selectExpr(TASK, TARGET, SOURCE, no_message))
        if tasks.sources:
            owned = self._owned(self._left, SOURCE, tasks.sources)
            alone = f"{no_address} as {TARGET}"
            frame = frame.union(owned.selectExpr(TASK, alone, SOURCE, no_message))
        return frame

    def close(self) -> None:
        """Drop what is kept."""
        self._forget()
        if self._source is not None:
            self._source.unpersist()
            self._source = None

    def _forget(self) -> None:
        for each in (self._joined, self._left):
            if each is not None:
                each.unpersist()
        self._joined = self._left = None

    def _message_rows(self, messages: Sequence[bytes]) -> DataFrame:
        """The rows that carry the messages."""
        rows = pa.table(
            {
                TASK: pa.array(range(len(messages)), pa.int32()),
                MESSAGE: pa.array(messages, pa.binary()),
            }
        )
        frame = frame_of(self._spark, rows, f"{TASK} int, {MESSAGE} binary")
        nothing = (f"cast(null as bigint) as {each}" for each in (TARGET, SOURCE))
        return frame.selectExpr(TASK, *nothing, MESSAGE)

    def _owned(self, rows: Any, address: str, owners: Mapping[int, int]) -> Any:
        """The rows whose fragments have a task, with it."""
        listed = pa.table(
            {
                _FRAGMENT: pa.array(owners.keys(), pa.int64()),
                TASK: pa.array(owners.values(), pa.int32()),
            }
        )
        tasks = frame_of(self._spark, listed, f"{_FRAGMENT} bigint, {TASK} int")
        placed = rows.selectExpr("*", f"shiftrightunsigned({address}, 32) as {_FRAGMENT}")
        return placed.join(tasks.hint("broadcast"), [_FRAGMENT])


@contextmanager
def _in_our_words(what: str) -> Iterator[None]:
    """Say in our words why Spark failed."""
    try:
        yield
    except Exception as error:
        raise as_our_error(error, what) from None
