"""``lw table index``: build, list, extend, optimize and drop indices."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import count, counted, human_size, moment, size
from lancewood.cli.tables import PlannedWriting, Reading, counts_of, stands, stays

_KEYS = (
    *("name", "column", "kind", "metric", "segments", "bytes", "rows_covered", "rows_uncovered"),
    *("fragments_covered", "fragments_uncovered", "version", "created"),
)
IndexName: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="The index.")]
SomeIndex: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The index; without one, all of them.")
]


def create_index_command(
    uri: options.Uri,
    column: Annotated[
        str, typer.Argument(metavar="COLUMN", help="The column, dotted inside of a struct.")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            "-k",
            metavar="KIND",
            help="lookup or search, which choose by the type of the column, or a kind: BTREE, "
            "BITMAP, ZONEMAP, BLOOMFILTER, LABEL_LIST, INVERTED, NGRAM, IVF_FLAT, IVF_PQ, ….",
        ),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="What it is called; by default COLUMN_idx."),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Build an index of that name anew.")
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option("--metric", metavar="METRIC", help="Of vectors: l2, cosine, dot, hamming."),
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", metavar="N", min=1, help="Groups of near vectors."),
    ] = None,
    sub_vectors: Annotated[
        int | None,
        typer.Option(
            "--sub-vectors", metavar="N", min=1, help="Parts that product codes cut a vector into."
        ),
    ] = None,
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            metavar="KEY=VALUE",
            help="An option of the engine, such as with_position=true or "
            'custom_stop_words=["bird"]. May be repeated.',
        ),
    ] = None,
    *,
    write: PlannedWriting,
) -> None:
    """Build an index on a column.

    Scans and searches use it; rows that come later are scanned until extend adds them. Others may
    write meanwhile.

    JSON keys: uri, version, branch, dry_run, names, segments_added, segments_removed, fragments,
    rows, bytes.
    """
    table = write.table(uri)
    with write.runner() as runner:
        after = table.indices.create(
            column,
            kind,
            name=name,
            replace=replace,
            metric=metric,
            partitions=partitions,
            sub_vectors=sub_vectors,
            options={key: _value(text) for key, text in options.pairs(more, "--option").items()},
            runner=runner,
            **write.facts,
        )
    _tell(write, after, ("build", "built"))


def _value(text: str) -> Any:
    """A number, a truth value, a list or null, if the text is one in JSON; the text otherwise."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(found, str | dict) else found


def list_indices_command(uri: options.UriOrName, *, read: Reading) -> None:
    """List indices: column, kind, size, and how many rows each covers.

    Rows that an index does not cover are scanned; extend covers them. A size or a number of rows
    that nobody recorded is null.

    JSON lines with keys: name, column, kind, metric, segments, bytes, rows_covered, rows_uncovered,
    fragments_covered, fragments_uncovered, version, created.
    """
    found = read.table(uri).indices.list()
    columns = ("index", "column", "kind", "segments", "bytes", "covered", "uncovered", "created")
    read.output.listing(found, (_KEYS, _facts), (columns, _line))


def _facts(index: lw.IndexInfo) -> tuple[Any, ...]:
    *plain, created = (getattr(index, each) for each in _KEYS)
    return *plain, options.iso(created)


def _line(index: lw.IndexInfo) -> tuple[Any, ...]:
    kind = index.kind if index.metric is None else f"{index.kind} ({index.metric})"
    covered = count(index.rows_covered), count(index.rows_uncovered)
    sizes = count(index.segments), size(index.bytes), *covered
    return index.name, index.column or "", kind, *sizes, moment(index.created)


def extend_index_command(
    uri: options.Uri, name: SomeIndex = None, *, write: PlannedWriting
) -> None:
    """Cover what an index, or every index, does not cover yet.

    New rows get a segment of their own. If everything is covered there is no new version.

    JSON keys: uri, version, branch, dry_run, names, segments_added, segments_removed, fragments,
    rows, bytes.
    """
    table = write.table(uri)
    with write.runner() as runner:
        after = table.indices.extend(name, runner=runner, **write.facts)
    _tell(write, after, ("extend", "extended"))


def optimize_index_command(
    uri: options.Uri, name: SomeIndex = None, *, write: PlannedWriting
) -> None:
    """Cover everything, and leave one segment of each index.

    Of one index, or of all. If there is nothing to gain there is no new version.

    JSON keys: uri, version, branch, dry_run, names, segments_added, segments_removed, fragments,
    rows, bytes.
    """
    table = write.table(uri)
    with write.runner() as runner:
        after = table.indices.optimize(name, runner=runner, **write.facts)
    _tell(write, after, ("optimize", "optimized"))


def drop_index_command(uri: options.Uri, name: IndexName, *, write: PlannedWriting) -> None:
    """Remove an index.

    Its files stay for older versions until cleanup.

    JSON keys: uri, version, branch, dry_run, names, segments_added, segments_removed, fragments,
    rows, bytes.
    """
    after = write.table(uri).indices.drop(name, **write.facts)
    _tell(write, after, ("drop", "dropped"))


def _tell(write: PlannedWriting, table: lw.Table, words: tuple[str, str]) -> None:
    counts = counts_of(table, lw.IndexCounts)
    text = f"nothing to do; {stays(table)}"
    if counts.names:
        what = f"{'index' if len(counts.names) == 1 else 'indices'} {', '.join(counts.names)}"
        if counts.fragments:
            what += (
                f" from {counted(counts.rows, 'row')} of {counted(counts.fragments, 'fragment')}"
            )
        if counts.bytes:
            what += f" ({human_size(counts.bytes)})"
        text = write.outcome(*words, f"{what} in {stands(table)}")
    write.answer(
        table,
        text,
        names=list(counts.names),
        segments_added=counts.segments_added,
        segments_removed=counts.segments_removed,
        fragments=counts.fragments,
        rows=counts.rows,
        bytes=counts.bytes,
    )
