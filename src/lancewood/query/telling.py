"""What a query reads of its tables, in words for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lancewood.model.refs import called
from lancewood.query.names import Occurrence
from lancewood.query.reads import Read

_MOST_COLUMNS = 20


def told_plan(reads: Mapping[Occurrence, Read], why_whole: str | None) -> str:
    """A few lines for each table, in the order of the text."""
    return "\n".join(
        line for occurrence, read in reads.items() for line in _lines(occurrence, read, why_whole)
    )


def _lines(occurrence: Occurrence, read: Read, why_whole: str | None) -> Iterator[str]:
    manifest = read.snapshot.manifest
    alias = "" if occurrence.exposed == occurrence.name else f" as {occurrence.exposed}"
    yield f"{occurrence.written}{alias}"
    yield (f"  version  {manifest.version} of {called(manifest.branch)}, {read.snapshot.place.uri}")
    if read.known_rows is not None:
        yield f"  rows     {read.known_rows}, from the manifest; no data file is read"
        return
    yield f"  columns  {_columns(read)}"
    yield f"  where    {' AND '.join(read.told) or 'all rows'}"
    if read.limit is not None:
        yield f"  limit    {read.limit}"
    if why_whole is not None:
        yield f"  because  {why_whole}"


def _columns(read: Read) -> str:
    names = read.snapshot.arrow_schema.names
    if read.columns is None:
        return f"all {len(names)}"
    more = f" and {len(read.columns) - _MOST_COLUMNS} more" * (len(read.columns) > _MOST_COLUMNS)
    listed = ", ".join(read.columns[:_MOST_COLUMNS]) + more
    return f"{listed or 'none'} ({len(read.columns)} of {len(names)})"
