"""Cleanup beside clones, branches and tags of both implementations, by both: all still read.

Numbers in the names are lines of the conformance checklist. A clone by pylance leaves no pin: what
it needs is safe if the version that it was made of has a tag.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from tests.counted import counts_of
from tests.pylance import LINEAGE, judged, lance

import lancewood as lw

pytestmark = pytest.mark.usefixtures("no_commit_under_way")

NOW = timedelta(0)


def rows(start: int, stop: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array(range(start, stop), pa.int64()),
            "s": pa.array([str(each) for each in range(start, stop)], pa.string()),
        }
    )


def by_us(uri: str) -> None:
    lw.open(uri).cleanup(older_than=NOW, in_flight=NOW)


def by_pylance(uri: str) -> None:
    lance.dataset(uri).cleanup_old_versions(
        NOW, delete_unverified=True, error_if_tagged_old_versions=False
    )


CLEANERS = pytest.mark.parametrize("clean", [by_us, by_pylance])


def read(uri: str, version: int) -> pa.Table:
    """A version with ids and versions of rows, as both implementations find it."""
    table = lw.open(uri, version=version)
    names = [*table.schema.names, *LINEAGE]
    ours = table.scan(names).to_arrow()
    dataset = judged(uri, version=version)
    assert ours == dataset.to_table(columns=names)
    found = dataset.to_table(columns=names, filter="k = 60")
    assert found.to_pylist() == [each for each in ours.to_pylist() if each["k"] == 60]
    return ours


class World:
    """A table with history, and everything that rests on old versions of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.main = str(path / "main")
        self.kept: dict[tuple[str, int], pa.Table] = {}
        self._history()
        self._branches()
        self._clones()

    def _keep(self, uri: str, version: int | None = None) -> None:
        number = lw.open(uri).version if version is None else version
        self.kept[uri, number] = read(uri, number)

    def _history(self) -> None:
        table = lw.create(self.main, rows(0, 100), layout=lw.Layout(max_rows_per_file=50))
        lance.dataset(self.main).create_scalar_index("k", "BTREE")
        table = table.latest().delete("k IN (3, 70)")
        table = table.update({"s": "'x'"}, "k < 10", rewrite="columns")
        table = table.append(rows(200, 220)).compact()
        table = table.add_columns({"d": "k * 2"}).delete("k >= 210")
        table.overwrite(rows(1000, 1010)).append(rows(1010, 1020))
        lance.dataset(self.main).delete("k = 1001")
        self._keep(self.main)

    def _branches(self) -> None:
        dataset = lance.dataset(self.main)
        dataset.tags.create("theirs", 3)
        lw.open(self.main).tags.create("ours", at=4)
        self._keep(self.main, 3)
        self._keep(self.main, 4)
        dataset.create_branch("by/pylance", 5)
        lw.open(self.main).branches.create("by", at=7)
        self._keep(self.main, 5)
        self._keep(self.main, 7)
        for name in ("by/pylance", "by"):
            branch = f"{self.main}/tree/{name}"
            lw.open(branch).append(rows(300, 310)).delete("k IN (5, 301)")
            lance.dataset(branch).insert(rows(310, 320))
            lance.dataset(branch).delete("k = 311")
            self._keep(branch)
        lw.open(f"{self.main}/tree/by").branches.create("deeper")
        lw.open(f"{self.main}/tree/deeper").update({"s": "'deep'"}, "k > 305", rewrite="rows")
        self._keep(f"{self.main}/tree/deeper")
        self._keep(f"{self.main}/tree/by")

    def _clones(self) -> None:
        location = str(self.path / "clone")
        lw.open(self.main, version=2).clone(f"{location}-2").append(rows(400, 403))
        lance.dataset(f"{location}-2").delete("k = 401")
        lw.open(f"{location}-2").clone(f"{location}-of-clone").delete("k = 50")
        lw.open(self.main, version=6).clone(f"{location}-6")
        lw.open(f"{self.main}/tree/by/pylance").clone(f"{location}-branch").delete("k = 60")
        lw.open(f"{self.main}/tree/by").clone(f"{location}-branch-2")
        lw.open(self.main, version=1).clone(f"{location}-deep", deep=True)
        lance.dataset(self.main).shallow_clone(f"{location}-tag-by-pylance", "theirs")
        lance.dataset(f"{location}-tag-by-pylance").insert(rows(500, 505))
        lw.open(f"{location}-tag-by-pylance").delete("k = 500")
        for each in sorted(self.path.glob("clone-*")):
            self._keep(str(each))
        self.clones = [str(each) for each in sorted(self.path.glob("clone-*"))]

    @property
    def roots(self) -> list[str]:
        names = ("by/pylance", "by", "deeper")
        return [self.main, *(f"{self.main}/tree/{each}" for each in names), *self.clones]

    def check(self) -> None:
        for (uri, version), expected in self.kept.items():
            assert read(uri, version) == expected, uri
        for uri in self.roots:
            assert lw.open(uri).verify().problems == (), uri


def versions(uri: str) -> list[int]:
    return sorted(each["version"] for each in lance.dataset(uri).versions())


