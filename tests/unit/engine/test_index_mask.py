"""What an index may answer for, in the numbers that it holds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.manifests import decode_fragments, edit_manifest, put_fragments
from tests.pylance import lance

import lancewood as lw
from lancewood.engine.snapshot.snapshot import Snapshot
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.model.fragment import Fragment
from lancewood.proto import table_pb2

ROWS = pa.table({"k": pa.array(range(40), pa.int64()), "s": [str(each % 3) for each in range(40)]})


def indexed(uri: str, kind: str, *, stable: bool = True) -> lw.Table:
    """Four fragments of ten rows, the column s with an index."""
    lance.write_dataset(ROWS, uri, enable_stable_row_ids=stable, max_rows_per_file=10)
    lance.dataset(uri).create_scalar_index("s", kind, name="i")
    return lw.open(uri)


def numbers(mask: Any) -> list[int]:
    return [first + at for first, count in mask.runs() for at in range(count)]


def addresses(*rows: int) -> list[int]:
    return [(each // 10 << 32) + each % 10 for each in rows]


def test_all_rows_of_a_fresh_index_count(uri: str) -> None:
    mask = indexed(uri, "BITMAP").index_mask("i")
    assert mask.holds_row_ids
    assert list(mask.fragments) == [0, 1, 2, 3]
    assert not mask.uncovered
    assert mask.row_count == 40
    assert list(mask.runs()) == [(0, 10), (10, 10), (20, 10), (30, 10)]
    assert mask.allows(np.array([0, 39, 40])).tolist() == [True, True, False]


@pytest.mark.parametrize("kind", ["BITMAP", "BTREE"])
def test_deleted_rows_and_appended_ones_do_not_count(uri: str, kind: str) -> None:
    table = indexed(uri, kind).delete("k in (3, 4, 39)").append(ROWS.slice(0, 5))
    mask = table.index_mask("i")
    assert list(mask.uncovered) == [4]
    assert mask.row_count == 37
    assert mask.holds_row_ids is (kind == "BITMAP")
    live = [each for each in range(40) if each not in (3, 4, 39)]
    expected = live if kind == "BITMAP" else addresses(*live)
    assert numbers(mask) == expected
    every = list(range(45)) if kind == "BITMAP" else [*addresses(*range(40)), 4 << 32, 99 << 32, 10]
    allowed = [each for each, may in zip(every, mask.allows(every), strict=True) if may]
    assert allowed == expected


def test_without_stable_ids_every_index_holds_addresses(uri: str) -> None:
    mask = indexed(uri, "BITMAP", stable=False).index_mask("i")
    assert not mask.holds_row_ids
    assert numbers(mask) == addresses(*range(40))


def test_a_row_whose_indexed_value_changed_does_not_count_although_its_id_lives(uri: str) -> None:
    table = indexed(uri, "BITMAP").update({"s": "'new'"}, "k in (5, 25)")
    mask = table.index_mask("i")
    assert mask.allows([4, 5, 25]).tolist() == [True, False, False]
    assert list(mask.uncovered) == [4]
    assert mask.row_count == 38


def test_a_row_that_moved_with_its_indexed_value_counts_where_it_is_now(uri: str) -> None:
    table = indexed(uri, "BITMAP").update({"k": "k + 100"}, "k in (5, 25)")
    mask = table.index_mask("i")
    assert not mask.uncovered
    assert mask.allows([4, 5, 25, 40]).tolist() == [True, True, True, False]
    assert mask.row_count == 40


def test_fragments_that_are_gone_do_not_count(uri: str) -> None:
    mask = indexed(uri, "BTREE").delete("k < 10").index_mask("i")
    assert list(mask.fragments) == [1, 2, 3]
    assert mask.allows([0, 1 << 32]).tolist() == [False, True]


def test_segments_of_one_name_answer_together(uri: str) -> None:
    table = indexed(uri, "BTREE").append(ROWS.slice(0, 5))
    dataset = lance.dataset(uri)
    dataset.optimize.optimize_indices(num_indices_to_merge=0)
    mask = table.latest().index_mask("i")
    assert len(mask.segments) == 2
    assert not mask.uncovered
    assert mask.row_count == 45


def test_only_the_deletion_files_that_are_asked_about_are_read(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mask = indexed(uri, "BTREE").delete("k in (3, 14, 25)").index_mask("i")
    read: list[int] = []
    honest = Snapshot.deletions

    def noted(self: Snapshot, fragment: Fragment) -> Any:
        read.append(fragment.id)
        return honest(self, fragment)

    monkeypatch.setattr(Snapshot, "deletions", noted)
    assert mask.row_count == 37
    assert read == []
    assert mask.allows(addresses(14, 15)).tolist() == [False, True]
    assert read == [1]


def test_rows_that_a_writer_did_not_count_are_counted(uri: str) -> None:
    indexed(uri, "BTREE").delete("k = 3")

    def forget(manifest: table_pb2.Manifest) -> None:
        fragments = decode_fragments(manifest)
        for each in fragments:
            each.physical_rows = 0
        put_fragments(manifest, fragments)

    edit_manifest(uri, forget)
    mask = lw.open(uri).index_mask("i")
    assert mask.row_count == 39
    assert mask.allows(addresses(2, 3, 39)).tolist() == [True, False, True]


def test_an_unknown_name_is_told_with_the_names_that_there_are(uri: str) -> None:
    table = indexed(uri, "BTREE")
    with pytest.raises(NotFoundError, match=r"index 'j' not found .* it has 'i'"):
        table.index_mask("j")
    bare = lw.create(uri + "2", ROWS)
    with pytest.raises(NotFoundError, match="it has no index"):
        bare.index_mask("i")


def test_what_are_no_numbers_is_refused(uri: str) -> None:
    mask = indexed(uri, "BTREE").index_mask("i")
    wrong: Any = ["a"]
    with pytest.raises(InvalidInputError, match="whole numbers"):
        mask.allows(wrong)
    with pytest.raises(InvalidInputError, match="-1"):
        mask.allows([-1])
