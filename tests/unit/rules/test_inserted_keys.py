"""Filters of inserted keys: False is a proof, and everything else is True."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lancewood.model.ids import FieldId
from lancewood.rules.overlaps import (
    MOST_EXACT,
    MOST_IN_BLOOM,
    Hashes,
    KeyFilter,
    filters_meet,
    make_key_filter,
)

FIELDS = (FieldId(3),)
HASHES = st.integers(0, 2**64 - 1)


def hashes(*numbers: int) -> Hashes:
    return np.array(numbers, dtype=np.uint64)


def spread(start: int, count: int) -> Hashes:
    """Numbers that look like hashes."""
    return np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B185EBCA87)


def bloom(found: Hashes) -> KeyFilter:
    return make_key_filter(FIELDS, found, is_known_to_pylance=True)


def exact(found: Hashes) -> KeyFilter:
    return make_key_filter(FIELDS, found, is_known_to_pylance=False)


@given(st.sets(HASHES, min_size=1, max_size=20), st.sets(HASHES, max_size=20))
def test_a_common_key_is_found_in_every_pair_of_forms(mine: set[int], others: set[int]) -> None:
    theirs = {next(iter(mine)), *others}
    for make_mine in (bloom, exact):
        for make_theirs in (bloom, exact):
            assert filters_meet(make_mine(hashes(*mine)), make_theirs(hashes(*theirs)))


@pytest.mark.parametrize("mine", [bloom, exact])
@pytest.mark.parametrize("theirs", [bloom, exact])
def test_two_thousand_keys_on_both_sides_are_proven_disjoint(mine: object, theirs: object) -> None:
    assert callable(mine)
    assert callable(theirs)
    assert not filters_meet(mine(spread(1, 2_000)), theirs(spread(10_000, 2_000)))


def test_exact_filters_of_many_keys_are_proven_disjoint() -> None:
    mine, theirs = exact(spread(1, 30_000)), exact(spread(50_000, 30_000))
    assert not filters_meet(mine, theirs)
    assert filters_meet(mine, exact(spread(30_000, 1)))


def test_the_form_follows_the_number_of_keys_and_what_pylance_knows() -> None:
    assert bloom(spread(0, MOST_IN_BLOOM)).WhichOneof("keys") == "bloom"
    assert bloom(spread(0, MOST_IN_BLOOM + 1)).WhichOneof("keys") == "exact"
    assert exact(spread(0, 1)).WhichOneof("keys") == "exact"
    assert len(exact(spread(0, MOST_EXACT + 1)).exact.key_hashes) == 0


def test_a_bloom_filter_is_of_pylances_size() -> None:
    made = bloom(spread(0, 5)).bloom
    assert (len(made.bitmap), made.num_bits) == (32_768, 262_144)
    assert (made.number_of_items, made.probability) == (8_192, 0.00057)


def test_what_cannot_be_told_meets_every_filter() -> None:
    untold = make_key_filter(FIELDS, None, is_known_to_pylance=True)
    assert untold.WhichOneof("keys") == "exact"
    for other in (bloom(spread(0, 1)), exact(spread(0, 1)), untold, exact(hashes())):
        assert filters_meet(untold, other)
        assert filters_meet(other, untold)


def test_filters_on_other_columns_meet() -> None:
    one = make_key_filter((FieldId(1),), hashes(1), is_known_to_pylance=True)
    both = make_key_filter((FieldId(1), FieldId(2)), hashes(2), is_known_to_pylance=True)
    turned = make_key_filter((FieldId(2), FieldId(1)), hashes(2), is_known_to_pylance=True)
    nowhere = make_key_filter((), hashes(1), is_known_to_pylance=True)
    assert filters_meet(one, both)
    assert filters_meet(both, turned)
    assert filters_meet(nowhere, nowhere)


def test_an_empty_bloom_filter_proves_nothing_because_pylance_leaves_keys_out() -> None:
    assert filters_meet(bloom(hashes(1)), bloom(hashes()))
    assert filters_meet(bloom(hashes()), bloom(hashes(1)))


def test_exact_hashes_of_another_writer_meet() -> None:
    foreign = KeyFilter(field_ids=FIELDS, exact=KeyFilter.Exact(key_hashes=[17, 4]))
    assert filters_meet(exact(hashes(1)), foreign)
    assert filters_meet(foreign, bloom(hashes(1)))


def test_filters_of_another_size_or_without_a_form_meet() -> None:
    other = bloom(hashes(1))
    other.bloom.num_bits = 64
    short = bloom(hashes(1))
    short.bloom.bitmap = short.bloom.bitmap[:32]
    formless = KeyFilter(field_ids=FIELDS)
    for strange in (other, short, formless):
        assert filters_meet(bloom(hashes(2)), strange)
        assert filters_meet(strange, exact(hashes(2)))
