"""``lw table compact``, ``cleanup`` and ``restore``: fewer fragments, fewer versions, an older one
again; ``lw table index``: build, list, extend, optimize and drop indices.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeAlias

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import count, counted, human_size, moment, note, picked, size
from lancewood.cli.tables import (
    BranchOptions,
    PlannedWriting,
    Reading,
    Writing,
    counts_of,
    stands,
    stays,
)
from lancewood.table import IN_FLIGHT, MAIN, FileLimits


def compact_command(
    uri: options.Uri,
    target_rows: Annotated[
        int,
        typer.Option(
            "--target-rows", metavar="N", min=1, help="Fragments with fewer rows are joined."
        ),
    ] = FileLimits().max_rows,
    max_deleted: Annotated[
        float,
        typer.Option(
            "--max-deleted",
            metavar="SHARE",
            min=0,
            max=1,
            help="A fragment of which more is deleted is written anew.",
        ),
    ] = 0.1,
    *,
    write: PlannedWriting,
) -> None:
    """Join small fragments and leave out deleted rows.

    Rows keep their order, and their ids where those are stable. Others may write meanwhile. Older
    versions keep their files until cleanup removes them. Indices that name rows by where they are
    (BTREE, ZONEMAP and BLOOMFILTER; all without stable row ids) no longer cover what was rewritten.

    JSON keys: uri, version, branch, dry_run, fragments_removed, fragments_added, files_removed,
    files_added, uncovered_indices, uncovered_rows, blocking_indices.
    """
    compact = write.table(uri).compact
    table = write.run(compact, target_rows=target_rows, max_deleted=max_deleted)
    counts = counts_of(table, lw.CompactionCounts)
    text = f"nothing would be gained; {stays(table)}"
    if counts.fragments_removed:
        old = f"{counted(counts.fragments_removed, 'fragment')} of {counts.files_removed:,} files"
        new = f"{counts.fragments_added:,} of {counts.files_added:,}"
        text = write.outcome("replace", "replaced", f"{old} by {new} in {stands(table)}")
    facts = picked(
        counts,
        *("fragments_removed", "fragments_added", "files_removed", "files_added"),
        *("uncovered_indices", "uncovered_rows", "blocking_indices"),
    )
    write.answer(table, text, **facts)
    if counts.blocking_indices:
        note(
            f"small fragments stay apart because indices {', '.join(counts.blocking_indices)} "
            f"cover them in several segments, or not all: lw table index optimize {table.uri} "
            "(Table.indices.optimize()), and compact again"
        )
    if counts.uncovered_indices:
        cover = "would no longer cover" if write.dry_run else "no longer cover"
        rows = counted(counts.uncovered_rows, "row")
        names = ", ".join(counts.uncovered_indices)
        note(f"indices {names} {cover} {rows}: lw table index extend {table.uri}")


def cleanup_command(
    uri: options.Uri,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="TIME", help="Versions older than this go: 14d, 12h, 1d12h."
        ),
    ] = None,
    keep_versions: Annotated[
        int | None,
        typer.Option("--keep-versions", metavar="N", min=1, help="The newest N versions stay."),
    ] = None,
    protect: Annotated[
        list[int] | None,
        typer.Option("--protect", metavar="N", help="This version stays. May be repeated."),
    ] = None,
    in_flight: Annotated[
        str | None,
        typer.Option(
            "--in-flight",
            metavar="TIME",
            help="Files that no version names stay so long, as a writer may be at work on them; "
            "versions too, but 10 minutes at most. 0s where nobody writes. "
            f"Default: {IN_FLIGHT.days}d.",
        ),
    ] = None,
    dry_run: options.DryRun = False,
    *,
    given: BranchOptions,
) -> None:
    """Remove old versions, and files that nothing needs.

    A version goes if it is older than --older-than and not among the newest --keep-versions; with
    neither none goes, only what failed writers left. The newest version, tagged ones and those that
    branches start from always stay.

    JSON keys: uri, dry_run, versions, manifests, data_files, deletion_files, transactions,
    index_files, bytes, kept, detached, in_flight, unpinned, still_pinned, landed. What is unpinned
    has root and tag: a source of this clone that none of its versions reads from any more. What is
    still pinned has root and why. Landed are versions that commits of a repository had waiting.
    """
    age = options.span(older_than, "--older-than")
    window = options.span(in_flight, "--in-flight")
    table = given.newest(uri)
    with given.runner() as runner:
        report = table.cleanup(
            older_than=age,
            keep_versions=keep_versions,
            protect=protect or (),
            in_flight=IN_FLIGHT if window is None else window,
            dry_run=dry_run,
            runner=runner,
        )
    document = {
        "uri": table.uri,
        **picked(
            report,
            *("dry_run", "versions", "manifests", "data_files", "deletion_files"),
            *("transactions", "index_files", "bytes"),
        ),
        "kept": [picked(each, "version", "why") for each in report.kept],
        **picked(report, "detached", "in_flight"),
        "unpinned": [picked(each, "root", "tag") for each in report.unpinned],
        "still_pinned": [picked(each, "root", "why") for each in report.still_pinned],
        "landed": report.landed,
    }
    given.output.document(document, "\n".join(_cleanup_lines(table.uri, report)))


def _cleanup_lines(uri: str, report: lw.CleanupReport) -> list[str]:
    kinds = {
        "manifest": report.manifests,
        "data file": report.data_files,
        "deletion file": report.deletion_files,
        "transaction": report.transactions,
        "index file": report.index_files,
    }
    files = ", ".join(counted(number, kind) for kind, number in kinds.items() if number)
    verb = "would remove" if report.dry_run else "removed"
    lines = [f"version {each} landed first: a commit had it waiting" for each in report.landed]
    lines += [f"{verb} {counted(len(report.versions), 'version')} of {uri}"]
    if files:
        lines.append(f"files: {files} ({human_size(report.bytes)})")
    lines += [f"version {each.version} stays: {each.why}" for each in report.kept]
    lines += [f"{each.root} is read no more: its tag {each.tag} went" for each in report.unpinned]
    lines += [f"{each.root} keeps its pin: {each.why}" for each in report.still_pinned]
    if report.in_flight:
        lines.append(
            f"{counted(report.in_flight, 'file')} without a version may belong to a writer at work;"
            " --in-flight says for how long they stay"
        )
    return lines


def restore_command(
    uri: options.Uri,
    target: Annotated[
        str | None,
        typer.Argument(metavar="VERSION", help="What to come back to: a number or a tag."),
    ] = None,
    tag: Annotated[
        str | None, typer.Option("--tag", metavar="NAME", help="Come back to this tag.")
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            "--at", metavar="REVISION", help="Come back to this revision; as in URI@REVISION."
        ),
    ] = None,
    *,
    write: Writing,
) -> None:
    """Make an older version the newest again.

    It becomes a new version; those in between stay where they are. It is a version of the branch,
    said as a number or a tag, or by the uri: URI@TAG.

    JSON keys: uri, version, branch, restored.
    """
    said = {"VERSION": target, "--tag": tag, "--at": at}
    given = [name for name, value in said.items() if value is not None]
    if len(given) > 1:
        raise typer.BadParameter(f"give {' or '.join(given)}, not both")
    found = write.named(uri, write.branch)
    single = found.single
    if single is not None and given:
        raise typer.BadParameter(f"the uri says {single!r} already; leave {given[0]} out")
    if single is None and not given:
        raise typer.BadParameter("say which version to come back to: a number or a tag")
    table = old = found.table
    if target is not None and target.isdecimal():
        old = table.checkout(version=int(target))
    elif given:
        at = at if target is None else target
        old = table.checkout(tag=tag, at=at)
    restored = old.version
    if old.branch == table.branch:
        table = old.restore(**write.facts)
    else:
        table = table.restore(tag=tag, at=at, **write.facts)  # which refuses it
    on = f"version {table.version} of {table.branch or MAIN}"
    text = f"restored version {restored} of {table.main_uri} as {on}"
    write.answer(table, text, restored=restored)


_INDEX_KEYS = (
    *("name", "column", "kind", "metric", "segments", "bytes", "rows_covered", "rows_uncovered"),
    *("fragments_covered", "fragments_uncovered", "version", "created"),
)
_INDEX_COUNTS = ("names", "segments_added", "segments_removed", "fragments", "rows", "bytes")
SomeIndex: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="[NAME]", help="The index; without one, all of them.")
]


def index_create_command(
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
    after = write.run(
        write.table(uri).indices.create,
        column,
        kind,
        name=name,
        replace=replace,
        metric=metric,
        partitions=partitions,
        sub_vectors=sub_vectors,
        options={key: _value(text) for key, text in options.pairs(more, "--option").items()},
    )
    _tell(write, after, ("build", "built"))


def _value(text: str) -> Any:
    """A number, a truth value, a list or null, if the text is one in JSON; the text otherwise."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return text if isinstance(found, str | dict) else found


