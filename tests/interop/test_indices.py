"""Checklist lines 62 to 65: indices that pylance made answer as a full scan does, whatever we do.

An index is asked through pylance, and must be asked: where it still covers live rows its name is in
the plan. What it may cover after each operation is written down here as well.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pytest
from tests.manifests import manifest_path, newest_manifest
from tests.pylance import judged

import lancewood as lw
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.model.index import FRAGMENT_REUSE
from lancewood.proto import table_pb2

pytestmark = pytest.mark.sliced(9)

ROWS, PER_FILE, WIDTH = 400, 100, 8
SCALAR = {
    "btree": "BTREE",
    "bitmap": "BITMAP",
    "labels": "LABEL_LIST",
    "text": "INVERTED",
    "ngram": "NGRAM",
    "zones": "ZONEMAP",
    "bloom": "BLOOMFILTER",
}
VECTOR = {"near": "IVF_FLAT", "coded": "IVF_PQ"}
INDEXED = (*SCALAR, *VECTOR)
HOLD_ADDRESSES = {"btree", "zones", "bloom"}
"""The others name rows by id, on a table whose ids are stable."""
NEW_TEXT = "heron"


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
            "labels": [["red", "blue"] if k % 3 else ["red"] for k in numbers],
            "text": [f"word{k % 9} and more" for k in numbers],
            "ngram": [f"abc{k % 11}def" for k in numbers],
            "zones": pa.array(numbers, pa.int64()),
            "bloom": pa.array([k % 13 for k in numbers], pa.int64()),
            "near": vectors,
            "coded": vectors,
        }
    )


@pytest.fixture(scope="module", params=[True, False], ids=["stable ids", "addresses"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A table with every kind of index, and with a first version that is older than them."""
    uri = str(tmp_path_factory.mktemp("indexed") / "t.lance")
    dataset: Any = lance.write_dataset(
        rows(0, ROWS), uri, enable_stable_row_ids=request.param, max_rows_per_file=PER_FILE
    )
    for column, kind in SCALAR.items():
        dataset.create_scalar_index(column, kind, name=column)
    dataset.create_index("near", "IVF_FLAT", num_partitions=1, name="near")
    dataset.create_index("coded", "IVF_PQ", num_partitions=1, num_sub_vectors=2, name="coded")
    return uri


@pytest.fixture
def uri(template: str, tmp_path: Path) -> str:
    shutil.copytree(template, tmp_path / "t.lance")
    return str(tmp_path / "t.lance")


# Asking


def filters(column: str, name: str) -> Iterator[str]:
    """Conditions that an index answers; ``name`` is what its column is called by now."""
    match column:
        case "labels":
            yield f"array_has_any({name}, ['blue'])"
            yield f"array_has_any({name}, ['green'])"
        case "ngram":
            yield f"contains({name}, 'c10d')"
            yield f"contains({name}, 'abcnew')"
        case "zones":
            yield f"{name} >= 95 AND {name} < 205"
            yield f"{name} = 99999"
        case _:
            yield f"{name} = 3"
            yield f"{name} = 99999"


def check(uri: str, names: dict[str, str] | None = None) -> None:
    """Every index that is there answers as if it were not, and is asked if it covers anything."""
    dataset = judged(uri)
    table = lw.open(uri)
    live = {each.id for each in table.fragments}
    for index in table.indices:
        name = (names or {}).get(index.name, index.name)
        covers = not live.isdisjoint(index.fragments)
        if index.name == "text":
            check_text(dataset, name)
        elif index.name in VECTOR:
            check_vectors(dataset, name, index.name if covers else None)
        else:
            for condition in filters(index.name, name):
                check_filter(dataset, condition, f"@{index.name}(" if covers else None)


def check_filter(dataset: Any, condition: str, named: str | None) -> None:
    asked = dataset.scanner(columns=["k"], filter=condition)
    scanned = dataset.scanner(columns=["k"], filter=condition, use_scalar_index=False)
    assert named is None or named in asked.explain_plan(True), condition
    assert "ScalarIndexQuery" not in scanned.explain_plan(True)
    assert keys(asked.to_table()) == keys(scanned.to_table()), condition


