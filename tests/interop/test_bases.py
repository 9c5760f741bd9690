"""Base paths, shared with pylance: several homes of one table, written and read by both."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from lance.fragment import write_fragments
from tests.manifests import decode_fragments, edit_manifest, put_fragments
from tests.pylance import judged

import lancewood as lw
from lancewood.proto import table_pb2

ROWS = pa.table({"a": pa.array(range(40), pa.int64()), "s": [f"s{n % 5}" for n in range(40)]})
MORE = pa.table({"a": pa.array(range(40, 60), pa.int64()), "s": ["m"] * 20})
BOTH = pa.concat_tables([ROWS, MORE])
ODD_NAMES = ["cold", "with space", "ü%20 #?=", "a%25b"]


def names(path: Path) -> list[str]:
    return sorted(each.name for each in path.iterdir()) if path.exists() else []


def numbers(rows: pa.Table) -> list[int]:
    return sorted(rows["a"].to_pylist())


def file_root_ids(uri: str) -> list[list[int | None]]:
    return [[file.base_id for file in each.files] for each in lw.open(uri).fragments]


def both_read(uri: str, expected: pa.Table) -> None:
    dataset = judged(uri)
    assert lw.open(uri).to_arrow() == expected
    assert dataset.to_table() == expected


@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("root", [True, False])
def test_line_57_files_that_pylance_put_into_bases_are_found(
    uri: str, tmp_path: Path, root: bool, name: str
) -> None:
    cold, warm = tmp_path / name, tmp_path / "warm"
    bases = [
        lance.DatasetBasePath(str(cold), name="cold", is_dataset_root=root),
        lance.DatasetBasePath(warm.as_uri(), name="warm", is_dataset_root=not root),
    ]
    lance.write_dataset(ROWS, uri, initial_bases=bases, target_all_bases=True, max_rows_per_file=10)
    assert file_root_ids(uri) == [[None], [1], [2], [None]]
    table = lw.open(uri)
    assert table.to_arrow() == ROWS
    assert table.scan(in_bases="cold").to_arrow() == ROWS.slice(10, 10)
    assert table.scan(in_bases=warm).to_arrow() == ROWS.slice(20, 10)
    table.append(MORE, layout=lw.Layout(into=["cold", "warm"], max_rows_per_file=10))
    assert file_root_ids(uri)[4:] == [[1], [2]]
    both_read(uri, BOTH)
    assert len(names(cold / "data" if root else cold)) == 2
    lance.dataset(uri).delete("a % 10 = 3")
    lw.open(uri).delete("a % 10 = 4")
    assert names(cold / "_deletions") == names(warm / "_deletions") == []
    assert len(names(Path(uri) / "_deletions")) >= 6
    kept = [n for n in range(60) if n % 10 not in (3, 4)]
    both_read(uri, BOTH.take(kept))


@pytest.mark.usefixtures("pages_decoded_here")
@pytest.mark.parametrize("name", ODD_NAMES)
@pytest.mark.parametrize("root", [True, False])
def test_line_57_files_that_we_put_into_bases_are_found_by_pylance(
    uri: str, tmp_path: Path, root: bool, name: str
) -> None:
    cold = lw.BasePath(tmp_path / name, name="cold", is_dataset_root=root)
    table = lw.create(uri, ROWS, layout=lw.Layout(bases=[cold], into="all", max_rows_per_file=10))
    assert file_root_ids(uri) == [[None], [1], [None], [1]]
    both_read(uri, ROWS)
    assert lance.dataset(uri).base_paths()[1].path == str(tmp_path / name)
    lance.write_dataset(MORE, uri, mode="append", target_bases=["cold"])
    assert file_root_ids(uri)[4:] == [[1]]
    both_read(uri, BOTH)
    assert len(names(tmp_path / name / "data" if root else tmp_path / name)) == 3
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("a", "BTREE")
    dataset.update({"s": "'u'"}, where="a = 15")
    lance.dataset(uri).optimize.compact_files(target_rows_per_fragment=20)
    assert dataset.to_table().num_rows == lw.open(uri).count_rows() == 60
    assert numbers(lance.dataset(uri).to_table(filter="a < 12")) == list(range(12))
    table = lw.open(uri)
    assert table.scan(where="a = 15").to_arrow()["s"].to_pylist() == ["u"]
    assert table.verify(deep=True).ok


def test_what_we_declare_pylance_knows_and_the_reverse(uri: str, tmp_path: Path) -> None:
    first = lw.BasePath(tmp_path / "one", name="one", is_dataset_root=True)
    lw.create(uri, ROWS, layout=lw.Layout(bases=[first]))
    operation: Any = lance.dataset(uri).read_transaction(1).operation
    assert isinstance(operation, lance.LanceOperation.Overwrite)
    lance.dataset(uri).add_bases([lance.DatasetBasePath(str(tmp_path / "two"), name="two")])
    table = lw.open(uri).add_base(tmp_path / "three")
    assert [(each.id, each.name, each.is_dataset_root) for each in table.base_paths] == [
        (1, "one", True),
        (2, "two", False),
        (3, None, False),
    ]
    told = lance.dataset(uri).base_paths()
    assert {key: (each.path, each.name, each.is_dataset_root) for key, each in told.items()} == {
        each.id: (each.path, each.name, each.is_dataset_root) for each in table.base_paths
    }
    repeated: list[dict[str, Any]] = [
        {"path": str(tmp_path / "two")},
        {"path": "/x", "name": "one"},
    ]
    for again in repeated:
        with pytest.raises(ValueError, match="already exists"):
            lance.dataset(uri).add_bases([lance.DatasetBasePath(**again)])
        with pytest.raises(lw.InvalidInputError):
            table.add_base(**again)


def test_declaring_a_base_goes_together_with_what_pylance_does_meanwhile(
    uri: str, tmp_path: Path
) -> None:
    table = lw.create(uri, ROWS)
    lance.write_dataset(MORE, uri, mode="append")
    table = table.add_base(tmp_path / "cold", name="cold")
    assert table.version == 3
    old = lance.dataset(uri, version=2)
    fragments = write_fragments(MORE, uri)
    append = lance.LanceOperation.Append(fragments)
    dataset = lance.LanceDataset.commit(old, append, read_version=2)
    assert dataset.count_rows() == 80
    assert [each.name for each in lw.open(uri).base_paths] == ["cold"]


def test_deletions_and_indices_of_a_table_with_bases_stay_in_its_own_root(
    uri: str, tmp_path: Path
) -> None:
    cold = lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True)
    lw.create(uri, ROWS, layout=lw.Layout(bases=[cold], into="cold", max_rows_per_file=10))
    lance.dataset(uri).create_scalar_index("s", "BITMAP")
    table = lw.open(uri).delete("a IN (1, 11)").update({"s": "'w'"}, "a = 25")
    assert names(tmp_path / "cold") == ["data"]
    assert len(names(tmp_path / "cold" / "data")) == 4, "new rows went to the own root"
    assert table.count_rows() == 38
    assert numbers(lance.dataset(uri).to_table(filter="s = 's1'")) == [6, 16, 21, 26, 31, 36]
    assert numbers(lance.dataset(uri).to_table(filter="s = 'w'")) == [25]


@pytest.mark.parametrize("root", [True, False])
def test_blobs_in_a_base_path_are_read_in_both_layouts(
    uri: str, tmp_path: Path, root: bool
) -> None:
    cold = lance.DatasetBasePath(str(tmp_path / "cold"), name="cold", is_dataset_root=root)
    values = [b"one" * 3, b"two" * 40_000, b"three" * 2_000_000]
    rows = pa.table({"a": [1, 2, 3], "b": lance.blob_array(values)})
    lance.write_dataset(
        rows, uri, initial_bases=[cold], target_bases=["cold"], data_storage_version="2.2"
    )
    found = lw.open(uri).take_blobs("b", [2, 0, 1])
    assert [each and each.read() for each in found] == [values[2], values[0], values[1]]
    assert not names(Path(uri) / "data")
    old = pa.field("b", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    rows = pa.table({"b": values, "a": [1, 2, 3]}, schema=pa.schema([old, ("a", pa.int64())]))
    table = lw.create(
        f"{uri}.old",
        rows,
        layout=lw.Layout(
            file_version="2.1", bases=[lw.BasePath(tmp_path / "c2", is_dataset_root=root)], into=1
        ),
    )
    assert [each and each.read() for each in table.take_blobs("b", [0, 1, 2])] == values
    dataset = table.lance()
    assert dataset.to_table(columns=["a"])["a"].to_pylist() == [1, 2, 3]
    with pytest.raises(ValueError, match="Not found"):
        dataset.take_blobs("b", indices=[0])[0].read()


# The layouts of the specification


def as_in_the_specification(uri: str, regions: list[Path]) -> None:
    """Declare the own root as base path 0 and refer to its files by that, as the seed draws it."""

    def change(message: table_pb2.Manifest) -> None:
        message.base_paths.insert(
            0, table_pb2.BasePath(id=0, is_dataset_root=True, path=str(regions[0]))
        )
        fragments = decode_fragments(message)
        for fragment in fragments:
            for file in fragment.files:
                if not file.HasField("base_id"):
                    file.base_id = 0
        put_fragments(message, fragments)

    edit_manifest(uri, change)


def test_hot_and_cold_storage_as_the_specification_draws_it(tmp_path: Path) -> None:
    hot, cold = tmp_path / "hot-bucket" / "dataset", tmp_path / "cold-bucket" / "dataset-archive"
    uri = str(hot)
    archive = lw.BasePath(cold, name="archive", is_dataset_root=True)
    table = lw.create(
        uri,
        ROWS.slice(0, 30),
        layout=lw.Layout(bases=[archive], into="archive", max_rows_per_file=10),
    )
    table.append(ROWS.slice(30))
    as_in_the_specification(uri, [hot])
    assert file_root_ids(uri) == [[1], [1], [1], [0]]
    both_read(uri, ROWS)
    table = lw.open(uri)
    assert table.scan(in_bases=[None]).to_arrow() == ROWS.slice(30), "the own root, as base path 0"
    assert table.scan(in_bases=0).to_arrow() == ROWS.slice(30)
    assert table.scan(in_bases="archive", where="a > 25").to_arrow() == ROWS.slice(26, 4)
    table.append(MORE.slice(0, 10))
    lance.write_dataset(MORE.slice(10), uri, mode="append")
    assert file_root_ids(uri)[4:] == [[None], [None]]
    both_read(uri, BOTH)
    assert lw.open(uri).scan(in_bases=0).count() == 30
    os.rename(cold, tmp_path / "away")
    assert lw.open(uri).scan(in_bases=[None]).to_arrow() == BOTH.slice(30), "nothing cold is opened"
    with pytest.raises(lw.NotFoundError):
        lw.open(uri).to_arrow()


def test_three_regions_as_the_specification_draws_them(tmp_path: Path) -> None:
    regions = [tmp_path / each / "dataset" for each in ("us-east", "eu-west", "ap-south")]
    uri = str(regions[0])
    others = [
        lw.BasePath(each, name=each.parent.name, is_dataset_root=True) for each in regions[1:]
    ]
    table = lw.create(uri, ROWS.schema, layout=lw.Layout(bases=others))
    for at, base in enumerate([None, "eu-west", "ap-south"]):
        table = table.append(ROWS.slice(at * 10, 10), layout=lw.Layout(into=[base]))
    as_in_the_specification(uri, regions)
    assert file_root_ids(uri) == [[0], [1], [2]]
    both_read(uri, ROWS.slice(0, 30))
    table = lw.open(uri)
    for at, region in enumerate(regions):
        near = table.scan(in_bases=region)
        assert near.to_arrow() == ROWS.slice(at * 10, 10)
        assert "1 of 3 fragments" in near.explain()
    assert table.scan(in_bases=["eu-west", "ap-south"], where="a >= 15").count() == 15
    lw.open(uri).delete("a % 10 = 0")
    assert [len(names(each / "_deletions")) for each in regions] == [3, 0, 0]
    shares = [lw.open(uri).scan(["a"], in_bases=each).count() for each in (0, 1, 2)]
    assert shares == [9, 9, 9]
    assert lance.dataset(uri).count_rows() == 27


def test_a_relative_base_path_of_pylance_is_read_from_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    bases = [lance.DatasetBasePath("cold", name="cold")]
    lance.write_dataset(ROWS, "t", initial_bases=bases, target_bases=["cold"])
    assert [each.path for each in lw.open("t").base_paths] == ["cold"], "as the manifest spells it"
    with pytest.warns(UserWarning, match="relative path 'cold'"):
        assert lw.open("t").to_arrow() == ROWS
    with pytest.warns(UserWarning, match="relative path 'cold'"):
        table = lw.open("t").set_base("cold", "cold")
    assert [each.path for each in table.base_paths] == [str(tmp_path / "cold")]
    monkeypatch.chdir("/")
    both_read(str(tmp_path / "t"), ROWS)


# Setting a base path


def with_files_elsewhere(uri: str, tmp_path: Path) -> lw.Table:
    """Half of the rows are in a base path that was copied, not moved: both places would read."""
    cold = lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True)
    table = lw.create(uri, ROWS, layout=lw.Layout(bases=[cold], into="all", max_rows_per_file=10))
    shutil.copytree(tmp_path / "cold", tmp_path / "new")
    return table


def test_a_base_path_that_we_set_is_followed_by_pylance(uri: str, tmp_path: Path) -> None:
    table = with_files_elsewhere(uri, tmp_path)
    lance.dataset(uri).create_scalar_index("a", "BTREE")
    before = lw.open(uri).scan(with_row_id=True).to_arrow()
    table = table.set_base("cold", tmp_path / "new", message="moved to the new disk")
    shutil.rmtree(tmp_path / "cold")
    both_read(uri, ROWS)
    dataset = lance.dataset(uri)
    transaction: Any = dataset.read_transaction(3)
    assert transaction.operation == lance.LanceOperation.Restore(2)
    assert table.scan(with_row_id=True).to_arrow() == before
    assert numbers(dataset.to_table(filter="a IN (3, 15)")) == [3, 15], "through the index"
    assert [each.name for each in table.indices] == ["a_idx"]
    lance.write_dataset(MORE, uri, mode="append", target_bases=["cold"])
    lance.dataset(uri).delete("a = 15")
    lance.dataset(uri).optimize.compact_files()
    assert lw.open(uri).count_rows() == lance.dataset(uri).count_rows() == 59
    assert lw.open(uri).base_paths[0].path == str(tmp_path / "new")
    assert not (tmp_path / "cold").exists()


Act = Callable[[Any, str], object]


def append_raw(dataset: Any, uri: str, **where: Any) -> object:
    fragments = write_fragments(MORE, dataset, mode="append", **where)
    operation = lance.LanceOperation.Append(fragments)
    return lance.LanceDataset.commit(uri, operation, read_version=dataset.version)


UNDER_WAY: dict[str, Act] = {
    "append": append_raw,
    "append to the base": lambda d, uri: append_raw(d, uri, target_bases=["cold"]),
    "delete": lambda d, _: d.delete("a = 1"),
    "update": lambda d, _: d.update({"s": "'u'"}, where="a = 1"),
    "index": lambda d, _: d.create_scalar_index("a", "BTREE"),
    "compact": lambda d, _: d.optimize.compact_files(),
    "add columns": lambda d, _: d.add_columns({"c": "a + 1"}),
    "drop columns": lambda d, _: d.drop_columns(["s"]),
}


@pytest.mark.parametrize("name", UNDER_WAY)
def test_pylance_who_was_writing_when_a_base_path_was_set_must_run_again(
    uri: str, tmp_path: Path, name: str
) -> None:
    table = with_files_elsewhere(uri, tmp_path)
    old = lance.dataset(uri)
    after = table.set_base("cold", tmp_path / "new")
    with pytest.raises(Exception, match=r"incompatible with concurrent transaction Restore"):
        UNDER_WAY[name](old, uri)
    both_read(uri, ROWS)
    assert lw.open(uri).version == after.version
    UNDER_WAY[name](lance.dataset(uri), uri)
    assert lw.open(uri).base_paths == after.base_paths
    lance.dataset(uri).validate()


@pytest.mark.parametrize("name", ["settings", "bases"])
def test_pylance_who_goes_on_does_not_bring_the_old_path_back(
    uri: str, tmp_path: Path, name: str
) -> None:
    table = with_files_elsewhere(uri, tmp_path)
    old: Any = lance.dataset(uri)
    after = table.set_base("cold", tmp_path / "new")
    shutil.rmtree(tmp_path / "cold")
    if name == "settings":
        old.update_config({"k": "v"})
    else:
        old.add_bases([lance.DatasetBasePath(str(tmp_path / "more"), name="more")])
    assert lw.open(uri).version == after.version + 1
    paths = {each.name: each.path for each in lw.open(uri).base_paths}
    assert paths["cold"] == str(tmp_path / "new")
    both_read(uri, ROWS)


def test_a_clone_of_pylance_follows_its_source_to_another_place(tmp_path: Path) -> None:
    source, clone = str(tmp_path / "source"), str(tmp_path / "clone")
    dataset = lance.write_dataset(ROWS, source, max_rows_per_file=10)
    dataset.delete("a = 7")
    dataset.create_scalar_index("a", "BTREE")
    dataset.shallow_clone(clone, dataset.version)
    os.rename(source, tmp_path / "moved")
    table = lw.open(clone).set_base(0, tmp_path / "moved")
    assert table.count_rows() == 39
    both_read(clone, ROWS.take([n for n in range(40) if n != 7]))
    assert numbers(lance.dataset(clone).to_table(filter="a < 9")) == [0, 1, 2, 3, 4, 5, 6, 8]
    with pytest.raises(lw.InvalidInputError, match="holds the table at"):
        table.append(MORE, layout=lw.Layout(into=0))
    assert [
        each.files[0].base_id for each in table.append(MORE, layout=lw.Layout(into="all")).fragments
    ][-1] is None


def test_a_branch_writes_to_the_homes_of_its_table_but_not_to_other_branches(
    uri: str, tmp_path: Path
) -> None:
    cold = lw.BasePath(tmp_path / "cold", name="cold", is_dataset_root=True)
    lw.create(uri, ROWS, layout=lw.Layout(bases=[cold], into="all", max_rows_per_file=20))
    lance.dataset(uri).create_branch("exp")
    lance.dataset(uri).create_branch("exp2", ("exp", None))
    table = lw.open(uri, branch="exp2")
    roots = {each.path: each.id for each in table.base_paths}
    main, parent = roots[uri], roots[f"{uri}/tree/exp"]
    table = table.append(MORE, layout=lw.Layout(into="all", max_rows_per_file=5))
    new = [each.files[0].base_id for each in table.fragments][2:]
    assert new == [main, 1, main, 1], "where it writes anyway, and in turn to the base path"
    with pytest.raises(lw.InvalidInputError, match=r"holds the table at .*/tree/exp"):
        table.append(MORE, layout=lw.Layout(into=parent))
    table = table.append(MORE, layout=lw.Layout(into=[None, "cold", uri], max_rows_per_file=7))
    assert [each.files[0].base_id for each in table.fragments][6:] == [None, 1, main]
    assert len(names(Path(uri) / "tree" / "exp2" / "data")) == 1
    shares = {each: table.scan(in_bases=[each]).count() for each in (None, "cold", uri)}
    assert shares == {None: 7, "cold": 20 + 10 + 7, uri: 20 + 10 + 6}
    theirs = judged(uri).checkout_version(("exp2", None))
    assert theirs.to_table() == table.to_arrow()
    assert lw.open(uri).to_arrow() == ROWS
