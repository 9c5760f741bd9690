"""What a script can say: one small value for each statement that changes tables.

Conditions, values and queries are SQL text of the dialect of the script, exactly as it was written;
that it is SQL was checked, which tables and columns exist was not.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Literal, TypeAlias

from lancewood.errors import InvalidInputError
from lancewood.model.refs import OnBranch, parse_revision

KEPT, INSERTED, UPDATED, DELETED, REFUSED = range(5)
"""What becomes of a row: a row that matches is kept if no clause changes it, a new one refused if
it does not meet the condition of REPLACE WHERE."""

Path: TypeAlias = tuple[str, ...]
"""The name of a column, a field of a struct with the names that lead to it."""
_OF_COMMITS = ("~", "^", "@{")
"""What leads from a branch to an earlier commit."""


@dataclass(frozen=True)
class Target:
    """A table that is changed, by the name that a query would use."""

    name: str
    revision: str | None = None
    """The branch after the ``@``: ``exp``, or ``exp:`` for the table's own. It may turn out to be a
    tag."""

    @property
    def written(self) -> str:
        """The table as it was written: ``photos@exp``."""
        return self.name if self.revision is None else f"{self.name}@{self.revision}"

    @property
    def can_be_branch(self) -> bool:
        """Whether the revision, if there is one, can name a branch of a table or of a repository:
        it is no version, and no commit before another."""
        revision = self.revision or ""
        if ":" not in revision:
            return not any(each in revision for each in _OF_COMMITS)
        try:
            meant = parse_revision(revision)
        except InvalidInputError:
            return False
        return isinstance(meant, OnBranch) and meant.version is None


@dataclass(frozen=True)
class Moment:
    """A time, as the SQL expression that means it."""

    sql: str


RefKind: TypeAlias = Literal["branch", "tag"]
At: TypeAlias = int | str | Moment
"""A state to begin from or to come back to: the number of a version, a revision, or a time."""


class Existing(Enum):
    """What happens where there is one of the name already."""

    FAIL = "fail"
    KEEP = "keep"
    """``IF NOT EXISTS``: nothing is done."""
    REPLACE = "replace"
    """``OR REPLACE``."""


@dataclass(frozen=True)
class Passed:
    """The text of a statement that is none of ours, or of a query: it goes on to the engine."""

    sql: str
    line: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True, kw_only=True)
class Written:
    """A statement's own text, and the line of its script where it begins; of no account when two
    are compared."""

    sql: str = field(default="", compare=False, repr=False)
    line: int = field(default=1, compare=False, repr=False)


@dataclass(frozen=True)
class OfTable(Written):
    """A statement that changes a table."""

    target: Target


@dataclass(frozen=True)
class Insert(OfTable):
    """``INSERT INTO``, ``INSERT OVERWRITE``, ``INSERT INTO … REPLACE WHERE``."""

    query: str
    """The query, or ``VALUES``, with a ``WITH`` that stood before the statement; empty where
    ``values`` are given."""
    columns: tuple[str, ...] | None = None
    """Which columns the query gives, in its order; None for all of the table's."""
    by_name: bool = False
    """Whether the query's columns are matched by their names, not by their places."""
    overwrite: bool = False
    """Whether all rows that are there go."""
    where: str | None = None
    """The condition of ``REPLACE WHERE``: rows that meet it go, and all new ones must meet it."""
    values: tuple[tuple[str, ...], ...] = ()
    """Rows of expressions, with the word ``NULL`` for ``DEFAULT``; an empty one has all columns."""


@dataclass(frozen=True)
class Delete(OfTable):
    """``DELETE FROM``, and ``TRUNCATE TABLE``, which deletes all rows."""

    where: str | None = None
    alias: str | None = None
    others: str | None = None
    """Other tables for the condition, as they stand after ``USING``."""
    queries: str = ""
    """``WITH`` and its queries, if they stand before the statement."""


@dataclass(frozen=True)
class Assignment:
    """A column, or a field of a struct, and the expression that it is set to."""

    path: Path
    """Without the name or alias of the table."""
    value: str
    """An expression; the word ``NULL`` for ``DEFAULT``."""


@dataclass(frozen=True)
class Update(OfTable):
    """``UPDATE … SET``."""

    assignments: tuple[Assignment, ...]
    where: str | None = None
    alias: str | None = None
    others: str | None = None
    """Other tables for values and condition, as they stand after ``FROM``."""
    queries: str = ""


class When(Enum):
    """Which rows a clause of a merge is about."""

    MATCHED = "matched"
    NOT_MATCHED = "not matched"
    """Rows of the source that the target has not."""
    NOT_MATCHED_BY_SOURCE = "not matched by source"
    """Rows of the target that the source has not."""


@dataclass(frozen=True)
class Action:
    """What a clause of a merge does with a row: KEPT is ``DO NOTHING``, whatever clauses follow."""

    change: int
    """INSERTED, UPDATED, DELETED or KEPT."""
    assignments: tuple[Assignment, ...] | None = None
    """What its columns become: of a new row, those that are not named are null, and without paths
    they are the table's in order. None for every column from one of the source."""
    by_name: bool = True
    """Whether that is the one of the same name; else the one at the same place."""
    failure: str | None = None
    """``ERROR``: an expression for the message with which the statement fails; may be empty."""


