"""Writing and merging frames without a Spark: partitions in memory, keys joined here, tasks one by
one."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from lancewood.engine.snapshot import Address
from lancewood.engine.write import WriteRequest, plan_write
from lancewood.jobs.job import CommitOptions
from lancewood.spark.merge_into.key_join import FoundIn, KeyJoin, Wanted
from lancewood.spark.merge_into.keys import code_names, coded_schema
from lancewood.spark.merge_into.planning import ChangeTasks
from lancewood.spark.merge_into.task_rows import SOURCE, TARGET, TaskRows, read_rows
from lancewood.spark.tasks import MESSAGE, TASK
from lancewood.spark.writing.job import WriteJob
from lancewood.spark.writing.work import ADVISED_BYTES, BYTES, ROWS

T = TypeVar("T")
_OF_THE_COMMIT = ("message", "properties", "serializable", "app", "batch")


def planned_write(access: Address, frame: Any, **wishes: Any) -> WriteJob:
    """A write as ``lancewood.spark.write`` plans it; an append unless ``mode`` says otherwise."""
    said = {each: wishes.pop(each) for each in _OF_THE_COMMIT if each in wishes}
    options = CommitOptions(**said)
    request = WriteRequest(mode=wishes.pop("mode", "append"), **wishes)
    return WriteJob.of(plan_write(access, request, options.policy.applied), frame, options)


class Settings:
    def __init__(self, values: dict[str, str]) -> None:
        self._values = values

    def get(self, name: str, default: str | None = None) -> str:
        return self._values[name] if default is None else self._values.get(name, default)

    def set(self, name: str, value: str) -> None:
        self._values[name] = value


class Session:
    """The settings that a write looks at."""

    def __init__(self, rows: str = "50000", size: str = ADVISED_BYTES) -> None:
        self.conf = Settings({ROWS: rows, BYTES: size})

    def bounds(self) -> tuple[str, str]:
        return self.conf.get(ROWS), self.conf.get(BYTES)


class Frame:
    """Rows in partitions, with the few verbs of a DataFrame that staging uses."""

    sparkSession = Session()
    isStreaming = False

    def __init__(self, rows: pa.Table, partitions: int = 1, *, travels: bool = True) -> None:
        """``travels``: work is pickled, as on its way to executors."""
        from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

        self.schema = from_arrow_schema(rows.schema)
        self.columns = rows.schema.names
        self._rows = rows.cast(to_arrow_schema(self.schema, timezone="UTC"))
        self._partitions = partitions
        self._travels = travels
        self.computed: list[list[str]] = []

    def toDF(self, *names: str) -> Frame:
        return self._with(self._rows.rename_columns(list(names)))

    def select(self, *names: str) -> Frame:
        spelled = [each.casefold() for each in self.columns]
        assert all(spelled.count(each.casefold()) == 1 for each in names), "ambiguous to Spark"
        return self._with(self._rows.select(list(names)))

    def _with(self, rows: pa.Table) -> Frame:
        chosen = Frame(rows, self._partitions, travels=self._travels)
        chosen.computed = self.computed
        return chosen

    def mapInArrow(self, work: Callable[..., Any], _: str) -> Frame:
        self._work = work
        return self

    def collect(self) -> list[tuple[bytes]]:
        self.computed.append(self._rows.schema.names)
        work = _sent(self._work) if self._travels else self._work
        share = -(-max(self._rows.num_rows, 1) // self._partitions)
        answers = []
        for at in range(self._partitions):
            batches = self._rows.slice(at * share, share).to_batches(max_chunksize=3)
            for answer in work(map(_handed_over, batches)):
                answers += answer.column(0).to_pylist()
        return [(each,) for each in answers]


def _handed_over(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as it comes out of a socket: no part of a larger one."""
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def _sent(value: T) -> T:
    found: T = pickle.loads(pickle.dumps(value))
    return found


def _same(value: T) -> T:
    return value


