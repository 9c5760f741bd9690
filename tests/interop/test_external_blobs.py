"""Blobs that stayed where they were, named below a base path: no verb gives another file's bytes.

The data file holds the id of the base path, so it means another place wherever another manifest
gives that id to another place. pylance writes the rows and judges what every verb made of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.manifests import edit_manifest
from tests.pylance import judged, lance

import lancewood as lw
from lancewood.errors import UnsupportedError


def rows(first: int, *values: Any) -> pa.Table:
    schema = pa.schema([("n", pa.int64()), lance.blob_field("b")])
    numbers = list(range(first, first + len(values)))
    return pa.table([numbers, lance.blob_array(list(values))], schema=schema)


def folder(tmp_path: Path, name: str) -> Path:
    """A folder that is to be a base path, with files of one name and other bytes than elsewhere."""
    made = tmp_path / name
    made.mkdir()
    (made / "f.bin").write_bytes(f"bytes of {name}".encode())
    (made / "g.bin").write_bytes(f"more of {name}".encode())
    return made


def file_in(base: Path, name: str = "f.bin", **part: int) -> Any:
    return lance.Blob.from_uri((base / name).as_uri(), **part)


def files_below(uri: Path) -> list[Path]:
    return sorted(each for each in uri.rglob("*") if each.is_file())


def table_at(tmp_path: Path) -> Path:
    uri = tmp_path / "t.lance"
    options = {"data_storage_version": "2.2", "enable_stable_row_ids": True}
    lance.write_dataset(rows(0, b"own"), uri, **options)
    return uri


def dataset(uri: Path, branch: str | None = None) -> Any:
    found = lance.dataset(uri)
    return found if branch is None else found.checkout_version((branch, None))


def declared_by_pylance(uri: Path, base: Path, branch: str | None = None) -> None:
    dataset(uri, branch).add_bases([lance.DatasetBasePath(str(base), name=base.name)])


def appended(uri: Path, table: pa.Table, branch: str | None = None, **options: Any) -> None:
    lance.write_dataset(table, dataset(uri, branch), mode="append", **options)


def contents(found: Any) -> dict[int, bytes | None]:
    """The blobs by the numbers of their rows, as pylance reads them."""
    found.validate()
    numbers = found.to_table(columns=["n"]).column("n").to_pylist()
    blobs = found.take_blobs("b", indices=list(range(len(numbers))))
    return {
        number: None if blob is None else blob.read()
        for number, blob in zip(numbers, blobs, strict=True)
    }


def checked(table: lw.Table) -> dict[int, bytes | None]:
    """The same, where both read the same and nothing is wrong."""
    numbers = table.scan(["n"]).to_arrow().column("n").to_pylist()
    blobs = table.take_blobs("b", list(range(len(numbers))))
    mine = {
        number: None if blob is None else blob.read()
        for number, blob in zip(numbers, blobs, strict=True)
    }
    assert table.verify(deep=True).ok
    judge = judged(table.uri) if table.branch is None else lance.dataset(table.uri)
    assert mine == contents(judge)
    return mine


def bring(uri: Path, verb: str) -> lw.Table:
    """The work of the branch, brought to main."""
    main = lw.open(uri)
    if verb == "publish":
        return main.branches.publish("dev")
    return main.branches.merge("dev")


@pytest.fixture(autouse=True)
def _pages(pages_decoded_here: None) -> None:
    """Deep checks are the judge here."""


VERBS = ["publish", "merge"]


def bases(table: lw.Table) -> dict[int | None, str]:
    return {each.id: Path(each.path).name for each in table.base_paths}


@pytest.mark.parametrize("verb", VERBS)
def test_a_base_path_comes_with_the_blobs_below_it_under_its_id(tmp_path: Path, verb: str) -> None:
    uri, there = table_at(tmp_path), folder(tmp_path, "there")
    lw.open(uri).branches.create("dev")
    declared_by_pylance(uri, there, "dev")
    appended(uri, rows(50, file_in(there), file_in(there, "g.bin", position=5, size=2)), "dev")
    expected = contents(dataset(uri, "dev"))
    assert expected == {0: b"own", 50: b"bytes of there", 51: b"of"}
    made = bring(uri, verb)
    assert checked(made) == expected
    assert bases(made) == {1: "there"}


@pytest.mark.parametrize("verb", VERBS)
def test_an_id_that_means_another_place_is_refused_and_nothing_changes(
    tmp_path: Path, verb: str
) -> None:
    uri, here, there = table_at(tmp_path), folder(tmp_path, "here"), folder(tmp_path, "there")
    lw.open(uri).branches.create("dev")
    declared_by_pylance(uri, here)
    declared_by_pylance(uri, there, "dev")
    appended(uri, rows(40, file_in(here)))
    appended(uri, rows(50, b"plain"), "dev")
    appended(uri, rows(60, file_in(there)), "dev")
    before = lw.open(uri)
    files = files_below(uri)
    with pytest.raises(UnsupportedError) as e:
        bring(uri, verb)
    for part in ("base path 1", str(here), str(there), "'b'", "ingest"):
        assert part in str(e.value)
    assert before.latest().version == before.version
    assert files_below(uri) == files
    assert checked(before.latest()) == {0: b"own", 40: b"bytes of here"}
    assert contents(dataset(uri, "dev"))[60] == b"bytes of there"

    dataset(uri, "dev").delete("n = 60")
    appended(uri, rows(61, file_in(there)), "dev", external_blob_mode="ingest")
    expected = {0: b"own", 40: b"bytes of here", 50: b"plain", 61: b"bytes of there"}
    assert checked(bring(uri, verb)) == expected


def test_a_place_that_has_another_id_gets_the_one_of_the_blobs_as_well(tmp_path: Path) -> None:
    uri, here, there = table_at(tmp_path), folder(tmp_path, "here"), folder(tmp_path, "there")
    lw.open(uri).branches.create("dev")
    declared_by_pylance(uri, there)
    declared_by_pylance(uri, here, "dev")
    declared_by_pylance(uri, there, "dev")
    appended(uri, rows(40, file_in(there)))
    appended(uri, rows(50, file_in(there)), "dev")
    main = bring(uri, "merge")
    assert bases(main) == {1: "there", 2: "there"}
    expected = {0: b"own", 40: b"bytes of there", 50: b"bytes of there"}
    assert checked(main) == expected

    appended(uri, rows(60, b"\0" * 10), target_bases=["there"])
    declared_by_pylance(uri, here)
    assert checked(main.latest()) == {**expected, 60: b"\0" * 10}
    moved = tmp_path / "moved"
    there.rename(moved)
    main = main.latest().set_base(there, str(moved))
    assert bases(main) == {1: "moved", 2: "moved", 3: "here"}
    assert checked(main) == {**expected, 60: b"\0" * 10}


def test_only_blobs_below_a_base_path_and_only_living_rows_are_in_the_way(tmp_path: Path) -> None:
    uri, here, there = table_at(tmp_path), folder(tmp_path, "here"), folder(tmp_path, "there")
    lw.open(uri).branches.create("dev")
    declared_by_pylance(uri, here)
    declared_by_pylance(uri, there, "dev")
    appended(uri, rows(50, file_in(there), b"plain", None, b"z" * 100_000), "dev")
    dataset(uri, "dev").delete("n = 50")
    outside = {"allow_external_blob_outside_bases": True}
    appended(uri, rows(60, file_in(here)), "dev", **outside)
    expected = contents(dataset(uri, "dev"))
    assert expected[60] == b"bytes of here"
    assert checked(bring(uri, "merge")) == expected


@pytest.mark.usefixtures("pages_decoded_here")
def test_a_deep_check_tells_of_base_ids_and_files_that_are_not_there(tmp_path: Path) -> None:
    uri, there = table_at(tmp_path), folder(tmp_path, "there")
    declared_by_pylance(uri, there)
    part = file_in(there, "g.bin", position=5, size=8)
    outside = lance.Blob.from_uri((tmp_path / "outside.bin").as_uri())
    (tmp_path / "outside.bin").write_bytes(b"outside")
    appended(uri, rows(50, file_in(there), part, None))
    appended(uri, rows(60, outside), allow_external_blob_outside_bases=True)
    assert contents(lance.dataset(uri))[51] == b"of there"
    table = lw.open(uri)
    assert table.verify(deep=True).ok

    def found() -> list[tuple[int | None, str]]:
        assert table.verify().ok, "only a deep check reads what blobs name"
        return [(each.fragment, each.text) for each in table.verify(deep=True).problems]

    (there / "g.bin").write_bytes(b"more of ther")
    ((fragment, text),) = found()
    assert fragment == 1
    assert f"{there}/g.bin has 12 bytes, its blobs reach to 13" in text
    (there / "g.bin").unlink()
    ((fragment, text),) = found()
    assert fragment == 1
    assert "g.bin" in text
    assert "missing" in text
    (there / "g.bin").write_bytes(b"more of there")
    (tmp_path / "outside.bin").unlink()
    ((fragment, text),) = found()
    assert fragment == 2
    assert "outside.bin" in text
    assert lw.open(uri, access=lw.Access(allowed_bases=[str(there)])).verify(deep=True).ok, (
        "it may not be looked for"
    )
    (tmp_path / "outside.bin").write_bytes(b"outside")
    edit_manifest(uri, lambda manifest: manifest.ClearField("base_paths"))
    ((fragment, text),) = [
        (each.fragment, each.text) for each in lw.open(uri).verify(deep=True).problems
    ]
    assert fragment == 1
    assert "base path 1" in text
    with pytest.raises(ValueError, match="ID 1 not found"):
        contents(lance.dataset(uri))


def test_copies_and_moves_keep_what_blobs_name(tmp_path: Path) -> None:
    uri, there, cold = table_at(tmp_path), folder(tmp_path, "there"), tmp_path / "cold"
    declared_by_pylance(uri, there)
    appended(uri, rows(50, file_in(there), file_in(there, "g.bin", position=5, size=2)))
    table = lw.open(uri)
    expected = {0: b"own", 50: b"bytes of there", 51: b"of"}
    dev = table.branches.create("dev")
    for source in (table, dev):
        kind = source.branch or "main"
        shallow = source.clone(tmp_path / f"shallow of {kind}")
        assert checked(shallow) == expected
        assert checked(shallow.detach()) == expected
        assert checked(source.clone(tmp_path / f"deep of {kind}", deep=True)) == expected
    table = table.add_base(cold, name="cold").move_fragments(base="cold")
    assert checked(table) == expected
    assert checked(table.delete("n = 50").restore(table.version)) == expected
    assert contents(dataset(uri, "dev")) == expected
    assert contents(lance.dataset(dev.detach().uri)) == expected


def test_a_branch_of_a_branch_is_published_onto_it_and_then_onto_main(tmp_path: Path) -> None:
    uri, here, there = table_at(tmp_path), folder(tmp_path, "here"), folder(tmp_path, "there")
    dev = lw.open(uri).branches.create("dev")
    declared_by_pylance(uri, here, "dev")
    appended(uri, rows(40, file_in(here)), "dev")
    dev = dev.latest()
    dev.branches.create("deeper")
    declared_by_pylance(uri, there, "deeper")
    appended(uri, rows(50, file_in(there)), "deeper")
    expected = {0: b"own", 40: b"bytes of here", 50: b"bytes of there"}
    dev.branches.publish("deeper")
    assert contents(dataset(uri, "dev")) == expected
    assert checked(bring(uri, "publish")) == expected


@pytest.fixture
def repo(tmp_path: Path) -> lw.Repository:
    """A repository with a table of blobs and a branch dev at the same commit."""
    made = lw.Repository.init(tmp_path / "r")
    made.add("t", table_at(tmp_path))
    made.branches.create("dev")
    return made


@pytest.mark.parametrize("is_picked", [False, True])
def test_a_repository_merges_and_picks_by_the_same_rule(
    repo: lw.Repository, tmp_path: Path, is_picked: bool
) -> None:
    uri, here, there = tmp_path / "t.lance", folder(tmp_path, "here"), folder(tmp_path, "there")

    def bring_over(branch: str, *, dry_run: bool = False) -> None:
        if is_picked:
            repo.cherry_pick(branch, dry_run=dry_run)
        else:
            repo.merge(branch, dry_run=dry_run)

    repo.prepare("t", branch="dev")
    declared_by_pylance(uri, there, "dev")
    appended(uri, rows(50, file_in(there)), "dev")
    repo.commit("below there", branch="dev")
    appended(uri, rows(40, b"meanwhile"))
    repo.commit("meanwhile")
    bring_over("dev")
    expected = {0: b"own", 40: b"meanwhile", 50: b"bytes of there"}
    assert checked(lw.open(uri)) == expected

    repo.branches.create("other")
    repo.prepare("t", branch="other")
    declared_by_pylance(uri, here, "other")
    appended(uri, rows(60, file_in(here)), "other")
    repo.commit("below here", branch="other")
    more = folder(tmp_path, "more")
    declared_by_pylance(uri, folder(tmp_path, "unused"))
    declared_by_pylance(uri, more)
    appended(uri, rows(70, file_in(more)))
    tip = repo.commit("below another").hash
    files = files_below(uri)
    for dry_run in (True, False):
        with pytest.raises(lw.LancewoodError, match=r"nothing has changed.*cannot be taken over"):
            bring_over("other", dry_run=dry_run)
    assert next(iter(repo.log())).hash == tip
    assert files_below(uri) == files
    assert checked(lw.open(uri)) == {**expected, 70: b"bytes of more"}


def test_a_revert_does_not_take_an_id_for_what_it_was_before_a_restore(
    repo: lw.Repository, tmp_path: Path
) -> None:
    uri, here, there = tmp_path / "t.lance", folder(tmp_path, "here"), folder(tmp_path, "there")
    bare = lw.open(uri).version
    declared_by_pylance(uri, there)
    appended(uri, rows(50, file_in(there)))
    repo.commit("below there")
    lw.open(uri).restore(bare)
    back = str(repo.commit("back").hash)
    repo.revert(back)
    assert checked(lw.open(uri)) == {0: b"own", 50: b"bytes of there"}

    lw.open(uri).restore(bare)
    again = str(repo.commit("back again").hash)
    declared_by_pylance(uri, here)
    appended(uri, rows(40, file_in(here)))
    repo.commit("below here")
    assert bases(lw.open(uri)) == {1: "here"}
    with pytest.raises(lw.LancewoodError, match="cannot be taken over"):
        repo.revert(again)
    assert checked(lw.open(uri)) == {0: b"own", 40: b"bytes of here"}
