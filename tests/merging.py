"""A table with a branch, for tests of merges by rows; pylance reads what came of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow as pa
import pytest
from tests.pylance import judged

import lancewood as lw

PRIMARY = {"lance-schema:unenforced-primary-key": "true"}
Step: TypeAlias = Callable[[lw.Table], Any]
"""Something that is done to a branch."""


def rows_of(
    rows: Sequence[tuple[Any, ...]], *, key: bool = False, nullable: bool = True
) -> pa.Table:
    """Rows of ``k``, ``a`` and ``b``; ``k`` may be the primary key."""
    schema = pa.schema(
        [
            pa.field("k", pa.int64(), nullable, PRIMARY if key else None),
            pa.field("a", pa.int64()),
            pa.field("b", pa.string()),
        ]
    )
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(each, kind.type) for each, kind in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


FIRST = ((1, 10, "x"), (2, 20, "y"), (3, 30, "z"))


class Scene:
    """A table, and its branch ``exp``, which is merged into main unless a test says otherwise."""

    def __init__(self, root: Path, rows: Any = None, **options: Any) -> None:
        self.uri = str(root / "t.lance")
        data = rows_of(FIRST) if rows is None else rows
        lw.create(self.uri, data, access=lw.Access(fsync=False), layout=lw.Layout(**options))
        self.branch("exp")

    def branch(self, name: str, of: str = "main") -> lw.Table:
        return self.on(of).branches.create(name)

    def on(self, branch: str = "main") -> lw.Table:
        return lw.open(
            self.uri, branch=None if branch == "main" else branch, access=lw.Access(fsync=False)
        )

    def judged(self, branch: str = "main") -> Any:
        return judged(self.uri if branch == "main" else f"{self.uri}/tree/{branch}")

    def rows(self, branch: str = "main", *columns: str) -> list[tuple[Any, ...]]:
        """The rows as pylance has them, in order; some columns of them."""
        found = self.judged(branch).to_table(columns=[*columns] or None).to_pylist()
        report = self.on(branch).verify()
        assert report.ok, report.problems
        return sorted((tuple(each.values()) for each in found), key=repr)

    def ids(self, branch: str = "main") -> dict[Any, int]:
        """The row ids by ``k``."""
        found = self.judged(branch).to_table(columns=["k"], with_row_id=True).to_pylist()
        return {each["k"]: each["_rowid"] for each in found}

    def merge(self, name: str = "exp", into: str = "main", **options: Any) -> lw.Table:
        return self.on(into).branches.merge(name, **options)

    def conflicts(self, name: str = "exp", into: str = "main", **options: Any) -> list[Any]:
        """The kinds of conflicts and their cells."""
        found = self.on(into).branches.conflicts(name, **options).to_arrow().to_pylist()
        return [(each["_kind"], *each["_columns"]) for each in found]

    def refused(self, name: str = "exp", into: str = "main", **options: Any) -> Mapping[str, Any]:
        """The facts of the error that a merge raises; nothing changes."""
        before = self.on(into).version
        with pytest.raises(lw.MergeConflictError) as raised:
            self.merge(name, into, **options)
        assert self.on(into).version == before
        return raised.value.facts


def append(*rows: tuple[Any, ...], **options: Any) -> Step:
    return lambda table: table.append(rows_of(rows, **options))


def update(where: str, /, **values: str) -> Step:
    return lambda table: table.update(values, where)


def in_place(where: str, /, **values: str) -> Step:
    return lambda table: table.update(values, where, rewrite="columns")


def delete(where: str) -> Step:
    return lambda table: table.delete(where)


def compact(table: lw.Table) -> lw.Table:
    return table.compact(target_rows=1000)


def again(*rows: tuple[Any, ...], **options: Any) -> Step:
    """Rows are deleted, and inserted under the same keys."""
    keys = ", ".join(str(each[0]) for each in rows)

    def run(table: lw.Table) -> lw.Table:
        return table.delete(f"k IN ({keys})").append(rows_of(rows, **options))

    return run


def nothing(table: lw.Table) -> lw.Table:
    return table


def both(*steps: Step) -> Step:
    """One step after the other."""

    def run(table: lw.Table) -> None:
        for each in steps:
            each(table.latest())

    return run
