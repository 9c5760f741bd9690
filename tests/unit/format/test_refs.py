from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pytest

from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.refs import (
    MAX_REF_SIZE,
    branch_key,
    decode_branch,
    decode_tag,
    encode_branch,
    encode_tag,
    ref_file_name,
    ref_name,
    tag_key,
)
from lancewood.model.ids import MAX_U64, Version
from lancewood.model.refs import Branch, BranchName, BranchPoint, Tag, TagName

SEED_BRANCH = {"parent_branch": "p", "parent_version": 7, "create_at": 60, "manifest_size": 458}
SEED_TAG = {"branch": "p/q", "version": 7, "manifest_size": 458}
BRANCH = Branch(
    name=BranchName("p/q"),
    parent_branch=BranchName("p"),
    parent_version=Version(7),
    created_at_seconds=1_700_000_000,
    manifest_size=458,
    identifier=(BranchPoint(Version(2), "ab" * 16), BranchPoint(Version(7), "cd" * 16)),
    metadata={"who": "me", "ü": ""},
    unknown={"later": [1, {"x": None}], "identifier": {"salt": 2}},
)
TAG = Tag(
    name=TagName("v1"),
    branch=BranchName("p"),
    version=Version(MAX_U64),
    manifest_size=1,
    created_at_ns=1_700_000_000_123_456_789,
    updated_at_ns=-1,
    metadata={"k": "v"},
    unknown={"later": 1.5},
)


def decode(document: object) -> tuple[Branch, Tag]:
    """The same bytes as a branch and as a tag."""
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return decode_branch(BranchName("b"), data), decode_tag(TagName("t"), data)


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("feature-a", "feature-a.json"),
        ("bugfix/issue-123", "bugfix%2Fissue-123.json"),
        ("grün", "gr%C3%BCn.json"),
        ("a..", "a...json"),
        ("a.json", "a.json.json"),
    ],
)
def test_the_file_of_a_ref_is_its_name_percent_encoded(name: str, file: str) -> None:
    assert ref_name(file) == name
    if ".." not in name:
        assert ref_file_name(BranchName(name)) == file


def test_files_that_are_no_refs_are_passed_over() -> None:
    for file in ("a.txt", "a", "a.json.tmp", ".json~"):
        assert ref_name(file) is None


@pytest.mark.parametrize("file", ["a%2fb.json", "%61.json", "a b.json", "%zz.json", "ü.json"])
def test_a_second_spelling_of_a_file_name_is_refused(file: str) -> None:
    with pytest.raises(FormatError, match="rename it"):
        ref_name(file)


def test_a_file_name_that_is_not_utf_8_is_refused() -> None:
    with pytest.raises(FormatError, match="not UTF-8"):
        ref_name("%FF.json")


def test_what_is_written_is_read_back() -> None:
    assert decode_branch(BRANCH.name, encode_branch(BRANCH)) == BRANCH
    assert decode_tag(TAG.name, encode_tag(TAG)) == TAG


def test_both_spellings_are_written() -> None:
    found = json.loads(encode_branch(BRANCH))
    for seed, other in (("parent_branch", "parentBranch"), ("parent_version", "parentVersion")):
        assert found[seed] == found[other]
    assert found["create_at"] == found["createAt"] == 1_700_000_000
    assert found["manifest_size"] == found["manifestSize"] == 458
    assert found["identifier"] == {"salt": 2, "version_mapping": [[2, "ab" * 16], [7, "cd" * 16]]}
    tag = json.loads(encode_tag(TAG))
    assert tag["manifest_size"] == tag["manifestSize"] == 1
    assert tag["createdAt"] == "2023-11-14T22:13:20.123456789Z"


