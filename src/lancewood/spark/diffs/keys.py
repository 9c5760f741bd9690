"""Pairing many rows by their keys: Spark groups the keys, and tasks compare the rows of each.

Rows that only one state has are paired, as after an overwrite. Coded keys travel with the places of
their rows, and then the places alone: values are read by the tasks that compare them. A key of
which a part is null is that of no other row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.rows import Ints, LiveRows
from lancewood.jobs.diff import (
    DELETED,
    INSERTED,
    Comparison,
    Costs,
    DiffCutting,
    Doubt,
    Places,
    RowReader,
    State,
    comparable_keys,
    not_unique,
    portions,
    sent_whole,
)
from lancewood.jobs.merge_into.keys import Key, shown_key
from lancewood.model.schema import Field
from lancewood.spark.diffs.work import DiffWork, decode, encode
from lancewood.spark.merge_into.keys import code_names, code_types, encode_key
from lancewood.spark.reading.plan import count_tasks
from lancewood.spark.reading.task import pack, unpack
from lancewood.spark.tasks import keep_loaded, spread

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BEFORE, AFTER, ALONE, OLDS, NEWS = "before", "after", "alone", "olds", "news"
"""The place of a row in the earlier and the later state, a number of its own for a row without a
key, and how many rows of each state have a key."""
_BLOCK = 8_192
"""Rows that lie so close to each other are compared by one task."""
_MOST_PAIRS = 1 << 18
"""Number of rows that a task looks at at once."""


@dataclass(frozen=True)
class KeyWork:
    """The part of a task that all tasks of a pairing by keys share. Pickles."""

    work: DiffWork
    key: Key
    fields: Mapping[str, tuple[Field, ...]]
    """The columns of the key, as each state has them."""
    names: tuple[str, ...]
    """The columns of the key, as the key calls them."""
    fragments: bytes = b""
    """Fragments of both states; only for tasks that compare."""

    def keys(self, message: bytes) -> Iterator[pa.RecordBatch]:
        """The coded keys of some rows, and where those are."""
        portion = decode(message)
        found = portion.comparison(self.work.one, self.work.other, self.work.shape)
        for kind, state, rows, numbers in (
            (DELETED, found.before, found.deleted, portion.before.numbers),
            (INSERTED, found.after, found.inserted, portion.after.numbers),
        ):
            reader = RowReader(state, self.fields[kind])
            for (places,) in portions(state.portion_rows(self.fields[kind]), rows):
                batch = self._read(reader, places)
                with comparable_keys(self.key, batch, state.snapshot):
                    coded = encode_key(self.key, batch)
                at = (numbers[places.parts] << 32) | places.offsets
                yield self._placed(coded, at, kind)

    def pairs(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of pairs, of which one side may be missing."""
        for pairs in _gathered(batches):
            self._check_unique(pairs)
            yield from self.work.rows(self._comparison(pairs))

    def _read(self, reader: RowReader, places: Places) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([*reader.at(places).values()], names=list(self.names))

    def _placed(self, coded: list[pa.Array], at: Ints, kind: str) -> pa.RecordBatch:
        places, none = pa.array(at, pa.int64()), pa.nulls(len(at), pa.int64())
        is_old = kind == DELETED
        whole = np.logical_and.reduce([each.is_valid().to_numpy(False) for each in coded])
        alone = pa.array(at if is_old else -1 - at, pa.int64(), mask=whole)
        sides = [places, none] if is_old else [none, places]
        names = [*code_names(self.key), BEFORE, AFTER, ALONE]
        return pa.RecordBatch.from_arrays([*coded, *sides, alone], names=names)

    @cached_property
    def _states(self) -> tuple[State, State]:
        before, after = unpack(self.fragments)
        return before.state(self.work.one), after.state(self.work.other)

    def _comparison(self, pairs: pa.Table) -> Comparison:
        old, new = pairs[BEFORE], pairs[AFTER]
        both = pairs.filter(pc.and_(old.is_valid(), new.is_valid()))
        shape = self.work.shape
        doubt = Doubt(shape.columns, _rows(both[BEFORE]), _rows(both[AFTER]))
        return Comparison(
            *self._states,
            shape.paired,
            deleted=_rows(old.filter(new.is_null())),
            inserted=_rows(new.filter(old.is_null())),
            doubts=(doubt,) if both.num_rows else (),
        )

    def _check_unique(self, pairs: pa.Table) -> None:
        """Raise InvalidInputError for a key that several rows of a state have."""
        sides = ((BEFORE, OLDS, DELETED), (AFTER, NEWS, INSERTED))
        for state, (place, count, kind) in zip(self._states, sides, strict=True):
            twice = pairs.filter(pc.greater(pairs[count], 1))
            if twice.num_rows:
                places = Places(*_parted(twice[place].slice(0, 1)))
                batch = self._read(RowReader(state, self.fields[kind]), places)
                raise not_unique(state.snapshot, *shown_key(self.key, self.key.values(batch), 0))


