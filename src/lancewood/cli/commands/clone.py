"""``lw table clone`` and ``lw table detach``: a table that shares files, and one that does not."""

from __future__ import annotations

import warnings
from typing import Annotated, Any

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import Output, counted, human_size, note
from lancewood.cli.progress import task_runner
from lancewood.cli.tables import (
    NEWEST,
    Branch,
    Revision,
    counts_of,
    table_to_read,
    table_to_write,
    with_revision_to,
)


@with_revision_to("Clone")
def clone_command(
    uri: options.UriOrName,
    target: Annotated[str, typer.Argument(metavar="TARGET", help="Where the new table goes.")],
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Copy every file: nothing of the source is needed then."),
    ] = False,
    revision: Revision = NEWEST,
    message: options.Message = None,
    properties: options.Properties = None,
    storage_option: options.StorageOptions = None,
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
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Make another table that begins with a version of this one.

    A shallow clone costs one small file: it reads the files of the source, where it leaves a tag so
    that no cleanup takes them away. detach makes it independent later.

    JSON keys: uri, version, source, deep, files, bytes, pins, unpinned. What is unpinned has root
    and why.
    """
    facts = options.commit_facts(message, properties)
    theirs = options.pairs(target_storage_option, "--target-storage-option") or None
    table = table_to_read(uri, storage_option, revision)
    with task_runner(wanted=not json) as runner, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what is unpinned is told below
        made = table.clone(
            target,
            deep=deep,
            storage_options=theirs,
            manifest_store=target_manifest_store,
            unsafe=unsafe,
            runner=runner,
            **facts,
        )
    copied = counts_of(made, lw.DeepClone) if deep else lw.DeepClone()
    left = lw.ShallowClone() if deep else counts_of(made, lw.ShallowClone)
    document: dict[str, Any] = {
        "uri": made.uri,
        "version": made.version,
        "source": table.uri,
        "deep": deep,
        "files": copied.files,
        "bytes": copied.bytes,
        "pins": [{"root": each.root, "tag": each.tag} for each in left.pins],
        "unpinned": [{"root": each.root, "why": each.why} for each in left.unpinned],
    }
    told = f"cloned version {table.version} of {table.uri} to {made.uri}"
    if deep:
        told += f": {counted(copied.files, 'file')}, {human_size(copied.bytes)}"
    Output(as_json=json).document(document, told)
    for each in () if json else left.unpinned:
        note(
            f"{each.root} cannot know of the clone, and a cleanup there may take its files away: "
            f"{each.why}; tag the version there, or detach the clone"
        )


def detach_command(
    uri: options.Uri,
    message: options.Message = None,
    properties: options.Properties = None,
    branch: Branch = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Copy in what a clone or a branch reads from elsewhere.

    Rows, ids and indices stay as they are, and others may write meanwhile. Older versions still
    read from the sources, which stay pinned until those are cleaned up.

    JSON keys: uri, version, fragments, files, bytes, unpinned, still_pinned. What is unpinned has
    root and tag, what is still pinned root and why.
    """
    facts = options.commit_facts(message, properties)
    table = table_to_write(uri, storage_option, branch, unsafe=unsafe)
    with task_runner(wanted=not json) as runner:
        after = table.detach(runner=runner, **facts)
    counts = counts_of(after, lw.DetachCounts)
    document = {
        "uri": after.uri,
        "version": after.version,
        "fragments": counts.fragments,
        "files": counts.files,
        "bytes": counts.bytes,
        "unpinned": [{"root": each.root, "tag": each.tag} for each in counts.unpinned],
        "still_pinned": [{"root": each.root, "why": each.why} for each in counts.still_pinned],
    }
    told = f"nothing of {after.uri} lies elsewhere; it stays at version {after.version}"
    if after.version != table.version:
        copied = f"{counted(counts.files, 'file')} ({human_size(counts.bytes)})"
        told = f"copied {copied} into {after.uri}, version {after.version}"
    Output(as_json=json).document(document, told)
    for each in () if json else counts.still_pinned:
        note(f"{each.root} keeps its pin: {each.why}")
