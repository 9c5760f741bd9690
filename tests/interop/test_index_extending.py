"""What extending builds: no more than is needed, with the options that an index has."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.counted import counts_of
from tests.interop.test_index_jobs import PER_FILE, ROWS, found, made, rows
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.jobs.index.records import RECORD
from lancewood.model.index import Index


def uuids(table: lw.Table) -> set[str]:
    return {str(each.uuid) for each in table.indices}


def segments_of_both_halves(where: Path, column: str, kind: str, *, stable: bool) -> lw.Table:
    """A table of eight fragments, six in one segment, and two in another."""
    table = made(where, stable=stable).indices.create(column, kind)
    return table.append(
        rows(ROWS, ROWS + 200), layout=lw.Layout(max_rows_per_file=PER_FILE)
    ).indices.extend()


def matching(table: lw.Table, word: str) -> int:
    text = {"query": word, "columns": ["words"]}
    asked = judged(table.uri).scanner(columns=["id", "_score"], full_text_query=text, limit=2000)
    return int(asked.to_table().num_rows)


@pytest.mark.parametrize("stable", [True, False])
@pytest.mark.parametrize("rewrite", ["rows", "columns"])
def test_only_segments_that_hold_a_changed_row_are_built_anew(
    tmp_path: Path, stable: bool, rewrite: Any
) -> None:
    table = segments_of_both_halves(tmp_path / "t", "words", "INVERTED", stable=stable)
    first, second = table.indices
    table = table.update({"words": "'heron'"}, "id = 777", rewrite=rewrite).indices.extend()
    counts = counts_of(table, lw.IndexCounts)
    is_new = rewrite == "rows" and not stable
    assert (counts.segments_removed, counts.fragments) == (
        (0, 1) if is_new else (1, 3 if rewrite == "rows" else 2)
    )
    assert str(first.uuid) in uuids(table)
    assert (str(second.uuid) in uuids(table)) == is_new
    assert matching(table, "heron") == 1
    assert matching(table, "word3") == table.count_rows("words LIKE 'word3 %'")


@pytest.mark.parametrize("stable", [True, False])
def test_a_segment_of_plain_values_that_holds_a_changed_row_is_merged_and_not_read_again(
    tmp_path: Path, stable: bool
) -> None:
    table = segments_of_both_halves(tmp_path / "t", "tag", "BITMAP", stable=stable)
    first, _ = table.indices
    table = table.update({"tag": 9}, "id = 777", rewrite="columns").indices.extend()
    counts = counts_of(table, lw.IndexCounts)
    assert (counts.segments_removed, counts.fragments) == (1, 1)
    assert str(first.uuid) in uuids(table)
    assert found(judged(table.uri), "tag = 9", name="tag_idx") == [777]
    assert 777 not in found(judged(table.uri), "tag = 2", name="tag_idx")


def test_a_record_tells_fragments_or_row_ids_and_options(tmp_path: Path) -> None:
    table = made(tmp_path / "t").indices.create("words", "INVERTED", options={"stem": False})
    (segment,) = table.indices
    record = json.loads((Path(table.uri) / "_indices" / str(segment.uuid) / RECORD).read_bytes())
    assert {*record} == {"fragments", "row_ids", "options"}
    assert record["options"] == {"stem": False}
    table = table.indices.create("id")
    place = Path(table.uri) / "_indices" / str(table.indices[1].uuid) / RECORD
    assert {*json.loads(place.read_bytes())} == {"fragments", "options"}
    place.write_bytes(b"{}")
    with pytest.raises(lw.FormatError, match=RECORD):
        table.append(rows(ROWS, ROWS + 10)).indices.extend("id_idx")


def without_record(table: lw.Table, index: Index) -> lw.Table:
    """The table after somebody took the record of a segment away."""
    (Path(table.uri) / "_indices" / str(index.uuid) / RECORD).unlink()
    return table


@pytest.mark.parametrize("stable", [True, False])
def test_without_a_record_the_version_that_a_segment_was_built_at_tells(
    tmp_path: Path, stable: bool
) -> None:
    table = made(tmp_path / "t", stable=stable).indices.create("words", "INVERTED")
    table = without_record(table, table.indices[0])
    table = table.append(rows(ROWS, ROWS + 50)).indices.extend()
    assert counts_of(table, lw.IndexCounts).segments_removed == 0
    table = table.update({"words": "'heron'"}, "id = 7", rewrite="columns").indices.extend()
    assert counts_of(table, lw.IndexCounts).segments_removed == 1
    assert matching(table, "heron") == 1


def test_a_segment_whose_version_is_gone_counts_as_holding_everything(tmp_path: Path) -> None:
    table = made(tmp_path / "t").indices.create("words", "INVERTED")
    table = without_record(table, table.indices[0]).append(rows(ROWS, ROWS + 50))
    table.cleanup(keep_versions=1, in_flight=timedelta(0))
    table = table.indices.extend()
    assert counts_of(table, lw.IndexCounts).segments_removed == 1
    assert matching(table, "word3") == table.count_rows("words LIKE 'word3 %'")


def test_words_are_cut_as_the_index_says(tmp_path: Path) -> None:
    options = {"base_tokenizer": "whitespace", "lower_case": False, "custom_stop_words": ["more"]}
    uri = str(tmp_path / "t")
    lance.write_dataset(rows(), uri).create_scalar_index("words", "INVERTED", **options)
    table = lw.open(uri)
    table = table.append(rows(ROWS, ROWS + 50)).indices.extend()
    params = []
    for each in table.indices:
        place = f"{uri}/_indices/{each.uuid}/metadata.lance"
        reader = lance.file.LanceFileReader(place)
        params.append(json.loads(reader.metadata().schema.metadata[b"params"]))
    assert len(params) == 2
    assert params[0] == params[1]
    assert params[0]["custom_stop_words"] == ["more"]
    assert matching(table, "more") == 0
    assert matching(table.indices.optimize(), "word3") == table.count_rows("id % 9 = 3")


@pytest.mark.parametrize(
    ("kind", "options", "told"),
    [
        ("ZONEMAP", {"rows_per_zone": 50}, {b"rows_per_zone": b"50"}),
        (
            "BLOOMFILTER",
            {"number_of_items": 40, "probability": 0.1},
            {b"bloomfilter_item": b"40", b"bloomfilter_probability": b"0.1"},
        ),
    ],
)
def test_options_of_the_engine_reach_it_and_stay(
    tmp_path: Path, kind: str, options: dict[str, Any], told: dict[bytes, bytes]
) -> None:
    table = made(tmp_path / "t").indices.create("id", kind, options=options)
    table = without_record(table, table.indices[0]).append(rows(ROWS, ROWS + 50)).indices.extend()
    for each in (*table.indices, *table.indices.optimize().indices):
        place = f"{table.uri}/_indices/{each.uuid}/{kind.lower()}.lance"
        metadata = lance.file.LanceFileReader(place).metadata().schema.metadata
        assert told.items() <= metadata.items()
    assert found(judged(table.uri), "id IN (7, 630)", name="id_idx") == [7, 630]


def test_a_record_with_options_that_cannot_be_is_an_error_that_names_the_index(
    tmp_path: Path,
) -> None:
    table = made(tmp_path / "t").indices.create("id", "ZONEMAP", options={"rows_per_zone": 9})
    (record,) = (Path(table.uri) / "_indices").rglob(RECORD)
    record.write_text(record.read_text().replace('"rows_per_zone": 9', '"rows_per_zone": "x"'))
    with pytest.raises(lw.FormatError, match=r"'id_idx' of .*rows_per_zone of ZONEMAP must be"):
        table.append(rows(ROWS, ROWS + 10)).indices.extend()


@pytest.mark.parametrize("content", [b"", b"LANC" * 100, None])
def test_a_file_that_does_not_tell_its_options_is_an_error_that_names_it(
    tmp_path: Path, content: bytes | None
) -> None:
    table = made(tmp_path / "t").indices.create("id", "ZONEMAP")
    table = without_record(table, table.indices[0]).append(rows(ROWS, ROWS + 50))
    (file,) = (Path(table.uri) / "_indices").rglob("zonemap.lance")
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(
        lw.FormatError if content is not None else lw.NotFoundError, match="zonemap"
    ):
        table.indices.extend()
