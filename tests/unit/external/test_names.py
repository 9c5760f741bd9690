"""What paths in a manifest store mean; those that mean nothing are refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lancewood.errors import FormatError, InvalidInputError
from lancewood.external.base import (
    ManifestEntry,
    ManifestName,
    base_by_uri,
    base_in_bucket,
    final_name,
    location_of,
    manifest_key_parts,
    staged_name,
)
from lancewood.format.layout import NamingScheme, manifest_name
from lancewood.model.ids import DETACHED_BIT, Version

V2 = manifest_name(Version(7), NamingScheme.V2)
BESIDE = Version(DETACHED_BIT | 7)


@pytest.mark.parametrize("name", ["7.manifest", V2])
def test_a_staged_name_leads_to_its_final_one(name: str) -> None:
    staged = staged_name(name)
    assert staged != staged_name(name)
    assert final_name(staged) == name
    assert final_name(name) is None
    path = f"a/b/_versions/{staged}"
    assert location_of("a/b", ManifestEntry(Version(7), path)) == ManifestName(staged, name)
    assert location_of("a/b", ManifestEntry(Version(7), f"a/b/_versions/{name}")).is_final


@pytest.mark.parametrize(
    "path",
    [
        "",
        V2,
        f"a/_versions/{V2}",
        f"/a/b/_versions/{V2}",
        f"a/b/data/{V2}",
        "a/b/_versions/",
        f"a/b/_versions/{V2}-",
        f"a/b/_versions/{V2}-x/../y",
        "a/b/_versions/8.manifest",
        f"a/b/_versions/{manifest_name(Version(8), NamingScheme.V2)}",
        f"a/b/_versions/{manifest_name(BESIDE, NamingScheme.V2)}",
    ],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    with pytest.raises(FormatError, match="the manifest store says that version 7 of 'a/b'"):
        location_of("a/b", ManifestEntry(Version(7), path))


def test_only_manifests_of_the_history_are_for_the_manifest_store() -> None:
    assert manifest_key_parts(f"_versions/{V2}") == ("", V2, 7)
    assert manifest_key_parts("tree/a/b/_versions/7.manifest") == ("tree/a/b", "7.manifest", 7)
    for other in (
        V2,
        f"data/{V2}",
        f"_versions/x/{V2}",
        f"_versions/{V2}-x",
        f"_versions/{manifest_name(BESIDE, NamingScheme.V2)}",
        "_versions/latest_version_hint.json",
    ):
        assert manifest_key_parts(other) is None


def test_a_table_has_one_name_whatever_link_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "link")
    assert base_by_uri(f"{tmp_path}/link/t") == f"{tmp_path.resolve()}/real/t"
    assert base_by_uri("s3://b/t") == "s3://b/t"
    assert base_in_bucket("s3://b/a%25b/t") == "a%b/t"
    assert base_in_bucket("s3://b") == ""


def test_a_path_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"has a path in UTF-8, got .*udcff"):
        base_by_uri(f"{tmp_path}/\udcff")
