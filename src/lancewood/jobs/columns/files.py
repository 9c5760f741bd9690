"""One new data file for each of many fragments: who writes them, and what is kept of them.

A job that adds, casts or replaces columns writes one file beside the others of each fragment. When
somebody else's commit comes first the job is executed again on the newest version, and a file that
was written before is used again if it still holds what it should: the columns it was computed from
come from the same files, and every row that is live now was live then (fewer may be; a restore can
bring others back). So no value is computed twice for a row unless the row changed, moved or came
back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from itertools import chain
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from lancewood.data.align import Alignment, align_schema
from lancewood.data.plan import listed_columns
from lancewood.data.reader import in_step
from lancewood.engine.commit import PutIfAbsent
from lancewood.engine.location import NewFile, new_data_file
from lancewood.engine.rows import FragmentScan, RowFacts, RowShape, spread
from lancewood.engine.schema import NewColumns, find_column, nulls_of, project
from lancewood.engine.snapshot import Snapshot
from lancewood.engine.write import ColumnFileWriter
from lancewood.errors import CommitUnknownError, LancewoodError
from lancewood.format.schema import to_arrow_field
from lancewood.jobs.counts import ColumnCounts
from lancewood.jobs.job import Change, CommitOptions, PreparedJob, execute, gather, pack_fragments
from lancewood.jobs.runner import Runner
from lancewood.model.fragment import DataFile, Fragment
from lancewood.model.ids import FieldId, FragmentId
from lancewood.model.schema import Schema

R = TypeVar("R")
Batches = Iterator[pa.RecordBatch]


class ColumnValues(Protocol):
    """Where values come from. Pickles, unless it is a stream of this process."""

    def of(self, snapshot: Snapshot, fragments: Sequence[Fragment]) -> Iterator[Batches]:
        """Values of the live rows of each fragment, in the order of its rows."""


@dataclass(frozen=True)
class ColumnWriter:
    """All that a task has to know besides its fragments; with a bare snapshot it is small."""

    snapshot: Snapshot
    written: Schema
    """What the files hold, with the table's ids."""
    values: ColumnValues
    new: NewColumns | None = None
    """How flat values become those columns; None: they are those columns."""
    mark: str = ""
    """A text in the names of the files."""

    def bare(self) -> ColumnWriter:
        """This writer without fragments, for tasks, to which they are sent separately."""
        return ColumnWriter(self.snapshot.bare(), self.written, self.values, self.new, self.mark)

    def write(self, fragment: Fragment, values: Iterable[pa.RecordBatch]) -> DataFile:
        """The file of one fragment, from the values of its live rows."""
        fragment.check_counted()
        live = iter(values)
        if self.new is not None and self._aligned is not None:
            live = self._placed(self.new, fragment, map(self._aligned, live))
        facts = RowFacts(self.snapshot, fragment)
        return self._file_writer.write(fragment, spread(facts, live, self.written.fields))

    def finish(self) -> None:
        """Wait until the files are durable."""
        self._file_writer.finish()

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields alone: the rest is worked out again elsewhere."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}

    @cached_property
    def _file_writer(self) -> ColumnFileWriter:
        return ColumnFileWriter(self.snapshot, self.written, self.mark)

    @cached_property
    def _aligned(self) -> _Aligned | None:
        return None if self.new is None else _Aligned(self.new.flat)

    def _placed(self, new: NewColumns, fragment: Fragment, flat: Batches) -> Batches:
        if not new.parents:
            yield from (new.nested(each, None) for each in flat)
            return
        schema = self.snapshot.schema
        paths = dict.fromkeys(nulls_of(schema, each, fragment) for each in new.parents)
        shape = RowShape(snapshot=self.snapshot, projection=project(schema, list(paths)))
        for values, parents in in_step([flat, FragmentScan(shape, fragment).batches()]):
            yield new.nested(values, parents)


@dataclass(frozen=True, slots=True)
class WrittenColumns:
    """What a task made: a file for each of its fragments."""

    made: tuple[DataFile, ...]

    @property
    def files(self) -> tuple[NewFile, ...]:
        return tuple(map(new_data_file, self.made))


def write_columns(writer: ColumnWriter, fragments: Sequence[Fragment]) -> WrittenColumns:
    """The task: a file for each fragment. If it fails it leaves none."""
    made: list[DataFile] = []
    try:
        values = writer.values.of(writer.snapshot, fragments)
        for fragment, batches in zip(fragments, values, strict=True):
            made.append(writer.write(fragment, batches))
        writer.finish()
    except BaseException:
        writer.snapshot.discard(map(new_data_file, made))
        raise
    return WrittenColumns(tuple(made))


@dataclass(frozen=True, slots=True)
class _Kept:
    fragment: Fragment
    inputs: frozenset[FieldId]
    file: DataFile

    def serves(self, snapshot: Snapshot, fragment: Fragment, inputs: frozenset[FieldId]) -> bool:
        """Whether the values would be the same: what they were computed from has not changed, and
        every row that is live now was live then."""
        if _file_roots(self.fragment, self.inputs) != _file_roots(fragment, inputs):
            return False
        then, now = self.fragment.message.deletion_file, fragment.message.deletion_file
        if self.fragment.deletion_file is None or then == now:
            return True
        return RowFacts(snapshot, self.fragment).deleted <= RowFacts(snapshot, fragment).deleted


