"""``lw table restore``: an older version becomes the newest again."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output


def command(
    uri: options.Uri,
    target: Annotated[
        int, typer.Argument(metavar="VERSION", min=1, help="The version to come back to.")
    ],
    message: options.Message = None,
    properties: options.Properties = None,
    storage_option: options.StorageOptions = None,
    unsafe: options.Unsafe = False,
    json: options.Json = False,
) -> None:
    """Make an older version the newest again.

    It becomes a new version; those in between stay where they are.

    JSON keys: uri, version, restored.
    """
    facts = options.commit_facts(message, properties)
    table = options.opened(uri, storage_option, target, unsafe=unsafe).restore(**facts)
    document = {"uri": table.uri, "version": table.version, "restored": target}
    Output(as_json=json).document(
        document, f"restored version {target} of {table.uri} as version {table.version}"
    )
