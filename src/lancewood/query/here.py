"""``lancewood.sql``: a script answered and run in this process, by DuckDB and threads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pyarrow as pa

from lancewood.errors import InvalidInputError
from lancewood.expr import Parameters
from lancewood.query.answer import Answer, answer
from lancewood.query.identifiers import Identifiers
from lancewood.query.sources import Source, Sources
from lancewood.query.statements.engine import Here
from lancewood.query.statements.script import check_no_files, is_query, parse_script
from lancewood.query.statements.sequence import run_script
from lancewood.query.statements.workplace import Workplace
from lancewood.repo.repository import Repository


def sql(
    query: str,
    *,
    tables: Mapping[str, Source] | None = None,
    repository: Repository | str | os.PathLike[str] | None = None,
    revision: str | None = None,
    args: Parameters = None,
    storage_options: Mapping[str, str] | None = None,
    files: bool = False,
    pushdown: bool = True,
) -> Answer:
    """The answer to a query in DuckDB's SQL, whose tables may be named with revisions; computed by
    DuckDB in this process. Statements that change tables are run, too.

    ``tables`` maps names to uris and handles, ``repository`` has the tables of a commit, HEAD's or
    that of ``revision``. Where neither is given, a quoted name may be a uri: ``SELECT * FROM
    'photos.lance@v1.0'``. A name in the query may carry its own revision: ``photos@exp``,
    ``photos@v1.0``, ``photos@:12``, ``photos AT (VERSION => 12)``, ``photos AT (TIMESTAMP =>
    '2026-11-15')``; others go in double quotes. ``FROM diff('photos', 'v1.0', 'exp')`` has the rows
    that differ between two revisions, as ``Table.diff`` gives them. ``args`` are values for
    ``$name`` (a mapping), or for ``$1`` and ``?`` (a list).

    Every version is resolved now, and once for the same name and revision; rows are read and
    computed on demand, with bounded memory. ``pushdown=False`` reads all of every table, for the
    same answer. ``files=True`` lets COPY read and write files of this machine. Raises
    NotFoundError, and InvalidInputError for what DuckDB refuses.

    INSERT, UPDATE, DELETE, MERGE INTO, CREATE TABLE and the like are done before this returns, each
    by the verb of ``Table`` and as one commit, on ``photos@exp`` as well. In a repository, what
    stands between BEGIN and COMMIT 'message' is one commit over many tables. Several statements
    are separated by semicolons; the answer is that of the last one if it is a query, else a row for
    each statement, with the columns statement, table, inserted, updated, deleted, version, commit.
    """
    engine = Here(args, pushdown=pushdown)
    script = parse_script(query)
    if not files:
        check_no_files(script)
    sources = Sources(tables, repository, revision, storage_options, Identifiers())
    if is_query(script):
        return answer(query, sources, args, pushdown=pushdown)
    if args is not None and not isinstance(args, Mapping):
        raise InvalidInputError("statements take values for $name, not a list for $1 and ?")
    found = run_script(script, Workplace(sources), engine)
    return Report(found.report) if found.rows is None else found.rows


class Report(Answer):
    """What statements did, as rows."""

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._schema = rows.schema

    def explain(self) -> str:
        """Nothing is read for it any more."""
        return ""

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self._rows.to_batches()

    def __repr__(self) -> str:
        return f"<Report {self._rows.to_pylist()}>"
