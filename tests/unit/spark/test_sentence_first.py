"""What Python prints of an error of ours, where Spark's own Python tells it."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lancewood.errors import LancewoodError, NotFoundError, StorageError
from lancewood.spark.running.failures import our_error, sentence_first, telling_sentence_first

pytest.importorskip("pyspark", reason="pyspark is not installed")

SENTENCE = "version 1 of t.lance cannot be read any more"
FIRST = f"lancewood.errors.NotFoundError: {SENTENCE}"


def raised_alone() -> None:
    raise NotFoundError(SENTENCE)


def raised_from_others() -> None:
    try:
        try:
            raise FileNotFoundError("no file")
        except FileNotFoundError as missing:
            raise StorageError("no object") from missing
    except StorageError as cause:
        raise NotFoundError(SENTENCE) from cause


def text_of(error: Exception) -> str:
    """What PySpark writes to the JVM for an exception of a worker."""
    from pyspark.util import handle_worker_exception

    out = io.BytesIO()
    try:
        raise error
    except Exception as caught:
        handle_worker_exception(caught, out)
    return out.getvalue()[8:].decode()


@pytest.mark.parametrize("simplified", ["", "1"])
@pytest.mark.parametrize("run", [raised_alone, raised_from_others])
def test_the_sentence_stands_before_the_stack(
    run: Callable[[], None], simplified: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_SIMPLIFIED_TRACEBACK", simplified)
    with pytest.raises(NotFoundError) as plain:
        run()
    assert not text_of(plain.value).startswith(FIRST)
    with pytest.raises(NotFoundError) as told, sentence_first(), sentence_first():
        run()
    text = text_of(told.value)
    assert text.startswith(f"{FIRST}\n")
    assert text.rstrip().endswith(FIRST)
    assert text.count(FIRST) == 2
    assert ("no file" in text) == (run is raised_from_others and not simplified)
    found = our_error(text)
    assert (type(found), str(found)) == (NotFoundError, SENTENCE)
    again = pickle.loads(pickle.dumps(told.value))
    assert (type(again), str(again)) == (NotFoundError, SENTENCE)


def test_generators_tell_it_so_and_other_exceptions_stay_as_they_are() -> None:
    @telling_sentence_first
    def rows(error: Exception) -> Iterator[int]:
        yield 1
        raise error

    def text_after_a_row(error: Exception) -> str:
        found: Any = rows(error)
        assert next(found) == 1
        with pytest.raises(type(error)) as caught:
            next(found)
        return text_of(caught.value)

    assert text_after_a_row(LancewoodError("ours")).startswith("lancewood.errors.LancewoodError:")
    assert text_after_a_row(ValueError("theirs")).startswith("Traceback")
