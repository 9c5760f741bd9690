"""The door to pylance's own dataset."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.pylance import lance

from lancewood.data.index_engine import DatasetAddress
from lancewood.errors import NotFoundError, StorageError, UnsupportedError
from lancewood.model.ids import Version


def test_exactly_the_version_that_was_asked_for_is_opened(tmp_path: Path) -> None:
    root = str(tmp_path / "t")
    lance.write_dataset(pa.table({"a": [1]}), root)
    dataset = lance.write_dataset(pa.table({"a": [2]}), root, mode="append")
    dataset.create_branch("exp")
    branch = lance.dataset(root).checkout_version(("exp", None))
    lance.write_dataset(pa.table({"a": [3]}), branch, mode="append")
    lance.write_dataset(pa.table({"a": [9]}), root, mode="append")
    assert DatasetAddress(root, Version(1)).open().to_table()["a"].to_pylist() == [1]
    assert DatasetAddress(root, Version(3)).open().to_table()["a"].to_pylist() == [1, 2, 9]
    found = DatasetAddress(root, Version(3), "exp").open()
    assert found.to_table()["a"].to_pylist() == [1, 2, 3]
    with pytest.raises(NotFoundError, match="version 7"):
        DatasetAddress(root, Version(7)).open()


def test_a_place_that_is_no_table_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises((NotFoundError, StorageError), match="version 1 of"):
        DatasetAddress(str(tmp_path / "none"), Version(1)).open()


class PanicException(BaseException):
    """What a panic of pylance looks like from Python."""


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PanicException("not yet implemented"), StorageError),
        (OSError("broken, /a/b.rs:1:2"), StorageError),
        (ModuleNotFoundError("No module named 'lance'"), UnsupportedError),
        (KeyboardInterrupt(), KeyboardInterrupt),
    ],
)
def test_what_pylance_raises_is_an_error_of_ours_and_interruptions_pass(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, kind: type[BaseException]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(lance, "dataset", fail)
    with pytest.raises(kind) as caught:
        DatasetAddress("/t", Version(1)).open()
    assert ".rs:" not in str(caught.value)
