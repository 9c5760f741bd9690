"""Medians, ratios and targets."""

from __future__ import annotations

import json

import pytest
from bench.result import Least, LeastRatio, Most, Row, Section


def test_median_is_of_all_samples_and_not_moved_by_one_outlier() -> None:
    row = Row(work="open", unit="ms", ours=(1.0, 900.0, 3.0), pylance=(4.0, 8.0))
    assert row.our_median == 3.0
    assert row.pylance_median == 6.0


def test_ratio_above_one_means_that_we_are_faster() -> None:
    assert Row(work="open", unit="ms", ours=(2.0,), pylance=(10.0,)).ratio == 5.0


def test_ratio_turns_round_where_more_is_better() -> None:
    row = Row(work="commits", unit="/s", ours=(400.0,), pylance=(100.0,), more_is_better=True)
    assert row.ratio == 4.0


@pytest.mark.parametrize(("ours", "pylance"), [((0.0,), (3.0,)), ((3.0,), (0.0,)), ((3.0,), ())])
def test_nothing_is_divided_by_nothing(ours: tuple[float, ...], pylance: tuple[float, ...]) -> None:
    assert Row(work="errors", unit="", ours=ours, pylance=pylance).ratio is None


def test_ratio_target_is_met_at_exactly_its_value() -> None:
    target = LeastRatio(5.0)
    assert Row(work="w", unit="ms", ours=(1.0,), pylance=(5.0,), target=target).is_met
    assert Row(work="w", unit="ms", ours=(1.0,), pylance=(4.9,), target=target).is_met is False


def test_ratio_target_without_a_ratio_is_missed() -> None:
    assert Row(work="w", unit="ms", ours=(1.0,), target=LeastRatio(1.0)).is_met is False


def test_absolute_target_looks_at_us_alone() -> None:
    assert Row(work="lost", unit="", ours=(0.0,), pylance=(7.0,), target=Most(0)).is_met
    assert Row(work="lost", unit="", ours=(1.0,), pylance=(7.0,), target=Most(0)).is_met is False


def test_least_value_of_our_own_is_met_at_exactly_that() -> None:
    row = Row(work="commits", unit="/s", ours=(300.0,), more_is_better=True, target=Least(300.0))
    assert row.is_met
    assert row.as_json()["target"] == {"least": 300.0}
    missed = Row(work="commits", unit="/s", ours=(299.0,), more_is_better=True, target=Least(300.0))
    assert missed.is_met is False


def test_row_without_a_target_is_neither_met_nor_missed() -> None:
    assert Row(work="w", unit="ms", ours=(1.0,), pylance=(2.0,)).is_met is None


def test_row_needs_a_sample_of_ours() -> None:
    with pytest.raises(ValueError, match="no samples"):
        Row(work="w", unit="ms", ours=())


def test_quick_sizes_keep_absolute_targets_and_lose_the_others() -> None:
    fast = Row(work="open", unit="ms", ours=(1.0,), pylance=(2.0,), target=LeastRatio(10.0))
    safe = Row(work="lost", unit="", ours=(0.0,), target=Most(0))
    kept = Section(name="n", title="t", rows=(fast, safe)).without_ratios()
    assert [each.target for each in kept.rows] == [None, Most(0)]


def test_json_holds_every_sample_beside_the_median() -> None:
    row = Row(
        work="w", unit="ms", ours=(1.0, 3.0), pylance=(8.0,), target=LeastRatio(2.0)
    ).as_json()
    assert json.loads(json.dumps(row)) == {
        "work": "w",
        "unit": "ms",
        "more_is_better": False,
        "ours": 2.0,
        "pylance": 8.0,
        "ratio": 4.0,
        "target": {"least_ratio": 2.0},
        "met": True,
        "samples": {"ours": [1.0, 3.0], "pylance": [8.0]},
    }
