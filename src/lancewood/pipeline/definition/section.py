"""One table of the file: each of its keys, read as the kind of value that it must be.

Other kinds of values and unknown keys are refused, with the spot. What the values mean is up to the
modules of the sections.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import Option, Spot
from lancewood.pipeline.definition.names import (
    check_expression,
    described,
    errors_at,
    near,
    parsed_query,
    wrong,
)
from lancewood.pipeline.definition.toml_file import Filling

UNITS = ("seconds", "minutes", "hours", "days", "weeks")
LONGEST = timedelta(days=3_660)
_is_duration = re.compile(r"\s*(\d{1,10})\s+([a-z]+?)s?\s*").fullmatch
_is_percentage = re.compile(r"\s*([+-]?\d{1,9}(?:\.\d{1,9})?)\s*%\s*").fullmatch


class Section:
    """Reads one table. ``keys`` are those that it may have; None means any."""

    def __init__(
        self, values: Mapping[str, Any], spot: Spot, keys: Sequence[str] | None, filling: Filling
    ) -> None:
        self.spot = spot
        self.filling = filling
        self._values = values
        self._keys = keys
        for key in values:
            if keys is not None and key not in keys:
                raise wrong(spot.at(key), f"there is no such key: {near(key, keys)}")

    def __contains__(self, key: str) -> bool:
        return self._get(key) is not None

    def names(self) -> list[str]:
        """The keys that it has, in the order of the file."""
        return list(self._values)

    def wrong(self, key: str, why: str) -> Exception:
        return wrong(self.spot.at(key), why)

    def text(self, key: str, check: Callable[[str], str] = str) -> str | None:
        """A text as ``check`` returns it, whose errors get the spot."""
        value = self._get(key)
        if value is None:
            return None
        spot = self.spot.at(key)
        text = self._text(value, spot)
        with errors_at(spot):
            return check(text)

    def needed_text(self, key: str, check: Callable[[str], str] = str) -> str:
        return self._needed(key, self.text(key, check))

    def sql(self, key: str, check: Callable[[str], object] = parsed_query) -> str | None:
        """A text that is SQL: by default one SELECT."""
        value = self._get(key)
        if value is None:
            return None
        spot = self.spot.at(key)
        found = self._checked(self.filling.sql(self._string(value, spot), spot), spot)
        with errors_at(spot):
            check(found)
        return found

    def needed_sql(self, key: str, check: Callable[[str], object] = parsed_query) -> str:
        return self._needed(key, self.sql(key, check))

    def expression(self, key: str) -> str | None:
        """A Spark SQL expression over the columns of one frame."""
        return self.sql(key, check_expression)

    def needed_expression(self, key: str) -> str:
        return self._needed(key, self.expression(key))

    def expressions(self, key: str, takes: str = "takes") -> dict[str, str]:
        """A table of columns and their expressions; if the key is there, it needs at least one."""
        below = self.table(key, None)
        if below is None:
            return {}
        if not below.names():
            raise wrong(below.spot, f'{takes} at least one column: name = "SQL"')
        return {name: below.needed_expression(name) for name in below.names()}

    def texts(self, key: str, check: Callable[[str], str] = str) -> tuple[str, ...]:
        """A list of distinct texts; if the key is there, it needs at least one."""
        value = self._get(key)
        if value is None:
            return ()
        spot = self.spot.at(key)
        if not isinstance(value, list) or not value:
            raise wrong(spot, f"takes a list of texts, got {described(value)}")
        found: list[str] = []
        for index, each in enumerate(value):
            text = self._text(each, spot.at(index))
            if text in found:
                raise wrong(spot.at(index), f"{text!r} is in the list twice")
            found.append(text)
        for index, text in enumerate(found):
            with errors_at(spot.at(index)):
                found[index] = check(text)
        return tuple(found)

    def choice(self, key: str, choices: Iterable[str]) -> str | None:
        found = self.text(key)
        known = list(choices)
        if found is not None and found not in known:
            hint = near(found, known)
            hint += "" if hint.startswith("there") else f" (there are {', '.join(known)})"
            raise self.wrong(key, f"{found!r} is not known: {hint}")
        return found

    def flag(self, key: str) -> bool:
        value = self._get(key)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(key, f"takes true or false, got {described(value)}")
        return bool(value)

    def number(self, key: str, least: int, most: int) -> int | None:
        value = self._get(key)
        if value is None:
            return None
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not least <= value <= most:
            raise self.wrong(
                key, f"takes a whole number from {least:,} to {most:,}, got {described(value)}"
            )
        return int(value)

    def share(self, key: str, least: float) -> float | None:
        """A fraction: ``0.05`` or ``"5 %"``; above one only as a percentage."""
        value = self._get(key)
        if value is None:
            return None
        if isinstance(value, str):
            found = _is_percentage(self._text(value, self.spot.at(key)))
            share = float(found[1]) / 100 if found else None
            is_fit = share is not None and share >= least
        else:
            is_fit = isinstance(value, int | float) and not isinstance(value, bool)
            share = float(value) if is_fit and least <= value <= 1 else None
        if share is None or not is_fit:
            raise self.wrong(
                key,
                f"takes a share from {least:g} to 1, or a percentage such as "
                f'"{least:.0%}" or "5 %", got {described(value)}',
            )
        return share

    def duration(self, key: str) -> timedelta | None:
        found = self.text(key)
        with errors_at(self.spot.at(key)):
            return None if found is None else parsed_duration(found)

    def table(self, key: str, keys: Sequence[str] | None) -> Section | None:
        value = self._get(key)
        return None if value is None else self._section(value, self.spot.at(key), keys)

    def needed_table(self, key: str, keys: Sequence[str] | None) -> Section:
        """An empty one if the file has none."""
        return self.table(key, keys) or self._section({}, self.spot.at(key), keys)

    def named_tables(
        self, key: str, keys: Sequence[str], check: Callable[[str], object]
    ) -> Iterator[tuple[str, Section]]:
        """The tables ``[key.<name>]`` in the order of the file, with their names."""
        above = self.needed_table(key, None)
        for name in above.names():
            with errors_at(above.spot.at(name)):
                check(name)
            yield name, above.needed_table(name, keys)

    def tables(self, key: str, keys: Sequence[str]) -> list[Section]:
        """A list of tables, ``[[key]]``."""
        value = self._get(key)
        spot = self.spot.at(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise wrong(spot, f"takes tables with two brackets, [[{key}]], got {described(value)}")
        return [self._section(each, spot.at(i), keys) for i, each in enumerate(value)]

    def options(self, key: str) -> dict[str, Option]:
        """Texts by name, possibly secrets; numbers, true and false become texts."""
        value = self._get(key)
        return {} if value is None else self._flat(value, self.spot.at(key), with_secrets=True)

    def settings(self, *, but: Sequence[str] = ()) -> dict[str, str]:
        """The whole table as texts by name, without secrets and without the keys ``but``."""
        rest = {name: value for name, value in self._values.items() if name not in but}
        flat = self._flat(rest, self.spot, with_secrets=False)
        return {name: str(value) for name, value in flat.items()}

    def value(self, key: str) -> object:
        """Any value, with its texts filled in."""
        return self._filled(self._get(key), self.spot.at(key))

    def _needed(self, key: str, found: str | None) -> str:
        if found is None:
            raise wrong(self.spot, f"the key {key!r} is missing")
        return found

    def _get(self, key: str) -> Any:
        if self._keys is not None and key not in self._keys:
            raise KeyError(key)
        return self._values.get(key)

    def _section(self, value: Any, spot: Spot, keys: Sequence[str] | None) -> Section:
        if not isinstance(value, dict):
            raise wrong(spot, f"takes a table, got {described(value)}")
        return Section(value, spot, keys, self.filling)

    def _text(self, value: Any, spot: Spot) -> str:
        return self._checked(self.filling.text(self._string(value, spot), spot), spot)

    def _string(self, value: Any, spot: Spot) -> str:
        if not isinstance(value, str):
            raise wrong(spot, f"takes a text, got {described(value)}")
        return value

    def _checked(self, text: str, spot: Spot) -> str:
        if not text.strip():
            raise wrong(spot, "takes a text, got an empty one")
        if "\0" in text:
            raise wrong(spot, "takes a text without a NUL in it")
        return text

    def _flat(
        self, value: Any, spot: Spot, *, with_secrets: bool, above: str = ""
    ) -> dict[str, Option]:
        """TOML makes nested tables of ``a.b = 1`` without quotes; here it is one name."""
        if not isinstance(value, dict):
            raise wrong(spot, f"takes a table, got {described(value)}")
        found: dict[str, Option] = {}
        for key, each in value.items():
            at, name = spot.at(key), f"{above}{key}"
            if isinstance(each, dict):
                below = self._flat(each, at, with_secrets=with_secrets, above=f"{name}.")
            else:
                below = {name: self._setting(each, at, with_secrets=with_secrets)}
            for twice in found.keys() & below.keys():
                raise wrong(at, f"{twice!r} is said twice, with quotes and without")
            found |= below
        return found

    def _setting(self, value: Any, spot: Spot, *, with_secrets: bool) -> Option:
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return str(value)
        if not isinstance(value, str):
            raise wrong(spot, f"takes a text, a number, true or false, got {described(value)}")
        filled = (self.filling.option if with_secrets else self.filling.text)(value, spot)
        if "\0" in (filled if isinstance(filled, str) else filled.text):
            raise wrong(spot, "takes a text without a NUL in it")
        return filled

    def _filled(self, value: Any, spot: Spot) -> object:
        if isinstance(value, str):
            return self.filling.text(value, spot)
        if isinstance(value, list):
            return [self._filled(each, spot.at(index)) for index, each in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._filled(each, spot.at(key)) for key, each in value.items()}
        return value


def parsed_duration(text: str) -> timedelta:
    """A length of time such as ``7 days``; raises InvalidInputError for anything else, and unless
    it is more than nothing and at most ten years."""
    found = _is_duration(text)
    unit = f"{found[2]}s" if found else ""
    if found is None or unit not in UNITS:
        raise InvalidInputError(
            f'{text!r} is no length of time: write it as "7 days" or "12 hours", '
            f"in {', '.join(UNITS)}"
        )
    try:
        length = timedelta(**{unit: int(found[1])})
    except OverflowError:
        length = timedelta.max
    if not timedelta() < length <= LONGEST:
        raise InvalidInputError(f"{text!r} is not from one second to ten years")
    return length