def test_the_spelling_of_the_specification_is_read() -> None:
    branch = decode_branch(BranchName("b"), json.dumps(SEED_BRANCH).encode())
    assert (branch.parent_branch, branch.parent_version) == ("p", 7)
    assert branch.created_at == datetime(1970, 1, 1, 0, 1, tzinfo=UTC)
    assert (branch.identifier, branch.metadata, branch.unknown) == (None, {}, {})
    tag = decode_tag(TagName("t"), json.dumps(SEED_TAG).encode())
    assert (tag.branch, tag.version, tag.manifest_size) == ("p/q", 7, 458)
    assert tag.created_at is None
    assert tag.updated_at is None


def test_where_both_spellings_differ_pylances_counts() -> None:
    both = {**SEED_BRANCH, "parentVersion": 9, "parentBranch": None}
    branch = decode_branch(BranchName("b"), json.dumps(both).encode())
    assert (branch.parent_version, branch.parent_branch) == (9, None)


def test_main_is_no_branch_name_but_the_absence_of_one() -> None:
    for main in ("main", None):
        branch, _ = decode({**SEED_BRANCH, "parent_branch": main, **SEED_TAG, "branch": main})
        assert branch.parent_branch is None
    tag = decode_tag(TagName("t"), b'{"version":1,"manifestSize":2}')
    assert tag.branch is None


def test_a_parent_that_only_pylance_makes_is_read() -> None:
    branch = decode_branch(
        BranchName("b"), json.dumps({**SEED_BRANCH, "parent_branch": "p/_versions"}).encode()
    )
    assert branch.parent_branch == "p/_versions"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2025-01-02T03:04:05Z", (2025, 1, 2, 3, 4, 5)),
        ("2025-01-02 03:04:05.5+02:00", (2025, 1, 2, 1, 4, 5, 500_000)),
        ("2025-01-02t03:04:05.1234567891z", (2025, 1, 2, 3, 4, 5, 123_456)),
        ("2025-01-02T03:04:05-00:30", (2025, 1, 2, 3, 34, 5)),
        ("2016-12-31T23:59:60Z", (2017, 1, 1)),
        ("0001-01-01T00:00:00Z", (1, 1, 1)),
        ("9999-12-31T23:59:59.999999999Z", (9999, 12, 31, 23, 59, 59, 999_999)),
    ],
)
def test_moments_are_read_as_the_internet_writes_them(text: str, moment: tuple[int, ...]) -> None:
    tag = decode_tag(TagName("t"), json.dumps({**SEED_TAG, "createdAt": text}).encode())
    assert tag.created_at == datetime(*moment, tzinfo=UTC)  # type: ignore[misc,arg-type]


WRONG_VALUES: list[tuple[str, Any]] = [
    ("parent_version", None),
    ("parent_version", "1"),
    ("create_at", 1.0),
    ("create_at", True),
    ("manifest_size", -1),
    ("manifest_size", []),
    ("version", {}),
    ("version", 1 << 64),
    ("create_at", 1 << 64),
    ("create_at", 10**12),
    ("create_at", -1),
    ("parentVersion", None),
    ("parent_branch", 1),
    ("parent_branch", "a//b"),
    ("parentBranch", ""),
    ("branch", "../../etc"),
    ("branch", ["a"]),
    ("metadata", None),
    ("metadata", []),
    ("metadata", {"a": 1}),
    ("identifier", None),
    ("identifier", {}),
    ("identifier", {"version_mapping": None}),
    ("identifier", {"version_mapping": [1]}),
    ("identifier", {"version_mapping": [[1]]}),
    ("identifier", {"version_mapping": [["1", "a"]]}),
    ("identifier", {"version_mapping": [[1, 2]]}),
    ("identifier", {"version_mapping": [[1 << 64, "a"]]}),
    ("createdAt", 5),
    ("createdAt", "yesterday"),
    ("createdAt", "2025-01-02T03:04:05"),
    ("createdAt", "2025-02-30T03:04:05Z"),
    ("createdAt", "2025-01-02T03:04:05+99:00"),
    ("updatedAt", "0000-01-02T03:04:05Z"),
    ("updatedAt", "9999-12-31T23:59:60Z"),
    ("updatedAt", "0001-01-01T00:00:00+01:00"),
    ("updatedAt", "\uff12025-01-02T03:04:05Z"),
]