def check_text(dataset: Any, name: str) -> None:
    found = dataset.scanner(columns=["k", name]).to_table().to_pylist()
    for word in ("word3", NEW_TEXT):
        asked = dataset.scanner(
            columns=["k", "_score"],
            full_text_query={"query": word, "columns": [name]},
            limit=ROWS * 2,
        )
        assert "MatchQuery" in asked.explain_plan(True)
        expected = sorted(row["k"] for row in found if word in (row[name] or "").split())
        assert keys(asked.to_table()) == expected, word


def check_vectors(dataset: Any, name: str, index: str | None) -> None:
    """With all candidates refined, a search through the index is exact."""
    for wanted in ([0.5] * WIDTH, [9.0] * WIDTH):
        query = {"column": name, "q": wanted, "k": 10, "nprobes": 1, "refine_factor": ROWS}
        asked = dataset.scanner(columns=["k", "_distance"], nearest=query)
        brute = dataset.scanner(columns=["k", "_distance"], nearest={**query, "use_index": False})
        if index is not None:
            assert f"ANNSubIndex: name={index}," in asked.explain_plan(True)
        assert "ANN" not in brute.explain_plan(True)
        one, other = asked.to_table(), brute.to_table()
        assert one.num_rows == other.num_rows
        np.testing.assert_allclose(one["_distance"], other["_distance"], rtol=1e-5)
        assert keys(one) == keys(other)


def keys(table: pa.Table) -> list[int]:
    return sorted(table.column("k").to_pylist())


def coverage(uri: str) -> dict[str, set[int]]:
    """The live fragments that each index covers."""
    table = lw.open(uri)
    live: set[int] = {each.id for each in table.fragments}
    return {each.name: {*live.intersection(each.fragments)} for each in table.indices}


# What we do

NEW_VALUES: dict[str, Any] = {
    "btree": 99999,
    "bitmap": 99999,
    "labels": ["green"],
    "text": f"'{NEW_TEXT}'",
    "ngram": "'abcnew'",
    "zones": 99999,
    "bloom": 99999,
    "near": [9.0] * WIDTH,
    "coded": [9.0] * WIDTH,
}
SOME = "k % 100 = 3 OR k = 150"
OLD = {0, 1, 2, 3}


@dataclass(frozen=True)
class Case:
    """An operation, and what indices cover after it; None: they are gone."""

    act: Callable[[lw.Table], lw.Table]
    row_ids: set[int] | None
    """Indices that name rows by stable ids."""
    others: set[int] | None


def merged(table: lw.Table) -> lw.Table:
    return table.merge(rows(395, 405), on="k")


def merged_other(table: lw.Table) -> lw.Table:
    source = pa.table({"k": pa.array([3, 150], pa.int64()), "other": pa.array([7, 8], pa.int64())})
    return table.merge(source, on="k", rewrite="rows")


def compacted(table: lw.Table) -> lw.Table:
    """Fragments 0 and 1 become one, 2 and 3 stay."""
    return table.delete("k < 200 AND k % 2 = 0").compact(target_rows=PER_FILE)


def replaced(table: lw.Table) -> lw.Table:
    source = rows(1000, 1000 + PER_FILE).select(list(INDEXED))
    return table.replace_columns([1], source)


