"""The words of an error in the file: first where it stands, then what is wrong and the way out.
Names and paths that a file gives, and names in its SQL.

SQL is read as far as has to be understood before Spark does: one query, and its names. Knows
sqlglot's Spark dialect. Does not know which frames or tables there are, and leaves types, columns
and functions to Spark's own analysis.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.pipeline.definition.model import Spot
from lancewood.repo import checked_table
from lancewood.table import shorten


def wrong(spot: Spot, why: str) -> InvalidInputError:
    """The error for what a file says at a spot."""
    return InvalidInputError(f"{spot}: {why}", file=spot.file, key=spot.key, line=spot.line)


@contextmanager
def errors_at(spot: Spot) -> Iterator[None]:
    """Put a spot in front of what is found to be wrong with what stands there."""
    try:
        yield
    except InvalidInputError as refused:
        raise wrong(spot, refused.message) from refused


def near(asked: str, known: Iterable[str]) -> str:
    """The way out for a name that is not known: the one that was meant, or all there are."""
    names = sorted(map(str, known))
    if not names:
        return "there are none"
    folded = {each.casefold(): each for each in names}
    longer = [each for each in folded if len(asked) > 2 and each.startswith(asked.casefold())]
    close = get_close_matches(asked.casefold(), folded, n=1) or longer
    return f"did you mean {folded[close[0]]!r}?" if close else f"there are {', '.join(names)}"


def described(value: object) -> str:
    """A value of TOML in words, long texts shortened."""
    if isinstance(value, str):
        return f"the text {shorten(value, 60)}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"the number {value!r:.40}"
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, dt.date | dt.time):
        return f"the date or time {value.isoformat()}"
    return f"a {type(value).__name__}"


_MOST_CHARACTERS = 60
_MOST_OF_A_CHECK = 100
_MOST_BYTES_OF_A_CHECK = 200
_is_identifier = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch
_is_pipeline = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*").fullmatch
_is_python = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*").fullmatch
_is_format = re.compile(r"[A-Za-z][A-Za-z0-9_]*(?:[.$-][A-Za-z0-9_]+)*").fullmatch
_WORDS = """
    all alter and anti any as between case cast cluster create cross current_catalog
    current_database current_date current_path current_schema current_time current_timestamp
    current_user describe distinct distribute drop else end except exists false fetch for from
    full grant group having identifier ilike in inner insert intersect into is join lateral
    left like limit localtimestamp minus natural not null offset on or order outer pivot
    published qualify revoke right rollback select semi serdeproperties session_user setminus
    sort table tablesample then true uncache union unpivot using values when where window with
"""
RESERVED = frozenset(_WORDS.split())
"""Words that Spark SQL, or the parser that finds names in it, may take for something else."""
_WILD = re.compile(r"[{}\[\]*?\\]")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_has_scheme = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/").match


def checked_frame(name: str) -> str:
    """The name of a source or a step: an identifier that SQL knows without quotes."""
    return _identifier("frame", name)


def checked_function(name: str) -> str:
    """The name by which SQL calls a function."""
    return _identifier("function", name)


def _identifier(kind: str, name: str) -> str:
    why = None
    if len(name) > _MOST_CHARACTERS:
        why = f"it has {len(name)} characters, {_MOST_CHARACTERS} are allowed"
    elif not _is_identifier(name):
        why = "it has to begin with a letter or '_', and to go on with letters, digits and '_'"
    elif name.lower() in RESERVED:
        why = "it is a word of SQL"
    if why:
        raise InvalidInputError(
            f"{kind} name {name!r} is not allowed: {why}, so that SQL knows it without quotes"
        )
    return name


def checked_pipeline(name: str) -> str:
    """The name of a pipeline, which is also a file name and part of a ref."""
    if len(name) > _MOST_CHARACTERS or not _is_pipeline(name):
        raise InvalidInputError(
            f"pipeline name {name!r} is not allowed: it has to begin with a letter or a digit, and "
            f"to go on with letters, digits, '_' and '-', at most {_MOST_CHARACTERS} in all"
        )
    return name


def checked_check(name: str) -> str:
    """The name of a check: any short text that can also be a file name."""
    why = None
    if len(name) > _MOST_OF_A_CHECK or len(name.encode()) > _MOST_BYTES_OF_A_CHECK:
        why = f"it is longer than {_MOST_OF_A_CHECK} characters, or {_MOST_BYTES_OF_A_CHECK} bytes"
    elif not name.isprintable():
        why = "it has a character that is not printed"
    elif name != name.strip() or name.startswith("."):
        why = "it begins or ends with a space, or begins with '.'"
    elif "/" in name or "\\" in name:
        why = "it has a '/' or '\\'"
    if why:
        raise InvalidInputError(f"check name {name!r} is not allowed: {why}")
    return name


def checked_python(text: str) -> str:
    """Where a function is: ``module:function``."""
    if not _is_python(text):
        raise InvalidInputError(
            f"{text!r} is no function: write it as module:function, as in "
            "photo_steps:with_thumbnails"
        )
    return text


def checked_format(text: str) -> str:
    """The name of a Spark format: a short one, or a class."""
    if not _is_format(text):
        raise InvalidInputError(f"{text!r} is no format: write it as parquet, csv, json or jdbc")
    return text


def checked_files_table(pipeline: str, source: str) -> str:
    """The table in which an incremental source keeps the files that it has seen."""
    return checked_table(f"{pipeline}_{source}_files")


def resolved(folder: Path, location: str) -> str:
    """The full path, or the uri; wild cards stay. Raises InvalidInputError for ``~``."""
    if is_uri(location):
        return location
    if location == "~" or location.startswith("~/"):
        raise InvalidInputError(
            f"{location!r}: '~' is not replaced; write the path in full, or relative to the file"
        )
    return os.path.normpath(folder / location)


def resolved_pattern(folder: Path, location: str) -> str:
    """The full path or uri of a path with wild cards; characters of the file's own directory are
    taken literally."""
    return resolved(Path(literal(str(folder))), location)


def resolved_path(folder: Path, location: str) -> str:
    """The full path of a file or directory that must be on a local disk."""
    if is_uri(location):
        raise InvalidInputError(f"takes a path on a disk of this machine, got {location!r}")
    return resolved(folder, location)


def literal(path: str) -> str:
    """A path with its wild cards escaped, so that Spark takes it literally."""
    return _WILD.sub(r"\\\g<0>", path)


def single_path(pattern: str) -> str | None:
    """The one path on disk that a pattern stands for; None if it has wild cards."""
    has_wild_cards = _WILD.search(_ESCAPED.sub("", pattern)) is not None
    return None if has_wild_cards else _ESCAPED.sub(r"\1", pattern)


def is_uri(location: str) -> bool:
    """Whether a location starts with a scheme: ``s3://``, ``file:/``."""
    return _has_scheme(location) is not None


