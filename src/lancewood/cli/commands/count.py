"""``lw table count``: how many rows."""

from __future__ import annotations

from lancewood.cli import options
from lancewood.cli.output import Output


def command(
    uri: options.Uri,
    where: options.Where = None,
    version: options.AtVersion = None,
    as_of: options.AsOf = None,
    storage_option: options.StorageOptions = None,
    json: options.Json = False,
) -> None:
    """Count rows.

    JSON keys: uri, version, rows.
    """
    table = options.opened(uri, storage_option, version, as_of)
    rows = table.count_rows(where)
    document = {"uri": table.uri, "version": table.version, "rows": rows}
    Output(as_json=json).document(document, str(rows))
