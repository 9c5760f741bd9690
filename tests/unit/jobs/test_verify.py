"""Every kind of damage is found, told as a value, and told of the right place."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap
from tests.manifests import (
    decode_fragments,
    edit_manifest,
    manifest_path,
    put_fragments,
)

import lancewood as lw
from lancewood.format.deletion import encode_deletions
from lancewood.format.manifest import decode_manifest_file, encode_manifest_file
from lancewood.format.refs import BRANCHES_DIR, TAGS_DIR
from lancewood.jobs.upkeep import deep_check, verify
from lancewood.jobs.upkeep.deep_check import PageChecker
from lancewood.jobs.upkeep.problems import Problem, ProblemKind
from lancewood.jobs.upkeep.verify import FragmentTask, check_fragments
from lancewood.model.rowids import IdRanges, RowIdSequence, RowVersions, union
from lancewood.proto import table_pb2
from lancewood.store.memory import MemoryStore

ROWS = pa.table({"a": range(100), "s": [f"text {i}" for i in range(100)]})


@pytest.fixture(autouse=True)
def _no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANCEWOOD_FSYNC", "0")


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Four fragments, the first two with deleted rows."""
    location = str(tmp_path / "t.lance")
    lw.create(location, ROWS, layout=lw.Layout(max_rows_per_file=25)).delete("a < 30 and a % 7 = 0")
    return location


def problems(uri: str, *, deep: bool = False) -> list[tuple[ProblemKind, int | None]]:
    return [(each.kind, each.fragment) for each in lw.open(uri).verify(deep=deep).problems]


def change_fragments(uri: str, change: Callable[[list[table_pb2.DataFragment]], None]) -> None:
    def edit(message: Any) -> None:
        fragments = decode_fragments(message)
        change(fragments)
        put_fragments(message, fragments)

    edit_manifest(uri, edit)


def data_file(uri: str, fragment: int) -> Path:
    return Path(uri) / "data" / lw.open(uri).fragments[fragment].files[0].path


# Whole tables


@pytest.mark.sliced(3)
@pytest.mark.parametrize("version", ["2.2", "2.1", "2.0"])
def test_a_whole_table_has_no_problems(tmp_path: Path, version: str) -> None:
    rows = pa.table({"a": range(50), "n": [{"x": i, "l": [i]} for i in range(50)]})
    table = lw.create(
        tmp_path / "t", rows, layout=lw.Layout(file_version=version, max_rows_per_file=20)
    )
    table = table.delete("a = 3").update({"a": "a + 100"}, where="a < 10").append(rows)
    report = table.verify(deep=True)
    assert report.problems == ()
    assert report.ok
    assert report.version == table.version
    assert report.fragments == report.data_files == len(table.fragments)
    assert report.deletion_files == 1


@pytest.mark.usefixtures("pages_decoded_here")
def test_a_table_without_stable_ids_or_rows_has_no_problems(tmp_path: Path) -> None:
    assert (
        lw.create(tmp_path / "t", ROWS, layout=lw.Layout(stable_row_ids=False)).verify(deep=True).ok
    )
    assert lw.create(tmp_path / "u", ROWS.schema).verify(deep=True).ok


def test_a_table_in_memory_is_checked_in_this_process() -> None:
    table = lw.create(MemoryStore().uri, ROWS)
    assert table.verify(deep=True).ok


