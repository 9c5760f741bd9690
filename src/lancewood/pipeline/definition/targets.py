"""The sections ``[[targets]]``: which frame gets into which table, and how.

Knows which keys go with which mode, and the repository's rules for names of tables. Whether
columns and types fit is for those to say who have the frame and the table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

from lancewood.pipeline.definition.model import FAIL, Mode, OnConflict, Target, TargetIndex
from lancewood.pipeline.definition.names import described, errors_at, resolved, wrong
from lancewood.pipeline.definition.section import Section
from lancewood.repo import checked_table
from lancewood.table import index_kind, parse_type

INDEX_KEYS = ("column", "kind", "name", "metric", "partitions", "sub_vectors", "options")
_ALWAYS = ("table", "mode", "uri", "types", "index")
_FRAME = ("from", "leave_out", "partitions")
_MERGE = (
    *("on", "matched", "not_matched", "not_matched_by_source"),
    *("deleted", "keep", "order_by"),
)
_GOES_WITH: Mapping[Mode, tuple[str, ...]] = {
    Mode.APPEND: (*_FRAME, "max_rows_per_file", "on_conflict"),
    Mode.OVERWRITE: (*_FRAME, "max_rows_per_file"),
    Mode.MERGE: (*_FRAME, *_MERGE, "on_conflict"),
    Mode.ADD_COLUMNS: ("columns", "overwrite", "on_conflict"),
}
KEYS = (*_ALWAYS, *dict.fromkeys(key for keys in _GOES_WITH.values() for key in keys))
_NEEDED: Mapping[Mode, tuple[str, ...]] = {
    Mode.APPEND: ("from",),
    Mode.OVERWRITE: ("from",),
    Mode.MERGE: ("from", "on"),
    Mode.ADD_COLUMNS: ("columns",),
}
_CHOICES = {
    "matched": ("update", "ignore", "delete"),
    "not_matched": ("insert", "ignore"),
    "not_matched_by_source": ("keep", "delete"),
    "keep": ("first", "last"),
}
ON_CONFLICT = (FAIL, "ours", "theirs")
MOST_PARTITIONS = 100_000
MOST_ROWS_PER_FILE = 2**31 - 1
_MOST_INDEX_PARTITIONS = 2**31 - 1
_DEFAULTS: dict[str, Any] = {each.name: each.default for each in fields(Target)}


def read_targets(top: Section, folder: Path) -> tuple[Target, ...]:
    """Every target, in the order of the file: at least one."""
    found = tuple(_read(each, folder) for each in top.tables("targets", KEYS))
    if not found:
        raise wrong(top.spot.at("targets"), "the file has no [[targets]]: there is nothing to load")
    _check_locations(found)
    _check_conflicts(found)
    _check_indices(found)
    return found


def _read(section: Section, folder: Path) -> Target:
    table = section.needed_text("table", checked_table)
    section.needed_text("mode")
    mode = Mode(str(section.choice("mode", list(Mode))))
    _check_mode(section, mode)
    choices: dict[str, Any] = {
        key: section.choice(key, known) or _DEFAULTS[key] for key, known in _CHOICES.items()
    }
    target = Target(
        table=table,
        spot=section.spot,
        mode=mode,
        source=section.text("from"),
        uri=section.text("uri", partial(resolved, folder)),
        on=section.texts("on"),
        **choices,
        deleted=section.expression("deleted"),
        order_by=section.texts("order_by"),
        columns_left_out=section.texts("leave_out"),
        columns=section.expressions("columns"),
        overwrite=section.flag("overwrite"),
        types=_types(section),
        partitions=section.number("partitions", 1, MOST_PARTITIONS),
        max_rows_per_file=section.number("max_rows_per_file", 1, MOST_ROWS_PER_FILE),
        on_conflict=_on_conflict(section),
        indices=_indices(section),
    )
    _check_columns(section, target)
    return target


def _check_mode(section: Section, mode: Mode) -> None:
    for key in KEYS:
        if key in section and key not in (*_ALWAYS, *_GOES_WITH[mode]):
            modes = [str(each) for each, keys in _GOES_WITH.items() if key in keys]
            raise section.wrong(key, f"does not go with mode {mode}, only with {', '.join(modes)}")
    for key in _NEEDED[mode]:
        if key not in section:
            raise wrong(section.spot, f"the key {key!r} is missing: mode {mode} needs it")


def _on_conflict(section: Section) -> OnConflict:
    """A word, or columns and their SQL."""
    if not isinstance(section.value("on_conflict"), dict):
        return section.choice("on_conflict", ON_CONFLICT) or FAIL
    return section.expressions("on_conflict", "takes a word, or")


def _indices(section: Section) -> tuple[TargetIndex, ...]:
    found: dict[str, TargetIndex] = {}
    for each in section.tables("index", INDEX_KEYS):
        index = _index(each)
        if found.setdefault(index.name, index) is not index:
            spot = each.spot.at("name" if "name" in each else "column")
            raise wrong(spot, f"there is an index {index.name!r} already: give this one a name")
    return tuple(found.values())


def _index(section: Section) -> TargetIndex:
    column = section.needed_text("column")
    return TargetIndex(
        section.text("name") or f"{column}_idx",
        column,
        section.spot,
        section.text("kind", index_kind),
        section.text("metric"),
        section.number("partitions", 1, _MOST_INDEX_PARTITIONS),
        section.number("sub_vectors", 1, _MOST_INDEX_PARTITIONS),
        _index_options(section),
    )


def _index_options(section: Section) -> dict[str, object]:
    below = section.needed_table("options", None)
    found = {name: below.value(name) for name in below.names()}
    for name, value in found.items():
        if not isinstance(value, str | int | float | list):
            why = "takes a text, a number, true, false or a list"
            raise below.wrong(name, f"{why}, got {described(value)}")
    return found


def _types(section: Section) -> dict[str, str]:
    below = section.table("types", None)
    if below is None:
        return {}
    for name in below.names():
        with errors_at(below.spot.at(name)):
            parse_type(below.needed_text(name))
    return {name: below.needed_text(name) for name in below.names()}


def _check_columns(section: Section, target: Target) -> None:
    """What can be checked without the frame."""
    for index, name in enumerate(target.columns_left_out):
        if name in target.on:
            raise wrong(
                section.spot.at("leave_out", index), f"{name!r} is a key: it cannot be left out"
            )
    for name in target.types:
        if target.mode is Mode.ADD_COLUMNS and name not in target.columns:
            raise wrong(section.spot.at("types", name), "is none of the new columns")
        if name in target.columns_left_out:
            raise wrong(section.spot.at("types", name), "is left out")
    if target.keep is not None and not target.order_by:
        raise section.wrong("keep", "needs order_by: the columns that tell what is first and last")
    if target.keep is None and target.order_by:
        raise section.wrong("order_by", 'needs keep: "first" or "last" of the rows of a key')
    if target.deleted is not None and target.matched != "update":
        raise section.wrong("deleted", f"does not go with matched = {target.matched!r}")


def _check_locations(targets: tuple[Target, ...]) -> None:
    """One table at one location, whatever its case: SQL and some disks ignore case."""
    seen: dict[str, Target] = {}
    locations: dict[str, Target] = {}
    for each in targets:
        first = seen.setdefault(each.table.casefold(), each)
        if first.table != each.table:
            raise wrong(
                each.spot.at("table"), f"is the same name as {first.table!r} to SQL: take another"
            )
        if first.uri != each.uri:
            raise wrong(
                each.spot.at("uri" if each.uri else "table"),
                f"table {each.table!r} is at two places: say the same uri at each of its targets",
            )
        if each.uri is not None and locations.setdefault(each.uri, each).table != each.table:
            raise wrong(each.spot.at("uri"), f"is table {locations[each.uri].table!r} already")


def _check_conflicts(targets: tuple[Target, ...]) -> None:
    """A table is published as a whole: one answer for all that its targets do."""
    first: dict[str, Target] = {}
    for each in targets:
        known = first.setdefault(each.table, each)
        if known.on_conflict == each.on_conflict:
            continue
        said = known if each.on_conflict == FAIL else each
        raise wrong(
            said.spot.at("on_conflict"),
            f"another target of table {each.table!r} does not say the same, and a table is "
            "published as a whole",
        )


def _check_indices(targets: tuple[Target, ...]) -> None:
    """An index is of a table: its targets must not say different things of one name."""
    first: dict[tuple[str, str], TargetIndex] = {}
    for target in targets:
        for each in target.indices:
            if first.setdefault((target.table, each.name), each) != each:
                raise wrong(
                    each.spot,
                    f"another target of table {target.table!r} says something else of index "
                    f"{each.name!r}: say the same, or give one of them another name",
                )
