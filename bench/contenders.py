"""The same verbs through both libraries. Nothing is synced unless asked: pylance never does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import lance
import pyarrow as pa

import lancewood as lw
from bench import OURS

Options = dict[str, str]


def ten_rows(first_id: int = 0) -> pa.Table:
    """The small append: ids from ``first_id`` on, and a number."""
    ids = range(first_id, first_id + 10)
    return pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array(map(float, ids))})


class Appender(Protocol):
    """A handle that is kept from one append to the next."""

    def append(self, data: pa.Table) -> None: ...


class OurAppender:
    def __init__(
        self, table: Path | str, *, fsync: bool = False, options: Options | None = None
    ) -> None:
        self._table = lw.open(table, access=lw.Access(fsync=fsync, storage_options=options))

    def append(self, data: pa.Table) -> None:
        self._table = self._table.append(data)


class PylanceAppender:
    def __init__(self, table: Path | str, *, options: Options | None = None) -> None:
        self._dataset = lance.dataset(table, storage_options=options)

    def append(self, data: pa.Table) -> None:
        self._dataset = lance.write_dataset(data, self._dataset, mode="append")


def open_appender(
    library: str, table: Path | str, *, fsync: bool = False, options: Options | None = None
) -> Appender:
    if library == OURS:
        return OurAppender(table, fsync=fsync, options=options)
    return PylanceAppender(table, options=options)


def our_open(table: Path) -> lw.Table:
    return lw.open(table, access=lw.Access(fsync=False))


def pylance_open(table: Path) -> Any:
    return lance.dataset(table)


def our_append_by_uri(table: Path, data: pa.Table) -> object:
    return lw.open(table, access=lw.Access(fsync=False)).append(data)


def pylance_append_by_uri(table: Path, data: pa.Table) -> object:
    return lance.write_dataset(data, table, mode="append")
