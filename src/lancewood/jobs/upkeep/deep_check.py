"""Decoding every page of fragments, in a process of its own: damaged pages can end the process.

``PageChecker`` is the side that asks, ``serve`` the side that decodes. One worker serves many
fragments; when it dies or falls silent, another one finds out which column it was, and goes on.
Tables in the memory of this process are decoded right here, since nobody else can see them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from multiprocessing.connection import Connection, Pipe
from types import TracebackType
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lancewood.engine.base import WORKERS, in_order
from lancewood.engine.rows import external_blobs, open_fragment
from lancewood.engine.snapshot import Snapshot
from lancewood.errors import FormatError, LancewoodError, NotFoundError, StorageError
from lancewood.format.layout import blob_key
from lancewood.jobs.upkeep.problems import Problem, ProblemKind
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.schema import Schema
from lancewood.store.base import Store

PATIENCE = 600.0
"""Seconds that a worker may spend on one batch of rows."""
_LEAVE_SECONDS = 10.0
_STARTED_WITH = "from lancewood.jobs.upkeep.deep_check import serve; serve()"
_IN_BLOB_FILES = (1, 2)
"""Kinds of blobs whose bytes are in files beside the data file: packed, and one by one."""
_DESCRIPTOR = ("kind", "blob_id", "position", "size")

_Columns = tuple[str, ...]


class PageChecker:
    """Checks fragments of one version. Starts its worker when it is first needed."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._worker: _Worker | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._dismiss()

    def check(self, fragment: Fragment) -> list[Problem]:
        """What cannot be decoded; raises StorageError where the store fails."""
        every = tuple(each.name for each in self._snapshot.schema.fields)
        if self._ask(fragment, every) is None:
            return []
        found = []
        for column in every:
            text = self._ask(fragment, (column,))
            if text is not None:
                where = f"column {column} of fragment {fragment.id}"
                found.append(Problem(ProblemKind.PAGE, where, text, fragment.id))
        if not found:
            where = f"fragment {fragment.id}"
            text = "its columns decode one by one, but not together"
            found.append(Problem(ProblemKind.PAGE, where, text, fragment.id))
        return found

    def _ask(self, fragment: Fragment, columns: _Columns) -> str | None:
        """What is wrong with the columns; None if nothing is."""
        if self._snapshot.location.store.location("data") is None:
            return decode_columns(self._snapshot, fragment, columns, lambda: None)
        if self._worker is None:
            self._worker = _Worker(self._snapshot)
        answer = self._worker.ask(fragment, columns)
        if isinstance(answer, LancewoodError):
            raise answer
        if isinstance(answer, _Silence):
            self._dismiss()
            return answer.text
        return answer

    def _dismiss(self) -> None:
        if self._worker is not None:
            self._worker.dismiss()
            self._worker = None


class _Silence:
    """A worker that gives no answer."""

    def __init__(self, text: str) -> None:
        self.text = text


