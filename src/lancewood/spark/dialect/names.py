"""Where a query names tables, at which revisions, and which part of its text that is.

Takes into account that WITH hides names; which tables exist does not matter here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from lancewood.errors import InvalidInputError
from lancewood.query.names import DIFF, Call
from lancewood.spark.dialect.diff_calls import is_diff, read_call
from lancewood.spark.dialect.settings import Settings
from lancewood.spark.dialect.text import SPAN, Query


@dataclass(frozen=True)
class AsOf:
    """What follows AS OF."""

    is_moment: bool
    sql: str
    """The expression as it was written."""
    node: Any


@dataclass(frozen=True, eq=False)
class Occurrence:
    """A table, named once in the text of a query."""

    node: Any
    name: str
    revision: str | None
    """The text after the ``@``."""
    as_of: AsOf | None
    start: int
    end: int
    """The span of the table and its revision in the text, without an alias."""
    alias_at: int | None
    """Where an alias can be inserted, if the query has none."""
    call: Call | None = None
    """What is compared, if it is no table but a diff."""

    @property
    def written(self) -> str:
        """The table and revision as written: ``photos@exp``."""
        if self.call is not None:
            return self.call.sql
        base = self.name if self.revision is None else f"{self.name}@{self.revision}"
        if self.as_of is None:
            return base
        return f"{base} {'TIMESTAMP' if self.as_of.is_moment else 'VERSION'} AS OF {self.as_of.sql}"

    @property
    def exposed(self) -> str:
        """The name that qualifies its columns."""
        alias = self.node.args.get("alias")
        return str(alias.name) if alias is not None and alias.name else self.name


def occurrences(query: Query, settings: Settings) -> Iterator[Occurrence]:
    """Every single word that may be the name of a table of ours, and every diff, in the order of
    the text.

    Qualified names, those that WITH defines, and those in a hint, which are aliases, are left to
    Spark. Raises InvalidInputError for a revision of something that has none.
    """
    from sqlglot import exp

    found: dict[int, Occurrence] = {}
    for node in query.tree.find_all(exp.Table):
        if SPAN in node.meta and is_diff(node):
            called = _diff(query, node)
            found.setdefault(called.start, called)
        if not isinstance(node.this, exp.Identifier) or SPAN not in node.meta:
            continue
        if isinstance(node.find_ancestor(exp.Hint, exp.Query), exp.Hint):
            continue
        text = str(node.this.this)
        name, at, revision = text.partition("@")
        is_dotted = bool(node.args.get("db"))
        version = node.args.get("version")
        if is_dotted:
            if version is None and (not at or not name):
                continue
            written = ".".join(str(each.this) for each in node.parts)
            if name == "lance":
                raise InvalidInputError(
                    f"{written} is no name: a path stands in quotes, FROM '{written}'"
                )
            raise InvalidInputError(
                f"{written!r} has a revision, and only tables of Lancewood have those, by one name "
                "without a dot: give it a name in tables=",
            )
        if not at and _is_defined_by_with(node, text, settings):
            if version is not None:
                raise InvalidInputError(
                    f"{text!r} is defined by WITH in this query, and has no versions"
                )
            continue
        occurrence = _occurrence(query, node, name, revision if at else None, version)
        found.setdefault(occurrence.start, occurrence)
    yield from (found[start] for start in sorted(found))


def with_names(
    query: Query, names: Mapping[Occurrence, str], escaped: Callable[[str], str] = str
) -> str:
    """The text with other names in place of tables and revisions, and everything else as it was
    written, except for what ``escaped`` makes of it. A table keeps its exposed name."""
    edits = []
    for each, name in names.items():
        edits.append((each.start, each.end, name))
        if each.alias_at is not None:
            alias = each.name.replace("`", "``")
            edits.append((each.alias_at, each.alias_at, f" AS `{alias}`"))
    parts, at = [], 0
    for start, end, text in sorted(edits):
        parts += [escaped(query.sql[at:start]), text]
        at = end
    return "".join([*parts, escaped(query.sql[at:])])


def _occurrence(
    query: Query, node: Any, name: str, revision: str | None, version: Any
) -> Occurrence:
    first, last = node.meta[SPAN]
    as_of = None
    if version is not None:
        if str(version.args.get("kind")) != "AS OF" or version.expression is None:
            raise InvalidInputError(
                f"{name!r}: only AS OF says which version is meant, not {version.args.get('kind')}"
            )
        start, last = version.meta[SPAN]
        words = start + (4 if query.tokens[start].text.upper() == "FOR" else 3)
        expression = query.sql[query.tokens[words].start : query.tokens[last - 1].end + 1]
        as_of = AsOf(str(version.this) == "TIMESTAMP", expression, version.expression)
    end = query.tokens[last - 1].end + 1
    alias_at = None
    if node.args.get("alias") is None:
        alias_at = _after_sample(query, last, end) if node.args.get("sample") else end
    return Occurrence(node, name, revision, as_of, query.tokens[first].start, end, alias_at)


def _diff(query: Query, node: Any) -> Occurrence:
    first, last = node.meta[SPAN]
    start, end = query.tokens[first].start, query.tokens[last - 1].end + 1
    call = read_call(node, " ".join(query.sql[start:end].split()))
    alias_at = None
    if node.args.get("alias") is None:
        alias_at = _after_sample(query, last, end) if node.args.get("sample") else end
    return Occurrence(node, DIFF, None, None, start, end, alias_at, call)


def _after_sample(query: Query, at: int, end: int) -> int:
    """The position after TABLESAMPLE (…) REPEATABLE (…), where Spark takes an alias."""
    while at < len(query.tokens):
        word = query.tokens[at]
        if word.token_type.name != "TABLE_SAMPLE" and word.text.upper() != "REPEATABLE":
            return end
        at, depth = at + 1, 0
        while at < len(query.tokens):
            kind = query.tokens[at].token_type.name
            depth += (kind == "L_PAREN") - (kind == "R_PAREN")
            at += 1
            if depth == 0:
                break
        end = query.tokens[at - 1].end + 1
    return end


def _is_defined_by_with(node: Any, name: str, settings: Settings) -> bool:
    """Whether a surrounding WITH defines the name, as Spark looks it up."""
    return defined_by_with(node, name, settings) is not None


def defined_by_with(node: Any, name: str, settings: Settings) -> Any:
    """The CTE that a name means at a position of a query; None if there is none."""
    from sqlglot import exp

    wanted = settings.folded(name)
    inside, above = node, node.parent
    while above is not None:
        clause = above.args.get("with_")
        if clause is not None and clause is not inside:
            for each in clause.expressions:
                if settings.folded(str(each.alias)) == wanted:
                    return each
        if isinstance(above, exp.With):
            for each in above.expressions:
                is_itself = each is inside
                if is_itself and not above.args.get("recursive"):
                    break
                if settings.folded(str(each.alias)) == wanted:
                    return each
                if is_itself:
                    break
        inside, above = above, above.parent
    return None
