"""Indices are built, extended and optimized wherever a table may be; pylance asks them there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.interop.test_index_jobs import PER_FILE, ROWS, found, made, rows

import lancewood as lw
from lancewood.jobs.index import building

SOME = "id IN (0, 77, 610)"
KINDS = {"id": "BTREE", "tag": "BITMAP", "words": "INVERTED", "vector": "IVF_PQ"}


@pytest.fixture(autouse=True)
def _small_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "LEAST_BYTES", 0)


def indexed(table: lw.Table) -> lw.Table:
    for column, kind in KINDS.items():
        table = table.indices.create(column, kind)
    return table


def check(table: lw.Table, *, covered: int, uncovered: int = 0, segments: int = 1) -> None:
    """Answers are those of a scan, and every index covers so many rows."""
    dataset = table.lance()
    dataset.validate()
    assert found(dataset, SOME, name="id_idx") == [
        each for each in (0, 77, 610) if table.count_rows(f"id = {each}")
    ]
    assert len(found(dataset, "tag = 3", name="tag_idx")) == table.count_rows("tag = 3")
    text = {"query": "word3", "columns": ["words"]}
    got = dataset.to_table(columns=["id"], full_text_query=text)
    assert got.num_rows == table.count_rows("words LIKE 'word3 %'")
    wanted = {"column": "vector", "q": [0.5] * 8, "k": 5, "refine_factor": 200, "nprobes": 4}
    one = dataset.to_table(columns=["id"], nearest=wanted)
    assert one == dataset.to_table(columns=["id"], nearest={**wanted, "use_index": False})
    for each in table.indices.list():
        assert (each.rows_covered, each.rows_uncovered) == (covered, uncovered), each
        assert each.segments == segments
    assert not table.verify().problems


def live(table: lw.Table) -> lw.Table:
    """What happens to a table with indices, which are brought up to date."""
    table = table.append(rows(ROWS, ROWS + 50))
    check(table, covered=ROWS, uncovered=50)
    table = table.indices.extend()
    check(table, covered=ROWS + 50, segments=2)
    table = table.update({"tag": 3}, "id = 77", rewrite="rows").delete("id = 0")
    table = table.indices.optimize()
    check(table, covered=ROWS + 49)
    return table


@pytest.mark.sliced(2)
@pytest.mark.parametrize("stable", [True, False])
def test_on_a_branch_and_on_a_branch_of_it_and_published(tmp_path: Path, stable: bool) -> None:
    main = made(tmp_path / "t", stable=stable)
    table = indexed(main.branches.create("exp"))
    assert {each.base_id for each in table.indices} == {None}
    assert (Path(table.uri) / "_indices").is_dir()
    check(table, covered=ROWS)
    below = table.branches.create("below")
    check(below, covered=ROWS)
    live(below)
    check(main.branches.publish("exp"), covered=ROWS)
    live(main.latest())


def test_indices_of_a_branch_are_published_beside_what_main_did(tmp_path: Path) -> None:
    main = made(tmp_path / "t")
    table = indexed(main.branches.create("exp")).append(rows(700, 720))
    main = main.append(rows(600, 650)).branches.publish("exp")
    check(main, covered=ROWS, uncovered=70)
    main = main.indices.extend()
    check(main, covered=ROWS + 70, segments=2)
    assert table.latest().count_rows() == ROWS + 20


@pytest.mark.sliced(2, at=1)
@pytest.mark.parametrize("stable", [True, False])
def test_in_a_shallow_clone_whose_source_has_indices(tmp_path: Path, stable: bool) -> None:
    source = made(tmp_path / "t", stable=stable)
    live(indexed(source.clone(tmp_path / "bare")))
    source = indexed(source)
    clone = source.clone(tmp_path / "clone")
    check(clone, covered=ROWS)
    live(clone)
    check(source.latest(), covered=ROWS)


def test_where_files_are_in_other_roots(tmp_path: Path) -> None:
    cold = lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True)
    live(indexed(made(tmp_path / "t", bases=[cold], into="all")))


def test_where_versions_are_in_a_manifest_store(tmp_path: Path) -> None:
    live(
        indexed(
            made(
                tmp_path / "t", access=lw.Access(manifest_store=f"sqlite://{tmp_path}/manifests.db")
            )
        )
    )


def test_on_s3(s3_root: str, s3_options: dict[str, str]) -> None:
    table = live(indexed(made(s3_root, access=lw.Access(storage_options=s3_options))))
    branch = table.branches.create("exp").append(rows(700, 720)).indices.extend()
    check(branch, covered=ROWS + 69, segments=2)


def test_a_column_inside_of_a_struct_and_one_with_a_strange_name(tmp_path: Path) -> None:
    inner = pa.table({"x": range(100), "y.z `q`": range(100)}).to_struct_array().combine_chunks()
    table = lw.create(tmp_path / "t", pa.table({"id": range(100), "st": inner}))
    table = table.indices.create("st.x").indices.create("st.y.z `q`", name="other")
    assert [(each.name, each.column) for each in table.indices.list()] == [
        ("st.x_idx", "st.x"),
        ("other", "st.y.z `q`"),
    ]
    assert found(table.lance(), "st.x = 7", name="st.x_idx") == [7]
    table = table.append(pa.table({"id": range(100), "st": inner})).indices.extend()
    assert found(table.lance(), "st.x = 7", name="st.x_idx") == [7, 7]


def test_an_index_follows_its_column_to_a_new_name(tmp_path: Path) -> None:
    table = made(tmp_path / "t").indices.create("tag").rename_column("tag", "label")
    table = table.append(
        rows(600, 610).rename_columns(["id", "label", "words", "labels", "vector"])
    )
    table = table.indices.optimize()
    (info,) = table.indices.list()
    assert (info.column, info.rows_uncovered, info.segments) == ("label", 0, 1)
    assert len(found(table.lance(), "label = 3", name="tag_idx")) == 122


# In a repository


@pytest.fixture(params=[False, True], ids=["open", "exclusive"])
def repo(request: pytest.FixtureRequest, tmp_path: Path) -> lw.Repository:
    made = lw.Repository.init(tmp_path / "r")
    with made.transaction("main", "begin") as changes:
        changes.create_table("photos", rows(), layout=lw.Layout(max_rows_per_file=PER_FILE))
    if request.param:
        made.exclusive(True)
    return made


def photos(repo: lw.Repository, at: str = "main") -> lw.Table:
    return repo.at(at).table("photos")


def test_in_a_transaction_landed_rows_are_covered_and_new_ones_scanned(
    repo: lw.Repository,
) -> None:
    with repo.transaction("main", "indices") as changes:
        table = changes.table("photos").append(rows(600, 620))
        table = table.update({"tag": 3}, "id = 77", rewrite="columns")
        for column, kind in KINDS.items():
            table = table.indices.create(column, kind)
        told = {each.column: each.rows_uncovered for each in table.indices.list()}
        assert told == {"id": 20, "tag": 20 + PER_FILE, "words": 20, "vector": 20}
    dataset = photos(repo).lance()
    assert found(dataset, SOME, name="id_idx") == [0, 77, 610]
    assert 77 in found(dataset, "tag = 3", name="tag_idx")
    with repo.transaction("main", "more") as changes:
        changes.table("photos").indices.extend()
    check(photos(repo), covered=ROWS + 20, segments=2)
    with repo.transaction("main", "less") as changes:
        table = changes.table("photos").append(rows(620, 630)).indices.optimize()
    check(photos(repo), covered=ROWS + 20, uncovered=10)


def test_a_table_that_a_transaction_makes_is_indexed_afterwards(repo: lw.Repository) -> None:
    with repo.transaction("main", "new") as changes:
        table = changes.create_table("other", rows())
        with pytest.raises(lw.InvalidInputError, match="comes into being with this transaction"):
            table.indices.create("id")


def test_on_a_branch_of_a_repository_that_is_merged(repo: lw.Repository) -> None:
    repo.branches.create("exp")
    with repo.transaction("exp", "indices") as changes:
        changes.table("photos").append(rows(600, 620))
    with repo.transaction("exp", "indices") as changes:
        indexed(changes.table("photos"))
    check(photos(repo, "exp"), covered=ROWS + 20)
    repo.merge("exp")
    check(photos(repo), covered=ROWS + 20)
