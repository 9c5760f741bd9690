"""The codec's failures, in our words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lancewood.data import codec
from lancewood.errors import (
    FormatError,
    InvalidInputError,
    LancewoodError,
    NotFoundError,
    StorageError,
    UnsupportedError,
)

NUMBERS = pa.schema([("n", pa.int64())])


class PanicException(BaseException):
    """What a panic of the codec looks like from Python."""


class Broken:
    """A codec object that fails in one way."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getattr__(self, name: str) -> Any:
        raise self._error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (OSError("Encountered corrupt file x, /a/b.rs:1:2"), FormatError),
        (PanicException("index out of bounds"), FormatError),
        (RuntimeError("Already borrowed"), FormatError),
        (ValueError("Not found: /x/y, /a/b.rs:1:2"), NotFoundError),
        (OSError("No such file or directory (os error 2)"), NotFoundError),
        (OSError("Input/output error (os error 5)"), StorageError),
        (OSError("Generic S3 error: error sending request"), StorageError),
        (NotImplementedError("Not supported: x"), UnsupportedError),
        (ModuleNotFoundError("No module named 'lance'"), UnsupportedError),
        (OSError("Field 'connection_timeout' is odd"), FormatError),
    ],
)
def test_each_failure_of_reading_has_its_error_and_names_the_file(
    error: BaseException, kind: type[LancewoodError]
) -> None:
    with pytest.raises(kind, match=r"/data/x\.lance") as caught:
        list(codec.FileReader(Broken(error), "/data/x.lance").read(0, 1, 1))
    assert type(caught.value) is kind
    assert ".rs:" not in str(caught.value)
    assert caught.value.facts["file"] == "/data/x.lance"


def test_a_panic_while_writing_is_an_error_too() -> None:
    writer = codec.FileWriter(Broken(PanicException("assertion failed")), "/data/x.lance")
    with pytest.raises(InvalidInputError, match="assertion failed"):
        writer.write(pa.record_batch({"n": [1]}))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3), MemoryError()])
def test_interruptions_pass_through(error: BaseException) -> None:
    with pytest.raises(type(error)):
        list(codec.FileReader(Broken(error), "x").take([0], 1))


def test_a_file_comes_into_being_when_it_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "data" / "x.lance"
    writer = codec.open_writer(str(path), NUMBERS, "2.2", None)
    writer.write(pa.record_batch({"n": [1, 2, 3]}))
    assert not path.exists()
    assert writer.close() == path.stat().st_size
    reader = codec.open_reader(str(path), ["n"], None)
    assert (reader.facts.num_rows, reader.facts.num_columns) == (3, 1)
    assert reader.facts.schema.names == ("n",)
    assert pa.Table.from_batches(reader.read(1, 3, 10))["n"].to_pylist() == [2, 3]
    assert pa.Table.from_batches(reader.take([0, 2], 10))["n"].to_pylist() == [1, 3]


def test_an_abandoned_file_leaves_nothing(tmp_path: Path) -> None:
    writer = codec.open_writer(str(tmp_path / "x.lance"), NUMBERS, "2.2", None)
    writer.write(pa.record_batch({"n": [1, 2, 3]}))
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_no_store_serves_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="nowhere://"):
        codec.open_reader("nowhere://x/y.lance", None, None)
    with pytest.raises(InvalidInputError, match="nowhere://"):
        codec.open_writer("nowhere://x/y.lance", NUMBERS, "2.2", None)


def test_a_missing_file_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"none\.lance"):
        codec.open_reader(str(tmp_path / "none.lance"), None, None)
