"""What a run leaves behind in texts: ids, claims, entries of the ledger, progress, errors."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lancewood.errors import FormatError, InvalidInputError, RetryableConflictError
from lancewood.pipeline.report.facts import QuarantineFacts, SourceFacts, TargetFacts
from lancewood.pipeline.running.ledger import (
    LedgerEntry,
    Progress,
    decode_entry,
    decode_message,
    encode_entry,
    encode_message,
)
from lancewood.pipeline.running.run import joined
from lancewood.pipeline.running.runs import RunFolder, checked_run_id, claimed, new_run_id

ENTRY = LedgerEntry(
    pipeline="zoo",
    run="r1",
    digest="d",
    started="2026-01-01T00:00:00+00:00",
    branch="main",
    tag="v1",
    parameters={"b": "é", "a": "1"},
    states={"s": [1]},
)


def test_an_entry_has_one_fact_on_a_line_in_the_order_of_names() -> None:
    text = encode_entry(ENTRY).decode()
    assert text.splitlines() == [
        "{",
        '  "branch": "main",',
        '  "digest": "d",',
        '  "format": 1,',
        '  "parameters": {',
        '    "a": "1",',
        '    "b": "é"',
        "  },",
        '  "pipeline": "zoo",',
        '  "run": "r1",',
        '  "sources": {',
        '    "s": [',
        "      1",
        "    ]",
        "  },",
        '  "started": "2026-01-01T00:00:00+00:00",',
        '  "tag": "v1"',
        "}",
    ]
    assert decode_entry(encode_entry(ENTRY), "x") == ENTRY


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (b'"format": 1', b'"format": 2', "use a newer one"),
        (b'"run": "r1"', b'"run": 7', "run is 7, not a text"),
        (b'"tag": "v1"', b'"tag": []', "tag is"),
        (b'"branch": "main"', b'"branch": 7', "branch is 7, not a text"),
        (b'"a": "1"', b'"a": 1', "a parameter is not a text"),
        (b"{", b"[", "is not JSON"),
    ],
)
def test_an_entry_from_outside_is_checked(old: bytes, new: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=f"pipelines/zoo.json: .*{why}"):
        decode_entry(encode_entry(ENTRY).replace(old, new, 1), "pipelines/zoo.json")


def test_progress_survives_the_message_of_a_commit() -> None:
    progress = Progress(
        "zoo",
        "r1",
        "d",
        "c",
        None,
        "now",
        "n",
        [TargetFacts("photos", "append", columns_added=("a", "b"), indices_created=("c",))],
        [SourceFacts("files", "csv", "/in")],
        QuarantineFacts("bad", 1, by_reason=(("files", "no date\n\x85\u2028at all", 1),)),
    )
    message = encode_message("append photos", progress)
    assert message.splitlines()[0] == "append photos"
    assert decode_message(message) == progress


@pytest.mark.parametrize(
    "message", ["", "hello", "x\n\nLancewood-Progress: {", "x\n\nLancewood-Progress: {}", "\n1"]
)
def test_a_message_of_somebody_else_tells_no_progress(message: str) -> None:
    assert decode_message(message) is None


def test_rows_that_were_counted_before_a_crash_are_not_forgotten() -> None:
    before = [SourceFacts("a", "csv", "/a", rows=3), SourceFacts("b", "csv", "/b", rows=4)]
    now = [SourceFacts("a", "csv", "/a"), SourceFacts("b", "csv", "/b", rows=5)]
    assert [each.rows for each in joined(before, now)] == [3, 5]


def test_ids_are_made_of_the_time_and_some_chance() -> None:
    now = datetime(2026, 1, 31, 23, 59, 58, tzinfo=UTC)
    one, other = new_run_id(now), new_run_id(now)
    assert one != other
    assert checked_run_id(one).startswith("20260131T235958Z-")
    with pytest.raises(InvalidInputError, match="is a text, not int"):
        checked_run_id(7)  # type: ignore[arg-type]


def test_a_claim_is_held_once_and_goes_with_its_holder(tmp_path: Path) -> None:
    with claimed(tmp_path, "r1"), claimed(tmp_path, "r2"):
        with (
            pytest.raises(RetryableConflictError, match=f"process {os.getpid()} on .* since"),
            claimed(tmp_path, "r1"),
        ):
            pass
        with pytest.raises(RetryableConflictError), claimed(tmp_path, "r1"):
            pass
    with claimed(tmp_path, "r1"):
        pass
    assert [*(tmp_path / "lancewood/runs/.claims").iterdir()] == []


def test_a_claim_of_a_process_that_was_killed_is_free(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from lancewood.pipeline.running.runs import claimed\n"
        "with claimed(Path(sys.argv[1]), 'r1'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert (tmp_path / "lancewood/runs/.claims/r1").exists()
    with claimed(tmp_path, "r1"):
        pass


@pytest.mark.parametrize("linked", ["lancewood", "lancewood/runs", "lancewood/runs/.claims"])
def test_a_claim_is_not_left_where_a_link_leads(tmp_path: Path, linked: str) -> None:
    link, outside = tmp_path / "repo" / linked, tmp_path / "outside"
    link.parent.mkdir(parents=True)
    outside.mkdir()
    link.symlink_to(outside)
    with (
        pytest.raises(InvalidInputError, match=f"{linked} is a symbolic link"),
        claimed(tmp_path / "repo", "r1"),
    ):
        pass
    assert not [*outside.iterdir()]


@pytest.mark.parametrize("linked", ["runs", "runs/zoo", "runs/zoo/r1", "runs/zoo/r1/failures"])
def test_a_report_is_not_written_where_a_link_leads(tmp_path: Path, linked: str) -> None:
    link = tmp_path / "lancewood" / linked
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidInputError, match=f"{linked} is a symbolic link"):
        RunFolder.of(tmp_path, "zoo", "r1")
