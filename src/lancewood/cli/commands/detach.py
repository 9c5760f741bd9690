"""``lw table detach``: a clone or a branch that needs nobody else's files."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.output import Output, counted, human_size, note
from lancewood.cli.progress import task_runner
from lancewood.cli.revision_options import Branch
from lancewood.cli.snapshots import table_to_write


def command(
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
    counts = after.counts
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
