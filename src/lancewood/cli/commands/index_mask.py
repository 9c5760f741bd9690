"""``lw table index-mask``: what an index may answer for."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import Output, count
from lancewood.cli.tables import NEWEST, Revision, table_to_read, with_revision


@with_revision
def index_mask_command(
    uri: options.UriOrName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The index, as info shows it.")],
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Show which rows an index may answer for.

    Rows that were deleted or updated since it was built are not counted. Fragments that it does not
    cover have to be scanned.

    JSON keys: uri, version, index, rows, fragments, uncovered.
    """
    table = table_to_read(uri, storage_option, revision)
    mask = table.index_mask(name)
    covered, uncovered = [list(each) for each in (mask.fragments, mask.uncovered)]
    document = {
        "uri": table.uri,
        "version": table.version,
        "index": name,
        "rows": mask.row_count,
        "fragments": covered,
        "uncovered": uncovered,
    }
    facts = [
        ("index", name),
        ("version", table.version),
        ("rows", count(mask.row_count)),
        ("fragments", count(len(covered))),
        ("uncovered fragments", count(len(uncovered))),
    ]
    Output(as_json=json).facts(document, facts)
