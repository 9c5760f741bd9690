from __future__ import annotations

import pytest

from lancewood.errors import FormatError
from lancewood.format.layout import (
    ManifestName,
    NamingScheme,
    check_file_name,
    detached_version,
    find_base,
    key_in_base,
    manifest_name,
    parse_manifest_name,
    transaction_name,
    transaction_parts,
)
from lancewood.model.ids import BaseId, Version, is_detached
from lancewood.proto import table_pb2


def test_names_of_version_one() -> None:
    assert manifest_name(Version(1), NamingScheme.V2) == "18446744073709551614.manifest"
    assert manifest_name(Version(1), NamingScheme.V1) == "1.manifest"


@pytest.mark.parametrize("version", [1, 2, 10, 2**32, 2**63 - 1])
def test_v2_names_are_read_back(version: int) -> None:
    name = manifest_name(Version(version), NamingScheme.V2)
    assert parse_manifest_name(name) == ManifestName(Version(version), NamingScheme.V2)


def test_newer_v2_names_sort_first() -> None:
    names = [manifest_name(Version(each), NamingScheme.V2) for each in (1, 2, 10, 99, 100)]
    assert sorted(names) == names[::-1]


def test_detached_versions_have_names_of_their_own() -> None:
    version = detached_version()
    assert is_detached(version)
    name = manifest_name(version, NamingScheme.V2)
    assert name == f"d{version}.manifest"
    parsed = parse_manifest_name(name)
    assert parsed is not None
    assert parsed.detached


@pytest.mark.parametrize(
    "name",
    [
        "latest_version_hint.json",
        "junk.manifest",
        ".manifest",
        "1.manifest#1",
        ".tmp1234",
        "18446744073709551614.manifest-0b9d",
        "-1.manifest",
        "+1.manifest",
        "1_0.manifest",
        "d5.manifest",
        "d.manifest",
        "d99999999999999999999.manifest",
        "99999999999999999999.manifest",
        "\u0661.manifest",
        "1.manifest ",
        "",
    ],
)
def test_other_names_in_the_directory_are_ignored(name: str) -> None:
    assert parse_manifest_name(name) is None


def test_transaction_names() -> None:
    assert transaction_name(Version(5), "550e8400") == "5-550e8400.txn"
    assert transaction_parts("5-550e8400-aa.txn") == (5, "550e8400-aa")
    for other in ("5-.txn", "-a.txn", "5-a", "x-a.txn", f"{1 << 64}-a.txn", "5-a/b.txn"):
        assert transaction_parts(other) is None


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "/etc/passwd", "a\\b", "a\0b"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(FormatError, match="bare file name"):
        check_file_name(name, "a data file")


def test_keys_below_a_base_depend_on_its_kind() -> None:
    root = table_pb2.BasePath(id=0, is_dataset_root=True, path="/x")
    plain = table_pb2.BasePath(id=1, is_dataset_root=False, path="/y")
    assert key_in_base(None, "data", "f.lance") == "data/f.lance"
    assert key_in_base(root, "data", "f.lance") == "data/f.lance"
    assert key_in_base(plain, "data", "f.lance") == "f.lance"


def test_an_undeclared_base_is_a_format_error() -> None:
    with pytest.raises(FormatError, match="base path 9, but the manifest declares 0"):
        find_base([table_pb2.BasePath(id=0, path="/x")], BaseId(9))
