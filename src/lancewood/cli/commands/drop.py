"""``lw table drop``: delete a table, after a question."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.manifest_store import manifest_store
from lancewood.cli.output import Output
from lancewood.cli.questions import confirm
from lancewood.cli.snapshots import opened_store
from lancewood.engine.versions import require_newest
from lancewood.external.store import ExternalStore
from lancewood.store.base import Store


def command(
    uri: options.Uri,
    yes: options.Yes = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Even if branches, tags or clones rest on its versions."),
    ] = False,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Delete a table.

    All versions go, for good. Only what the format owns is deleted; other files stay.

    JSON keys: uri, dropped, version.
    """
    store = opened_store(uri, storage_option)
    newest, about = _what_goes(store)
    confirm("Drop it for good?", about, yes=yes, json=json)
    lw.drop(
        uri,
        force=force,
        storage_options=options.storage(storage_option),
        manifest_store=manifest_store(),
    )
    document = {"uri": store.uri, "dropped": True, "version": newest}
    Output(as_json=json).document(document, f"dropped {store.uri}")


def _what_goes(store: Store) -> tuple[int, str]:
    """The newest version, and what is said of it before it goes."""
    lost = store.lost_version() if isinstance(store, ExternalStore) else None
    if lost is not None:
        return lost, f"The manifest store knows version {lost} of {store.uri}, which is gone."
    newest = require_newest(store).version
    return newest, f"{store.uri} has version {newest} and all before it."
