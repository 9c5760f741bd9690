"""A small part of a campaign, the same every time, over every target.

``python -m tests.fuzz`` runs for longer, and replays what it found.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fuzz.campaign import Campaign
from tests.fuzz.targets import SHARES

_SEED = 20_260
_CASES = 150


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaign]:
    with Campaign(tmp_path_factory.mktemp("fuzz")) as running:
        yield running


@pytest.mark.sliced(3)
@pytest.mark.parametrize("target", SHARES)
def test_bent_bytes_give_a_typed_error_or_a_right_answer(campaign: Campaign, target: str) -> None:
    count = round(_CASES * SHARES[target])
    tally = campaign.run(target, _SEED, count)
    assert [str(each) for each in tally.failures] == []
    assert tally.cases == count
    assert tally.typed, "nothing was refused: the cases are too tame"
    assert tally.right, "everything was refused: the cases are too wild"


def test_a_seed_gives_the_same_cases_again(tmp_path: Path) -> None:
    with Campaign(tmp_path) as running:
        one = running.run("names", 7, 40)
        two = running.run("names", 7, 40)
    assert (one.right, one.typed) == (two.right, two.typed)
