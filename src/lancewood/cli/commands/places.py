"""``lw table base``, ``move``, ``clone``, ``detach``, ``relocate`` and ``migrate-names``: where the
files of a table are.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from operator import attrgetter
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import counted, human_size, picked
from lancewood.cli.progress import progress
from lancewood.cli.tables import (
    Changing,
    Planned,
    PlannedWriting,
    Revision,
    TableOptions,
    Writing,
    counts_of,
    stands,
    stays,
)
from lancewood.table import COMMITTING, MAIN

_BASE_KEYS = ("id", "name", "is_dataset_root", "path")
_RANGE = re.compile(r"(\d{1,10})(?:-(\d{1,10}))?", re.ASCII)
_LONGEST_RANGE = 10_000_000


def base_command(
    uri: options.Uri,
    add: Annotated[
        str | None,
        typer.Option("--add", metavar="PATH", help="Declare a root: a directory or a URI."),
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What the new one is called.")
    ] = None,
    dataset_root: Annotated[
        bool,
        typer.Option("--dataset-root", help="Its data files lie in a directory data below PATH."),
    ] = False,
    set_to: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--set",
            metavar="BASE PATH",
            help="Say where BASE (id, name or path) is now, after its files were brought there.",
        ),
    ] = None,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not look for files at the place of --set.")
    ] = False,
    *,
    write: Writing,
) -> None:
    """List, add or set the other roots of a table's files.

    The files of a table may lie in several places: on a faster or cheaper store, in another region,
    in the table it was cloned from. move brings them to such a root.

    JSON lines with keys: id, name, is_dataset_root, path. A change adds uri, version
    and branch.
    """
    if add is not None and set_to is not None:
        raise typer.BadParameter("--add and --set do not go together")
    if add is None and (name is not None or dataset_root):
        raise typer.BadParameter("--name and --dataset-root are for --add")
    if set_to is None and no_check:
        raise typer.BadParameter("--no-check is for --set")
    if add is not None:
        table = write.table(uri)
        table = table.add_base(add, name=name, is_dataset_root=dataset_root, **write.facts)
        _tell(write, table, "added base path {} at", lw.BasePath(add).path)
    elif set_to is not None:
        base, goal = set_to
        table = write.table(uri)
        table = table.set_base(_meant_base(table, base), goal, check=not no_check, **write.facts)
        _tell(write, table, "set base path {} to", lw.BasePath(goal).path)
    else:
        table = write.to_read(uri, Revision(branch=write.branch))
        columns = ("base", "name", "dataset root", "path")
        write.output.listing(
            table.base_paths, (_BASE_KEYS, attrgetter(*_BASE_KEYS)), (columns, _line)
        )


def _tell(write: Writing, table: lw.Table, done: str, path: str) -> None:
    base = next(each for each in table.base_paths if each.path == path)
    called = f"{base.id} ({base.name})" if base.name else str(base.id)
    write.output.document(
        {
            **picked(base, *_BASE_KEYS),
            **picked(table, "uri", "version"),
            "branch": table.branch or MAIN,
        },
        f"{done.format(called)} {path}: {stands(table)}",
    )


def _line(base: lw.BasePath) -> tuple[Any, ...]:
    return base.id, base.name or "", "yes" if base.is_dataset_root else "no", base.path


def _meant_base(table: lw.Table, text: str) -> int | str:
    """The base path for the API: a number is an id, unless a base path has that name."""
    is_number = text.isascii() and text.isdigit()
    if is_number and all(each.name != text for each in table.base_paths):
        return int(text)
    return text


def move_command(
    uri: options.Uri,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="BASE", help="The root to go to: a base path's id, name or path."
        ),
    ] = None,
    back: Annotated[
        bool, typer.Option("--back", help="Go to where the table's new files go.")
    ] = False,
    fragments: Annotated[
        list[str] | None,
        typer.Option(
            "--fragments",
            metavar="N,N-N",
            help="Move these, by the numbers that files lists: 0,7,10-19. May be repeated.",
        ),
    ] = None,
    where: Annotated[
        str | None,
        typer.Option(
            "--where",
            "-w",
            metavar="SQL",
            help="Move fragments of which this is true for every row.",
        ),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than",
            metavar="TIME",
            help="Move fragments of which no row has changed for so long: 30d, 12h, 1d12h.",
        ),
    ] = None,
    all_fragments: Annotated[bool, typer.Option("--all", help="Move all fragments.")] = False,
    *,
    write: PlannedWriting,
) -> None:
    """Bring fragments to another root of the table.

    For cold storage, or another region: base --add declares the root. Files are copied and checked,
    then one version switches to them; rows, ids and indices stay as they are, and others may write
    meanwhile. The old files stay until cleanup. With several conditions, all must hold.

    JSON keys: uri, version, branch, dry_run, to, fragments, files, bytes.
    """
    if (to is None) != back:
        raise typer.BadParameter("say where to: --to or --back")
    chosen = _numbers(fragments)
    some = chosen is not None or where is not None or older_than is not None
    if some == all_fragments:
        raise typer.BadParameter("say what: --fragments, --where or --older-than, or --all")
    age = options.span(older_than, "--older-than")
    table = write.table(uri)
    base = None if to is None else _meant_base(table, to)
    after = write.run(table.move_fragments, chosen, base=base, where=where, older_than=age)
    counts = counts_of(after, lw.MoveCounts)
    text = f"nothing to move; {stays(after)}"
    if counts.fragments:
        what = f"{counted(counts.fragments, 'fragment')} of {counted(counts.files, 'file')} "
        what += f"({human_size(counts.bytes)}) {'back' if to is None else f'to {to}'}"
        text = write.outcome("move", "moved", f"{what} in {stands(after)}")
    write.answer(after, text, to=to, **picked(counts, "fragments", "files", "bytes"))


def _numbers(texts: list[str] | None) -> list[int] | None:
    """The numbers of a repeated option with commas and ranges; None if it was not given."""
    if texts is None:
        return None
    found: list[int] = []
    for each in (part.strip() for text in texts for part in text.split(",")):
        match = _RANGE.fullmatch(each)
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last - first >= _LONGEST_RANGE:
            raise typer.BadParameter(
                f"--fragments takes numbers and ranges of them, as in 0,7,10-19, not {each!r}"
            )
        found += range(first, last + 1)
    return found


class ClonedRevision(Revision):
    """The version that is cloned."""

    verb = "Clone"


def clone_command(
    uri: options.UriOrName,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where the new table goes.")],
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Copy every file: nothing of the source is needed then."),
    ] = False,
    target_storage_option: Annotated[
        list[str] | None,
        typer.Option(
            "--target-storage-option",
            metavar="KEY=VALUE",
            help="A setting of the target's object store; by default as for the source. May be "
            "repeated.",
        ),
    ] = None,
    target_manifest_store: Annotated[
        str | None,
        typer.Option(
            "--target-manifest-store",
            metavar="URI",
            help="Where versions of the target are committed, as --manifest-store.",
        ),
    ] = None,
    *,
    revision: ClonedRevision,
    write: Planned,
) -> None:
    """Make another table that begins with a version of this one.

    A shallow clone costs one small file: it reads the files of the source, where it leaves a tag so
    that no cleanup takes them away. detach makes it independent later.

    JSON keys: uri, version, branch, dry_run, source, deep, files, bytes, pins, unpinned. What is
    unpinned has root and why. In a dry run, uri and version are those of the source.
    """
    theirs = options.pairs(target_storage_option, "--target-storage-option") or None
    table = replace(write, unsafe=False).to_read(uri, revision)  # --unsafe is about the target
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is unpinned is said below
        made = write.run(
            table.clone,
            target,
            deep=deep,
            access=lw.Access(
                storage_options=theirs, manifest_store=target_manifest_store, unsafe=write.unsafe
            ),
        )
    copied = counts_of(made, lw.DeepClone) if deep else lw.DeepClone()
    left = lw.ShallowClone() if deep else counts_of(made, lw.ShallowClone)
    what = f"version {table.version} of {table.uri} to {target if write.dry_run else made.uri}"
    if deep:
        what += f": {counted(copied.files, 'file')}, {human_size(copied.bytes)}"
    write.answer(
        made,
        write.outcome("clone", "cloned", what),
        source=table.uri,
        deep=deep,
        **picked(copied, "files", "bytes"),
        pins=[picked(each, "root", "tag") for each in left.pins],
        unpinned=[picked(each, "root", "why") for each in left.unpinned],
    )
    for each in left.unpinned:
        write.note(
            f"{each.root} cannot know of the clone, and a cleanup there may take its files away: "
            f"{each.why}; tag the version there, or detach the clone"
        )


def detach_command(uri: options.Uri, *, write: PlannedWriting) -> None:
    """Copy in what a clone or a branch reads from elsewhere.

    Rows, ids and indices stay as they are, and others may write meanwhile. Older versions still
    read from the sources, which stay pinned until those are cleaned up.

    JSON keys: uri, version, branch, dry_run, fragments, files, bytes, unpinned, still_pinned. What
    is unpinned has root and tag, what is still pinned root and why. A dry run leaves out files of
    blobs, and looks at no pins.
    """
    table = write.table(uri)
    after = write.run(table.detach)
    counts = counts_of(after, lw.DetachCounts)
    text = f"nothing lies elsewhere; {stays(after)}"
    if counts.files or after.version != table.version:
        copied = f"{counted(counts.files, 'file')} ({human_size(counts.bytes)}) into"
        text = write.outcome("copy", "copied", f"{copied} {stands(after)}")
    write.answer(
        after,
        text,
        **picked(counts, "fragments", "files", "bytes"),
        unpinned=[picked(each, "root", "tag") for each in counts.unpinned],
        still_pinned=[picked(each, "root", "why") for each in counts.still_pinned],
    )
    for each in counts.still_pinned:
        write.note(f"{each.root} keeps its pin: {each.why}")


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
            access=given.access,
        )
    location = given.whole_uri(uri)
    document = {
        "uri": location,
        **picked(report, "dry_run", "manifests", "roots"),
        "bases": [picked(each, "path", "now") for each in report.bases],
        "left": [picked(each, "file", "why") for each in report.left],
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
        done = lw.migrate_names(uri, progress=lambda count: advance(count, 0), access=given.access)
    document = {"uri": location, "renamed": done.renamed, "roots": list(done.roots)}
    text = f"renamed {done.renamed:,} manifests of {location}"
    if not done.renamed:
        text = f"{location} has V2 names already"
    given.output.document(document, text)
