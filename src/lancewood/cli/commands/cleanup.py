"""``lw table cleanup``: old versions go, and files that no version needs."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import counted, human_size
from lancewood.cli.tables import BranchOptions
from lancewood.table import IN_FLIGHT


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
        "dry_run": report.dry_run,
        "versions": list(report.versions),
        "manifests": report.manifests,
        "data_files": report.data_files,
        "deletion_files": report.deletion_files,
        "transactions": report.transactions,
        "index_files": report.index_files,
        "bytes": report.bytes,
        "kept": [{"version": each.version, "why": each.why} for each in report.kept],
        "detached": report.detached,
        "in_flight": report.in_flight,
        "unpinned": [{"root": each.root, "tag": each.tag} for each in report.unpinned],
        "still_pinned": [{"root": each.root, "why": each.why} for each in report.still_pinned],
        "landed": list(report.landed),
    }
    given.output.document(document, "\n".join(_lines(table.uri, report)))


def _lines(uri: str, report: lw.CleanupReport) -> list[str]:
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
