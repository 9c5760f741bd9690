"""Pins as texts: written so that a diff reads well, read strictly."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.catalog.pins import FIRST, SECOND, UUID, some_pin, staged_pin

from lancewood.catalog.pin import MAX_PIN_SIZE, Pin, decode_pin, encode_pin
from lancewood.errors import FormatError, InvalidInputError, UnsupportedError
from lancewood.model.refs import BranchName

FILE = "tables/photos.json"

TEXT = """\
{
  "uri": "tables/photos.lance",
  "branch": "main",
  "version": 12,
  "manifest": "_versions/18446744073709551603.manifest",
  "size": 1234,
  "sha256": "AB",
  "content": "CD",
  "rows": 1000,
  "fragments": 3,
  "landing": null,
  "schema": [
    "id: int64 not null",
    "image: large_binary"
  ]
}
""".replace("AB", "ab" * 32).replace("CD", "cd" * 32)


def changed(pin: Pin | None = None, **changes: Any) -> bytes:
    """The text of a pin after some of its keys were given other values."""
    document = json.loads(encode_pin(some_pin() if pin is None else pin))
    return json.dumps({**document, **changes}).encode()


def refused(data: bytes) -> str:
    with pytest.raises(FormatError) as caught:
        decode_pin(data, FILE)
    assert caught.value.message.startswith(f"{FILE}: ")
    return caught.value.message


def test_the_text_has_one_fact_a_line_in_a_fixed_order() -> None:
    assert encode_pin(some_pin()).decode() == TEXT
    assert decode_pin(TEXT.encode(), FILE) == some_pin()


def test_the_landing_has_one_fact_a_line_too() -> None:
    lines = encode_pin(staged_pin(branch=BranchName("exp"))).decode().splitlines()
    start = lines.index('  "landing": {')
    assert lines[2:5] == [
        '  "branch": "exp",',
        f'  "version": "d{SECOND}",',
        f'  "manifest": "_versions/d{SECOND}.manifest",',
    ]
    assert lines[start + 1 : start + 7] == [
        '    "base": 11,',
        f'    "transaction": "{UUID}",',
        '    "steps": [',
        f'      "d{FIRST}",',
        f'      "d{SECOND}"',
        "    ]",
    ]


COLUMNS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
PINS = st.builds(
    some_pin,
    name=st.text(string.ascii_letters + string.digits, min_size=1, max_size=9),
    version=st.integers(1, (1 << 63) - 1),
    branch=st.sampled_from([None, BranchName("exp"), BranchName("team/ä-1")]),
    rows=st.none() | st.integers(0, 1 << 40),
    fragments=st.integers(0, 1 << 30),
    size=st.integers(0, 1 << 40),
    schema=st.lists(st.tuples(COLUMNS, COLUMNS), max_size=4).map(tuple),
)


@given(PINS | st.builds(staged_pin, base=st.integers(0, 1 << 40)))
def test_what_is_written_is_read_again(pin: Pin) -> None:
    data = encode_pin(pin)
    assert decode_pin(data, FILE) == pin
    plain = json.dumps(json.loads(data), indent=2, ensure_ascii=False)
    assert data.decode() == f"{plain}\n", "as everybody's json lays it out"


@pytest.mark.parametrize(
    "column", ["a: b", '"quoted"', ":", "", "a\nb", "a:", '"', "x: int64 not null", "\\"]
)
def test_a_column_with_an_odd_name_is_not_mistaken_for_another(column: str) -> None:
    pin = some_pin(schema=((column, "struct<x: int64>"), ("next", "string")))
    assert decode_pin(encode_pin(pin), FILE) == pin


def test_keys_of_a_later_release_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"tables/photos.json: says 'lineage', 'owner'"):
        decode_pin(changed(owner=1, lineage=2), FILE)
    landing = {"base": 11, "transaction": UUID, "steps": [f"d{SECOND}"], "hint": 1}
    with pytest.raises(UnsupportedError, match=r"'landing.hint'"):
        decode_pin(changed(staged_pin(), landing=landing), FILE)


@pytest.mark.parametrize("key", json.loads(TEXT))
def test_a_missing_key_is_named(key: str) -> None:
    document = json.loads(TEXT)
    del document[key]
    assert key in refused(json.dumps(document).encode())


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[(key, value) for key in json.loads(TEXT) for value in (True, 1.5, [1], {"a": 1})],
        *[(key, None) for key in json.loads(TEXT) if key not in ("rows", "landing")],
        *[(key, 3) for key in ("uri", "branch", "manifest", "sha256", "content", "schema")],
        *[(key, "3") for key in ("size", "rows", "fragments", "landing", "schema")],
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_its_key(key: str, value: Any) -> None:
    assert key in refused(changed(**{key: value}))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 0}, "a version"),
        ({"version": -1}, "a version"),
        ({"version": 1 << 63}, "a version"),
        ({"version": "d12"}, "a version"),
        ({"version": "12"}, "a version"),
        ({"version": f"d{1 << 64}"}, "a version"),
        ({"version": 13}, "is not the manifest of version 13"),
        ({"manifest": "_versions/../12.manifest"}, "is not the manifest"),
        ({"manifest": "18446744073709551603.manifest"}, "is not the manifest"),
        ({"manifest": "../_versions/18446744073709551603.manifest"}, "is not the manifest"),
        ({"size": -1}, "out of range"),
        ({"rows": 1 << 64}, "out of range"),
        ({"fragments": -5}, "out of range"),
        ({"sha256": "AB" * 32}, "no SHA-256"),
        ({"content": "ab" * 31}, "no SHA-256"),
        ({"branch": "../up"}, "branch name"),
        ({"branch": ""}, "branch name"),
        ({"schema": ["id"]}, "'id'"),
        ({"schema": ['"id: int64']}, "id: int64"),
        ({"version": f"d{SECOND}", "manifest": f"_versions/d{SECOND}.manifest"}, "needs a landing"),
    ],
)
def test_values_that_no_table_can_have_are_refused(changes: dict[str, Any], why: str) -> None:
    assert why in refused(changed(**changes))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"base": 1 << 63}, "from a version of the history"),
        ({"base": True}, "landing.base"),
        ({"base": "11"}, "landing.base"),
        ({"transaction": "not-a-uuid"}, "uuid"),
        ({"transaction": UUID.upper()}, "uuid"),
        ({"transaction": None}, "landing.transaction"),
        ({"steps": []}, "landing.steps"),
        ({"steps": "d1"}, "landing.steps"),
        ({"steps": [12]}, "detached"),
        ({"steps": [f"d{SECOND}", f"d{FIRST}"]}, "ends with version"),
        ({"steps": [f"d{SECOND}", f"d{SECOND}"]}, "the same version"),
    ],
)
def test_a_landing_that_cannot_be_is_refused(changes: dict[str, Any], why: str) -> None:
    good = {"base": 11, "transaction": UUID, "steps": [f"d{FIRST}", f"d{SECOND}"]}
    assert why in refused(changed(staged_pin(), landing={**good, **changes}))


def test_an_ordinary_version_has_no_landing() -> None:
    landing = {"base": 11, "transaction": UUID, "steps": [f"d{FIRST}"]}
    assert "ends with version" in refused(changed(landing=landing))


@pytest.mark.parametrize(
    "uri",
    [
        "../../etc",
        "tables/../../etc.lance",
        "tables/photos",
        "tables/sub/photos.lance",
        "tables/.hidden.lance",
        "photos.lance",
        "./tables/photos.lance",
        "~/photos.lance",
        "file:///data/photos.lance",
        "tables\\photos.lance",
        "tables/pho\0tos.lance",
        "/data/pho\0tos.lance",
        "/data/\x1b[2J.lance",
        "/data/../etc",
        "/data//x",
        "/data/./x",
        "/data/x/",
        "/",
        "",
        "s3://bucket/../other",
        "s3://bucket/%2e%2e/other",
        "s3://",
        "s3://bucket/x/",
        "/" + "x" * 4096,
    ],
)
def test_a_hostile_uri_is_refused_in_a_file_and_by_a_caller(uri: str) -> None:
    assert "uri" in refused(changed(uri=uri))
    with pytest.raises(InvalidInputError, match="is not allowed"):
        some_pin(uri=uri)


@pytest.mark.parametrize(
    "uri", ["/data/photos.lance", "s3://bucket/a/b.lance", "memory://m/x", "gs://b/with space"]
)
def test_a_place_elsewhere_is_named_in_full(uri: str) -> None:
    pin = some_pin(uri=uri)
    assert decode_pin(encode_pin(pin), FILE) == pin
    assert not pin.is_own
    assert some_pin().is_own


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"uri": 1, "uri": 2}',
        b"{" * 100_000,
        TEXT.replace("1234", "NaN").encode(),
        TEXT.replace("1234", "9" * 5000).encode(),
        TEXT.replace("photos", "\\ud800").encode(),
    ],
)
def test_bytes_that_are_no_object_are_refused(data: bytes) -> None:
    refused(data)


def test_sizes_are_bounded_both_ways() -> None:
    refused(b" " * (MAX_PIN_SIZE + 1))
    wide = tuple((f"column_{each}", "x" * 1000) for each in range(20_000))
    with pytest.raises(InvalidInputError, match="20,000 columns"):
        encode_pin(some_pin(schema=wide))


def test_half_a_character_is_refused_before_it_is_written() -> None:
    with pytest.raises(InvalidInputError, match="half a character"):
        encode_pin(some_pin(schema=(("\ud800", "int64"),)))


def test_a_pin_for_another_branch_differs_in_that_only() -> None:
    moved = staged_pin().on(BranchName("exp"))
    assert moved.branch == "exp"
    assert moved.on(None) == staged_pin()


@given(st.binary(max_size=200), st.integers(0, len(TEXT) - 1), st.integers(0, 20))
def test_damaged_texts_are_a_typed_error_or_a_pin(junk: bytes, at: int, cut: int) -> None:
    data = TEXT.encode()[:at] + junk + TEXT.encode()[at + cut :]
    try:
        pin = decode_pin(data, FILE)
    except (FormatError, UnsupportedError):
        with pytest.raises((FormatError, UnsupportedError), match=r"^tables/photos\.json: "):
            decode_pin(data, FILE)
    else:
        assert decode_pin(encode_pin(pin), FILE) == pin