class _Worker:
    """The process that decodes values, seen from the one that started it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._pipe, theirs = Pipe()
        paths = os.pathsep.join(each for each in sys.path if each)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _STARTED_WITH, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths},
        )
        theirs.close()
        try:
            self._pipe.send(snapshot)
            self._pipe.recv()
        except (EOFError, OSError) as cause:
            raise LancewoodError(
                "pages are decoded in a process of their own, and that did not start "
                f"({self._ended()}): nothing is known about them. Run {sys.executable} -c "
                "'import lancewood.jobs.upkeep.deep_check' to see why"
            ) from cause

    def ask(self, fragment: Fragment, columns: _Columns) -> str | LancewoodError | _Silence | None:
        try:
            self._pipe.send((fragment, columns))
            while self._pipe.poll(PATIENCE):
                answer = self._pipe.recv()
                if answer is not Ellipsis:
                    return answer  # type: ignore[no-any-return]
        except (EOFError, OSError):
            return _Silence(f"decoding it ended the process that tried ({self._ended()})")
        return _Silence(f"decoding it took longer than {PATIENCE:g} seconds for one batch")

    def _ended(self) -> str:
        code = self._process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def dismiss(self) -> None:
        self._pipe.close()
        try:
            self._process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def serve() -> None:
    """The worker: a snapshot first, then fragments and columns until nobody asks any more."""
    pipe = Connection(int(sys.argv[1]))
    try:
        snapshot = pipe.recv()
        pipe.send(Ellipsis)
        while True:
            fragment, columns = pipe.recv()
            pipe.send(_answer(snapshot, fragment, columns, pipe))
    except EOFError:
        return


def _answer(
    snapshot: Snapshot, fragment: Fragment, columns: _Columns, pipe: Connection[Any, Any]
) -> str | LancewoodError | None:
    try:
        return decode_columns(snapshot, fragment, columns, lambda: pipe.send(Ellipsis))
    except StorageError as failure:
        return failure


def decode_columns(
    snapshot: Snapshot, fragment: Fragment, columns: _Columns, on_batch: Callable[[], None]
) -> str | None:
    """What is wrong with the columns of a fragment; None if all of it decodes."""
    wanted = Schema(tuple(snapshot.schema.by_name[each] for each in columns))
    ends: dict[tuple[Store, str], int] = {}
    external: dict[tuple[int, str], int] = {}
    try:
        for batch in open_fragment(snapshot, fragment, wanted).batches():
            batch.validate(full=True)
            for location, end in _blob_ends(snapshot, fragment, wanted, batch):
                ends[location] = max(end, ends.get(location, 0))
            for name, end in _external_ends(wanted, batch):
                external[name] = max(end, external.get(name, 0))
            on_batch()
        for problem in _external_problems(snapshot, external):
            on_batch()
            if problem is not None:
                return problem
        return next(_short_blobs(ends), None)
    except StorageError:
        raise
    except (LancewoodError, pa.ArrowInvalid) as error:
        return str(error)


def _blob_ends(
    snapshot: Snapshot, fragment: Fragment, wanted: Schema, batch: pa.RecordBatch
) -> Iterator[tuple[tuple[Store, str], int]]:
    """The files beside the data file that blobs of the batch are in, and how far they reach."""
    for field in wanted.fields:
        if not field.is_blob_v2:
            continue
        column = batch.column(field.name).drop_null()
        parts = {each.name: column.field(each.name) for each in column.type}
        kinds, ids, starts, sizes = (_numbers(parts[each]) for each in _DESCRIPTOR)
        beside = np.isin(kinds, _IN_BLOB_FILES)
        file = next((each for each in reversed(fragment.files) if field.id in each.fields), None)
        if file is None or not beside.any():
            continue
        store, key = snapshot.location.data_file(snapshot.manifest, file)
        for blob_id in np.unique(ids[beside]).tolist():
            end = int((starts + sizes)[beside & (ids == blob_id)].max())
            yield (store, blob_key(key, blob_id)), end


def _numbers(column: pa.Array) -> Any:
    return column.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)


def _short_blobs(ends: Mapping[tuple[Store, str], int]) -> Iterator[str]:
    for (store, key), end in ends.items():
        try:
            size = store.head(key).size
        except NotFoundError:
            yield f"{store.uri}/{key}, with bytes of its blobs, is missing"
            continue
        if size < end:
            yield f"{store.uri}/{key} has {size} bytes, its blobs reach to {end}"


def _external_ends(wanted: Schema, batch: pa.RecordBatch) -> Iterator[tuple[tuple[int, str], int]]:
    """Files that the table does not own and blobs of the batch are in, by base id and name, and how
    far the blobs reach."""
    for field in wanted.fields:
        if not field.is_blob_v2:
            continue
        blobs = external_blobs(batch.column(field.name))
        ends = pc.add_checked(blobs.field("position"), blobs.field("size"))
        parts = [blobs.field("blob_id"), blobs.field("blob_uri"), ends]
        files = pa.table(parts, ["base_id", "uri", "end"]).group_by(["base_id", "uri"])
        for each in files.aggregate([("end", "max")]).to_pylist():
            yield (each["base_id"], each["uri"]), each["end_max"]


def _external_problems(
    snapshot: Snapshot, ends: Mapping[tuple[int, str], int]
) -> Iterator[str | None]:
    """What is wrong with each file that the table does not own; None if nothing is, or if nobody
    can know from here."""
    work = (partial(_external_problem, snapshot, *name, end) for name, end in ends.items())
    return in_order(work, workers=WORKERS)


def _external_problem(snapshot: Snapshot, base_id: int, uri: str, end: int) -> Iterator[str | None]:
    try:
        store, key = snapshot.location.foreign_file(snapshot.manifest, uri, BaseId(base_id))
        size = store.head(key).size
    except FormatError as error:
        yield str(error)
    except NotFoundError as error:
        yield f"a file that its blobs are in is missing: {error}"
    except LancewoodError:
        yield None  # it may be there: the place is not allowed, of another kind, or silent
    else:
        is_short = size < end
        yield f"{store.uri}/{key} has {size} bytes, its blobs reach to {end}" if is_short else None
