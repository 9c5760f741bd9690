"""``lw table index-mask``: what an index may answer for."""

from __future__ import annotations

from typing import Annotated

import typer

from lancewood.cli import options
from lancewood.cli.output import count
from lancewood.cli.tables import Reading


def index_mask_command(
    uri: options.UriOrName,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The index, as info shows it.")],
    *,
    read: Reading,
) -> None:
    """Show which rows an index may answer for.

    Rows that were deleted or updated since it was built are not counted. Fragments that it does not
    cover have to be scanned.

    JSON keys: uri, version, index, rows, fragments, uncovered.
    """
    table = read.table(uri)
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
    read.output.facts(document, facts)