class ColumnFiles:
    """The files that one job has written, over all of its executions."""

    def __init__(self, snapshot: Snapshot, runner: Runner, what: str) -> None:
        self._snapshot = snapshot
        self._runner = runner
        self._what = what
        self._kept: dict[FragmentId, _Kept] = {}
        self._last_listed: tuple[Schema, tuple[int, int], list[FieldId]] | None = None

    def __len__(self) -> int:
        return len(self._kept)

    def committed(
        self,
        snapshot: Snapshot,
        prepare: Callable[[Snapshot], Change[R]],
        commit_options: CommitOptions,
    ) -> tuple[Snapshot, R]:
        """What ``execute`` gives; the files go only when the last execution has failed."""

        def prepared(version: Snapshot) -> Change[R]:
            try:
                version.check_writable()
                return prepare(version)
            except BaseException:
                self.discard()
                raise

        try:
            return execute(snapshot, prepared, commit_options)
        except CommitUnknownError:
            raise
        except LancewoodError:
            self.discard()
            raise

    def forget(
        self, snapshot: Snapshot, fragments: Sequence[Fragment], inputs: frozenset[FieldId]
    ) -> tuple[list[Fragment], list[Fragment]]:
        """Remove files that serve no more. The fragments whose values have changed, and those for
        which nothing was ever written."""
        changed, unknown = [], []
        live = set()
        for each in fragments:
            known = self._kept.get(each.id)
            if known is None:
                unknown.append(each)
            elif known.serves(snapshot, each, inputs):
                live.add(each.id)
            else:
                changed.append(each)
        self._drop([each for each in self._kept if each not in live])
        return changed, unknown

    def write(
        self,
        writer: ColumnWriter,
        fragments: Sequence[Fragment],
        inputs: frozenset[FieldId],
        *,
        here: bool = False,
    ) -> None:
        """Write what is missing; ``here``: in this thread, because the values cannot travel."""
        missing = [each for each in fragments if each.id not in self._kept]
        if missing:
            PutIfAbsent().check_trust(self._snapshot.location.store)
        done = [write_columns(writer, missing)] if here else self._in_tasks(writer, missing)
        made = chain.from_iterable(each.made for each in done)
        for fragment, file in zip(missing, made, strict=True):
            self.keep(fragment, inputs, file)

    def _in_tasks(
        self, writer: ColumnWriter, fragments: Sequence[Fragment]
    ) -> Sequence[WrittenColumns]:
        """What tasks write for the fragments, in their order."""
        return gather(
            self._runner,
            partial(write_columns, writer.bare()),
            list(pack_fragments(fragments, self._runner.slots)),
            what=self._what,
            snapshot=self._snapshot,
        )

    def keep(self, fragment: Fragment, inputs: frozenset[FieldId], file: DataFile) -> None:
        """Note a file that was written for a fragment."""
        self._kept[fragment.id] = _Kept(fragment, inputs, file)

    def file_of(self, fragment: Fragment, written: Schema) -> DataFile:
        """The file of a fragment, listed under the ids that its columns have by now."""
        file = self._kept[fragment.id].file
        ids = self._listed(written, file.version)
        return DataFile.make(
            file.path, ids, file.column_indices, file.version, file.size or 0, file.base_id
        )

    def _listed(self, written: Schema, version: tuple[int, int]) -> list[FieldId]:
        known = self._last_listed
        if known is None or known[0] is not written or known[1] != version:
            ids = [each.id for each in listed_columns(written, version)]
            known = self._last_listed = written, version, ids
        return known[2]

    def discard(self) -> None:
        """Remove everything that was written; nothing refers to it."""
        self._drop(list(self._kept))

    def _drop(self, ids: Sequence[FragmentId]) -> None:
        gone = [self._kept.pop(each) for each in ids]
        if gone:
            self._snapshot.discard(new_data_file(each.file) for each in gone)


class ColumnJob(PreparedJob[ColumnCounts]):
    """A change of columns that writes files, which serve over all of its executions."""

    def __init__(self, files: ColumnFiles) -> None:
        self._files = files

    def run(
        self, snapshot: Snapshot, commit_options: CommitOptions
    ) -> tuple[Snapshot, ColumnCounts]:
        """Write and commit; on failure no file is left."""
        return self._files.committed(snapshot, self.prepare, commit_options)


def named_fields(schema: Schema, names: Sequence[str]) -> tuple[pa.Field, ...]:
    """Columns as Arrow's fields, those inside of structs under their dotted names."""
    return tuple(to_arrow_field(find_column(schema, each)[-1]).with_name(each) for each in names)


def count_live(fragments: Iterable[Fragment]) -> int:
    """How many live rows fragments have, as far as that is recorded."""
    return sum(each.num_rows or 0 for each in fragments)


def read_fields(schema: Schema) -> frozenset[FieldId]:
    """The ids of everything in a part of a schema that is read."""
    return frozenset(each.id for each in schema.walk())


def _file_roots(fragment: Fragment, fields: frozenset[FieldId]) -> dict[int, tuple[str, int]]:
    """Where the values of fields are: another place means that they may be others."""
    return {
        number: (file.path, column)
        for file in fragment.message.files
        for number, column in zip(file.fields, file.column_indices, strict=True)
        if number in fields
    }


class _Aligned:
    """Gives batches exactly the types of the new columns; raises InvalidInputError."""

    def __init__(self, flat: Schema) -> None:
        self._flat = flat
        self._known: tuple[pa.Schema, Alignment] | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        known = self._known
        if known is None or not known[0].equals(batch.schema):
            known = batch.schema, align_schema(self._flat, batch.schema, complete=True)
            self._known = known
        return known[1].cast(batch)