CASES = {
    "append": Case(lambda t: t.append(rows(400, 450)), OLD, OLD),
    "delete": Case(lambda t: t.delete(SOME), OLD, OLD),
    "delete a fragment": Case(lambda t: t.delete("k < 120"), {1, 2, 3}, {1, 2, 3}),
    "update rows, another column": Case(
        lambda t: t.update({"other": "k"}, SOME, rewrite="rows"), OLD | {4}, OLD
    ),
    "update rows, the columns": Case(
        lambda t: t.update(NEW_VALUES, SOME, rewrite="rows"), OLD, OLD
    ),
    "update columns, another one": Case(
        lambda t: t.update({"other": "k"}, SOME, rewrite="columns"), OLD, OLD
    ),
    "update columns, these": Case(
        lambda t: t.update(NEW_VALUES, "k IN (3, 150)", rewrite="columns"), {2, 3}, {2, 3}
    ),
    "merge": Case(merged, OLD, OLD),
    "merge another column": Case(merged_other, OLD | {4}, OLD),
    "add columns": Case(lambda t: t.add_columns({"more": "k * 2"}), OLD, OLD),
    "add nulls": Case(lambda t: t.add_columns(pa.schema({"more": pa.int8()})), OLD, OLD),
    "drop another column": Case(lambda t: t.drop_columns(["other"]), OLD, OLD),
    "drop the columns": Case(lambda t: t.drop_columns(list(INDEXED)), None, None),
    "cast another column": Case(lambda t: t.cast_column("other", pa.float64()), OLD, OLD),
    "replace columns": Case(replaced, {0, 2, 3}, {0, 2, 3}),
    "compact": Case(compacted, {2, 3, 4}, {2, 3}),
    "restore": Case(lambda t: t.delete(SOME).compact().restore(t.version), OLD, OLD),
    "restore to before the indices": Case(lambda t: t.restore(1), None, None),
    "overwrite": Case(lambda t: t.overwrite(rows(0, 50)), None, None),
}


def test_the_indices_of_the_template_are_asked_and_cover_everything(uri: str) -> None:
    assert coverage(uri) == dict.fromkeys(INDEXED, OLD)
    check(uri)


@pytest.mark.parametrize("name", CASES)
def test_line_62_indices_answer_as_a_full_scan_does_after(uri: str, name: str) -> None:
    case = CASES[name]
    table = case.act(lw.open(uri))
    check(uri)
    is_stable = table.has_stable_row_ids
    expected = {
        each: covered
        for each in INDEXED
        for covered in [case.row_ids if is_stable and each not in HOLD_ADDRESSES else case.others]
        if covered is not None
    }
    assert coverage(uri) == expected


@pytest.mark.parametrize("name", CASES)
def test_line_62_pylance_takes_the_indices_further_after(uri: str, name: str) -> None:
    CASES[name].act(lw.open(uri))
    dataset: Any = lance.dataset(uri)
    dataset.optimize.optimize_indices()
    check(uri)
    dataset = lance.dataset(uri)
    dataset.delete("k % 50 = 7")
    dataset.optimize.compact_files(target_rows_per_fragment=1000)
    check(uri)


def test_line_62_indices_follow_their_columns_to_new_names(uri: str) -> None:
    table = lw.open(uri)
    for each in INDEXED:
        table = table.rename_column(each, f"{each}_renamed")
    assert coverage(uri) == dict.fromkeys(INDEXED, OLD)
    check(uri, {each: f"{each}_renamed" for each in INDEXED})


def test_line_62_a_cast_column_loses_its_index_and_no_other(uri: str) -> None:
    table = lw.open(uri).cast_column("btree", pa.int64()).cast_column("zones", pa.float64())
    assert {each.name for each in table.indices} == set(INDEXED) - {"btree", "zones"}
    check(uri)
    check_filter(lance.dataset(uri), "btree = 3", None)


def test_line_62_answers_stay_right_through_a_chain_of_changes(uri: str) -> None:
    table = lw.open(uri)
    for name in (
        "update rows, another column",
        "append",
        "delete",
        "update rows, the columns",
        "merge",
        "update columns, these",
        "merge another column",
        "compact",
        "add columns",
        "replace columns",
        "compact",
    ):
        if name == "replace columns":
            last = max(each.id for each in table.fragments)
            size = (
                table.count_rows()
                - table.scan(
                    ["k"], fragment_ids=[each.id for each in table.fragments if each.id != last]
                ).count()
            )
            table = table.replace_columns([last], rows(2000, 2000 + size).select(list(INDEXED)))
        else:
            table = CASES[name].act(table)
        check(uri)


