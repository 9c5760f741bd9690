"""Names, with a failure, a lost answer or a death at every store call.

After each, everything else is read by both, what is listed opens, and the next call finishes what
was begun, or clears it away.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest
from tests.breadth import EVERY_CASE
from tests.faults.hurting import MODES, ONE, copied, every_call, through

import lancewood as lw
from lancewood.format.refs import SPACES_DIR
from lancewood.jobs.refs import records as intent
from lancewood.store.disk import DiskStore
from lancewood.testing.faults import Mode

ROWS = pa.table({"a": [1, 2, 3]})
DEATHS: list[Mode] = ["kill", "kill-after"] if EVERY_CASE else ["kill-after"]
OF_THE_DAY: list[Mode] = MODES if EVERY_CASE else ["after", "kill"]

Verb = Callable[[lw.Table], object]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Main, branch ``p`` with commits and a deletion, ``p/q`` inside it, two tags."""
    location = tmp_path_factory.mktemp("live") / "t.lance"
    table = lw.create(location, ROWS, access=lw.Access(fsync=False)).append(ROWS).delete("a = 3")
    table.tags.create("v1", 1)
    table.branches.create("p").append(ROWS).delete("a = 1")
    table.branches.create("p/q", 2).append(ROWS)
    table.tags.create("inner", "p/q:3")
    shutil.copytree(location, f"{location}.copy")
    return str(location)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, no_waiting: None) -> None:
    """Nobody waits, and whoever was at work before is dead."""
    monkeypatch.setattr(intent, "ABANDONED", timedelta(0))


def begin_again(uri: str) -> DiskStore:
    return copied(f"{uri}.copy", uri)


def each_fault(uri: str, verb: Verb, modes: list[Mode] = OF_THE_DAY) -> Iterator[tuple[str, str]]:
    """The mode and the outcome, with the table as the fault left it."""
    for mode in modes:
        for attempt in every_call(mode, lambda _: begin_again(uri), more_than=1):
            attempt.run(verb, through(uri, attempt.store))
            yield f"{mode} at {attempt.where}", attempt.outcome
        assert attempt.outcome == "done"


def read(uri: str) -> dict[str, list[int]]:
    """Everything that is listed, read by both: main, every branch, every tag."""
    dataset, table = lance.dataset(uri), lw.open(uri)
    branches, tags = dataset.branches.list(), dataset.tags.list()
    assert branches.keys() == table.branches.list().keys()
    assert tags.keys() == table.tags.list(pins=True).keys()
    found = {"main": _rows(dataset, table)}
    for name in branches:
        there = dataset.checkout_version((name, None))
        there.validate()
        found[name] = _rows(there, table.checkout(branch=name))
    for name in tags:
        found[f"tag:{name}"] = _rows(dataset.checkout_version(name), table.checkout(tag=name))
    return found


def _rows(theirs: Any, ours: lw.Table) -> list[int]:
    rows: list[int] = sorted(theirs.to_table()["a"].to_pylist())
    assert sorted(ours.to_arrow()["a"].to_pylist()) == rows
    return rows


def files(uri: str) -> set[str]:
    root = Path(uri)
    return {str(each.relative_to(root)) for each in root.rglob("*") if each.is_file()}


def shapes(uri: str) -> dict[str, int]:
    """How many files each directory holds: names are random."""
    found: dict[str, int] = {}
    for each in files(uri):
        directory = each.rpartition("/")[0]
        found[directory] = found.get(directory, 0) + 1
    return found


def check_others(found: dict[str, list[int]], before: dict[str, list[int]], *mine: str) -> None:
    """What the verb is not about is as it was."""
    others = {name: rows for name, rows in before.items() if name not in mine}
    assert {name: rows for name, rows in found.items() if name not in mine} == others