@CLEANERS
def test_line_59_cleanup_of_main_leaves_all_that_rests_on_it(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    world = World(tmp_path)
    newest = versions(world.main)[-1]
    before = {str(each) for each in Path(world.main, "data").iterdir()}
    clean(world.main)
    assert versions(world.main) == [2, 3, 4, 5, 6, 7, newest]
    assert before > {str(each) for each in Path(world.main, "data").iterdir()}
    world.check()


@CLEANERS
def test_line_59_cleanup_of_every_root_leaves_what_is_read(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    world = World(tmp_path)
    for uri in world.roots:
        clean(uri)
    world.check()
    clone = str(tmp_path / "clone-2")
    assert len(versions(clone)) == 1
    assert all(len(versions(each)) == 1 for each in world.roots if "branch" in each)


def test_both_clean_up_one_after_the_other_while_both_write(tmp_path: Path) -> None:
    world = World(tmp_path)
    for _ in range(2):
        for uri in world.roots:
            by_us(uri)
            by_pylance(uri)
        lw.open(world.main).append(rows(2000, 2001))
        lance.dataset(world.main).insert(rows(2001, 2002))
    del world.kept[world.main, max(each for uri, each in world.kept if uri == world.main)]
    world.check()


@CLEANERS
def test_a_pinned_version_goes_once_its_clone_is_dropped(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    main, clone = str(tmp_path / "main"), str(tmp_path / "clone")
    table = lw.create(main, rows(0, 10))
    table.clone(clone)
    table.overwrite(rows(10, 20)).append(rows(20, 30))
    clean(main)
    assert versions(main) == [1, 3]
    assert lw.open(clone).to_arrow() == rows(0, 10)
    lw.drop(clone)
    clean(main)
    assert versions(main) == [3]
    assert len([*Path(main, "data").iterdir()]) == 2


@CLEANERS
def test_a_clone_of_a_clone_outlives_the_one_between(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    main, one, two = (str(tmp_path / each) for each in ("main", "one", "two"))
    table = lw.create(main, rows(0, 10))
    table.clone(one).clone(two)
    table.overwrite(rows(10, 20))
    with pytest.raises(lw.InvalidInputError, match="a clone"):
        lw.drop(one)
    lw.drop(one, force=True)
    clean(main)
    assert lw.open(two).to_arrow() == lance.dataset(two).to_table() == rows(0, 10)


@CLEANERS
def test_a_clone_by_pylance_that_we_clone_pins_what_it_was_made_of(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    main, one, two = (str(tmp_path / each) for each in ("main", "one", "two"))
    table = lw.create(main, rows(0, 10))
    lance.dataset(main).shallow_clone(one, 1)
    lance.dataset(one).insert(rows(10, 11))
    made = lw.open(one).clone(two)
    assert [each.root for each in counts_of(made, lw.ShallowClone).pins] == [one, main]
    table.overwrite(rows(20, 30))
    clean(main)
    assert lw.open(two).to_arrow() == lance.dataset(two).to_table() == rows(0, 11)


@CLEANERS
def test_a_clone_by_pylance_of_a_version_without_a_tag_is_not_seen(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    main, clone = str(tmp_path / "main"), str(tmp_path / "clone")
    table = lw.create(main, rows(0, 10))
    lance.dataset(main).shallow_clone(clone, 1)
    table.overwrite(rows(10, 20))
    clean(main)
    with pytest.raises(lw.NotFoundError):
        lw.open(clone).to_arrow()


@CLEANERS
def test_data_of_a_deleted_branch_is_collected_by_a_cleanup_of_main(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    main = str(tmp_path / "main")
    table = lw.create(main, rows(0, 10))
    table.branches.create("exp")
    lw.open(main, branch="exp").append(rows(10, 20)).append(rows(20, 30))
    data = Path(main, "data")
    assert len([*data.iterdir()]) == 3
    clean(main)
    assert len([*data.iterdir()]) == 3
    assert lance.dataset(main).checkout_version(("exp", None)).count_rows() == 30
    table.branches.delete("exp")
    assert len([*data.iterdir()]) == 3
    clean(main)
    assert len([*data.iterdir()]) == 1
    assert lance.dataset(main).to_table() == rows(0, 10)


@CLEANERS
def test_cleanup_of_a_branch_leaves_its_data_in_main_to_main(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    main = str(tmp_path / "main")
    table = lw.create(main, rows(0, 10))
    table.branches.create("exp")
    branch = lw.open(main, branch="exp").append(rows(10, 20)).overwrite(rows(30, 40))
    data = Path(main, "data")
    assert len([*data.iterdir()]) == 3
    clean(branch.uri)
    assert len(versions(branch.uri)) == 1
    assert lw.open(main).to_arrow() == rows(0, 10)
    assert lance.dataset(branch.uri).to_table() == rows(30, 40)
    clean(main)
    assert len([*data.iterdir()]) == 2
    assert lw.open(main).to_arrow() == rows(0, 10)
    assert lw.open(main, branch="exp").to_arrow() == rows(30, 40)


@CLEANERS
def test_a_detached_clone_gives_its_pin_back_when_its_old_versions_are_gone(
    tmp_path: Path, clean: Callable[[str], None]
) -> None:
    main, clone = str(tmp_path / "main"), str(tmp_path / "clone")
    lw.create(main, rows(0, 10)).clone(clone).delete("k = 1")
    detached = lw.open(clone).detach()
    assert counts_of(detached, lw.DetachCounts).unpinned == ()
    assert [each.root for each in counts_of(detached, lw.DetachCounts).still_pinned] == [main]
    assert len(lance.dataset(main).tags.list()) == 1
    clean(clone)
    if clean is by_pylance:
        assert len(lance.dataset(main).tags.list()) == 1
        again = lw.open(clone).detach()
        assert (len(counts_of(again, lw.DetachCounts).unpinned), again.version) == (
            1,
            detached.version,
        )
    assert lance.dataset(main).tags.list() == {}
    lw.drop(main)
    assert lw.open(clone).count_rows() == lance.dataset(clone).count_rows() == 9
