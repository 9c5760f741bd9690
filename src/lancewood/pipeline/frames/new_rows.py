"""The rows of a Lance table that are new to a source: inserted or updated since the last published
run. Deleted rows are left out.

What a run remembers is the version that it read, and that version's transaction: a table that was
dropped and made again, or is another, has other ones. Manifests are compared on the driver, rows
are read on executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lancewood.errors import LancewoodError, NotFoundError, UnsupportedError
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Source
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.frames.reading import columns_read
from lancewood.repo import MAIN
from lancewood.spark.reading.read import read_snapshot
from lancewood.spark.streaming.task import RowsBetween, find_between
from lancewood.table import Table, called

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_KEYS = {"uri": str, "branch": str, "version": int, "transaction": str}
_WAY_OUT = (
    "Run once with incremental = false, which reads the whole table and remembers where it stands"
)


@dataclass(frozen=True)
class TableRows:
    """A Lance table as a source reads it: whole, or what is new since a version."""

    source: Source
    opened: Table
    """The table that is read where everything is new."""
    until: Table
    """The state that is read, as a version of the table's history, as ``landed`` finds it."""
    since: Table | None = None
    """The state from which on rows are new; None: everything is new."""

    @property
    def row_count(self) -> int | None:
        """Number of these rows; None where that is unknown without reading them."""
        return self.opened.stats().rows if self.since is None else self._between.row_count

    @property
    def since_text(self) -> str | None:
        """The version that it is read since, for people; None if it is read whole."""
        return None if self.since is None else f"version {self.since.version}"

    def frame(self, spark: SparkSession) -> DataFrame:
        if self.since is None:
            return read_snapshot(spark, self.opened._snapshot, columns_read(self.source))
        return self._between.frame(spark)

    def state(self) -> dict[str, Any] | None:
        """What the next run has to know; None for a state beside the history of the table."""
        until = self.until
        if until.is_detached:
            return None
        return {
            "uri": until.uri,
            "branch": until.branch or MAIN,
            "version": int(until.version),
            "transaction": until.transaction_of(until.version).uuid,
        }

    @cached_property
    def _between(self) -> RowsBetween:
        assert self.since is not None
        try:
            return find_between(
                self.since._snapshot, self.until._snapshot, columns_read(self.source)
            )
        except NotFoundError as gone:
            raise wrong(self.source.spot, f"{gone.message}. {_WAY_OUT}") from gone


def landed(source: Source, opened: Table, context: RunContext) -> Table:
    """The version of the table's own history that has what a commit pins.

    A transaction of the repository pins a state beside the history, which then lands on it as it
    is. The state itself where it has not, or not alone.
    """
    if source.table is None or not opened.is_detached:
        return opened
    revision = source.revision or context.base
    assert revision is not None, "a table was opened, so there is a commit"
    return context.repository.at(revision).landed(source.table) or opened


def whole_table(source: Source, opened: Table, context: RunContext) -> TableRows:
    """All that a table has."""
    return TableRows(source, opened, landed(source, opened, context))


def rows_since(source: Source, opened: Table, context: RunContext, state: object) -> TableRows:
    """What a table has that was not there when the state was kept; all of it without a state.

    Raises InvalidInputError for a state of another table, and where the version is gone.
    """
    spot, until = source.spot.at("incremental"), landed(source, opened, context)
    if until.is_detached:
        raise wrong(
            spot,
            f"{until.uri} has not got what the commit pins, or has more than that: "
            "somebody wrote to it beside the repository. 'lw status' tells more; commit the table "
            "as it stands, and run again",
        )
    if not until.has_stable_row_ids:
        raise wrong(
            spot,
            f"{until.uri} has no stable row ids, so that nobody can tell which of its "
            "rows are new: read it whole, or make the table anew with them",
        )
    if state is None:
        return TableRows(source, opened, until)
    last = _checked(state, source)
    version, uri, newest = last["version"], until.uri, until.version
    if version > newest:
        raise wrong(
            spot,
            f"the last run has read version {version}, and now version {newest} of "
            f"{called(until.branch)} of {uri} is meant, which is older. {_WAY_OUT}",
        )
    try:
        since = until if version == newest else until.earlier(version)
        identity = until.transaction_of(version).uuid
    except NotFoundError as gone:
        raise wrong(
            spot,
            f"version {version} of {uri}, which the last run has read, was cleaned up: what came "
            f"after it cannot be told. {_WAY_OUT}, and let cleanup keep versions for longer",
        ) from gone
    if identity != last["transaction"] or (not identity and last["uri"] != uri):
        raise wrong(
            spot,
            f"the last run has read version {version} of {last['uri']}, and version {version} of "
            f"{uri} is another one: the table was made again, or is another table. {_WAY_OUT}",
        )
    try:
        if version != newest:
            until.changes(version)  # refuses what cannot be compared
    except (NotFoundError, UnsupportedError) as refused:
        raise wrong(spot, f"{refused.message}. {_WAY_OUT}") from refused
    except LancewoodError as refused:
        raise wrong(spot, refused.message) from refused
    return TableRows(source, opened, until, since)


def _checked(state: object, source: Source) -> dict[str, Any]:
    if isinstance(state, dict) and all(isinstance(state.get(k), t) for k, t in _KEYS.items()):
        return state
    raise wrong(
        source.spot.at("incremental"),
        "what the last run has left about this source is not known to this Lancewood: "
        f"{state!r:.200}",
    )