def test_line_63_a_column_rewritten_in_place_leaves_the_bitmap_of_its_index_only(uri: str) -> None:
    table = lw.open(uri).update({"btree": 99999}, "k = 150", rewrite="columns")
    covered = coverage(uri)
    assert covered.pop("btree") == {0, 2, 3}
    assert set(map(frozenset, covered.values())) == {frozenset(OLD)}
    dataset: Any = lance.dataset(uri)
    check_filter(dataset, "btree = 99999", "@btree(")
    assert keys(dataset.to_table(filter="btree = 99999")) == [150]
    source = pa.table({"bitmap": pa.array([77] * PER_FILE, pa.int32())})
    table.replace_columns([3], source)
    assert coverage(uri)["bitmap"] == {0, 1, 2}
    assert len(keys(lance.dataset(uri).to_table(filter="bitmap = 77"))) == PER_FILE
    check(uri)


def test_line_64_deferred_remapping_is_carried_along_and_not_compacted(tmp_path: Path) -> None:
    uri = str(tmp_path / "t.lance")
    dataset: Any = lance.write_dataset(
        rows(0, ROWS).select(["k", "other", "btree", "bitmap"]), uri, max_rows_per_file=PER_FILE
    )
    for name in ("btree", "bitmap"):
        dataset.create_scalar_index(name, SCALAR[name], name=name)
    dataset.optimize.compact_files(target_rows_per_fragment=2 * PER_FILE, defer_index_remap=True)
    table = lw.open(uri)
    reuse = [each for each in table.indices if each.name == FRAGMENT_REUSE]
    assert len(reuse) == 1

    def still_right() -> None:
        now = lw.open(uri)
        assert [each for each in now.indices if each.name == FRAGMENT_REUSE] == reuse
        dataset = judged(uri)
        for condition in ("btree = 3", "bitmap = 3", "btree = 99999"):
            check_filter(dataset, condition, None)

    still_right()
    table = table.append(rows(400, 420).select(["k", "other", "btree", "bitmap"]))
    still_right()
    table = table.delete(SOME)
    still_right()
    table = table.update({"btree": 99999}, "k = 11", rewrite="rows")
    still_right()
    table = table.set_config({"mine": "1"}).drop_columns(["other"])
    still_right()
    files = sorted(Path(uri).rglob("*"))
    with pytest.raises(lw.UnsupportedError, match=FRAGMENT_REUSE):
        table.compact()
    assert sorted(Path(uri).rglob("*")) == files
    assert lw.open(uri).version == table.version


@pytest.mark.parametrize(
    "name", [each for each in CASES if each not in ("overwrite", "restore to before the indices")]
)
def test_line_65_what_pylance_recorded_is_preserved_by(uri: str, name: str) -> None:
    dataset: Any = lance.dataset(uri)
    dataset.update_config({"lance.auto_cleanup.interval": "1000", "mine": "1"})
    lance.dataset(uri).update_metadata({"owner": "me"})
    planted = b"\xfa\x3f\x05hello"
    plant_in_indices(uri, planted)
    before = {each.uuid: each.message for each in newest_manifest(uri).indices}
    CASES[name].act(lw.open(uri))
    after = newest_manifest(uri)
    assert after.config == {"lance.auto_cleanup.interval": "1000", "mine": "1"}
    assert after.table_metadata == {"owner": "me"}
    assert bool(after.indices) == (name != "drop the columns")
    for index in after.indices:
        same = table_pb2.IndexMetadata()
        same.CopyFrom(index.message)
        same.fragment_bitmap = before[index.uuid].fragment_bitmap
        assert same == before[index.uuid]
        assert planted in same.SerializeToString()
    lance.dataset(uri).validate()


def plant_in_indices(uri: str, unknown: bytes) -> None:
    """Give every index a field that nobody knows."""
    path = manifest_path(uri, lw.open(uri).version)
    old = decode_manifest_file(path.read_bytes(), name=path.name)
    section = table_pb2.IndexSection.FromString(old.index_section or b"")
    for each in section.indices:
        each.MergeFromString(unknown)
    path.write_bytes(
        encode_manifest_file(
            old.message,
            index_section=section.SerializeToString(),
            transaction_section=old.transaction_section,
        )
    )
