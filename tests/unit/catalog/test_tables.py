"""The tables of a commit: what a change writes and reads, and what it leaves alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.unit.catalog.pins import some_pin, staged_pin

from lancewood.catalog import tables
from lancewood.catalog.pin import encode_pin
from lancewood.catalog.tables import TableTree
from lancewood.errors import FormatError, InvalidInputError, NotFoundError
from lancewood.git.objects import FILE, LINK, TREE, Objects, TreeEntry
from lancewood.git.values import Hash, object_hash


class Counted(Objects):
    """Objects that count what is asked of them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.calls: Counter[str] = Counter()

    def put_blob(self, data: bytes) -> Hash:
        self.calls["put_blob"] += 1
        return super().put_blob(data)

    def put_tree(self, entries: Mapping[str, TreeEntry]) -> Hash:
        self.calls["put_tree"] += 1
        return super().put_tree(entries)

    def blob(self, hash: Hash) -> bytes:
        self.calls["blob"] += 1
        return super().blob(hash)

    def tree(self, hash: Hash) -> dict[str, TreeEntry]:
        self.calls["tree"] += 1
        return super().tree(hash)


@pytest.fixture
def objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Counted:
    monkeypatch.setattr(tables, "_CACHE", tables._Cache())
    (tmp_path / "objects").mkdir()
    return Counted(tmp_path / "objects")


def test_a_repository_without_a_commit_has_no_tables(objects: Counted) -> None:
    tree = TableTree.of(objects, None)
    assert tree.names() == ()
    assert tree.blob_hash("photos") is None
    with pytest.raises(NotFoundError, match="no table 'photos' in this tree; it pins none"):
        tree.pin("photos")
    assert objects.tree(tree.put()) == {}


def test_pins_are_files_below_tables(objects: Counted) -> None:
    pins = {"photos": some_pin("photos"), "labels": staged_pin("labels")}
    tree = TableTree.of(objects, None).with_pins(pins)
    assert tree.names() == ("labels", "photos")
    assert tree.pin("labels") == pins["labels"]
    stored = tree.put()
    (root,) = objects.tree(stored).items()
    assert root[0] == "tables"
    assert root[1].mode == TREE
    below = objects.tree(root[1].hash)
    assert sorted(below) == ["labels.json", "photos.json"]
    assert tree.entries() == {"labels": below["labels.json"], "photos": below["photos.json"]}
    assert {each.mode for each in below.values()} == {FILE}
    assert objects.blob(below["photos.json"].hash) == encode_pin(pins["photos"])
    again = TableTree.of(objects, stored)
    assert {name: again.pin(name) for name in again.names()} == pins
    assert again.blob_hash("photos") == below["photos.json"].hash == tree.blob_hash("photos")
    assert again.put() == stored


def test_a_change_to_one_of_two_hundred_tables_writes_one_blob_and_two_trees(
    objects: Counted,
) -> None:
    many = {f"t{each}": some_pin(f"t{each}") for each in range(200)}
    first = TableTree.of(objects, None).with_pins(many).put()
    objects.calls.clear()
    tree = TableTree.of(objects, first)
    second = tree.with_pins({"t7": some_pin("t7", 13)}).put()
    assert objects.calls == {"tree": 2, "put_blob": 1, "put_tree": 2}
    objects.calls.clear()
    after = TableTree.of(objects, second)
    assert after.pin("t7").version == 13
    assert objects.calls == {"tree": 2}, "who pinned it knows the pin"
    assert {each for each in many if after.blob_hash(each) != tree.blob_hash(each)} == {"t7"}


