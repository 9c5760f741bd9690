"""Which name in a listing is the newest version, whatever else lies there."""

from __future__ import annotations

import pytest

from lancewood.engine.versions.finding import list_versions, newest_version
from lancewood.format.layout import NamingScheme, manifest_key
from lancewood.model.ids import Version
from lancewood.store.memory import MemoryStore


@pytest.mark.parametrize(
    "junk",
    [
        "00000000000000000004.manifest",
        "00000000000000000000.manifest",
        "0000000000000000000x.manifest",
        "09223372036854775808.manifesU",
        "." * 29,
    ],
)
def test_a_name_as_long_as_a_manifests_does_not_hide_the_newest_version(junk: str) -> None:
    """Fuzzing found it: the first name of that length was taken for the newest version."""
    store = MemoryStore("versions", junk)
    for version in (1, 2):
        store.put(manifest_key(Version(version), NamingScheme.V2), b"")
    store.put(f"_versions/{junk}", b"")
    newest = newest_version(store)
    assert newest is not None
    assert newest.version == list_versions(store).newest == 2