class LocalJoin(KeyJoin):
    """Joins in this process what executors would have read, and is as picky about types."""

    def __init__(self, slots: int = 2, *, travels: bool = True) -> None:
        self._slots = slots
        self._sent = _sent if travels else _same
        self.before_writing: list[Callable[[], object]] = []
        self.searches = self.runs = 0

    @property
    def slots(self) -> int:
        return self._slots

    def read_source(self, key: Any, read: Any, messages: Any, **_: Any) -> Any:
        self._key, self._names = key, code_names(key)
        self._keys = self._read(read, messages, coded_schema(key, SOURCE))
        rows = list(zip(*(self._keys[each].to_pylist() for each in self._names), strict=True))
        twice = next((each for each, times in Counter(rows).items() if times > 1), None)
        if twice is None:
            return None
        addresses = self._keys[SOURCE].to_pylist()
        same = [address for address, each in zip(addresses, rows, strict=True) if each == twice]
        return same[0], same[1]

    def match(self, read: Any, messages: Any, *, keeps_unmatched: bool) -> dict[int, FoundIn]:
        assert self._key is not None
        self.searches += 1
        table = self._read(read, messages, coded_schema(self._key, TARGET))
        how = "left outer" if keeps_unmatched else "inner"
        self._joined = table.join(self._keys, self._names, join_type=how).select([TARGET, SOURCE])
        counts: dict[int, list[int]] = {}
        for target, source in self._rows(self._joined):
            counts.setdefault(target >> 32, [0, 0])[source is None] += 1
        return {each: FoundIn(*here) for each, here in counts.items()}

    def unmatched(self, read: Any, messages: Any, pairs: int) -> dict[int, int]:
        listed = pa.schema([(SOURCE, pa.int64())])
        addresses = self._read(read, messages, listed)[SOURCE].to_pylist()
        matched = {each for _, each in self._rows(self._joined)} if pairs else set()
        self._left = [each for each in addresses if each not in matched]
        return dict(sorted(Counter(each >> 32 for each in self._left).items()))

    def run(
        self,
        work: Callable[[TaskRows], Any],
        tasks: ChangeTasks,
        *,
        what: str,
        wanted: Wanted = Wanted.ALL,
        leftover: Callable[[Any], object] | None = None,
    ) -> list[Any]:
        if what == "writing rows" and self.before_writing:
            self.before_writing.pop(0)()
        self.runs += 1
        work = self._sent(work)
        rows: list[list[Any]] = [[(each, None, None, m)] for each, m in enumerate(tasks.messages)]
        for target, source in self._rows(self._joined) if tasks.targets else ():
            owner = tasks.targets.get(target >> 32)
            is_wanted = {Wanted.ALL: True, Wanted.ALONE: source is None}[wanted]
            if owner is not None and is_wanted:
                rows[owner].append((owner, target, source, None))
        for source in self._left if tasks.sources else ():
            rows[tasks.sources[source >> 32]].append(
                (tasks.sources[source >> 32], None, source, None)
            )
        return [self._sent(work(self._task(each))) for each in rows]

    def close(self) -> None:
        pass

    @staticmethod
    def _task(rows: Sequence[Any]) -> TaskRows:
        kinds = [pa.int32(), pa.int64(), pa.int64(), pa.binary()]
        columns = [
            pa.array(c, kind) for c, kind in zip(zip(*rows, strict=True), kinds, strict=True)
        ]
        table = pa.table(columns, names=[TASK, TARGET, SOURCE, MESSAGE])
        found = read_rows(iter(table.to_batches(max_chunksize=2)))
        assert found is not None
        return found

    @staticmethod
    def _rows(table: pa.Table) -> Iterator[tuple[Any, Any]]:
        return zip(table[TARGET].to_pylist(), table[SOURCE].to_pylist(), strict=True)

    def _read(self, read: Any, messages: Sequence[bytes], schema: pa.Schema) -> pa.Table:
        numbers = pa.array(range(len(messages)), pa.int32())
        spread = pa.table({TASK: numbers, MESSAGE: pa.array(messages, pa.binary())})
        batches = list(self._sent(read)(iter(spread.to_batches())))
        assert all(each.schema.equals(schema) for each in batches), "Spark would die of it"
        return pa.Table.from_batches(batches, schema)
