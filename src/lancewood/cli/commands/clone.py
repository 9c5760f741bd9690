"""``lw table clone`` and ``lw table detach``: a table that shares files, and one that does not."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import counted, human_size
from lancewood.cli.tables import Planned, PlannedWriting, Revision, counts_of, stands, stays


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
    with write.runner() as runner, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is unpinned is said below
        made = table.clone(
            target,
            deep=deep,
            storage_options=theirs,
            manifest_store=target_manifest_store,
            unsafe=write.unsafe,
            runner=runner,
            **write.facts,
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
        files=copied.files,
        bytes=copied.bytes,
        pins=[{"root": each.root, "tag": each.tag} for each in left.pins],
        unpinned=[{"root": each.root, "why": each.why} for each in left.unpinned],
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
    with write.runner() as runner:
        after = table.detach(runner=runner, **write.facts)
    counts = counts_of(after, lw.DetachCounts)
    text = f"nothing lies elsewhere; {stays(after)}"
    if counts.files or after.version != table.version:
        copied = f"{counted(counts.files, 'file')} ({human_size(counts.bytes)}) into"
        text = write.outcome("copy", "copied", f"{copied} {stands(after)}")
    write.answer(
        after,
        text,
        fragments=counts.fragments,
        files=counts.files,
        bytes=counts.bytes,
        unpinned=[{"root": each.root, "tag": each.tag} for each in counts.unpinned],
        still_pinned=[{"root": each.root, "why": each.why} for each in counts.still_pinned],
    )
    for each in counts.still_pinned:
        write.note(f"{each.root} keeps its pin: {each.why}")
