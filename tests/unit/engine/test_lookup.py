"""What our own readers of index files find, against the rows that have a value."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from lance.indices import IndexConfig
from tests.breadth import daily
from tests.indexed import KINDS, MINUS_NAN, NAMES, OPS, make_indexed, rows, simple
from tests.manifests import manifest_path
from tests.pylance import lance

import lancewood as lw
from lancewood.engine.lookup import Lookup, ValueTests, btree, index_files, look_up, lookup
from lancewood.engine.rows import ScanPlan, plan_scan
from lancewood.engine.rows.take import addresses_of
from lancewood.errors import FormatError
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.model.index import FRAGMENT_REUSE
from lancewood.proto import table_pb2


@pytest.fixture(autouse=True)
def _few_rows_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are looked up that would be read with all others elsewhere: there are so few."""
    monkeypatch.setattr(lookup, "_FEW_ROWS", 1 << 20)


@pytest.fixture(scope="module", params=[True, False], ids=["stable ids", "addresses"])
def templates(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """A table with an index on every column, for each kind."""
    made = {}
    for kind in KINDS:
        made[kind] = str(tmp_path_factory.mktemp("indexed") / "t.lance")
        make_indexed(made[kind], kind, NAMES, stable=request.param)
    return made


def ask(table: lw.Table, where: str, parameters: Any = None) -> Lookup | None:
    """What indices say of a condition; None if they do not help."""
    plan = plan_scan(table._snapshot, columns=[], where=where, parameters=parameters)
    assert plan.predicate is not None
    tests = ValueTests.among(plan.predicate.bounds())
    found = look_up(table._snapshot, tests, lambda ids: addresses_of(table._snapshot, ids))
    return found if found.names else None


def named(found: Lookup) -> set[int]:
    """The addresses of the rows that may be wanted."""
    addresses = {
        (fragment << 32) + offset
        for fragment, offsets in found.rows.items()
        for offset in offsets.tolist()
    }
    for fragment, spans in found.spans.items():
        for start, stop in spans:
            addresses |= {(fragment << 32) + each for each in range(start, min(stop, 80))}
    return addresses


@pytest.mark.sliced(4)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_every_wanted_row_of_every_type_is_named(
    templates: dict[str, str], kind: str, name: str
) -> None:
    table, rng, helped = lw.open(templates[kind]), Random(name), 0
    for op in OPS:
        for _ in range(daily(2, of=3)):
            asked = simple(rng, name, op)
            found = ask(table, asked.sql, asked.parameters)
            scan = table.scan(
                ["k"],
                asked.sql,
                parameters=asked.parameters,
                with_row_address=True,
                use_indices=False,
            )
            wanted = set(scan.to_arrow()["_rowaddr"].to_pylist())
            if found is not None:
                helped += 1
                assert named(found) >= wanted, asked
                is_exact = kind != "ZONEMAP" and op != "LIKE" and "nan" not in str(asked)
                assert not is_exact or named(found) == wanted, asked
                assert list(found.covered) == [0, 1, 2]
    assert kind == "ZONEMAP" or helped > daily(6, of=10)


@pytest.mark.parametrize("kind", ["BTREE", "BITMAP"])
def test_only_a_wanted_row_is_read(templates: dict[str, str], kind: str) -> None:
    text = lw.open(templates[kind]).scan(where="t = TIME '01:00:00.000180'").explain()
    assert text.endswith("index t_idx: 1 row of 1 fragment")


def test_only_a_zone_with_a_wanted_row_is_read(uri: str) -> None:
    make_indexed(uri, "ZONEMAP", ["k"])
    text = lw.open(uri).scan(where="k = 100").explain()
    assert text.endswith("index k_idx: 16 rows of 1 fragment")


def test_planning_reads_no_index(templates: dict[str, str]) -> None:
    table = lw.open(templates["BTREE"])
    with patch.object(btree, "open_index_file", side_effect=AssertionError("opened")):
        scan = table.scan(where="i = 3")
        assert "columns" in repr(scan)
        with pytest.raises(AssertionError, match="opened"):
            scan.to_arrow()


def test_without_indices_none_is_read(templates: dict[str, str]) -> None:
    table = lw.open(templates["BTREE"])
    with patch.object(btree, "open_index_file", side_effect=AssertionError("opened")):
        assert table.scan(where="i = 3", use_indices=False).to_arrow().num_rows
        assert table.count_rows("i = 3", use_indices=False)
        assert ", index " not in table.scan(where="i = 3", use_indices=False).explain()
        assert table.count_rows("i <> 3") > 100
        assert table.count_rows("i IS NOT NULL") > 100
        assert table.count_rows("abs(i) = 3") > 0
        assert table.count_rows("i = 3 OR k = 4") > 0


def test_limits_offsets_and_batches_are_those_of_a_full_scan(uri: str) -> None:
    make_indexed(uri, "BTREE", ["i"], count=2_000, per_file=300)
    table = lw.open(uri).append(rows(5_000, 40)).delete("k % 13 = 2")
    for where in ("i >= 40", "i = 3", "i IN (1, 2, 3) AND k % 2 = 0", "i < -49 AND _rowid > 100"):
        for limit, offset in ((None, 0), (5, 0), (7, 11), (1, 400), (None, 30), (0, 0)):
            asked: dict[str, Any] = {
                "limit": limit,
                "offset": offset,
                "batch_rows": 4,
                "with_row_id": True,
                "with_row_address": True,
            }
            through = table.scan(["s", "k"], where, **asked)
            without = table.scan(["s", "k"], where, use_indices=False, **asked)
            assert through.to_arrow() == without.to_arrow()
            assert through.count() == without.count()
            assert all(0 < each.num_rows <= 4 for each in through.to_batches())
    assert "index i_idx" in table.scan(where="i = 3").explain()
    assert "1 fragment not covered is scanned" in table.scan(where="i = 3").explain()


def test_many_candidates_are_fetched_after_the_filter(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lancewood.engine.rows import candidate_scan

    make_indexed(uri, "BTREE", ["i"], count=2_000, per_file=700)
    table = lw.open(uri).delete("k % 13 = 2")
    monkeypatch.setattr(candidate_scan, "_FEW", 3)
    monkeypatch.setattr(candidate_scan, "_PORTION_ROWS", 17)
    for where in ("i >= 40", "i >= 40 AND s <> 'text 3' AND _rowid % 2 = 0"):
        for columns in (None, ["s"], ["i"], ["s", "i", "p.z"], {"twice": "i * 2", "s": "s"}):
            through = table.scan(columns, where, batch_rows=10, with_row_id=columns is None)
            without = table.scan(columns, where, use_indices=False, with_row_id=columns is None)
            assert str(through.to_arrow().to_pylist()) == str(without.to_arrow().to_pylist())


def test_chosen_fragments_alone_are_read(uri: str) -> None:
    make_indexed(uri, "BTREE", ["i"])
    table = lw.open(uri)
    for ids in ([0], [1, 2], [2, 0], []):
        through = table.scan(["k"], "i < 0", fragment_ids=ids)
        assert "index i_idx" in through.explain()
        without = table.scan(["k"], "i < 0", fragment_ids=ids, use_indices=False)
        assert through.to_arrow() == without.to_arrow()


def test_where_many_rows_match_all_are_read_in_order(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_indexed(uri, "BTREE", ["i"], count=4_000)
    make_indexed(f"{uri}-2", "BITMAP", ["i"], count=4_000)
    monkeypatch.setattr(lookup, "_FEW_ROWS", 10)
    for table in (lw.open(uri), lw.open(f"{uri}-2")):
        assert ", index " not in table.scan(where="i < 0").explain()
        assert ", index " not in table.scan(where="i = 3").explain()
        assert "index" in table.scan(where="i = 1000").explain()
        assert table.count_rows("i < 0") == table.count_rows("i < 0", use_indices=False)


def test_two_indices_leave_what_both_name(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_indexed(uri, "BITMAP", ["i", "s"], count=8_080, per_file=2_000)
    monkeypatch.setattr(lookup, "_FEW_ROWS", 10)
    monkeypatch.setattr(lookup, "_WORTHWHILE", 118)
    table = lw.open(uri).update({"s": "'x'"}, "k < 50", rewrite="columns")
    where = "i = 3 AND s = 'text 53' AND k < 7000"
    assert table.scan(where="i = 3").count() > 8_080 // 118
    assert ", index " not in table.scan(where="i = 3").explain()
    text = table.scan(where=where).explain()
    assert "index i_idx, s_idx" in text
    assert table.count_rows(where) == table.count_rows(where, use_indices=False) > 0


# Why an index is not used


@pytest.fixture(scope="module")
def owls(tmp_path_factory: pytest.TempPathFactory) -> lw.Table:
    """20,000 rows with an index of every kind that scans ask, and one that they do not."""
    words = ["owl", "hen", "auk", "jay", "tit", "emu"]
    data = {"id": range(20_000), "label": [words[n * 7 % 6] for n in range(20_000)]}
    data |= {"zone": range(20_000), "bloom": range(20_000), "plain": range(20_000)}
    made = lw.create(str(tmp_path_factory.mktemp("owls") / "t.lance"), pa.table(data))
    kinds = {"id": "BTREE", "label": "BITMAP", "zone": "ZONEMAP", "bloom": "BLOOMFILTER"}
    for column, kind in kinds.items():
        options = {"rows_per_zone": 1_000} if kind == "ZONEMAP" else None
        made = made.indices.create(column, kind, options=options)
    return made


TOO_MANY = "too many to be picked one by one"
FORM = "only =, <, <=, >, >=, IN, BETWEEN, IS NULL and LIKE 'abc%' are looked up"


@pytest.mark.parametrize(
    ("where", "lines"),
    [
        ("label = 'owl'", [f"label_idx not used: at least 3,334 of 20,000 rows, {TOO_MANY}"]),
        ("id < 500", [f"id_idx not used: at least 500 of 20,000 rows, {TOO_MANY}"]),
        ("id > 500", [f"id_idx not used: at least 12,288 of 20,000 rows, {TOO_MANY}"]),
        (
            f"id IN ({', '.join(str(each * 3) for each in range(70))})",
            [f"id_idx not used: 70 of 20,000 rows in 70 places, {TOO_MANY}"],
        ),
        ("zone > 500", ["zone_idx not used: rows can be in 20 of 20 zones, too many"]),
        ("abs(id) = 3", [f"id_idx not used: {FORM}"]),
        ("id = 3 OR plain = 3", [f"id_idx not used: {FORM}"]),
        ("bloom = 3", ["bloom_idx not used: scans do not look into BLOOMFILTER"]),
        ("id = 3 AND zone = 3", ["zone_idx not used: another index tells which rows to read"]),
        ("plain = 3", []),
        ("id = 3 OR id = 4 OR id IN (7, 7)", []),
    ],
)
def test_explain_tells_why_an_index_is_not_used(
    owls: lw.Table, monkeypatch: pytest.MonkeyPatch, where: str, lines: list[str]
) -> None:
    monkeypatch.setattr(lookup, "_FEW_ROWS", 64)
    first, *others = owls.scan(where=where).explain().split("\n")
    assert len(others) == len(lines)
    for line, expected in zip(others, lines, strict=True):
        assert line.startswith(f"index {expected}")
    assert (", index " in first) == (where.startswith("id = 3 AND") or "id = 4" in where)
    assert "\n" not in owls.scan(where=where, use_indices=False).explain()
    assert owls.count_rows(where) == owls.count_rows(where, use_indices=False)


def test_values_that_or_joins_are_looked_up(owls: lw.Table) -> None:
    scan = owls.scan(["id"], "(id = 3 AND label = 'owl') OR id = 7000 OR id IN (9, 19999)")
    assert scan.explain().split("\n")[0].endswith("index id_idx: 4 rows of 1 fragment")
    assert scan.to_arrow()["id"].to_pylist() == [9, 7000, 19999]


def test_an_index_that_covers_nothing_is_told_of(uri: str) -> None:
    make_indexed(uri, "BTREE", ["i"], stable=False)
    table = lw.open(uri).compact()
    expected = "\nindex i_idx not used: it covers no fragment (extend it)"
    assert table.scan(where="i = 3").explain().endswith(expected)
    table = table.indices.extend()
    assert "index i_idx: " in table.scan(where="i = 3").explain()


# Indices that are not to be trusted, or not known


def bent(uri: str, bend: Any) -> lw.Table:
    """The table after a change to what its manifest says of its indices."""
    path = manifest_path(uri, lw.open(uri).version)
    old = decode_manifest_file(path.read_bytes(), name=str(path))
    assert old.index_section is not None
    section = table_pb2.IndexSection.FromString(old.index_section)
    bend(section)
    path.write_bytes(
        encode_manifest_file(
            old.message,
            index_section=section.SerializeToString(),
            transaction_section=old.transaction_section,
        )
    )
    return lw.open(uri)


@pytest.mark.parametrize("kind", KINDS)
def test_an_unknown_version_or_layout_is_not_asked(uri: str, kind: str) -> None:
    make_indexed(uri, kind, ["i"], stable=kind != "BTREE")
    expected = lw.open(uri).count_rows("i = 3", use_indices=False)

    def later(section: table_pb2.IndexSection) -> None:
        section.indices[0].index_version = 9

    def unsaid(section: table_pb2.IndexSection) -> None:
        section.indices[0].ClearField("index_version")

    def deferred(section: table_pb2.IndexSection) -> None:
        section.indices[0].index_version = 0
        section.indices.add(name=FRAGMENT_REUSE, fields=[])

    for bend in (later, unsaid, deferred):
        table = bent(uri, bend)
        assert ", index " not in table.scan(where="i = 1000").explain()
        assert table.count_rows("i = 3") == expected


def test_a_btree_that_may_name_row_ids_is_not_asked(uri: str) -> None:
    make_indexed(uri, "BTREE", ["i"], stable=True)

    def older(section: table_pb2.IndexSection) -> None:
        assert section.indices[0].index_version == 1
        section.indices[0].index_version = 0

    assert ", index " not in bent(uri, older).scan(where="i = 3").explain()


def files_of(uri: str) -> list[Path]:
    return sorted(Path(uri, "_indices").rglob("*.lance"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_file_means_a_scan(uri: str, kind: str) -> None:
    make_indexed(uri, kind, ["i"])
    expected = lw.open(uri).scan(where="i = 3", use_indices=False).to_arrow()
    for path in files_of(uri):
        kept = path.read_bytes()
        path.unlink()
        table = lw.open(uri)
        assert ", index " not in table.scan(where="i = 3").explain()
        assert str(table.scan(where="i = 3").to_arrow()) == str(expected)
        path.write_bytes(kept)
    shutil.rmtree(Path(uri, "_indices"))
    assert lw.open(uri).scan(where="i = 3").count() == expected.num_rows


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_file_is_an_error_that_names_it(uri: str, kind: str) -> None:
    make_indexed(uri, kind, ["i"])
    for path in files_of(uri):
        kept = path.read_bytes()
        path.write_bytes(kept[:-10])
        with pytest.raises(FormatError, match=path.name):
            lw.open(uri).count_rows("i = 3")
        path.write_bytes(kept)


def test_files_of_another_index_are_noticed(uri: str) -> None:
    make_indexed(uri, "BTREE", ["i"])
    make_indexed(f"{uri}-2", "BTREE", ["i"], count=400)
    make_indexed(f"{uri}-3", "BTREE", ["small"])

    def unsized(section: table_pb2.IndexSection) -> None:
        del section.indices[0].files[:]

    bent(uri, unsized)
    data, lookup = files_of(uri)
    kept = data.read_bytes()
    data.write_bytes(files_of(f"{uri}-2")[0].read_bytes())
    with pytest.raises(FormatError, match=r"page_lookup\.lance has 15 pages of 16 rows for 400"):
        lw.open(uri).count_rows("i = 3")
    data.write_bytes(files_of(f"{uri}-3")[0].read_bytes())
    assert ", index " not in lw.open(uri).scan(where="i = 3").explain()
    data.write_bytes(kept)
    lookup.write_bytes(files_of(f"{uri}-3")[1].read_bytes())
    assert ", index " not in lw.open(uri).scan(where="i = 3").explain()


def test_rows_that_a_fragment_does_not_have_are_an_error(uri: str) -> None:
    make_indexed(uri, "BTREE", ["i"])
    table = lw.open(uri)
    with (
        patch.object(btree.BTree, "find", lambda *_: np.array([(1 << 32) + 80], np.uint64)),
        pytest.raises(FormatError, match="names row 80 of fragment 1, which has 80"),
    ):
        table.count_rows("i = 3")


@pytest.mark.parametrize("stable", [True, False])
def test_zones_that_pylance_left_beside_newer_ones_are_not_asked(uri: str, stable: bool) -> None:
    data = pa.table({"id": range(60), "a": range(60)})
    table = lw.create(uri, data, layout=lw.Layout(stable_row_ids=stable, max_rows_per_file=30))
    table = table.indices.create("a", "ZONEMAP", options={"rows_per_zone": 5})
    table.delete("id IN (0, 1)").update({"a": "1000 - a"}, "id < 30", rewrite="columns")
    lance.dataset(uri).optimize.optimize_indices()
    table = lw.open(uri)
    for value in (2, 7, 26, 29, 31, 971, 974, 975, 998):
        where = f"a = {value}"
        assert table.count_rows(where) == table.count_rows(where, use_indices=False)
    assert "index a_idx" in table.scan(where="a = 31").explain()


# What is kept


def test_what_was_read_is_kept_and_bounded(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_indexed(uri, "BTREE", ["i"], count=4_000)
    kept = index_files.KeptParts(40_000)
    monkeypatch.setattr(index_files, "KEPT", kept)
    monkeypatch.setattr(btree, "KEPT", kept)
    reads = []
    whole = index_files.IndexFile._whole

    def counted(self: Any, *args: Any) -> pa.RecordBatch:
        reads.append(self.name)
        return whole(self, *args)

    monkeypatch.setattr(index_files.IndexFile, "_whole", counted)
    first = lw.open(uri).count_rows("i = 3")
    assert reads
    reads.clear()
    assert lw.open(uri).count_rows("i = 3") == first
    assert not reads
    there = Counter(lw.open(uri).to_arrow()["i"].to_pylist())
    for value in range(-50, 51):
        assert lw.open(uri).count_rows(f"i = {value}") == there[value]
    assert kept._held <= 40_000
    assert kept._held == sum(size for _, size in kept._parts.values())
    reads.clear()
    assert lw.open(uri).count_rows("i = -50")
    assert reads


@pytest.mark.filterwarnings("ignore:lance is not fork-safe:UserWarning")
def test_threads_and_forked_children_look_up_at_once(uri: str) -> None:
    make_indexed(uri, "BTREE", ["i"], count=2_000)
    table = lw.open(uri)
    expected = [table.count_rows(f"i = {each}", use_indices=False) for each in range(20)]
    index_files.KEPT.clear()
    found: list[list[int]] = []

    def work() -> None:
        found.append([lw.open(uri).count_rows(f"i = {each}") for each in range(20)])

    threads = [threading.Thread(target=work) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [expected] * 4
    if hasattr(os, "fork"):
        codes = (exit_code_of_child(uri, expected) for _ in range(3))
        assert 0 in codes, "pylance's own threads are not always there in a child; our locks are"


def exit_code_of_child(uri: str, expected: list[int]) -> int | None:
    with index_files.KEPT._lock:  # held by somebody while the child is made
        child = multiprocessing.get_context("fork").Process(
            target=check_in_child, args=(uri, expected)
        )
        child.start()
    child.join(30)
    child.kill()
    child.join()
    return child.exitcode


def check_in_child(uri: str, expected: list[int]) -> None:
    assert [lw.open(uri).count_rows(f"i = {each}") for each in range(20)] == expected


# The tests of values


def floats() -> Iterator[float]:
    yield from (float("nan"), -0.0, 0.0, 1.5, float("inf"), float("-inf"))


def test_lists_meet_nan_and_either_zero() -> None:
    values = pa.array([*floats(), None])
    for wanted, expected in (
        ([float("nan")], [0]),
        ([0.0], [1, 2]),
        ([-0.0, 7.0], [1, 2]),
        ([1.5, float("inf")], [3, 4]),
    ):
        tests = ValueTests.any_of(("f",), pa.array(wanted))
        assert np.flatnonzero(tests.meet(values)).tolist() == expected


def test_a_negative_nan_is_found_behind_the_nulls_of_its_page(uri: str) -> None:
    values = pa.array([None, MINUS_NAN, 1.0, 2.0, float("nan")])
    dataset = lance.write_dataset(pa.table({"f": values}), uri)
    dataset.create_scalar_index("f", IndexConfig("btree", {"zone_size": 3}), name="f_idx")
    table = lw.open(uri)
    assert "index f_idx: 2 rows" in table.scan(where="f > 5").explain()
    assert table.count_rows("f > 5") == 2


def test_an_empty_list_helps_nobody(uri: str) -> None:
    make_indexed(uri, "BTREE", ["small"])
    table = lw.open(uri)
    assert table.count_rows("small = 1000") == 0
    assert table.count_rows("small IN (1000, 2000)") == 0


def test_an_index_without_rows_answers_nothing(uri: str) -> None:
    dataset = lance.write_dataset(rows(0, 1).slice(1), uri)
    dataset.create_scalar_index("i", "BTREE", name="i_idx")
    table = lw.open(uri).append(rows(0, 30))
    assert table.count_rows("i = -13") == table.count_rows("i = -13", use_indices=False)


def test_plans_pickle_without_what_was_looked_up(uri: str) -> None:
    import pickle

    make_indexed(uri, "BTREE", ["i"])
    plan = plan_scan(lw.open(uri)._snapshot, where="i = 3")
    assert plan.count()
    again: ScanPlan = pickle.loads(pickle.dumps(plan))
    assert "_narrowed" not in again.__dict__
    assert again.count() == plan.count()