MOST_SQL_CHARACTERS = 100_000
_DYNAMIC = "IDENTIFIER"
"""Spark's function that makes a name of a text: nobody could tell what is read."""


def parsed_query(sql: str) -> Any:
    """The sqlglot tree of one SELECT; raises InvalidInputError for anything else."""
    from sqlglot import exp

    trees = [each for each in _parsed(sql) if not isinstance(each, exp.Semicolon | None)]
    if len(trees) != 1:
        found = "nothing" if not trees else f"{len(trees)} statements"
        raise InvalidInputError(f"takes one SELECT, found {found} in {shorten(sql)}")
    if not isinstance(trees[0], exp.Query):
        raise InvalidInputError(
            f"takes one SELECT, {shorten(sql)} is something else: "
            "a pipeline reads with SQL, and writes with [[targets]]"
        )
    return trees[0]


def tables_in(tree: Any) -> list[Any]:
    """The nodes of a query that name a frame or a table, each as often as it is named.

    Names of CTEs are left out where they are seen. Raises InvalidInputError for what names a table
    in a way that nobody can follow, or asks for another version of one.
    """
    from sqlglot import exp

    found = list(_tables(tree, frozenset()))
    for each in tree.find_all(exp.Into):
        raise InvalidInputError(f"SELECT INTO is not known to Spark: {shorten(each.sql('spark'))}")
    return found


def qualified_name(table: Any) -> str:
    """The name of such a node as it was written, with its qualifiers, without quotes."""
    return ".".join(each.name for each in table.parts)


def check_expression(sql: str) -> None:
    """Refuse what is no expression over one row: empty texts, several statements, subqueries.

    What sqlglot cannot read is left to Spark, which knows its own dialect best.
    """
    from sqlglot import exp

    try:
        trees = _parsed(f"SELECT {sql}")
    except InvalidInputError:
        return
    tree = trees[0] if len(trees) == 1 else None
    rest = tree and [name for name, value in tree.args.items() if value and name != "expressions"]
    if not isinstance(tree, exp.Select) or rest or len(tree.expressions) != 1:
        raise InvalidInputError(f"takes one expression, got {shorten(sql)}")
    below = [each for each in tree.find_all(exp.Query, exp.Table) if each is not tree]
    if below:
        raise InvalidInputError(
            f"an expression is about one row, and {shorten(sql)} reads a table: "
            "join the table in a step"
        )


def _tables(node: Any, hidden: frozenset[str]) -> Iterator[Any]:
    """Depth first, with the CTEs that are seen at each place."""
    from sqlglot import exp

    if isinstance(node, exp.Hint | exp.JoinHint):
        return
    if isinstance(node, exp.Table):
        yield from _table(node, hidden)
    seen = hidden
    for each in getattr(node, "ctes", ()):
        name = each.alias.casefold()
        own = seen | {name} if each.parent.args.get("recursive") else seen
        yield from _tables(each.this, own)
        seen |= {name}
    for child in node.iter_expressions():
        if not isinstance(child, exp.With):
            yield from _tables(child, seen)


def _table(node: Any, hidden: frozenset[str]) -> Iterator[Any]:
    from sqlglot import exp

    if not isinstance(node.this, exp.Identifier):
        if isinstance(node.this, exp.Anonymous) and node.this.name.upper() == _DYNAMIC:
            raise InvalidInputError(
                f"{node.sql('spark')} makes a name out of a text: write the name itself"
            )
        return
    if node.args.get("version") or node.args.get("when"):
        raise InvalidInputError(
            f"{node.sql('spark')} asks for a version: name it as the revision of a source"
        )
    if node.db or node.name.casefold() not in hidden:
        yield node


def _parsed(sql: str) -> list[Any]:
    import sqlglot
    from sqlglot.errors import ParseError, SqlglotError

    if len(sql) > MOST_SQL_CHARACTERS:
        raise InvalidInputError(
            f"the SQL has {len(sql):,} characters, {MOST_SQL_CHARACTERS:,} are allowed"
        )
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True  # it reports statements that are refused here
    try:
        return sqlglot.parse(sql, dialect="spark")
    except (SqlglotError, RecursionError) as error:
        first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
        at = f" at line {first['line']}, column {first['col']}" if first.get("line") else ""
        reason = first.get("description") or "a quote is not closed, or it nests too deeply"
        raise InvalidInputError(f"cannot read {shorten(sql)} as SQL{at}: {reason}") from None
    finally:
        log.disabled = before
