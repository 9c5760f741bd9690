"""Digests of manifests: the same for the same, whatever the bytes look like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

from lancewood.format.container import encode_varint
from lancewood.format.manifest import (
    VersionStamp,
    content_digest,
    decode_manifest_file,
    manifest_digest,
    restamped,
    seal,
)
from lancewood.model.ids import Version
from lancewood.model.manifest import Manifest
from lancewood.proto import table_pb2

GOLDEN_MANIFEST = "2307b8b6bdc730dbcab1f6aa7f26dc28f06ab143ad84afa7a159671cf3f9cd76"
GOLDEN_CONTENT = "747d320b17aee9fe458d969e1483307b1d11ca4f98c1af66e36cbaae29a4c673"
STAMP = VersionStamp(
    Version(4), 1_700_000_000_000_000_001, "3-x.txn", b"\x08\x03\x12\x01x", "lw", "1"
)


def message() -> table_pb2.Manifest:
    made = table_pb2.Manifest(branch="exp", next_row_id=9, max_fragment_id=1)
    made.fields.add(id=0, name="a", parent_id=-1, logical_type="int64").metadata["unit"] = b"m"
    made.schema_metadata["k"] = b"v"
    for key in ("b", "a", "c"):
        made.config[key] = key * 2
    made.base_paths.add(id=1, path="/old/place", is_dataset_root=True)
    for number in range(2):
        fragment = table_pb2.DataFragment(id=number, physical_rows=5)
        fragment.files.add(path=f"{number}.lance", fields=[0], base_id=1)
        made.fragments.append(fragment.SerializeToString())
    return made


def written(
    source: table_pb2.Manifest, indices: bytes | None = b"\x0a\x00"
) -> tuple[Manifest, bytes]:
    return seal(source, indices, STAMP)


def test_the_digest_in_memory_is_that_of_the_written_file() -> None:
    made, data = written(message())
    read = decode_manifest_file(data, name="f")
    for digest in (manifest_digest, content_digest):
        assert digest(made.message) == digest(read.message)


def test_the_order_in_which_maps_were_written_does_not_count() -> None:
    one, other = message(), message()
    other.ClearField("config")
    for key in ("c", "b", "a"):
        other.config[key] = key * 2
    assert manifest_digest(one) == manifest_digest(other)
    for each in (one, other):
        again = table_pb2.Manifest.FromString(each.SerializeToString())
        assert manifest_digest(again) == manifest_digest(one)


def test_base_paths_and_section_offsets_do_not_count() -> None:
    one, other = message(), message()
    other.base_paths[0].path = "/new/place/which/is/longer"
    made, _ = written(one)
    moved, _ = written(other, indices=b"\x0a\x00" * 7)
    assert made.message != moved.message
    assert manifest_digest(made.message) == manifest_digest(moved.message)


def test_another_number_and_time_are_another_manifest_with_the_same_content() -> None:
    made, _ = written(message())
    again, data = restamped(made, Version(9), STAMP.timestamp_ns + 5)
    assert manifest_digest(made.message) != manifest_digest(again.message)
    assert content_digest(made.message) == content_digest(again.message)
    for each in (again, decode_manifest_file(data, name="f")):
        assert (each.version, each.timestamp_ns) == (9, STAMP.timestamp_ns + 5)
        assert each.transaction_section == made.transaction_section == STAMP.transaction
        assert each.index_section == made.index_section == b"\x0a\x00"


def _config(each: table_pb2.Manifest) -> None:
    each.config["new"] = "1"


def _fragment_bytes(each: table_pb2.Manifest) -> None:
    each.fragments[1] = each.fragments[1] + encode_varint(99 << 3) + b"\x01"


def _column(each: table_pb2.Manifest) -> None:
    each.fields[0].name = "b"


def _field_metadata(each: table_pb2.Manifest) -> None:
    each.fields[0].metadata["unit"] = b"km"


def _schema_metadata(each: table_pb2.Manifest) -> None:
    each.schema_metadata["k"] = b"w"


def _less(each: table_pb2.Manifest) -> None:
    del each.fragments[0]


def _order(each: table_pb2.Manifest) -> None:
    each.fragments[:] = [*each.fragments][::-1]


def _unknown(each: table_pb2.Manifest) -> None:
    each.MergeFromString(encode_varint(500 << 3) + b"\x07")


@pytest.mark.parametrize(
    ("change", "is_content"),
    [
        (_config, False),
        (_unknown, False),
        (_fragment_bytes, True),
        (_column, True),
        (_field_metadata, True),
        (_schema_metadata, True),
        (_less, True),
        (_order, True),
    ],
)
def test_every_other_change_counts(
    change: Callable[[table_pb2.Manifest], None], is_content: bool
) -> None:
    changed = message()
    change(changed)
    assert manifest_digest(changed) != manifest_digest(message())
    assert (content_digest(changed) != content_digest(message())) is is_content


def test_the_boundaries_of_fragments_count() -> None:
    one, other = message(), message()
    whole = one.fragments[0] + one.fragments[1]
    del other.fragments[:]
    other.fragments.append(whole)
    other.fragments.append(b"")
    assert content_digest(one) != content_digest(other)


def test_asking_changes_nothing() -> None:
    made = message()
    manifest_digest(made)
    content_digest(made)
    assert made == message()


_PRINT = (
    "import sys; from lancewood.proto import table_pb2; "
    "from lancewood.format.manifest import content_digest, manifest_digest; "
    "m = table_pb2.Manifest.FromString(bytes.fromhex(sys.argv[1])); "
    "print(manifest_digest(m), content_digest(m))"
)


def test_another_implementation_of_protobuf_gives_the_same_digests() -> None:
    made = message()
    _unknown(made)
    environment = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    told = subprocess.run(
        [sys.executable, "-c", _PRINT, made.SerializeToString().hex()],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.split() == [manifest_digest(made), content_digest(made)]


def test_digests_stay_what_they_were() -> None:
    """They are pinned for ever; a release of protobuf that changes them must not go unseen."""
    made = message()
    _unknown(made)
    assert manifest_digest(made) == GOLDEN_MANIFEST
    assert content_digest(made) == GOLDEN_CONTENT
