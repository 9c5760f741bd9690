"""What others do: by pylance where its API can, else a version that is written by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance.optimize import Compaction
from tests.interop.matrix.tables import RESTORABLE, full_rows, rows
from tests.manifests import add_version

import lancewood as lw
from lancewood.engine.write.write import rows_to_overwrite
from lancewood.model.transaction import Overwrite, ReserveFragments
from lancewood.proto import table_pb2, transaction_pb2

_Pb = transaction_pb2.Transaction


def append(uri: Path) -> None:
    lance.write_dataset(full_rows(110, 111), uri, mode="append")


def delete(uri: Path, where: str) -> None:
    lance.dataset(uri).delete(where)


def update(uri: Path, where: str) -> None:
    lance.dataset(uri).update({"c": "c + 5000"}, where=where)


def upsert(uri: Path, key: int) -> None:
    merge: Any = lance.dataset(uri).merge_insert("k")
    merge.when_matched_update_all().when_not_matched_insert_all().execute(full_rows(key))


def update_columns(uri: Path, fragment: int, column: str) -> None:
    """Change a column of a fragment in its fifth row."""
    dataset: Any = lance.dataset(uri)
    key = fragment * 6 + 4
    new = pa.table({"k": pa.array([key], pa.int64()), column: pa.array([77], pa.int64())})
    image, fields, offsets = dataset.get_fragment(fragment).update_columns(
        new, left_on="k", with_offsets=True
    )
    change = lance.LanceOperation.Update(
        updated_fragments=[image],
        fields_modified=fields,
        update_mode="rewrite_columns",
        updated_fragment_offsets={fragment: offsets},
    )
    lance.LanceDataset.commit(dataset, change, read_version=dataset.version)


def replace_column(uri: Path, fragment: int, column: str) -> None:
    dataset: Any = lance.dataset(uri)
    values: Any = pa.array([88] * 6, pa.int64())
    if column == "d":
        values = pa.array(["other"] * 6)
    number = [each.name for each in dataset.schema].index(column)
    new = pa.table({column: values})
    path = Path(uri) / "data" / f"replaced-{fragment}-{column}.lance"
    with lance.file.LanceFileWriter(str(path), new.schema, version="2.2") as writer:
        writer.write_batch(new)
    file = lance.fragment.DataFile(
        path.name,
        fields=[number],
        column_indices=[0],
        file_major_version=2,
        file_minor_version=2,
        file_size_bytes=path.stat().st_size,
    )
    group = lance.LanceOperation.DataReplacementGroup(fragment, file)
    change = lance.LanceOperation.DataReplacement([group])
    lance.LanceDataset.commit(dataset, change, read_version=dataset.version)


def overwrite(uri: Path) -> None:
    lance.write_dataset(rows(9), uri, mode="overwrite")


def overwrite_with_config(uri: Path) -> None:
    """pylance can, but Python has no way to ask it."""
    table = lw.open(uri)
    made = rows_to_overwrite(table._snapshot, rows(9)).write()
    assert isinstance(made, Overwrite)
    change = Overwrite(made.fragments, made.fields, made.schema_metadata, {"ours": "2"})
    table.commit(table.transaction(change))


def create_index(uri: Path, column: str, name: str) -> None:
    lance.dataset(uri).create_scalar_index(column, "BTREE", name=name)


def drop_index(uri: Path, name: str) -> None:
    lance.dataset(uri).drop_index(name)


def compact(uri: Path, first: int) -> None:
    """Two fragments become one."""
    dataset: Any = lance.dataset(uri)
    plan = Compaction.plan(dataset, {"target_rows_per_fragment": 10})
    (task,) = (each for each in plan.tasks if each.fragments[0].id == first)
    Compaction.commit(dataset, [task.execute(dataset)])


def add_column(uri: Path) -> None:
    lance.dataset(uri).add_columns({"e": "nullif(k, -1)"})


def add_column_carelessly(uri: Path) -> None:
    """As a writer does that does not say whether a column was tightened."""
    dataset: Any = lance.dataset(uri)
    done = [
        each.merge_columns({"e": "nullif(k, -1)"}, columns=["k"])
        for each in dataset.get_fragments()
    ]
    change = lance.LanceOperation.Merge([each for each, _ in done], done[0][1])
    lance.LanceDataset.commit(dataset, change, read_version=dataset.version)


def cast(uri: Path) -> None:
    lance.dataset(uri).alter_columns({"path": "c", "data_type": pa.int32()})


def drop_column(uri: Path, column: str) -> None:
    lance.dataset(uri).drop_columns([column])


def rename(uri: Path) -> None:
    lance.dataset(uri).alter_columns({"path": "d", "name": "z"})


def tighten(uri: Path) -> None:
    lance.dataset(uri).alter_columns({"path": "c", "nullable": False})


def restore(uri: Path) -> None:
    lance.dataset(uri, version=RESTORABLE).restore()


def reserve(uri: Path) -> None:
    """pylance does that only on its way to a compaction."""
    table = lw.open(uri)
    table.commit(table.transaction(ReserveFragments(3)))


def config(uri: Path, key: str) -> None:
    lance.dataset(uri).update_config({key: "2"})


def metadata(uri: Path, key: str) -> None:
    lance.dataset(uri).update_metadata({key: "2"})


def field_metadata(uri: Path, column: str) -> None:
    lance.dataset(uri).update_field_metadata({column: {"theirs": "2"}})


def schema_metadata(uri: Path) -> None:
    lance.dataset(uri).update_schema_metadata({"theirs": "2"})


def bases(uri: Path, name: str) -> None:
    base = lance.DatasetBasePath(f"/tmp/lancewood-matrix/{name}", name=name)
    lance.dataset(uri).add_bases([base])


def overlay(uri: Path, fragment: int) -> None:
    group = _Pb.DataOverlay.Group(fragment_id=fragment)
    group.overlays.add(data_file=table_pb2.DataFile(path="x", fields=[3], column_indices=[0]))
    _by_hand(uri, data_overlay=_Pb.DataOverlay(groups=[group]))


def mem_wal(uri: Path) -> None:
    _by_hand(uri, update_mem_wal_state=_Pb.UpdateMemWalState())


def clone(uri: Path) -> None:
    _by_hand(uri, clone=_Pb.Clone(is_shallow=True, ref_version=1, ref_path=str(uri)))


def unknown(uri: Path) -> None:
    add_version(uri, _Pb(uuid="x").SerializeToString() + b"\xa2\x07\x00")


def missing(uri: Path) -> None:
    add_version(uri, None)


THEIRS: Mapping[str, Callable[[Path], None]] = {
    "append": append,
    "delete elsewhere": partial(delete, where="k = 20"),
    "delete in fragment 0": partial(delete, where="k = 4"),
    "delete row 2": partial(delete, where="k = 2"),
    "delete fragment 0": partial(delete, where="k < 6"),
    "update elsewhere": partial(update, where="k = 20"),
    "update in fragment 0": partial(update, where="k = 4"),
    "update row 2": partial(update, where="k = 2"),
    "update fragment 0": partial(update, where="k < 6"),
    "upsert of key 200": partial(upsert, key=200),
    "upsert of key 300": partial(upsert, key=300),
    "column a elsewhere": partial(update_columns, fragment=3, column="a"),
    "column a": partial(update_columns, fragment=0, column="a"),
    "column c": partial(update_columns, fragment=0, column="c"),
    "overwrite": overwrite,
    "overwrite, config": overwrite_with_config,
    "index on k": partial(create_index, column="k", name="k_idx"),
    "index late": partial(create_index, column="c", name="late"),
    "drop index b": partial(drop_index, name="b_idx"),
    "compact elsewhere": partial(compact, first=2),
    "compact": partial(compact, first=0),
    "add column": add_column,
    "add column, careless": add_column_carelessly,
    "cast c": cast,
    "drop a": partial(drop_column, column="a"),
    "drop c": partial(drop_column, column="c"),
    "drop d": partial(drop_column, column="d"),
    "rename d": rename,
    "tighten c": tighten,
    "restore": restore,
    "reserve": reserve,
    "config": partial(config, key="theirs"),
    "same config": partial(config, key="ours"),
    "metadata": partial(metadata, key="theirs"),
    "same metadata": partial(metadata, key="ours"),
    "metadata of b": partial(field_metadata, column="b"),
    "metadata of c": partial(field_metadata, column="c"),
    "schema metadata": schema_metadata,
    "replace a elsewhere": partial(replace_column, fragment=3, column="a"),
    "replace a": partial(replace_column, fragment=0, column="a"),
    "replace c": partial(replace_column, fragment=0, column="c"),
    "replace d": partial(replace_column, fragment=0, column="d"),
    "bases": partial(bases, name="theirs"),
    "same bases": partial(bases, name="ours"),
    "overlay elsewhere": partial(overlay, fragment=3),
    "overlay": partial(overlay, fragment=0),
    "wal": mem_wal,
    "clone": clone,
    "unknown": unknown,
    "missing": missing,
}


def _by_hand(uri: Path, **operation: Any) -> None:
    add_version(uri, _Pb(read_version=lw.open(uri).version, uuid="x", **operation))
