"""``lw table drop``: delete a table, after a question."""

from __future__ import annotations

from typing import Annotated

import typer

import lancewood as lw
from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.questions import confirm
from lancewood.cli.snapshots import opened_store
from lancewood.engine.versions import require_newest


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
    newest = require_newest(store).version
    about = f"{store.uri} has version {newest} and all before it."
    confirm("Drop it for good?", about, yes=yes, json=json)
    lw.drop(uri, force=force, storage_options=options.storage(storage_option))
    document = {"uri": store.uri, "dropped": True, "version": newest}
    Output(as_json=json).document(document, f"dropped {store.uri}")