@dataclass(frozen=True)
class MergeClause:
    """One ``WHEN``: of each kind the first whose condition a row meets is the one that acts."""

    when: When
    action: Action
    condition: str | None = None


@dataclass(frozen=True)
class Merge(OfTable):
    """``MERGE INTO``."""

    source: str
    """A query for the rows of the source: ``SELECT * FROM`` what was written after ``USING``."""
    on: str
    """The condition; empty where ``using`` is given."""
    clauses: tuple[MergeClause, ...]
    alias: str | None = None
    """The target's."""
    source_alias: str | None = None
    """What qualifies the columns of the source: its alias, or the name of a table without one."""
    using: tuple[str, ...] = ()
    """The columns of ``USING (…)``, which are equal in both."""
    queries: str = ""

    def of(self, when: When) -> tuple[MergeClause, ...]:
        """The clauses about these rows, in their order."""
        return tuple(each for each in self.clauses if each.when is when)


RowChange: TypeAlias = Insert | Delete | Update | Merge


@dataclass(frozen=True)
class Column:
    """A column of a new table, or one that is added to a table."""

    path: Path
    type: str | None
    """The type as it was written, such as ``ARRAY<FLOAT>``; None where ``value`` decides."""
    nullable: bool = True
    comment: str | None = None
    value: str | None = None
    """An expression over the other columns that computes it; only where a column is added."""


@dataclass(frozen=True)
class CreateTable(OfTable):
    """``CREATE TABLE``, with columns or ``AS`` a query."""

    columns: tuple[Column, ...] = ()
    query: str | None = None
    existing: Existing = Existing.FAIL
    location: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    """Settings of the table: ``TBLPROPERTIES``, or ``WITH``."""
    options: tuple[tuple[str, str | bool], ...] = ()
    """How it is made, in the words of ``lancewood.create``."""
    primary_key: tuple[str, ...] = ()
    comment: str | None = None


@dataclass(frozen=True)
class DropTable(OfTable):
    """``DROP TABLE``: in a repository the table is taken out of it, and its data stays."""

    if_exists: bool = False


@dataclass(frozen=True)
class AddColumns(OfTable):
    """``ALTER TABLE … ADD COLUMNS``."""

    columns: tuple[Column, ...]
    if_not_exists: bool = False


@dataclass(frozen=True)
class DropColumns(OfTable):
    """``ALTER TABLE … DROP COLUMNS``."""

    paths: tuple[Path, ...]
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn(OfTable):
    """``ALTER TABLE … RENAME COLUMN … TO``."""

    path: Path
    name: str
    """The new last part of the path."""


@dataclass(frozen=True)
class ChangeType(OfTable):
    """``ALTER TABLE … ALTER COLUMN … TYPE``."""

    path: Path
    type: str


@dataclass(frozen=True)
class Restore(OfTable):
    """``RESTORE TABLE … TO``."""

    at: At


@dataclass(frozen=True)
class Optimize(OfTable):
    """``OPTIMIZE``: small files become larger ones."""


@dataclass(frozen=True)
class CopyFrom(OfTable):
    """``COPY … FROM``: the rows of a file are added to a table."""

    file: str
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CopyTo(Written):
    """``COPY … TO``: the rows of a query become a file."""

    query: str
    file: str
    options: tuple[tuple[str, str], ...] = ()
    target: ClassVar[None] = None


@dataclass(frozen=True)
class OfRef(Written):
    """A statement about a branch or tag: of a table, or of the repository where none is named."""

    kind: RefKind
    name: str
    target: Target | None = None
    """A table without a revision."""


@dataclass(frozen=True)
class CreateRef(OfRef):
    """``CREATE BRANCH``, ``CREATE TAG``. What stood after the ``@`` of the table is in ``at``."""

    at: At | None = None
    """Where it begins, or what it names; None for the newest state."""
    existing: Existing = Existing.FAIL


@dataclass(frozen=True)
class DropRef(OfRef):
    """``DROP BRANCH``, ``DROP TAG``."""

    if_exists: bool = False


@dataclass(frozen=True)
class MergeBranch(Written):
    """``MERGE BRANCH``: of a table, or of the repository where none is named."""

    name: str
    into: str | None = None
    """Main, or the repository's current branch, where none is named."""
    target: Target | None = None


Change: TypeAlias = OfTable | CreateRef | DropRef | MergeBranch | CopyTo
"""What changes a table or a repository, or writes a file."""


@dataclass(frozen=True)
class Begin(Written):
    """``BEGIN``, ``START TRANSACTION``: what follows is one commit of the repository."""


@dataclass(frozen=True)
class Commit(Written):
    """``COMMIT``, with the message of the commit."""

    message: str | None = None


@dataclass(frozen=True)
class Rollback(Written):
    """``ROLLBACK``: what followed ``BEGIN`` is not done."""


@dataclass(frozen=True)
class Explain(Written):
    """``EXPLAIN``: what a statement would do, or a query read."""

    statement: Change | Passed


Statement: TypeAlias = Change | Begin | Commit | Rollback | Explain | Passed
Script: TypeAlias = tuple[Statement, ...]