@dataclass(frozen=True, eq=False)
class KeyPairing:
    """The rows that only one state has, to be paired by Spark."""

    work: DiffWork
    key: Key
    found: Comparison
    costs: Costs

    def without(self, found: Comparison) -> Comparison:
        """A comparison without the rows that are paired."""
        none = LiveRows.joined(())
        return replace(found, deleted=none, inserted=none)

    def frame(self, spark: SparkSession, running: int) -> DataFrame:
        """The rows that are paired, and those that no other is paired with."""
        shared = self._shared()
        names = code_names(self.key)
        messages = self._messages(shared, running)
        keys = spread(spark, messages).rows(shared.keys, self._ddl(), self.work.name)
        pairs = (
            keys.selectExpr(
                *names, ALONE, BEFORE, AFTER, f"{BEFORE} as {OLDS}", f"{AFTER} as {NEWS}"
            )
            .groupBy(*names, ALONE)
            .agg({BEFORE: "max", AFTER: "max", OLDS: "count", NEWS: "count"})
            .selectExpr(
                *(f"`max({each})` as {each}" for each in (BEFORE, AFTER)),
                *(f"`count({each})` as {each}" for each in (OLDS, NEWS)),
                f"coalesce(`max({AFTER})`, -1 - `max({BEFORE})`) as place",
            )
        )
        cost = self.found.deleted.row_count * self.costs.before
        cost += self.found.inserted.row_count * self.costs.after
        tasks = count_tasks(cost, running)
        by_place = (
            pairs.selectExpr("*", f"place div {_BLOCK} as block")
            .repartition(tasks, "block")
            .sortWithinPartitions("place")
            .select(BEFORE, AFTER, OLDS, NEWS)
        )
        sent = pack((sent_whole(self.found.before), sent_whole(self.found.after)))
        run: Any = partial(compare_pairs, replace(shared, fragments=sent))
        run.__name__ = self.work.name
        return by_place.mapInArrow(run, self.work.reading.spark)

    def _shared(self) -> KeyWork:
        tops = {path[0] for path in self.key.paths}
        columns = [each for each in self.work.shape.paired if each.name in tops]
        fields = {
            DELETED: tuple(each.before for each in columns),
            INSERTED: tuple(each.after for each in columns),
        }
        return KeyWork(self.work, self.key, fields, tuple(each.name for each in columns))

    def _messages(self, shared: KeyWork, running: int) -> list[bytes]:
        """Messages for tasks that read keys."""
        shape = replace(self.work.shape, kinds=(DELETED, INSERTED))
        before = math.ceil(self.found.before.row_width(shared.fields[DELETED]))
        after = math.ceil(self.found.after.row_width(shared.fields[INSERTED]))
        cutting = DiffCutting(self.found, shape, self.costs._replace(before=before, after=after))
        share = math.ceil(cutting.cost / count_tasks(cutting.cost, running))
        return [*map(encode, cutting.portions(share))]

    def _ddl(self) -> str:
        types = zip(code_names(self.key), code_types(self.key), strict=True)
        columns = [*types, *((each, "bigint") for each in (BEFORE, AFTER, ALONE))]
        return ", ".join(f"{name} {kind}" for name, kind in columns)


def compare_pairs(shared: KeyWork, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """For mapInArrow over pairs of places."""
    yield from shared.pairs(batches)
    keep_loaded()


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows, many at a time."""
    held, rows = list[pa.RecordBatch](), 0
    for each in batches:
        held.append(each)
        rows += each.num_rows
        if rows >= _MOST_PAIRS:
            yield pa.Table.from_batches(held)
            held, rows = [], 0
    if rows:
        yield pa.Table.from_batches(held)


def _rows(places: Any) -> LiveRows:
    return LiveRows.without_ids(*_parted(places), np.ones(len(places), np.int64))


def _parted(places: Any) -> tuple[Ints, Ints]:
    """Fragments and offsets out of places."""
    found = places.to_numpy()
    return found >> 32, found & 0xFFFFFFFF