def test_creating_a_branch(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    lw.open(uri).branches.create("new")
    whole, expected = read(uri), shapes(uri)
    for what, outcome in each_fault(uri, lambda table: table.branches.create("new")):
        left = read(uri)
        check_others(left, before, "new")
        assert left.get("new", whole["new"]) == whole["new"], what
        assert "new" in left or outcome != "done", what
        if "new" not in left:
            lw.open(uri).branches.create("new")
        assert read(uri) == whole, what
        unnamed = shapes(uri)
        # A transaction that nobody names, or the intent of somebody who is done: cleanup's. Row ids
        # that were claimed are nobody's.
        assert unnamed.pop("tree/new/_transactions") >= expected["tree/new/_transactions"], what
        assert unnamed.pop(SPACES_DIR) >= expected[SPACES_DIR], what
        others = expected.keys() - {"tree/new/_transactions", SPACES_DIR}
        assert unnamed == {each: expected[each] for each in others}, what


def test_creating_another_branch_of_that_name_after_a_fault(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    lw.open(uri).branches.create("new", 1)
    whole = read(uri)
    for what, _ in each_fault(uri, lambda table: table.branches.create("new"), DEATHS):
        if "new" in read(uri):
            lw.open(uri).branches.delete("new")
        lw.open(uri).branches.create("new", 1)
        found = read(uri)
        check_others(found, before, "new")
        assert found == whole, what
        assert [each.version for each in lw.open(uri, branch="new").versions()] == [1], what


def test_deleting_a_branch_beside_one_that_nests_in_it(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    lw.open(uri).branches.delete("p")
    expected = shapes(uri)
    for what, outcome in each_fault(uri, lambda table: table.branches.delete("p")):
        left = read(uri)
        check_others(left, before, "p")
        assert left.get("p", before["p"]) == before["p"], what
        assert "p" not in left or outcome != "done", what
        with contextlib.suppress(lw.NotFoundError):
            lw.open(uri).branches.delete("p", force=True)
        assert shapes(uri) == expected, what
        check_others(read(uri), before, "p")
        assert lw.open(uri).branches.create("p").count_rows() == 4, what


def test_making_a_branch_after_a_fault_in_its_deletion(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    for what, _ in each_fault(uri, lambda table: table.branches.delete("p"), DEATHS):
        if "p" not in lw.open(uri).branches.list():
            made = lw.open(uri).branches.create("p", 1)
            assert [each.version for each in made.versions()] == [1], what
        check_others(read(uri), before, "p")


def test_deleting_a_branch_with_the_tags_on_it(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    for what, _ in each_fault(uri, lambda table: table.branches.delete("p/q", force=True)):
        left = read(uri)
        check_others(left, before, "p/q", "tag:inner")
        assert left.items() <= before.items(), what
        with contextlib.suppress(lw.NotFoundError):
            lw.open(uri).branches.delete("p/q", force=True)
        assert read(uri).keys() == before.keys() - {"p/q", "tag:inner"}, what


def rename(table: lw.Table) -> object:
    return table.branches.rename("p", "p/moved", runner=ONE)


def test_renaming_a_branch(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    rename(lw.open(uri))
    expected = shapes(uri)
    for what, outcome in each_fault(uri, rename):
        left = read(uri)
        check_others(left, before, "p", "p/moved")
        assert "p" in left or "p/moved" in left, what
        assert left.get("p", before["p"]) == left.get("p/moved", before["p"]) == before["p"], what
        assert "p" not in left or outcome != "done", what
        try:
            rename(lw.open(uri))
        except lw.NotFoundError:
            assert "p/moved" in left, what
        found = read(uri)
        check_others(found, before, "p", "p/moved")
        assert "p" not in found, what
        assert found["p/moved"] == before["p"], what
        assert shapes(uri) == expected, what


def test_creating_a_tag(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    for what, outcome in each_fault(uri, lambda table: table.tags.create("new", 2)):
        left = read(uri)
        check_others(left, before, "tag:new")
        assert "tag:new" in left or outcome != "done", what
        assert left.get("tag:new", [1, 1, 2, 2, 3, 3]) == [1, 1, 2, 2, 3, 3], what
        with contextlib.suppress(lw.AlreadyExistsError):
            lw.open(uri).tags.create("new", 2)
        assert read(uri)["tag:new"] == [1, 1, 2, 2, 3, 3], what


def test_moving_a_tag(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    created = lw.open(uri).tags.get("v1").created_at_ns
    for what, outcome in each_fault(uri, lambda table: table.tags.update("v1", 3)):
        left = read(uri)
        check_others(left, before, "tag:v1")
        assert left["tag:v1"] in (before["tag:v1"], before["main"]), what
        assert left["tag:v1"] == before["main"] or outcome != "done", what
        lw.open(uri).tags.update("v1", 3)
        assert read(uri)["tag:v1"] == before["main"], what
        assert lw.open(uri).tags.get("v1").created_at_ns == created


def test_deleting_a_tag(uri: str) -> None:
    begin_again(uri)
    before = read(uri)
    for what, outcome in each_fault(uri, lambda table: table.tags.delete("v1")):
        left = read(uri)
        check_others(left, before, "tag:v1")
        assert "tag:v1" not in left or outcome != "done", what


@pytest.mark.usefixtures("no_commit_under_way")
@pytest.mark.parametrize("verb", ["create", "delete", "rename"])
def test_a_cleanup_after_any_fault_takes_nothing_that_is_needed(uri: str, verb: str) -> None:
    verbs: dict[str, Verb] = {
        "create": lambda table: table.branches.create("new"),
        "delete": lambda table: table.branches.delete("p"),
        "rename": rename,
    }
    for what, _ in each_fault(uri, verbs[verb], DEATHS[:1]):
        left = read(uri)
        lw.open(uri).cleanup(keep_versions=1, in_flight=timedelta(0))
        for name in lw.open(uri).branches.list():
            lw.open(uri, branch=name).cleanup(in_flight=timedelta(0))
        assert read(uri) == left, what
