"""Where the files of a base path are, as long as a table stays and after it was moved."""

from __future__ import annotations

import pickle
import uuid
from typing import Any

import pytest

from lancewood.engine.location import moved_roots
from lancewood.engine.location.base_paths import check_not_moved, moved_bases
from lancewood.engine.location.location import Location
from lancewood.engine.location.moved_roots import RootTrace, find_trace, present_roots
from lancewood.errors import StorageError, UnsupportedError
from lancewood.model.fragment import Fragment
from lancewood.model.ids import BaseId
from lancewood.model.manifest import Manifest, decode_fragment
from lancewood.proto import table_pb2
from lancewood.store.base import Store
from lancewood.store.locate import open_store
from lancewood.store.options import StorageOptions

SIZE = 11


@pytest.fixture
def here() -> str:
    """The main root where the table is."""
    return f"memory://{uuid.uuid4().hex}/t"


@pytest.fixture
def there() -> str:
    """The main root where it was."""
    return f"memory://{uuid.uuid4().hex}/t"


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every look for a file of a base path."""
    seen: list[str] = []
    is_below = RootTrace.is_below

    def counted(trace: RootTrace, root: Store) -> bool:
        seen.append(f"{root.uri}/{trace.key}")
        return is_below(trace, root)

    monkeypatch.setattr(RootTrace, "is_below", counted)
    return seen


def fragment(number: int, base_id: int | None, *, deleted_in: int | None = None) -> bytes:
    message = table_pb2.DataFragment(id=number, physical_rows=10)
    message.files.add(path=f"{number}.lance", file_size_bytes=SIZE, base_id=base_id)
    if deleted_in is not None:
        message.deletion_file.id = 5
        message.deletion_file.base_id = deleted_in
    return message.SerializeToString()


def manifest(
    bases: dict[int, str | tuple[str, str]], *fragments: bytes, branch: str | None = "exp"
) -> Manifest:
    message = table_pb2.Manifest(version=3, branch=branch, fragments=fragments)
    for number, path in bases.items():
        text, name = (path, None) if isinstance(path, str) else path
        message.base_paths.add(id=number, path=text, name=name, is_dataset_root=True)
    return Manifest(message, name="m")


def location(root: str) -> Location:
    return Location(open_store(root))


def put(root: str, key: str, size: int = SIZE) -> None:
    open_store(root).put(key, bytes(size))


def file_at(where: Location, found: Manifest, position: int = 0) -> str:
    store, key = where.data_file(found, found.fragments[position].files[0])
    return f"{store.uri}/{key}"


@pytest.mark.parametrize("below", ["", "/tree/exp", "/tree/other", "/"])
def test_a_base_of_the_present_family_is_not_looked_for(
    here: str, probes: list[str], below: str
) -> None:
    found = manifest({0: here + below}, fragment(0, 0))
    assert file_at(location(f"{here}/tree/exp"), found) == f"{here}{below.rstrip('/')}/data/0.lance"
    assert probes == []


def test_a_base_that_moved_along_is_looked_for_once(
    here: str, there: str, probes: list[str]
) -> None:
    put(here, "data/0.lance")
    put(there, "data/0.lance")
    found = manifest({0: there}, fragment(0, 0), fragment(1, 0))
    handle = location(f"{here}/tree/exp")
    assert file_at(handle, found) == f"{here}/data/0.lance"
    assert file_at(handle, found, 1) == f"{here}/data/1.lance"
    handle.settle(found)
    assert probes == [f"{here}/data/0.lance"]


@pytest.mark.parametrize("size", [None, SIZE + 1])
def test_a_base_of_which_no_such_file_is_here_stays_where_it_is_said_to_be(
    here: str, there: str, size: int | None
) -> None:
    if size is not None:
        put(here, "data/0.lance", size)
    found = manifest({0: there}, fragment(0, 0))
    handle = location(f"{here}/tree/exp")
    assert file_at(handle, found) == f"{there}/data/0.lance"
    assert [store.uri for store, _ in handle.elsewhere(found, BaseId(0))] == [here]


def test_the_old_place_comes_after_the_new_one(here: str, there: str) -> None:
    put(here, "data/0.lance")
    found = manifest({0: there}, fragment(0, 0))
    handle = location(f"{here}/tree/exp")
    assert list(handle.elsewhere(found, BaseId(0))) == []
    file_at(handle, found)
    assert [store.uri for store, _ in handle.elsewhere(found, BaseId(0))] == [there]
    assert list(handle.elsewhere(found, None)) == []


@pytest.mark.parametrize("name", ["p", "p/q", "üb"])
@pytest.mark.parametrize("is_named", [True, False])
def test_a_base_that_was_a_branch_is_looked_for_below_tree(
    here: str, there: str, name: str, is_named: bool
) -> None:
    put(f"{here}/tree/{name}", "data/0.lance")
    old = f"{there}/tree/{name}"
    found = manifest({0: (old, name) if is_named else old}, fragment(0, 0))
    assert file_at(location(f"{here}/tree/exp"), found) == f"{here}/tree/{name}/data/0.lance"


def test_a_main_root_below_a_directory_called_tree_is_found(here: str, there: str) -> None:
    put(here, "data/0.lance")
    found = manifest({0: f"{there}/tree/t.lance"}, fragment(0, 0))
    assert file_at(location(f"{here}/tree/exp"), found) == f"{here}/data/0.lance"


def test_a_path_of_many_trees_costs_a_few_looks(here: str) -> None:
    base = table_pb2.BasePath(path="/tree" * 100 + "/x/../y//tree/..", is_dataset_root=True)
    assert len(present_roots(open_store(here), base)) <= 5


def test_main_looks_for_its_bases_too(here: str, there: str) -> None:
    put(f"{here}/tree/exp", "data/0.lance")
    found = manifest({0: f"{there}/tree/exp"}, fragment(0, 0), branch=None)
    assert file_at(location(here), found) == f"{here}/tree/exp/data/0.lance"


def test_a_home_that_is_no_dataset_root_is_never_looked_for(
    here: str, there: str, probes: list[str]
) -> None:
    put(here, "data/0.lance")
    found = manifest({0: there}, fragment(0, 0))
    found.message.base_paths[0].is_dataset_root = False
    assert file_at(location(f"{here}/tree/exp"), found) == f"{there}/0.lance"
    assert probes == []


def test_a_branch_that_lies_elsewhere_believes_its_paths(
    here: str, there: str, probes: list[str]
) -> None:
    put(here, "data/0.lance")
    found = manifest({0: there}, fragment(0, 0))
    assert file_at(location(f"{here}/tree/other"), found) == f"{there}/data/0.lance"
    assert probes == []


def test_a_deletion_file_and_an_index_are_traces_as_well(here: str, there: str) -> None:
    put(here, "_deletions/0-0-5.arrow")
    found = manifest({4: there}, fragment(0, None, deleted_in=4))
    located = location(f"{here}/tree/exp").deletion_file(found, found.fragments[0])
    assert located is not None
    assert located[0].uri == here
    index = table_pb2.IndexMetadata(name="i", base_id=4)
    index.uuid.uuid = uuid.uuid4().bytes
    section = table_pb2.IndexSection(indices=[index])
    directory = f"_indices/{uuid.UUID(bytes=index.uuid.uuid)}"
    put(here, f"{directory}/page.lance", 7)
    for recorded, file_root in ((None, here), (7, here), (8, there)):
        if recorded is not None:
            del section.indices[0].files[:]
            section.indices[0].files.add(path="page.lance", size_bytes=recorded)
        found = manifest({4: there})
        found.index_section = section.SerializeToString()
        store, where = location(f"{here}/tree/exp").index_directory(found, found.indices[0])
        assert (store.uri, where) == (file_root, directory)


def test_what_was_found_travels_with_the_place(here: str, there: str, probes: list[str]) -> None:
    put(here, "data/2.lance")
    found = manifest({0: "/foreign", 1: there}, fragment(0, None), fragment(2, 1))
    handle = location(f"{here}/tree/exp")
    handle.settle(found)
    assert len(probes) == 1
    copy = pickle.loads(pickle.dumps(handle))
    bare = found.bare()
    store, _ = copy.data_file(bare, found.fragments[1].files[0])
    assert store.uri == here
    assert len(probes) == 1


def test_a_base_without_files_is_not_looked_for(here: str, there: str, probes: list[str]) -> None:
    found = manifest({0: there}, fragment(0, None))
    handle = location(f"{here}/tree/exp")
    handle.settle(found)
    assert probes == []
    assert handle.base_store(found.base_paths[0]).uri == there


def test_one_file_of_a_base_is_found_without_decoding_the_fragments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded = []

    def counted(raw: bytes, name: str) -> Any:
        decoded.append(name)
        return decode_fragment(raw, name)

    monkeypatch.setattr(moved_roots, "decode_fragment", counted)
    many = [fragment(each, 1) for each in range(5_000)]
    found = manifest({0: "/a", 1: "/b"}, *many, fragment(5_000, 0))
    assert find_trace(found, BaseId(0)) == RootTrace("data/5000.lance", SIZE)
    assert find_trace(found, BaseId(300)) is None
    assert len(decoded) <= 250


def test_the_bytes_of_a_base_id_in_a_name_do_not_mislead() -> None:
    message = table_pb2.DataFragment(id=0)
    message.files.add(path="8\x07.lance")
    found = manifest({7: "/a"}, message.SerializeToString())
    assert find_trace(found, BaseId(7)) is None
    assert Fragment(message).files[0].base_id is None


def test_a_path_that_nothing_can_open_is_no_hindrance(here: str) -> None:
    put(here, "data/0.lance")
    found = manifest({0: "hdfs://old/t"}, fragment(0, 0))
    handle = location(f"{here}/tree/exp")
    assert file_at(handle, found) == f"{here}/data/0.lance"
    assert not handle.is_at(found.base_paths[0], open_store(here))
    with pytest.raises(UnsupportedError, match="hdfs"):
        list(handle.elsewhere(found, BaseId(0)))
    lost = manifest({0: "hdfs://old/t"}, fragment(9, 0))
    with pytest.raises(UnsupportedError, match="hdfs"):
        file_at(location(f"{here}/tree/exp"), lost)


def test_the_main_root_of_a_branch_is_the_one_it_was_reached_from(here: str) -> None:
    main = location(here)
    branch = main.at(main.store.at("tree/exp"))
    assert branch.main(manifest({})) is main.store
    assert branch.main(manifest({}, branch="other")) is None
    assert branch.main(manifest({}, branch=None)) is None
    found = manifest({0: here}, fragment(0, 0))
    assert branch.data_file(found, found.fragments[0].files[0])[0] is main.store


@pytest.mark.parametrize(
    ("uri", "branch", "main"),
    [
        ("/x/tree/exp", "exp", "/x"),
        ("/x/tree/p/q", "p/q", "/x"),
        ("/tree/exp", "exp", "/"),
        ("/x/tree/%C3%BC", "ü", None),
        ("memory://a/x/tree/ü", "ü", "memory://a/x"),
    ],
)
def test_the_main_root_lies_above_tree(uri: str, branch: str, main: str | None) -> None:
    found = location(uri).main(manifest({}, branch=branch))
    assert (None if found is None else found.uri) == main


def test_which_bases_moved_is_told_with_their_present_roots(here: str, there: str) -> None:
    put(here, "data/0.lance")
    found = manifest({0: there, 1: here, 2: "/cold"}, fragment(0, 0), fragment(1, 2))
    handle = location(f"{here}/tree/exp")
    assert moved_bases(handle, found) == {there: here}
    with pytest.raises(UnsupportedError, match="was moved") as caught:
        check_not_moved(handle, found)
    assert there in str(caught.value)
    check_not_moved(handle, manifest({1: here, 2: "/cold"}, fragment(0, 1)))


def test_a_store_that_does_not_answer_decides_nothing(
    here: str, there: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = manifest({0: there}, fragment(0, 0))
    handle = location(f"{here}/tree/exp")
    put(here, "data/0.lance")

    def fail(trace: RootTrace, root: Store) -> bool:
        raise StorageError("it does not answer")

    with monkeypatch.context() as patch:
        patch.setattr(RootTrace, "is_below", fail)
        with pytest.raises(StorageError, match="does not answer"):
            file_at(handle, found)
    assert file_at(handle, found) == f"{here}/data/0.lance"


OWN = {"account_key": "hush", "sas_token": "hush", "endpoint": "https://host", "timeout": "3s"}
HOW = {"endpoint": "https://host", "timeout": "3s"}


@pytest.mark.parametrize(
    ("root", "base", "expected"),
    [
        ("s3://bucket/t", "s3://bucket/elsewhere", OWN),
        ("s3://bucket/t", "s3a://bucket", OWN),
        ("s3://bucket/t", "s3+ddb://bucket/u?ddbTableName=manifests", OWN),
        ("s3://bucket/t", "s3://bucket2/t", HOW),
        ("s3://bucket/t", "S3://Bucket/t", HOW),
        ("s3://bucket/t", "gs://bucket/t", None),
        ("abfss://c@mine.dfs.core.windows.net/t", "abfs://c@MINE.dfs.core.windows.net/u", OWN),
        ("abfss://c@mine.dfs.core.windows.net/t", "abfss://c@other.dfs.core.windows.net/t", HOW),
        ("abfss://c@mine.dfs.core.windows.net/t", "abfss://d@mine.dfs.core.windows.net/t", HOW),
        ("abfss://c@mine.dfs.core.windows.net/t", "az://c/t", None),
        ("/tmp/t", "abfss://c@other.dfs.core.windows.net/t", HOW),
        ("/tmp/t", "/tmp/cold", OWN),
    ],
)
def test_credentials_of_a_table_are_for_its_own_bucket(
    root: str, base: str, expected: dict[str, str] | None
) -> None:
    store = open_store(root)
    location = Location(store, StorageOptions(OWN))
    message = table_pb2.BasePath(id=1, path=base, name="cold")
    found = location.options_of(message)
    assert (None if found is None else dict(found)) == expected
    assert Location(store, None).options_of(message) is None
    own = Location(store, StorageOptions(OWN), base_storage_options={"cold": {"k": "v"}})
    assert own.options_of(message) == {"k": "v"}
