"""The part of the store contract about names: keys, listings, and stores rooted deeper."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import pytest

from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.store.base import PutOutcome, Store

REFUSED_KEYS = [
    "",
    "/",
    "/etc/passwd",
    "a//b",
    "a/",
    ".",
    "..",
    "../a",
    "a/../b",
    "a/..",
    "./a",
    "a/./b",
    "a\\b",
    "a\0b",
    "\ud800",
    ".tmp0123456789abcdef",
    "a/.tmp0123456789abcdef",
]
ODD_KEYS = [
    "a",
    "a/b/c/d/e",
    "with space/and%20percent#?*",
    "ümlaut/日本",
    "...",
    "..a/b..",
    ".hidden",
    ".tmp",
    "-rf",
    "x" * 200,
]


class NamesContract:
    """A part of ``StoreContract``."""

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_odd_keys_are_kept_as_they_are(self, store: Store, key: str) -> None:
        assert store.put_new(key, b"1") is PutOutcome.CREATED
        assert store.get(key) == b"1"
        assert [info.key for info in store.list()] == [key]
        directory, _, name = key.rpartition("/")
        assert [*store.names(directory)] == [name]
        store.delete([key])
        assert [*store.list()] == []

    @pytest.mark.parametrize("key", REFUSED_KEYS)
    def test_keys_that_could_leave_the_root_are_refused_by_every_verb(
        self, store: Store, key: str
    ) -> None:
        store.put("kept", b"1")
        verbs: list[Callable[[], object]] = [
            lambda: store.get(key),
            lambda: store.get_range(key, 0, 1),
            lambda: store.head(key),
            lambda: store.put(key, b"2"),
            lambda: store.put_new(key, b"2"),
            lambda: store.replace(key, b"2", "0"),
            lambda: store.copy("kept", key),
            lambda: store.copy(key, "other"),
            lambda: store.copy_from(store, store.head("kept"), key),
            lambda: store.put_parts(key, [b"2"]),
            lambda: store.put_together({key: b"2"}),
            lambda: store.delete(["kept", key]),
            lambda: store.sync([key]),
            lambda: store.location(key),
        ]
        if key.rstrip("/") not in ("", "a"):  # 'a/' and '' are directories
            verbs += [
                lambda: store.list(key),
                lambda: store.names(key),
                lambda: store.at(key),
                lambda: store.turn(key),
            ]
        for verb in verbs:
            with pytest.raises(InvalidInputError, match="not allowed"):
                verb()
        assert [info.key for info in store.list()] == ["kept"]

    def test_a_stamp_changes_with_the_names_or_is_not_given(self, store: Store) -> None:
        store.put("d/a", b"1")
        before = store.stamp("d")
        time.sleep(0.05)
        assert store.stamp("d") == before
        assert store.put_new("d/b", b"2") is PutOutcome.CREATED
        after = store.stamp("d")
        assert before is None or after != before
        time.sleep(0.05)
        store.delete(["d/a"])
        assert after is None or store.stamp("d") != after

    def test_prune_removes_empty_directories_only(self, store: Store) -> None:
        store.put("a/b/c", b"1")
        store.put("a/d/e", b"2")
        store.delete(["a/b/c"])
        store.prune("a")
        store.prune("missing")
        assert [each.key for each in store.list("a")] == ["a/d/e"]
        store.put("a/b/c", b"3")
        assert store.get("a/b/c") == b"3"

    def test_list_is_recursive_and_names_is_not(self, store: Store) -> None:
        keys = ["a/1", "a/2", "a/b/3", "a/b/c/4", "ab/5", "top"]
        for key in keys:
            store.put(key, key.encode())
        assert sorted(info.key for info in store.list()) == keys
        assert sorted(info.key for info in store.list("a")) == keys[:4]
        assert sorted(info.key for info in store.list("a/")) == keys[:4]
        assert sorted(info.key for info in store.list("a/b")) == keys[2:4]
        assert {info.size for info in store.list("a/b/c")} == {len("a/b/c/4")}
        for directory, objects, below in (("", {"top"}, {"a", "ab"}), ("a", {"1", "2"}, {"b"})):
            names = set(store.names(directory))
            assert objects <= names <= objects | below
        assert set(store.names("a/b/")) - {"c"} == {"3"}
        assert sorted(store.directories("")) == ["a", "ab"]
        assert [*store.directories("a/")] == ["b"]
        assert [*store.directories("a/b/c")] == [*store.directories("top")] == []

    @pytest.mark.parametrize(
        "directory", ["missing", "a/missing", "a/file", "a/file/deeper", "a/f"]
    )
    def test_a_missing_directory_holds_nothing(self, store: Store, directory: str) -> None:
        store.put("a/file", b"x")
        assert [*store.list(directory)] == []
        assert [*store.names(directory)] == []
        assert [*store.directories(directory)] == []

    def test_names_are_in_order_where_the_store_says_so(self, store: Store) -> None:
        names = [f"{number:03d}" for number in range(200)] + ["Z", "a", "é", "\uffee", "\U0001f600"]
        shuffled = random.Random(1).sample(names, len(names))
        for name in shuffled:
            store.put(f"d/{name}", b"")
        found = [*store.names("d")]
        assert sorted(found) == sorted(names)
        if store.lists_in_order:
            assert found == sorted(names)

    def test_a_listing_need_not_be_read_to_its_end(self, store: Store) -> None:
        for number in range(10):
            store.put(f"d/{number}", b"")
        assert next(store.names("d")) in "0123456789"
        assert next(store.list("d")).size == 0

    def test_at_is_the_same_store_rooted_deeper(self, store: Store) -> None:
        deeper = store.at("tree/x")
        assert deeper.put_new("a/k", b"1") is PutOutcome.CREATED
        assert store.get("tree/x/a/k") == b"1"
        assert store.put_new("tree/x/a/k", b"2") is PutOutcome.EXISTS
        assert [info.key for info in deeper.list()] == ["a/k"]
        assert [info.key for info in store.at("tree").at("x/").list()] == ["a/k"]
        assert [*deeper.names("a")] == ["k"]
        assert deeper.head("a/k").etag == store.head("tree/x/a/k").etag
        assert deeper.uri == f"{store.uri}/tree/x"
        assert deeper.lists_in_order == store.lists_in_order
        assert store.at("").uri == store.uri
        with pytest.raises(NotFoundError):
            deeper.get("tree/x/a/k")
        deeper.delete(["a/k"])
        assert [*store.list()] == []

    def test_the_uri_has_no_slash_at_its_end(self, store: Store) -> None:
        assert store.uri
        assert not store.uri.endswith("/")

    def test_a_location_can_be_opened_by_others_or_is_none(self, store: Store) -> None:
        store.put("a/k", b"1")
        where = store.location("a/k")
        assert where is None or where == f"{store.uri}/a/k"
