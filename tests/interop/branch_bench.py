"""Branches and clones by us and by pylance, each beside a plain table with the same history.

What is done to both must have the same effect: whatever pylance finds in the plain table, rows,
row ids and the versions that made them, it must find on the branch or clone too.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tests.manifests import edit_manifest
from tests.pylance import LINEAGE, lance

import lancewood as lw
from lancewood.engine.location.location import Location
from lancewood.engine.write.cloning import write_clone
from lancewood.proto import table_pb2
from lancewood.store.locate import open_store

ROWS, PER_FILE, WIDTH = 240, 60, 8
SCALAR = {"btree": "BTREE", "bitmap": "BITMAP", "text": "INVERTED"}


def rows(first: int, stop: int) -> pa.Table:
    numbers = range(first, stop)
    values = np.random.default_rng(first).random((stop - first) * WIDTH)
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(values, pa.float32()), WIDTH)
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "other": pa.array([0] * len(numbers), pa.int64()),
            "btree": pa.array([k % 7 for k in numbers], pa.int32()),
            "bitmap": pa.array([k % 5 for k in numbers], pa.int32()),
            "text": [f"word{k % 9} and more" for k in numbers],
            "near": vectors,
        }
    )


def with_added(table: pa.Table) -> pa.Table:
    return table.append_column("added", pc.multiply(table.column("k"), 2))


def make_template(root: Path, *, stable: bool) -> None:
    """A main with indices, deletions, an added column, and a fragment that no index covers."""
    dataset: Any = lance.write_dataset(
        rows(0, ROWS), root, enable_stable_row_ids=stable, max_rows_per_file=PER_FILE
    )
    for column, kind in SCALAR.items():
        dataset.create_scalar_index(column, kind, name=column)
    dataset.create_index("near", "IVF_FLAT", num_partitions=1, name="near")
    dataset.delete("k % 20 = 7")
    dataset.add_columns({"added": "k * 2"})
    lance.write_dataset(with_added(rows(ROWS, ROWS + 20)), root, mode="append")


@dataclass(frozen=True)
class Bench:
    """A branch or clone to work on, a plain table with the same history, and what must stay."""

    table: lw.Table
    plain: lw.Table
    source: Path
    """The main root that files are inherited from."""
    own: Path
    """The root that is worked on."""

    def judge(self) -> Any:
        """What pylance opens."""
        if self.table.branch is None:
            return lance.dataset(str(self.own))
        return lance.dataset(str(self.source)).checkout_version((self.table.branch, None))


def lived(dataset: Any) -> None:
    """Something that happens on a branch before another branch leaves it."""
    dataset.delete("k % 30 = 11")
    dataset.insert(with_added(rows(ROWS + 20, ROWS + 30)))


def by_us(root: Path, _: Path) -> lw.Table:
    return lw.open(root).branches.create("exp")


def by_pylance(root: Path, _: Path) -> lw.Table:
    dataset = lance.dataset(str(root))
    dataset.create_branch("exp", dataset.version)
    return lw.open(root, branch="exp")


def ours_of_pylances(root: Path, _: Path) -> lw.Table:
    dataset = lance.dataset(str(root))
    lived(dataset.create_branch("parent", dataset.version))
    return lw.open(root, branch="parent").branches.create("parent/exp")


def pylances_of_ours(root: Path, _: Path) -> lw.Table:
    parent = lw.open(root).branches.create("parent")
    parent.delete("k % 30 = 11").append(with_added(rows(ROWS + 20, ROWS + 30)))
    lance.dataset(str(root)).create_branch("exp", ("parent", None))
    return lw.open(f"{root}@exp")


def clone_by_us(root: Path, target: Path) -> lw.Table:
    return lw.Table(write_clone(lw.open(root)._snapshot, Location(open_store(target))))


def clone_by_pylance(root: Path, target: Path) -> lw.Table:
    dataset = lance.dataset(str(root))
    dataset.shallow_clone(str(target), dataset.version)
    return lw.open(target)


KINDS = {
    "our branch": by_us,
    "branch by pylance": by_pylance,
    "our branch of one by pylance": ours_of_pylances,
    "branch by pylance of ours": pylances_of_ours,
    "our clone": clone_by_us,
    "clone by pylance": clone_by_pylance,
}


def make_bench(kind: str, template: Path, directory: Path) -> Bench:
    source, plain = directory / "source.lance", directory / "plain.lance"
    shutil.copytree(template, source)
    shutil.copytree(template, plain)
    table = KINDS[kind](source, directory / "clone.lance")
    if kind in ("our branch", "branch by pylance of ours"):
        begun = lw.open(source).version, "exp" if kind == "our branch" else "parent"
        first = lw.open(source, version=begun[0], branch=begun[1])
        edit_manifest(plain, partial(hand_out_from, first._snapshot.manifest.next_row_id))
    if " of " in kind:
        lived(lance.dataset(str(plain)))
    return Bench(table, lw.open(plain), source, Path(table.uri))


def hand_out_from(row_id: int, message: table_pb2.Manifest) -> None:
    """Give a table the row ids that a branch of ours has of its own."""
    message.next_row_id = row_id


# What pylance finds


def content(dataset: Any) -> list[dict[str, Any]]:
    """Every row with what is known of it, by key."""
    columns = [*dataset.schema.names]
    if dataset.has_stable_row_ids:
        columns += LINEAGE
    key = "k" if "k" in columns else "renamed"
    found: list[dict[str, Any]] = dataset.to_table(columns=columns).sort_by(key).to_pylist()
    return found


def check(bench: Bench) -> None:
    judge, plain = bench.judge(), lance.dataset(bench.plain.uri)
    judge.validate()
    assert judge.version == plain.version
    assert judge.schema == plain.schema
    assert content(judge) == content(plain)
    own = bench.table.latest()
    expected = plain.to_table()
    assert own.to_arrow().sort_by(expected.column_names[0]) == expected.sort_by(
        expected.column_names[0]
    )
    check_indices(judge, {each.name for each in own.indices})


def check_indices(dataset: Any, named: set[str]) -> None:
    names = dataset.schema.names
    key = "k" if "k" in names else "renamed"
    for column in ("btree", "bitmap"):
        if column in named:
            for condition in (f"{column} = 3", f"{column} = 9999"):
                asked = dataset.scanner(columns=[key], filter=condition)
                scanned = dataset.scanner(columns=[key], filter=condition, use_scalar_index=False)
                assert keys(asked.to_table()) == keys(scanned.to_table()), condition
    if "text" in named:
        found = dataset.scanner(columns=[key, "text"]).to_table().to_pylist()
        for word in ("word3", "heron"):
            query = {"query": word, "columns": ["text"]}
            asked = dataset.scanner(columns=[key, "_score"], full_text_query=query, limit=9999)
            expected = sorted(row[key] for row in found if word in (row["text"] or "").split())
            assert keys(asked.to_table()) == expected, word
    if "near" in named:
        for wanted in ([0.5] * WIDTH, [9.0] * WIDTH):
            search = {"column": "near", "q": wanted, "k": 10, "nprobes": 1, "refine_factor": ROWS}
            asked = dataset.scanner(columns=[key, "_distance"], nearest=search).to_table()
            brute = dataset.scanner(
                columns=[key, "_distance"], nearest={**search, "use_index": False}
            ).to_table()
            assert keys(asked) == keys(brute)


def keys(table: pa.Table) -> list[int]:
    return sorted(table.column(0).to_pylist())


def state(root: Path) -> dict[str, bytes]:
    """The files of a main root: its branches lie below ``tree/``, their data in ``data/``."""
    return {
        str(each.relative_to(root)): each.read_bytes()
        for each in root.rglob("*")
        if each.is_file() and "tree" not in each.parts and "_refs" not in each.parts
    }
