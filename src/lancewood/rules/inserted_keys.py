"""Filters of the keys that an upsert inserted, as its transaction records them: made and compared.

Keys come as 64-bit hashes (``jobs.merging.key_hashes``). Forms:

    bloom         pylance's own form and size, so that each can prove the other's keys disjoint
    exact         our hashes behind a mark, where the bloom filter would fill up or pylance would
                  leave such keys out; pylance takes the form for one that may meet its own
    exact, empty  too many keys to tell, or kinds that cannot be told: meets every filter

What is not proven disjoint counts as overlapping, including forms of other writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from lancewood.model.ids import FieldId
from lancewood.proto import transaction_pb2

KeyFilter: TypeAlias = transaction_pb2.KeyExistenceFilter
Hashes: TypeAlias = npt.NDArray[np.uint64]
_Words: TypeAlias = npt.NDArray[np.uint32]

MOST_IN_BLOOM = 2_048
"""Number of keys in a filter at most: with more on both sides its blocks become too full."""
MOST_EXACT = 65_536
"""Number of keys that are listed at most: more would make the transaction, which every later writer
reads, larger than half a megabyte."""

_BLOCKS = 1_024
_WORDS = 8
_BYTES = _BLOCKS * _WORDS * 4
_ITEMS = 8_192
_PROBABILITY = 0.00057
_SALTS = np.array(
    [
        0x47B6137B,
        0x44974D91,
        0x8824AD5B,
        0xA2B7289D,
        0x705495C7,
        0x2DF1424B,
        0x9EFC4947,
        0x5C6BFB31,
    ],
    dtype=np.uint32,
)
_MARK = int.from_bytes(b"lwxxh64\0", "little")
"""The first of our exact hashes, as a mark: equal keys under another hash function would look
different."""


def make_key_filter(
    field_ids: Sequence[FieldId], hashes: Hashes | None, *, is_known_to_pylance: bool
) -> KeyFilter:
    """The filter of these keys; None means too many of them to be hashed.

    ``is_known_to_pylance``: pylance would put keys of these types into a filter too.
    """
    made = KeyFilter(field_ids=field_ids)
    if hashes is None:
        made.exact.SetInParent()
        return made
    distinct = np.unique(hashes)
    if is_known_to_pylance and len(distinct) <= MOST_IN_BLOOM:
        made.bloom.bitmap = _bloom_words(distinct).astype("<u4").tobytes()
        made.bloom.num_bits = _BYTES * 8
        made.bloom.number_of_items = _ITEMS
        made.bloom.probability = _PROBABILITY
    else:
        made.exact.SetInParent()
        if len(distinct) <= MOST_EXACT:
            made.exact.key_hashes.append(_MARK)
            made.exact.key_hashes.extend(distinct.tolist())
    return made


def filters_meet(mine: KeyFilter, theirs: KeyFilter) -> bool:
    """Whether a key may be in both. False only if they provably share none."""
    if not mine.field_ids or list(mine.field_ids) != list(theirs.field_ids):
        return True
    my_hashes, their_hashes = _exact_hashes(mine), _exact_hashes(theirs)
    if my_hashes is not None and their_hashes is not None:
        return bool(np.isin(my_hashes, their_hashes).any())
    my_words, their_words = _bloom(mine), _bloom(theirs)
    if my_words is not None and their_words is not None:
        return bool((my_words & their_words).all(axis=1).any())
    if my_hashes is not None and their_words is not None:
        return _may_hold_one(their_words, my_hashes)
    if my_words is not None and their_hashes is not None:
        return _may_hold_one(my_words, their_hashes)
    return True


def _exact_hashes(keys: KeyFilter) -> Hashes | None:
    """The hashes of an exact filter of ours, else None."""
    if not keys.HasField("exact"):
        return None
    found = np.array(keys.exact.key_hashes, dtype=np.uint64)
    return found[1:] if len(found) and found[0] == _MARK else None


def _bloom(keys: KeyFilter) -> _Words | None:
    """The blocks of a bloom filter; None where it has another form, or is empty.

    pylance leaves keys of some types out of its filter, so an empty one proves nothing.
    """
    if not keys.HasField("bloom"):
        return None
    bloom = keys.bloom
    if (len(bloom.bitmap), bloom.num_bits) != (_BYTES, _BYTES * 8):
        return None
    words = np.frombuffer(bloom.bitmap, dtype="<u4").reshape(_BLOCKS, _WORDS)
    return words if words.any() else None


def _bloom_words(hashes: Hashes) -> _Words:
    words = np.zeros((_BLOCKS, _WORDS), dtype=np.uint32)
    blocks, masks = _places(hashes)
    np.bitwise_or.at(words, blocks, masks)
    return words


def _may_hold_one(words: _Words, hashes: Hashes) -> bool:
    blocks, masks = _places(hashes)
    return bool((words[blocks] & masks).all(axis=1).any())


def _places(hashes: Hashes) -> tuple[npt.NDArray[np.int64], _Words]:
    """The block of each hash, and the one bit it sets in each of the block's words."""
    upper, lower = hashes >> np.uint64(32), hashes.astype(np.uint32)
    blocks = ((upper * np.uint64(_BLOCKS)) >> np.uint64(32)).astype(np.int64)
    bits = (lower[:, None] * _SALTS) >> np.uint32(27)
    return blocks, np.left_shift(np.uint32(1), bits)
