"""Answers dropped, delayed and throttled on the wire, at every request of create, append and read.

The client, its timeouts and its retries are the real ones. What was reported as done is there
exactly once, what was reported as failed is not there, and only a store that stays away makes the
fate of a commit unknown.
"""

from __future__ import annotations

from collections.abc import Iterator

import lance
import pyarrow as pa
import pytest

import lancewood as lw
from lancewood.store.locate import open_store
from lancewood.testing.wire import Fault, FaultyWire, Request, at

pytestmark = pytest.mark.sliced(3)

FIRST = pa.table({"a": [1, 2, 3]})
SECOND = pa.table({"a": [4, 5]})
MOST_REQUESTS = 60
EXPECTED: dict[str, list[list[int] | None]] = {
    "nothing, then failed": [None],
    "nothing, then unknown": [None, [1, 2, 3]],
    "created, then failed": [[1, 2, 3]],
    "created, then unknown": [[1, 2, 3], [1, 2, 3, 4, 5]],
    "appended, then failed": [[1, 2, 3, 4, 5]],
    "read": [[1, 2, 3, 4, 5]],
}


@pytest.fixture
def wire(s3_endpoint: str) -> Iterator[FaultyWire]:
    with FaultyWire(s3_endpoint) as wire:
        yield wire


@pytest.fixture
def through(wire: FaultyWire, s3_options: dict[str, str]) -> dict[str, str]:
    """Options that lead through the wire."""
    return {**s3_options, "aws_endpoint": wire.endpoint, "timeout": "10s"}


def work(uri: str, options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> str:
    """Create, append and read as a new process would; what the caller was told."""
    monkeypatch.setattr("lancewood.store.probe._proven", set())
    told = "nothing"
    try:
        table = lw.create(uri, FIRST, access=lw.Access(storage_options=options))
        told = "created"
        table.append(SECOND)
        told = "appended"
        assert lw.open(uri, access=lw.Access(storage_options=options)).count_rows("a > 0") == 5
        return "read"
    except lw.CommitUnknownError:
        return f"{told}, then unknown"
    except (lw.StorageError, lw.NotFoundError):
        return f"{told}, then failed"


def found(uri: str, options: dict[str, str]) -> list[int] | None:
    """The rows as pylance reads them, past the wire; None where there is no table."""
    if not lw.exists(uri, access=lw.Access(storage_options=options)):
        return None
    dataset = lance.dataset(uri, storage_options=options)
    rows: list[int] = dataset.to_table()["a"].to_pylist()
    assert dataset.version == (1 if rows == [1, 2, 3] else 2)
    return rows


@pytest.mark.parametrize("fault", ["drop", "late", "slow-down", "error-after"])
def test_one_fault_at_any_request_is_overcome(
    wire: FaultyWire,
    through: dict[str, str],
    s3_options: dict[str, str],
    s3_root: str,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if fault == "late":
        through["timeout"] = "300ms"
    for number in range(1, MOST_REQUESTS):
        uri = f"{s3_root}/{number}"
        wire.play(at(number, fault))
        told = work(uri, through, monkeypatch)
        requests = wire.requests
        assert told == "read", requests[number - 1]
        assert found(uri, s3_options) == [1, 2, 3, 4, 5], requests[number - 1]
        if len(requests) < number:
            break
    else:
        pytest.fail("the work never came to its end")
    assert number > 20
    assert lance.dataset(uri, storage_options=s3_options).validate() is None


@pytest.mark.parametrize("fault", ["reset", "drop", "refuse"])
def test_a_store_that_stays_away_leaves_old_or_new_and_says_which(
    wire: FaultyWire,
    through: dict[str, str],
    s3_options: dict[str, str],
    s3_root: str,
    fault: Fault,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)
    options = {**through, "client_max_retries": "0", "download_retry_count": "0"}
    seen = set()
    for number in range(1, MOST_REQUESTS):
        uri = f"{s3_root}/{number}"

        def from_then_on(request: Request, number: int = number) -> Fault | None:
            return fault if request.number >= number else None

        wire.play(from_then_on)
        told = work(uri, options, monkeypatch)
        requests = wire.requests
        assert found(uri, s3_options) in EXPECTED[told], (told, requests[number - 1 :])
        seen.add(told)
        if told == "read":
            break
    else:
        pytest.fail("the work never came to its end")
    assert {"nothing, then failed", "created, then failed", "appended, then failed"} <= seen
    assert any("unknown" in each for each in seen) == (fault != "refuse")


def test_files_of_a_commit_without_an_answer_are_still_there_when_the_store_is_back(
    wire: FaultyWire,
    through: dict[str, str],
    s3_options: dict[str, str],
    s3_root: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lancewood.store.retry.time.sleep", lambda seconds: None)
    table = lw.create(
        s3_root, FIRST, access=lw.Access(storage_options={**through, "client_max_retries": "0"})
    )

    def deaf_from_the_manifest_on(request: Request) -> Fault | None:
        if request.is_conditional or unheard:
            unheard.append(request)
        return "drop" if unheard else None

    unheard: list[Request] = []
    wire.play(deaf_from_the_manifest_on)
    with pytest.raises(lw.CommitUnknownError, match="nothing was deleted"):
        table.append(SECOND)
    assert [each.method for each in wire.requests if each.method in ("DELETE", "POST")] == []
    assert found(s3_root, s3_options) == [1, 2, 3, 4, 5]


def test_a_throttled_store_is_waited_for(
    wire: FaultyWire, through: dict[str, str], s3_root: str
) -> None:
    store = open_store(s3_root, storage_options=through)
    store.put("d/k", b"1")
    etag = store.head("d/k").etag
    for verb in (
        lambda: store.get("d/k"),
        lambda: store.head("d/k"),
        lambda: [*store.names("d")],
        lambda: store.put("d/k", b"1"),
        lambda: store.put_new("d/new", b"1"),
        lambda: store.replace("d/k", b"2", etag),
        lambda: store.copy("d/k", "d/copy"),
        lambda: store.delete(["d/k", "d/copy"]),
    ):
        wire.play(lambda request: "slow-down" if request.number <= 2 else None)
        verb()
        assert len(wire.requests) == 3