def test_a_pin_is_decoded_once_for_all_commits_that_have_it(
    objects: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = TableTree.of(objects, None).with_pins({"a": some_pin("a"), "b": some_pin("b")}).put()
    second = TableTree.of(objects, first).with_pins({"b": None}).put()
    monkeypatch.setattr(tables, "_CACHE", tables._Cache())
    for each in (first, second):
        assert TableTree.of(objects, each).pin("a") == some_pin("a")
    assert objects.calls["blob"] == 1


def test_the_cache_forgets_the_oldest_pins(
    objects: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = len(encode_pin(some_pin("t0")))
    monkeypatch.setattr(tables, "_MOST_CACHED", 2 * size)
    many = {f"t{each}": some_pin(f"t{each}") for each in range(3)}
    tree = TableTree.of(objects, TableTree.of(objects, None).with_pins(many).put())
    for name in ("t0", "t1", "t2", "t2", "t0"):
        tree.pin(name)
    assert objects.calls["blob"] == 4


def test_nothing_is_written_for_what_is_the_same(objects: Counted) -> None:
    stored = TableTree.of(objects, None).with_pins({"a": some_pin("a")}).put()
    objects.calls.clear()
    tree = TableTree.of(objects, stored)
    assert tree.with_pins({}).put() == stored
    assert tree.with_pins({"a": some_pin("a")}).put() == stored
    assert tree.with_pins({"gone": None}).put() == stored
    assert objects.calls == {"tree": 2}


def test_pins_of_two_changes_in_a_row_are_all_written(objects: Counted) -> None:
    tree = TableTree.of(objects, None).with_pins({"a": some_pin("a")})
    tree = tree.with_pins({"b": some_pin("b"), "a": some_pin("a")})
    again = TableTree.of(objects, tree.put())
    assert again.pin("a") == some_pin("a")
    assert again.pin("b") == some_pin("b")


def test_a_pin_is_seen_before_it_is_written(objects: Counted) -> None:
    tree = TableTree.of(objects, None).with_pins({"a": some_pin("a")})
    assert tree.pin("a") == some_pin("a")
    assert tree.blob_hash("a") == object_hash(b"blob", encode_pin(some_pin("a")))
    assert objects.calls["put_blob"] == 0


def test_the_first_tree_is_not_changed_by_the_second(objects: Counted) -> None:
    first = TableTree.of(objects, None).with_pins({"a": some_pin("a")})
    first.with_pins({"a": None, "b": some_pin("b")})
    assert first.names() == ("a",)


def test_other_files_of_the_tree_stay_as_they_are(objects: Counted) -> None:
    readme, note = objects.put_blob(b"read me"), objects.put_blob(b"a note")
    below = objects.put_tree({"NOTES": TreeEntry(FILE, note), "link.json": TreeEntry(LINK, note)})
    root = {"README.md": TreeEntry(FILE, readme), "tables": TreeEntry(TREE, below)}
    tree = TableTree.of(objects, objects.put_tree(root))
    stored = tree.with_pins({"a": some_pin("a")}).put()
    entries = objects.tree(stored)
    assert entries["README.md"] == root["README.md"]
    inner = objects.tree(entries["tables"].hash)
    assert (inner["NOTES"], inner["link.json"]) == (TreeEntry(FILE, note), TreeEntry(LINK, note))
    assert TableTree.of(objects, stored).with_pins({"a": None}).put() == tree.put()


def test_the_last_table_takes_the_directory_with_it(objects: Counted) -> None:
    readme = TreeEntry(FILE, objects.put_blob(b"read me"))
    root = objects.put_tree({"README.md": readme})
    with_table = TableTree.of(objects, root).with_pins({"a": some_pin("a")}).put()
    assert TableTree.of(objects, with_table).with_pins({"a": None}).put() == root


def test_a_link_in_place_of_a_pin_is_refused(objects: Counted) -> None:
    below = objects.put_tree({"a.json": TreeEntry(LINK, objects.put_blob(b"/etc/passwd"))})
    tree = TableTree.of(objects, objects.put_tree({"tables": TreeEntry(TREE, below)}))
    assert tree.names() == ("a",)
    with pytest.raises(FormatError, match=r"tables/a\.json: is no file"):
        tree.pin("a")


def test_a_file_called_tables_is_not_written_over(objects: Counted) -> None:
    root = objects.put_tree({"tables": TreeEntry(FILE, objects.put_blob(b"mine"))})
    tree = TableTree.of(objects, root)
    assert tree.names() == ()
    assert tree.with_pins({}).put() == root
    with pytest.raises(InvalidInputError, match="holds a file 'tables'"):
        tree.with_pins({"a": some_pin("a")})


def test_a_bad_name_is_refused_before_anything_is_written(objects: Counted) -> None:
    with pytest.raises(InvalidInputError, match=r"table name '\.\./x' is not allowed"):
        TableTree.of(objects, None).with_pins({"../x": some_pin("a")})
    assert objects.calls == {}


def test_a_table_below_the_repository_is_pinned_under_its_own_name(objects: Counted) -> None:
    with pytest.raises(InvalidInputError, match=r"lives at 'tables/other\.lance'"):
        TableTree.of(objects, None).with_pins({"other": some_pin("photos")})
    elsewhere = some_pin(uri="/data/photos.lance")
    assert TableTree.of(objects, None).with_pins({"other": elsewhere}).names() == ("other",)


def test_a_pin_of_another_tables_place_is_refused_when_it_is_read(objects: Counted) -> None:
    blob = objects.put_blob(encode_pin(some_pin("photos")))
    below = objects.put_tree(
        {"other.json": TreeEntry(FILE, blob), "photos.json": TreeEntry(FILE, blob)}
    )
    tree = TableTree.of(objects, objects.put_tree({"tables": TreeEntry(TREE, below)}))
    assert tree.pin("photos") == some_pin("photos")
    with pytest.raises(FormatError, match=r"tables/other\.json: pins 'tables/photos\.lance'"):
        tree.pin("other")


def test_a_damaged_pin_names_its_file_and_leaves_the_others_alone(objects: Counted) -> None:
    good = objects.put_blob(encode_pin(some_pin("a")))
    bad = objects.put_blob(b"{}")
    below = objects.put_tree({"a.json": TreeEntry(FILE, good), "b.json": TreeEntry(FILE, bad)})
    tree = TableTree.of(objects, objects.put_tree({"tables": TreeEntry(TREE, below)}))
    assert tree.pin("a") == some_pin("a")
    with pytest.raises(FormatError, match=r"tables/b\.json: does not say uri"):
        tree.pin("b")
    repaired = tree.with_pins({"b": some_pin("b")})
    assert repaired.pin("b") == some_pin("b")


def test_entries_with_names_of_no_table_are_no_tables(objects: Counted) -> None:
    blob = TreeEntry(FILE, objects.put_blob(b"{}"))
    names = ["a b.json", ".x.json", "x" * 101 + ".json", "README"]
    below = objects.put_tree(dict.fromkeys(names, blob))
    tree = TableTree.of(objects, objects.put_tree({"tables": TreeEntry(TREE, below)}))
    assert tree.names() == ()
    assert tree.blob_hash("a b") is None
