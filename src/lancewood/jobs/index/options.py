"""The options of indices: which a kind has, and which values each of them takes.

They are those of pylance 14, checked before anything is built.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lancewood.data.index_engine import MAX_ITERATIONS, NUM_BITS, SAMPLE_RATE
from lancewood.errors import InvalidInputError
from lancewood.model.index import IndexKind

_LARGE = (1 << 32) - 1


@dataclass(frozen=True)
class _Values:
    """The values that an option may have."""

    are: str
    taken: Callable[[Any], Any]
    """The value as it is kept, a plain one; raises TypeError or ValueError."""


def _whole(least: int, most: int = _LARGE) -> _Values:
    def taken(value: Any) -> int:
        number = operator.index(value)
        _require(not isinstance(value, bool) and least <= number <= most)
        return number

    return _Values(f"a whole number from {least} to {most}", taken)


def _one_of(*choices: Any, or_below: tuple[str, ...] = ()) -> _Values:
    def taken(value: Any) -> Any:
        if isinstance(value, str) and value.startswith(or_below):
            return value
        _require(not isinstance(value, bool))
        return choices[choices.index(value)]

    further = (f"{each}<model>" for each in or_below)
    return _Values(f"one of {', '.join(map(str, (*choices, *further)))}", taken)


def _flag(value: Any) -> bool:
    _require(isinstance(value, bool))
    return bool(value)


def _chance(value: Any) -> float:
    number = float(value)
    _require(not isinstance(value, str | bool) and math.isfinite(number) and 0 < number < 1)
    return number


def _words(value: Any) -> list[str] | None:
    _require(value is None or isinstance(value, list | tuple))
    _require(all(isinstance(each, str) for each in value or ()))
    return None if value is None else list(value)


def _length(value: Any) -> int | None:
    return None if value is None else int(_whole(1).taken(value))


def _require(is_so: bool) -> None:
    if not is_so:
        raise ValueError


_TRUTH = _Values("true or false", _flag)
_LANGUAGES = (
    *("Arabic", "Danish", "Dutch", "English", "Finnish", "French", "German", "Greek"),
    *("Hungarian", "Italian", "Norwegian", "Portuguese", "Romanian", "Russian", "Spanish"),
    *("Swedish", "Tamil", "Turkish"),
)
_TOKENIZERS = ("simple", "whitespace", "raw", "ngram", "code", "icu", "icu/split", "jieba")
_OPTIONS: Mapping[str, Mapping[str, _Values]] = {
    "INVERTED": {
        "base_tokenizer": _one_of(*_TOKENIZERS, or_below=("jieba/", "lindera/")),
        "language": _one_of(*_LANGUAGES),
        "with_position": _TRUTH,
        "max_token_length": _Values(f"{_whole(1).are}, or none", _length),
        "lower_case": _TRUTH,
        "stem": _TRUTH,
        "remove_stop_words": _TRUTH,
        "custom_stop_words": _Values("a list of words", _words),
        "ascii_folding": _TRUTH,
        "min_ngram_length": _whole(1),
        "max_ngram_length": _whole(1),
        "prefix_only": _TRUTH,
        "block_size": _one_of(128, 256),
        "memory_limit": _whole(1),
        "num_workers": _whole(1, 1024),
    },
    "ZONEMAP": {"rows_per_zone": _whole(1)},
    "BLOOMFILTER": {
        "number_of_items": _whole(1),
        "probability": _Values("a number between 0 and 1", _chance),
    },
}
_TRAINING = {SAMPLE_RATE: _whole(1), MAX_ITERATIONS: _whole(1)}
_BITS = {"PQ": _one_of(4, 8), "RQ": _whole(1, 9)}
_GRAPH = {"m": _whole(4, 1024), "ef_construction": _whole(4), "max_level": _whole(1, 65_535)}
_ASCENDING = (("m", 20, "ef_construction", 150), ("min_ngram_length", 3, "max_ngram_length", 3))
"""Options of which one is at most the other, and what they are if they are not said."""


def options_of(kind: IndexKind) -> Mapping[str, _Values]:
    """The options that an index of a kind has."""
    if not kind.is_vector:
        return _OPTIONS.get(kind.name, {})
    coded = {NUM_BITS: _BITS[kind.codes]} if kind.codes in _BITS else {}
    return {**_TRAINING, **coded, **(_GRAPH if kind.has_graph else {})}


def checked_options(kind: IndexKind, options: object) -> dict[str, Any]:
    """The options for an index of a kind, as plain values.

    Raises InvalidInputError for one that it does not have, or that is not as it may be.
    """
    if not isinstance(options, Mapping):
        raise InvalidInputError(f"options takes names with values, got {options!r}")
    known = options_of(kind)
    made = {}
    for name, value in options.items():
        if name not in known:
            way = f"it has {', '.join(known)}" if known else "it has none"
            raise InvalidInputError(f"an index of kind {kind} has no option {name!r}: {way}")
        try:
            made[name] = known[name].taken(value)
        except (TypeError, ValueError, OverflowError) as cause:
            raise InvalidInputError(
                f"option {name} of {kind} must be {known[name].are}, got {value!r}"
            ) from cause
    for low, usual_low, high, usual_high in _ASCENDING:
        least, most = made.get(low, usual_low), made.get(high, usual_high)
        if (low in made or high in made) and least > most:
            raise InvalidInputError(f"{low} ({least}) must be at most {high} ({most})")
    return made