def index_list_command(uri: options.UriOrName, *, read: Reading) -> None:
    """List indices: column, kind, size, and how many rows each covers.

    Rows that an index does not cover are scanned; extend covers them. A size or a number of rows
    that nobody recorded is null.

    JSON lines with keys: name, column, kind, metric, segments, bytes, rows_covered, rows_uncovered,
    fragments_covered, fragments_uncovered, version, created.
    """
    found = read.table(uri).indices.list()
    columns = ("index", "column", "kind", "segments", "bytes", "covered", "uncovered", "created")
    read.output.listing(found, (_INDEX_KEYS, _index_facts), (columns, _index_line))


def _index_facts(index: lw.IndexInfo) -> tuple[Any, ...]:
    *plain, created = (getattr(index, each) for each in _INDEX_KEYS)
    return *plain, options.iso(created)


def _index_line(index: lw.IndexInfo) -> tuple[Any, ...]:
    kind = index.kind if index.metric is None else f"{index.kind} ({index.metric})"
    covered = count(index.rows_covered), count(index.rows_uncovered)
    sizes = count(index.segments), size(index.bytes), *covered
    return index.name, index.column or "", kind, *sizes, moment(index.created)


def index_extend_command(
    uri: options.Uri, name: SomeIndex = None, *, write: PlannedWriting
) -> None:
    """Cover what an index, or every index, does not cover yet.

    New rows get a segment of their own. If everything is covered there is no new version.

    JSON keys: uri, version, branch, dry_run, names, segments_added, segments_removed, fragments,
    rows, bytes.
    """
    after = write.run(write.table(uri).indices.extend, name)
    _tell(write, after, ("extend", "extended"))


def index_optimize_command(
    uri: options.Uri, name: SomeIndex = None, *, write: PlannedWriting
) -> None:
    """Cover everything, and leave one segment of each index.

    Of one index, or of all. If there is nothing to gain there is no new version.

    JSON keys: uri, version, branch, dry_run, names, segments_added, segments_removed, fragments,
    rows, bytes.
    """
    after = write.run(write.table(uri).indices.optimize, name)
    _tell(write, after, ("optimize", "optimized"))


def index_drop_command(
    uri: options.Uri,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The index.")],
    *,
    write: PlannedWriting,
) -> None:
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
    write.answer(table, text, **picked(counts, *_INDEX_COUNTS))