@pytest.mark.parametrize(("key", "value"), WRONG_VALUES)
def test_a_wrong_value_is_a_format_error_that_names_the_file(key: str, value: object) -> None:
    branch_only = key.startswith(("parent", "create_at", "identifier"))
    tag_only = key in ("branch", "version", "createdAt", "updatedAt")
    data = json.dumps({**SEED_BRANCH, **SEED_TAG, key: value}).encode()
    if not tag_only:
        with pytest.raises(FormatError, match=r"^_refs/branches/b\.json: ") as error:
            decode_branch(BranchName("b"), data)
        assert error.value.facts["file"] == "_refs/branches/b.json"
    if not branch_only:
        with pytest.raises(FormatError, match=r"^_refs/tags/t\.json: "):
            decode_tag(TagName("t"), data)


@pytest.mark.parametrize("key", ["parent_version", "create_at", "manifest_size", "version"])
def test_a_missing_value_is_named(key: str) -> None:
    document = {**SEED_BRANCH, **SEED_TAG}
    del document[key]
    with pytest.raises(FormatError, match=f"'{key}' is missing"):
        decode(document)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "not JSON"),
        (b"null", "no JSON object"),
        (b"[]", "no JSON object"),
        (b"{} {}", "not JSON"),
        (b"\xef\xbb\xbf{}", "byte order mark"),
        (b'{"a":"\xff"}', "not JSON"),
        ('{"a":1}'.encode("utf-16"), "not JSON"),
        (b'{"version":1,"version":2}', "a key comes twice"),
        (b'{"x":{"a":1,"a":1}}', "a key comes twice"),
        (b'{"x":NaN}', "NaN"),
        (b'{"x":-Infinity}', "Infinity"),
        (b'{"x":1e999}', "too large"),
        (b'{"x":' + b"9" * 5_000 + b"}", "not JSON"),
        (b'{"x":"\\ud800"}', "half a character"),
        (b'{"\\udfff":1}', "half a character"),
        (b'{"x":' + b"[" * 65 + b"]" * 65 + b"}", "nested more than 64"),
        (b'{"x":' + b"[" * 900 + b"]" * 900 + b"}", "nested more than 64"),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "not JSON"),
        (b'{"x":"' + b"a" * MAX_REF_SIZE + b'"}', "are allowed"),
    ],
)
def test_bytes_that_are_no_plain_object_are_a_format_error(data: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        decode_branch(BranchName("b"), data)
    with pytest.raises(FormatError, match=why):
        decode_tag(TagName("t"), data)


def test_what_cannot_be_written_is_refused() -> None:
    big = Tag(
        name=TagName("t"),
        branch=None,
        version=Version(1),
        manifest_size=1,
        metadata={"a": "x" * MAX_REF_SIZE},
    )
    with pytest.raises(InvalidInputError, match="are allowed"):
        encode_tag(big)
    odd = Tag(
        name=TagName("t"), branch=None, version=Version(1), manifest_size=1, unknown={"a": {1}}
    )
    with pytest.raises(InvalidInputError, match="cannot be written"):
        encode_tag(odd)


def test_pylance_reads_our_refs_and_we_read_those_of_pylance(uri: str) -> None:
    table = lance.write_dataset(pa.table({"a": [1, 2]}), uri)
    table = lance.write_dataset(pa.table({"a": [3]}), uri, mode="append")
    on_branch = table.create_branch("p", 1)
    on_branch.create_branch("p/grün")
    table.tags.create("v1", 2)
    table.tags.create("on-p", ("p", 1))

    parent = decode_branch(BranchName("p"), _read(uri, branch_key(BranchName("p"))))
    name = BranchName("p/grün")
    child = decode_branch(name, _read(uri, branch_key(name)))
    assert child.parent_branch == "p"
    assert child.identifier is not None
    assert child.identifier[:1] == parent.identifier
    tag = decode_tag(TagName("on-p"), _read(uri, tag_key(TagName("on-p"))))
    assert (tag.branch, tag.version) == ("p", 1)
    first = decode_tag(TagName("v1"), _read(uri, tag_key(TagName("v1"))))
    assert first.branch is None
    assert first.created_at == table.tags.list()["v1"]["created_at"]

    _write(uri, branch_key(child.name), encode_branch(child))
    _write(uri, branch_key(BRANCH.name), encode_branch(BRANCH))
    _write(uri, tag_key(TAG.name), encode_tag(TAG))
    listed = table.branches.list()
    assert set(listed) == {"p", "p/grün", "p/q"}
    assert listed["p/q"] == {
        "parent_branch": "p",
        "branch_identifier": [(2, "ab" * 16), (7, "cd" * 16)],
        "parent_version": 7,
        "create_at": 1_700_000_000,
        "manifest_size": 458,
        "metadata": {"who": "me", "ü": ""},
    }
    assert listed["p/grün"]["branch_identifier"] == [tuple(each) for each in child.identifier]
    found = table.tags.list()["v1"]
    assert (found["branch"], found["version"], found["metadata"]) == ("p", MAX_U64, {"k": "v"})
    assert found["created_at"] == TAG.created_at
    assert lance.dataset(uri).checkout_version(("p/grün", None)).count_rows() == 2


def test_a_rewrite_by_pylance_is_read_again(uri: str) -> None:
    table = lance.write_dataset(pa.table({"a": [1, 2]}), uri)
    table = lance.write_dataset(pa.table({"a": [3]}), uri, mode="append")
    tag = Tag(name=TagName("v"), branch=None, version=Version(1), manifest_size=5, created_at_ns=0)
    _write(uri, tag_key(tag.name), encode_tag(tag))
    table.tags.update("v", 2)
    again = decode_tag(tag.name, _read(uri, tag_key(tag.name)))
    assert (again.version, again.created_at_ns) == (2, 0)
    assert again.updated_at_ns


@pytest.mark.parametrize(
    "text",
    [
        "a",
        ".a",
        "a.",
        "a/main",
        "main",
        "MAIN",
        "a.lock",
        "a/b.lock/c",
        "a b",
        "",
        "/a",
        "a/",
        "a//b",
        "a..b",
        ".",
        "a/.",
        "grün",
        "-x",
        "a\\b",
        "a%b",
        "a@b",
        "\u0661",
    ],
)
def test_pylance_and_we_allow_the_same_branch_names(tmp_path: Path, text: str) -> None:
    table = lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t"))
    try:
        table.create_branch(text, 1)
        allowed = True
    except (ValueError, RuntimeError, OSError):
        allowed = False
    try:
        BranchName(text)
        ours = True
    except InvalidInputError:
        ours = False
    assert ours == allowed


@pytest.mark.parametrize(
    "text",
    ["a", "1", "main", ".a", "a.", "a..b", "a.lock", "a/b", "a b", "", "a\\b", "v1.0-x_y", "a%b"],
)
def test_pylance_and_we_allow_the_same_tag_names(tmp_path: Path, text: str) -> None:
    table = lance.write_dataset(pa.table({"a": [1]}), str(tmp_path / "t"))
    try:
        table.tags.create(text, 1)
        allowed = True
    except (ValueError, RuntimeError, OSError):
        allowed = False
    try:
        TagName(text)
        ours = True
    except InvalidInputError:
        ours = False
    assert ours == allowed


def _read(uri: str, key: str) -> bytes:
    return (Path(uri) / key).read_bytes()


def _write(uri: str, key: str, data: bytes) -> None:
    file = Path(uri) / key
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
