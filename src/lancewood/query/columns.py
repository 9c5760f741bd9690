"""Which columns of its tables a query needs, and which table a name of a column means.

Where a name might mean a column of a table, the table keeps it: what is read too much is dropped
by Spark, what is read too little would be missing. Knows the names of columns, not their types.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lancewood.query.names import Occurrence, defined_by_with
from lancewood.query.settings import Settings
from lancewood.query.text import Query


class Shape:
    """The columns of one table as a session sees them."""

    def __init__(self, names: Sequence[str], settings: Settings) -> None:
        self.names = tuple(names)
        self._by_folded: dict[str, list[str]] = {}
        for each in names:
            self._by_folded.setdefault(settings.folded(each), []).append(each)
        self._settings = settings

    def named(self, name: str) -> list[str]:
        """The columns that a name may mean."""
        return self._by_folded.get(self._settings.folded(name), [])


def needed_columns(
    query: Query, occurrence: Occurrence, shape: Shape, settings: Settings
) -> tuple[str, ...] | None:
    """The columns that the query may use of a table, in its order; None for all of them."""
    from sqlglot import exp

    tree, select = query.tree, select_of(occurrence.node)
    if select is None or _takes_whole_rows(tree, select, occurrence):
        return None
    exposed = settings.folded(occurrence.exposed)
    wanted: set[str] = set()

    def want(name: str) -> None:
        wanted.update(shape.named(name))

    for word in query.words:
        want(word)
    for node in tree.find_all(exp.Identifier, exp.Star):
        parent = node.parent
        if isinstance(node, exp.Star):
            if _expands(node) and _is_about(node, select, exposed, settings):
                return None
        elif isinstance(parent, exp.Column):
            parts = [str(each.name) for each in parent.parts]
            if len(parts) == 2 and settings.folded(parts[0]) != exposed:
                want(parts[0])
            else:
                for each in parts:
                    want(each)
        elif not isinstance(parent, exp.Table | exp.TableAlias | exp.CTE | exp.Alias):
            want(str(node.name))
    return tuple(each for each in shape.names if each in wanted)


def select_of(node: Any) -> Any:
    """The SELECT whose FROM or JOIN a table stands in; None if it stands elsewhere."""
    from sqlglot import exp

    above = node.parent
    if isinstance(above, exp.Join | exp.From) and isinstance(above.parent, exp.Select):
        return above.parent
    return None


def exposed_columns(node: Any, settings: Settings) -> tuple[str, ...] | None:
    """The names of what a subquery, a CTE or a LATERAL gives; None if they are not known."""
    from sqlglot import exp

    alias = node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return tuple(str(each.name) for each in alias.columns)
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        if node.args.get("db"):
            return None
        found = defined_by_with(node, str(node.this.this), settings)
        return None if found is None else exposed_columns(found, settings)
    if isinstance(node, exp.Subquery | exp.CTE):
        return _selected(node.this)
    return None


def _selected(query: Any) -> tuple[str, ...] | None:
    from sqlglot import exp

    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return None
    named = query.expressions
    if all(isinstance(each, exp.Alias | exp.Column) and not each.is_star for each in named):
        return tuple(str(each.alias_or_name) for each in named)
    return None


def _takes_whole_rows(tree: Any, select: Any, occurrence: Occurrence) -> bool:
    """Whether all columns matter although none is named."""
    from sqlglot import exp

    alias = occurrence.node.args.get("alias")
    if alias is not None and alias.args.get("columns"):
        return True
    if occurrence.node.args.get("sample") or select.args.get("sample"):
        return True
    if select.args.get("operation_modifiers"):
        return True
    joins = select.args.get("joins") or ()
    if any(str(each.args.get("method") or "").upper() == "NATURAL" for each in joins):
        return True
    return tree.find(exp.Pivot) is not None


def _expands(star: Any) -> bool:
    """Whether a star stands for columns; in count(*) it stands for rows."""
    from sqlglot import exp

    return not (isinstance(star.parent, exp.Count) and star.arg_key == "this")


def _is_about(star: Any, select: Any, exposed: str, settings: Settings) -> bool:
    """Whether a star may stand for columns of a table, which is exposed by a name there."""
    from sqlglot import exp

    if isinstance(star.parent, exp.Column):
        parts = [str(each.name) for each in star.parent.parts[:-1]]
        return len(parts) != 1 or settings.folded(parts[0]) == exposed
    return star.find_ancestor(exp.Select) is select
