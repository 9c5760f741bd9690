"""``lw table migrate-names``: manifest names from scheme V1 to V2."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.progress import progress
from lancewood.cli.snapshots import opened_store
from lancewood.engine.migrate import migrate_names


def command(
    uri: options.Uri,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Rename manifests from scheme V1 to V2, or finish doing so.

    Branches are included. Nobody may write meanwhile, and nobody can open the table until it is
    done; if it is cut off, run it again.

    JSON keys: uri, renamed, roots.
    """
    store = opened_store(uri, storage_option, unsafe=unsafe)
    with progress("rename", total=None, wanted=not json, things="manifests") as advance:
        done = migrate_names(store, lambda count: advance(count, 0))
    document = {"uri": store.uri, "renamed": done.renamed, "roots": list(done.roots)}
    told = f"renamed {done.renamed:,} manifests of {store.uri}"
    if not done.renamed:
        told = f"{store.uri} has V2 names already"
    Output(as_json=json).document(document, told)
