"""A landing is checked at birth: it may come from a file."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from lancewood.errors import InvalidInputError
from lancewood.model.ids import DETACHED_BIT, Version
from lancewood.model.lines import Landing
from lancewood.model.transaction import ReserveFragments, Transaction

UUID = "4e3bd2fc-0f6c-4d0b-9f4e-8a8b9a3f5c11"
ONE, TWO = Version(DETACHED_BIT | 1), Version(DETACHED_BIT | 2)


def test_its_steps_have_the_identities_of_the_transactions_steps() -> None:
    whole = Transaction(Version(7), UUID, (ReserveFragments(1), ReserveFragments(2)))
    landing = Landing(Version(7), UUID, (ONE, TWO))
    assert landing.uuids == tuple(each.uuid for each in whole.steps())
    assert landing.uuids[0] == UUID
    assert landing.version == TWO
    assert [landing.exact_version(at) for at in range(2)] == [8, 9]


def test_it_is_a_value_that_pickles() -> None:
    landing = Landing(Version(0), UUID, (ONE,))
    assert landing.uuids
    assert pickle.loads(pickle.dumps(landing)) == Landing(Version(0), UUID, (ONE,))
    assert hash(landing) == hash(Landing(Version(0), UUID, (ONE,)))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((ONE, UUID, (ONE,)), "starts from a version of the history"),
        ((-1, UUID, (ONE,)), "starts from a version of the history"),
        (("1", UUID, (ONE,)), "starts from a version of the history"),
        ((True, UUID, (ONE,)), "starts from a version of the history"),
        ((1, "me", (ONE,)), "known by a uuid"),
        ((1, UUID.upper(), (ONE,)), "known by a uuid"),
        ((1, 5, (ONE,)), "known by a uuid"),
        ((1, UUID, ()), "at least one step"),
        ((1, UUID, (Version(2),)), "detached versions"),
        ((1, UUID, (1 << 64 | ONE,)), "detached versions"),
        ((1, UUID, (ONE, ONE)), "the same version"),
    ],
)
def test_what_cannot_be_one_is_refused(given: tuple[Any, Any, Any], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        Landing(*given)
