"""The harness reports every kind of failure: bugs are planted, and it must find them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from tests.fuzz import message
from tests.fuzz.bend import bend
from tests.fuzz.campaign import ROOT, Campaign
from tests.fuzz.planted import GOOD

from lancewood.proto import table_pb2


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    directory = tmp_path_factory.mktemp("planted")
    with Campaign(directory, seconds=1.0, memory=128 << 20) as running:
        yield running


@pytest.mark.parametrize(
    ("bug", "words"),
    [
        ("error", "KeyError: 'planted'"),
        ("loop", "hang: more than 1.0 s"),
        ("crash", "the process died with 9"),
        ("memory", "memory: "),
        ("lie", "WrongAnswer: another version came back"),
    ],
)
def test_a_planted_bug_is_reported_with_the_case_that_shows_it(
    campaign: Campaign, bug: str, words: str
) -> None:
    tally = campaign.run(f"planted-{bug}", 1, 2)
    assert [words in each.why for each in tally.failures] == [True, True]
    assert (tally.right, tally.typed, tally.cases) == (0, 0, 2)
    assert all(each.case.read_bytes() == GOOD for each in tally.failures)


def test_a_crash_is_only_counted_where_the_codec_may_crash(campaign: Campaign) -> None:
    tally = campaign.run("planted-crash-allowed", 1, 2)
    assert (tally.crashes, tally.failures) == (2, [])


def test_without_a_bug_nothing_is_reported_also_after_crashes(campaign: Campaign) -> None:
    tally = campaign.run("planted-nothing", 1, 50)
    assert tally.failures == []
    assert tally.right + tally.typed == 50
    assert tally.right
    assert tally.typed


def test_the_command_that_is_printed_replays_the_case(campaign: Campaign) -> None:
    (failure,) = campaign.run("planted-error", 1, 1).failures
    command = [sys.executable, *failure.command.split()[1:]]
    again = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert again.returncode == 1
    assert "KeyError: 'planted'" in again.stdout


def test_a_message_that_is_taken_apart_and_put_together_is_the_same() -> None:
    manifest = table_pb2.Manifest(version=1 << 40, tag="x", fragments=[b"\x08\x01", b""])
    data = manifest.SerializeToString()
    fields = message.parse(data)
    assert fields is not None
    assert message.build(fields) == data
    assert message.parse(b"\x0a\x05ab") is None


def test_bending_changes_the_bytes_and_only_the_seed_decides_how(tmp_path: Path) -> None:
    data = bytes(range(200))
    bent = [bend(Random(seed), data, [b"other"]) for seed in range(200)]
    assert bent == [bend(Random(seed), data, [b"other"]) for seed in range(200)]
    assert sum(each != data for each in bent) > 190
    assert len(set(bent)) > 150
