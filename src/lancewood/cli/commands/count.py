"""``lw table count``: how many rows."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.output import Output
from lancewood.cli.revision_options import NEWEST, Revision, with_revision
from lancewood.cli.snapshots import table_to_read


@with_revision
def command(
    uri: options.UriOrName,
    where: options.Where = None,
    revision: Revision = NEWEST,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Count rows.

    JSON keys: uri, version, rows.
    """
    table = table_to_read(uri, storage_option, revision)
    rows = table.count_rows(where)
    document = {"uri": table.uri, "version": table.version, "rows": rows}
    Output(as_json=json).document(document, str(rows))
