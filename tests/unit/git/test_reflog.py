"""The log of moves: lines and files, newest first, healed after a crash."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from lancewood.errors import FormatError, InvalidInputError
from lancewood.git.ref_files import append, read_newest_first
from lancewood.git.ref_store import LogEntry, decode_entry, encode_entry
from lancewood.git.values import ZERO, Hash, Signature

ADA = Signature("Ada", "ada@example.org", 1_700_000_000, 60)


def entry(number: int, why: str = "commit: x") -> LogEntry:
    old = ZERO if number == 1 else Hash(f"{number - 1:064x}")
    return LogEntry(old, Hash(f"{number:064x}"), ADA, why)


@pytest.mark.parametrize("why", ["commit: x", "", "grün"])
def test_an_entry_is_read_as_it_was_written(why: str) -> None:
    line = encode_entry(entry(1, why))
    assert line.endswith(b"\n")
    assert decode_entry(line[:-1]) == entry(1, why)


def test_a_reason_cannot_forge_another_entry() -> None:
    forged = encode_entry(entry(2, "x\n" + encode_entry(entry(3)).decode() + "\r\n\ty"))
    assert forged.count(b"\n") == 1
    assert forged.count(b"\t") == 1


@pytest.mark.parametrize("why", ["\ud800", "a\0b"])
def test_a_reason_that_git_cannot_hold_is_refused(why: str) -> None:
    with pytest.raises(InvalidInputError):
        encode_entry(entry(1, why))


def test_entries_come_newest_first_and_only_as_many_as_are_asked_for(tmp_path: Path) -> None:
    file = str(tmp_path / "log")
    for number in range(1, 1001):
        append(file, encode_entry(entry(number)))
    assert list(read_newest_first(file)) == [entry(number) for number in range(1000, 0, -1)]
    with open(file, "r+b") as damaged:
        damaged.write(b"damaged")
    newest = read_newest_first(file)
    assert list(itertools.islice(newest, 3)) == [entry(1000), entry(999), entry(998)]
    newest.close()  # type: ignore[attr-defined]
    with pytest.raises(FormatError, match=file):
        list(read_newest_first(file))


def test_a_line_that_a_crash_cut_short_is_left_out_and_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "log"
    for tail in (encode_entry(entry(2))[:70], b"\0" * 200, b"x" * 200_000):
        file.write_bytes(encode_entry(entry(1)) + tail)
        assert list(read_newest_first(str(file))) == [entry(1)]
        append(str(file), encode_entry(entry(2, "again")))
        assert list(read_newest_first(str(file))) == [entry(2, "again"), entry(1)]
    file.write_bytes(b"only a piece")
    append(str(file), encode_entry(entry(1)))
    assert list(read_newest_first(str(file))) == [entry(1)]


def test_a_line_can_be_taken_back(tmp_path: Path) -> None:
    file = str(tmp_path / "log")
    append(file, encode_entry(entry(1))).take_back()
    assert not Path(file).exists()
    append(file, encode_entry(entry(1)))
    append(file, encode_entry(entry(2))).take_back()
    assert list(read_newest_first(file)) == [entry(1)]


def test_without_a_file_there_are_no_entries(tmp_path: Path) -> None:
    assert list(read_newest_first(str(tmp_path / "none"))) == []
    assert list(read_newest_first(str(tmp_path))) == []


def test_a_file_without_newlines_is_not_read_for_ever(tmp_path: Path) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"x" * 3_000_000 + b"\n")
    with pytest.raises(FormatError, match="longer than"):
        list(read_newest_first(str(file)))
