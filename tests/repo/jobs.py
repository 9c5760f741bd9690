"""What the processes of these tests do, each in a process of its own."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

import lancewood as lw
from lancewood.errors import RetryableConflictError
from lancewood.repo.repository import Repository

Storage: TypeAlias = dict[str, str] | None


def append(
    path: str, storage: Storage, tables: list[str], values: list[int], branch: str = "main"
) -> None:
    """One transaction for each value, which goes to all of the tables."""
    repo = Repository.open(path, storage_options=storage)
    for value in values:
        with repo.transaction(branch, message=f"value {value}") as changes:
            for each in tables:
                changes.table(each).append(_rows(value))


def record(path: str, storage: Storage, table: str, values: list[int]) -> None:
    """The table is written directly, and recorded by a commit; somebody else may do that."""
    repo = Repository.open(path, storage_options=storage)
    for value in values:
        lw.open(f"{path}/tables/{table}.lance", access=lw.Access(storage_options=storage)).append(
            _rows(value)
        )
        while True:
            try:
                repo.commit(f"recorded {value}")
                break
            except RetryableConflictError:
                continue


def append_until(
    path: str, storage: Storage, tables: list[str], value: int, until: list[str]
) -> None:
    """Transactions without end, until all these files are there."""
    repo = Repository.open(path, storage_options=storage)
    while not all(map(os.path.exists, until)):
        with repo.transaction("main", message=f"value {value}") as changes:
            for each in tables:
                changes.table(each).append(_rows(value))


def call(path: str, storage: Storage, verb: str, args: list[str], options: dict[str, str]) -> None:
    """One verb of the repository, or a script in SQL."""
    repo = Repository.open(path, storage_options=storage)
    if verb == "sql":
        lw.sql(*args, repository=repo)
    else:
        getattr(repo, verb)(*args, **options)


def read_together(path: str, storage: Storage, tables: list[str], states: int, told: str) -> None:
    """Read all tables again and again, until that many states were seen, and leave a file then.

    The same rows are in each table, and never fewer than before.
    """
    seen: set[int] = set()
    before = 0
    while len(seen) < states:
        view = Repository.open(path, storage_options=storage).at("main")
        found = [view.table(each).to_arrow()["id"].to_pylist() for each in tables]
        assert all(sorted(each) == sorted(found[0]) for each in found), found
        assert len(found[0]) >= before
        before = len(found[0])
        seen.add(before)
    Path(told).touch()


def _rows(value: int) -> pa.Table:
    return pa.table({"id": pa.array([value], pa.int64())})
