"""``lw table relocate`` and ``migrate-names``: new base paths, or new names, for manifests."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import counted
from lancewood.cli.progress import progress
from lancewood.cli.tables import Changing, TableOptions
from lancewood.table import COMMITTING


def relocate_command(
    uri: options.Uri,
    in_flight: Annotated[
        str | None,
        typer.Option(
            "--in-flight",
            metavar="TIME",
            help="A version that is younger may mean that somebody writes, and stops it. 0s where "
            f"nobody does. Default: {COMMITTING.seconds // 60}m.",
        ),
    ] = None,
    dry_run: options.DryRun = False,
    *,
    given: TableOptions,
) -> None:
    """Write the present place of a moved table into its manifests.

    Lancewood finds the files of a table that was copied or moved by itself. Readers such as pylance
    look for those of its branches where the table was; after this they find them here. Do it before
    pylance cleans up, which takes files of branches for garbage until then. Only base paths change.
    Nobody may write meanwhile; if it is cut off, run it again.

    JSON keys: uri, dry_run, manifests, roots, bases, left. A base has path and now, a manifest that
    was left has file and why.
    """
    window = options.span(in_flight, "--in-flight")
    with given.runner() as runner:
        report = lw.relocate(
            uri,
            dry_run=dry_run,
            in_flight=COMMITTING if window is None else window,
            runner=runner,
            **given.reached_by,
        )
    location = given.whole_uri(uri)
    document = {
        "uri": location,
        "dry_run": report.dry_run,
        "manifests": report.manifests,
        "roots": list(report.roots),
        "bases": [{"path": each.path, "now": each.now} for each in report.bases],
        "left": [{"file": each.file, "why": each.why} for each in report.left],
    }
    given.output.document(document, "\n".join(_lines(location, report)))


def _lines(uri: str, report: lw.RelocationReport) -> list[str]:
    text = f"all base paths of {uri} are up to date"
    if report.manifests:
        verb = "would rewrite" if report.dry_run else "rewrote"
        roots = counted(len(report.roots), "root")
        text = f"{verb} {counted(report.manifests, 'manifest')} in {roots} of {uri}"
    lines = [text, *(f"{each.path} is {each.now} now" for each in report.bases)]
    return lines + [f"left {each.file}: {each.why}" for each in report.left]


def migrate_names_command(uri: options.Uri, *, given: Changing) -> None:
    """Rename manifests from scheme V1 to V2, or finish doing so.

    Branches are included. Nobody may write meanwhile, and nobody can open the table until it is
    done; if it is cut off, run it again.

    JSON keys: uri, renamed, roots.
    """
    location = given.whole_uri(uri)
    with progress("rename", total=None, wanted=not given.json, things="manifests") as advance:
        done = lw.migrate_names(uri, progress=lambda count: advance(count, 0), **given.reached_by)
    document = {"uri": location, "renamed": done.renamed, "roots": list(done.roots)}
    text = f"renamed {done.renamed:,} manifests of {location}"
    if not done.renamed:
        text = f"{location} has V2 names already"
    given.output.document(document, text)