def test_a_listing_and_single_looks_find_the_same(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_file(uri, 3).unlink()
    os.truncate(data_file(uri, 2), 50)
    single = lw.open(uri).verify()
    monkeypatch.setattr(verify, "_WORTH_A_LISTING", 1)
    assert lw.open(uri).verify() == single
    assert [each.fragment for each in single.problems] == [2, 3]


def test_tasks_and_results_travel(uri: str) -> None:
    snapshot = lw.open(uri)._snapshot
    task = FragmentTask(tuple(snapshot.manifest.fragments[:2]), {})
    snapshot_there, task_there = pickle.loads(pickle.dumps((snapshot.bare(), task)))
    found = pickle.loads(pickle.dumps(check_fragments(snapshot_there, False, task_there)))
    assert found.problems == []
    assert found.data_files == 2
    assert found.live_ids.firsts.tolist()[0] == 1


# Files


@pytest.mark.usefixtures("pages_decoded_here")
def test_a_missing_data_file_is_found(uri: str) -> None:
    path = data_file(uri, 1)
    path.unlink()
    (found,) = lw.open(uri).verify(deep=True).problems
    assert (found.kind, found.fragment, found.where) == (ProblemKind.DATA_FILE, 1, str(path))
    assert "missing" in found.text
    assert "restore" in found.advice


def test_another_size_is_found(uri: str) -> None:
    with data_file(uri, 1).open("ab") as file:
        file.write(b"x")
    assert problems(uri) == [(ProblemKind.DATA_FILE, 1)]


def test_a_footer_that_is_none_is_found(uri: str) -> None:
    path = data_file(uri, 1)
    data = path.read_bytes()
    path.write_bytes(data[:-4] + b"NOPE")
    assert problems(uri) == [(ProblemKind.DATA_FILE, 1)]


def test_other_rows_than_recorded_are_found(uri: str) -> None:
    def claim(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[3].physical_rows = 24

    change_fragments(uri, claim)
    kinds = {each for each, _ in problems(uri)}
    assert kinds == {ProblemKind.DATA_FILE, ProblemKind.ROW_IDS, ProblemKind.ROW_VERSIONS}


def test_rows_that_nobody_recorded_are_told(uri: str) -> None:
    def forget(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[3].physical_rows = 0

    change_fragments(uri, forget)
    assert problems(uri) == [(ProblemKind.ROW_COUNT, 3)]


def test_a_column_that_the_file_does_not_have_is_found(uri: str) -> None:
    def swap(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[2].files[0].column_indices[:] = [1, 0]

    change_fragments(uri, swap)
    assert problems(uri) == [(ProblemKind.SCHEMA, 2)]


def test_a_field_in_two_files_is_found(uri: str) -> None:
    def double(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[2].files.append(fragments[2].files[0])

    change_fragments(uri, double)
    assert problems(uri) == [(ProblemKind.SCHEMA, 2)]


def test_another_file_version_than_recorded_is_found(uri: str) -> None:
    def claim(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[2].files[0].file_minor_version = 1

    change_fragments(uri, claim)
    assert set(problems(uri)) == {(ProblemKind.DATA_FILE, 2)}


def test_a_base_that_the_manifest_does_not_declare_is_found(uri: str) -> None:
    def lead_away(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[2].files[0].base_id = 9

    change_fragments(uri, lead_away)
    assert problems(uri) == [(ProblemKind.DATA_FILE, 2)]


# Deleted rows


def deletion_file(uri: str) -> Path:
    return sorted((Path(uri) / "_deletions").iterdir())[0]


def test_a_missing_deletion_file_is_found(uri: str) -> None:
    path = deletion_file(uri)
    path.unlink()
    (found,) = lw.open(uri).verify().problems
    assert (found.kind, found.where) == (ProblemKind.DELETION_FILE, str(path))


def test_a_broken_deletion_file_is_found(uri: str) -> None:
    path = deletion_file(uri)
    path.write_bytes(path.read_bytes()[:40])
    assert problems(uri) == [(ProblemKind.DELETION_FILE, 0)]


def test_a_deleted_row_beyond_the_fragment_is_found(uri: str) -> None:
    deletion_file(uri).write_bytes(encode_deletions(BitMap([3, 25]))[1])
    assert problems(uri) == [(ProblemKind.DELETION_FILE, 0)]


@pytest.mark.parametrize("told", [0, 3])
def test_a_wrong_number_of_deleted_rows_is_found(uri: str, told: int) -> None:
    def claim(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[0].deletion_file.num_deleted_rows = told

    change_fragments(uri, claim)
    assert problems(uri) == [(ProblemKind.DELETED_COUNT, 0)]


# Lineage


def set_ids(number: int, ids: RowIdSequence) -> Callable[[list[table_pb2.DataFragment]], None]:
    def change(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[number].inline_row_ids = ids.encode()

    return change


def test_an_id_that_two_live_rows_have_is_found(uri: str) -> None:
    change_fragments(uri, set_ids(3, RowIdSequence.from_range(60, 25)))
    (found,) = lw.open(uri).verify().problems
    assert (found.kind, found.where) == (ProblemKind.ROW_IDS, "row id 60")


def test_an_id_may_come_again_where_its_row_is_deleted(uri: str) -> None:
    """Rows 0, 7, 14 and 21 of the first fragment are deleted."""
    ids = RowIdSequence.from_values([0, 7, 14, 21, *range(79, 100)])
    change_fragments(uri, set_ids(3, ids))
    assert problems(uri) == []


def test_an_id_twice_in_one_fragment_is_found(uri: str) -> None:
    change_fragments(uri, set_ids(3, RowIdSequence.from_values([80, *range(76, 100)])))
    assert problems(uri) == [(ProblemKind.ROW_IDS, 3)]


def test_an_id_beyond_the_mark_is_found(uri: str) -> None:
    change_fragments(uri, set_ids(3, RowIdSequence.from_range(76, 25)))
    (found,) = lw.open(uri).verify().problems
    assert (found.kind, found.fragment) == (ProblemKind.ROW_IDS, 3)
    assert "100" in found.text


def test_ids_that_are_missing_or_too_few_are_found(uri: str) -> None:
    def drop(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[2].ClearField("inline_row_ids")
        fragments[3].inline_row_ids = RowIdSequence.from_range(75, 24).encode()

    change_fragments(uri, drop)
    assert problems(uri) == [(ProblemKind.ROW_IDS, 2), (ProblemKind.ROW_IDS, 3)]


def test_versions_of_rows_that_cannot_be_are_found(uri: str) -> None:
    late = RowVersions.uniform(9, 25).encode()

    def claim(fragments: list[table_pb2.DataFragment]) -> None:
        fragments[1].inline_last_updated_at_versions = late
        fragments[2].inline_created_at_versions = RowVersions.from_values(
            [1] * 20 + [2] * 5
        ).encode()
        fragments[3].inline_created_at_versions = RowVersions.uniform(1, 3).encode()

    change_fragments(uri, claim)
    found = lw.open(uri).verify().problems
    assert [(each.kind, each.fragment) for each in found] == [
        (ProblemKind.ROW_VERSIONS, 1),
        (ProblemKind.ROW_VERSIONS, 2),
        (ProblemKind.ROW_VERSIONS, 3),
    ]
    assert "row 20" in found[1].text


def ranges(*pairs: tuple[int, int]) -> IdRanges:
    return IdRanges(
        np.array([first for first, _ in pairs], np.uint64),
        np.array([last for _, last in pairs], np.uint64),
    )


def test_ranges_are_joined_and_overlaps_are_seen() -> None:
    joined, twice = union([ranges((5, 9), (20, 30)), ranges((0, 4), (10, 10))])
    assert (joined.firsts.tolist(), joined.lasts.tolist()) == ([0, 20], [10, 30])
    assert twice is None
    _, twice = union([ranges((0, 100)), ranges((3, 4)), ranges((50, 60))])
    assert twice == 3
    top = 2**64 - 1
    joined, twice = union([ranges((top, top)), ranges((0, top - 1))])
    assert (joined.firsts.tolist(), joined.lasts.tolist(), twice) == ([0], [top], None)
    assert union([])[1] is None


# Around the rows


def test_fragments_out_of_order_or_twice_are_found(uri: str) -> None:
    def turn(fragments: list[table_pb2.DataFragment]) -> None:
        fragments.reverse()

    change_fragments(uri, turn)
    assert problems(uri) == [(ProblemKind.FRAGMENT_ORDER, None)]

    def double(fragments: list[table_pb2.DataFragment]) -> None:
        fragments.sort(key=lambda each: each.id)
        fragments[3].id = 2

    change_fragments(uri, double)
    assert (ProblemKind.FRAGMENT_IDS, 2) in problems(uri)


def test_a_schema_that_is_no_tree_is_found(uri: str) -> None:
    def break_tree(message: Any) -> None:
        message.fields[1].id = message.fields[0].id

    edit_manifest(uri, break_tree)
    assert (ProblemKind.SCHEMA, None) in problems(uri)


def test_a_transaction_that_is_named_and_not_there_is_found(uri: str) -> None:
    def lose(message: Any) -> None:
        message.transaction_file = "1-gone.txn"

    edit_manifest(uri, lose)
    path = manifest_path(uri, 2)
    assert problems(uri) == []  # the manifest has a copy
    cut_transaction(path)
    assert problems(uri) == [(ProblemKind.TRANSACTION, None)]


def cut_transaction(path: Path) -> None:
    found = decode_manifest_file(path.read_bytes(), name="x")
    path.write_bytes(
        encode_manifest_file(found.message, index_section=None, transaction_section=None)
    )


def test_a_newest_version_that_cannot_be_read_is_found(uri: str) -> None:
    manifest_path(uri, 2).write_bytes(b"")
    (found,) = lw.open(uri, version=1).verify().problems
    assert found.kind is ProblemKind.MANIFEST
    assert found.where == str(manifest_path(uri, 2))


def test_names_of_two_schemes_are_found(uri: str) -> None:
    table = lw.open(uri)
    (Path(uri) / "_versions/1.manifest").write_bytes(manifest_path(uri, 1).read_bytes())
    assert [each.kind for each in table.verify().problems] == [ProblemKind.NAMES]


def test_refs_that_cannot_be_read_or_lead_nowhere_are_found(uri: str) -> None:
    store = lw.open(uri)._snapshot.location.store
    store.put(f"{TAGS_DIR}/good.json", b'{"version": 1, "manifest_size": 1}')
    store.put(f"{TAGS_DIR}/broken.json", b"{")
    store.put(f"{TAGS_DIR}/lost.json", b'{"version": 7, "manifest_size": 1}')
    store.put(
        f"{BRANCHES_DIR}/empty.json",
        b'{"parent_version": 1, "create_at": 1, "manifest_size": 1}',
    )
    report = lw.open(uri).verify()
    assert report.refs == 4
    assert [each.where for each in report.problems] == [
        f"{TAGS_DIR}/broken.json",
        f"{TAGS_DIR}/lost.json",
        f"{BRANCHES_DIR}/empty.json",
    ]
    assert {each.kind for each in report.problems} == {ProblemKind.REF}


def test_every_kind_of_problem_has_its_advice() -> None:
    assert all(Problem(kind, "here", "so").advice for kind in ProblemKind)


# Pages


def test_a_damaged_page_is_found_only_deep_down(uri: str) -> None:
    path = data_file(uri, 2)
    data = bytearray(path.read_bytes())
    data[8:120] = bytes(range(100, 212))
    path.write_bytes(data)
    assert problems(uri) == []
    found = lw.open(uri).verify(deep=True).problems
    assert found
    assert {(each.kind, each.fragment) for each in found} == {(ProblemKind.PAGE, 2)}
    assert all(each.where.startswith("column ") for each in found)


class Deadly:
    """Stands for a fragment; whoever receives it dies."""

    id = 7

    def __reduce__(self) -> tuple[Any, ...]:
        return os._exit, (3,)


def test_a_worker_that_dies_is_the_problem_of_its_fragment_only(uri: str) -> None:
    snapshot = lw.open(uri)._snapshot
    with PageChecker(snapshot) as pages:
        assert pages.check(snapshot.manifest.fragments[0]) == []
        found = pages.check(Deadly())  # type: ignore[arg-type]
        assert [each.where for each in found] == [
            "column a of fragment 7",
            "column s of fragment 7",
        ]
        assert "exit code 3" in found[0].text
        assert pages.check(snapshot.manifest.fragments[1]) == []


def test_a_worker_that_falls_silent_is_given_up(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_check, "PATIENCE", 0.0)
    snapshot = lw.open(uri)._snapshot
    with PageChecker(snapshot) as pages:
        found = pages.check(snapshot.manifest.fragments[0])
    assert [each.kind for each in found] == [ProblemKind.PAGE, ProblemKind.PAGE]
    assert "longer than" in found[0].text


def test_a_worker_that_does_not_start_is_no_damage(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deep_check, "_STARTED_WITH", "raise SystemExit(3)")
    with pytest.raises(lw.LancewoodError, match=r"did not start \(exit code 3\)"):
        lw.open(uri).verify(deep=True)
