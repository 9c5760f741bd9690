"""The rows of a Lance table that are new to a source: inserted or updated since the last published
run. Of rows that are gone it is not told.

What a run remembers is the version that it read, and that version's transaction: a table that was
dropped and made again, or is another, has other ones. Manifests are compared on the driver, rows
are read on executors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from lancewood.engine.snapshot import Descent, Snapshot, load_snapshot
from lancewood.engine.staging import find_landing
from lancewood.errors import LancewoodError, NotFoundError, UnsupportedError
from lancewood.format.manifest_digest import content_digest
from lancewood.model.ids import Version, is_detached
from lancewood.model.refs import MAIN, called
from lancewood.pipeline.context import RunContext
from lancewood.pipeline.definition.model import Source
from lancewood.pipeline.definition.refusal import wrong
from lancewood.pipeline.frames.reading import columns_read
from lancewood.spark.reading.read import read_snapshot
from lancewood.spark.streaming.task import RowsBetween, find_between
from lancewood.table.table import Table

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
    opened: Snapshot
    """What is read where everything is new."""
    until: Snapshot
    """The same as a version of the table's history; see ``landed``."""
    since: Snapshot | None = None
    """None: everything is new."""

    @property
    def row_count(self) -> int | None:
        """How many there are; None where only reading them would tell."""
        return self.opened.manifest.row_count if self.since is None else self._between.row_count

    @property
    def told_since(self) -> str | None:
        """What it is read since, for people."""
        return None if self.since is None else f"version {self.since.manifest.version}"

    def frame(self, spark: SparkSession) -> DataFrame:
        if self.since is None:
            return read_snapshot(spark, self.opened, columns_read(self.source))
        return self._between.frame(spark)

    def state(self) -> dict[str, Any] | None:
        """What the next run has to know; None for a state beside the history of the table."""
        manifest = self.until.manifest
        if is_detached(manifest.version):
            return None
        return {
            "uri": self.until.location.uri,
            "branch": manifest.branch or MAIN,
            "version": int(manifest.version),
            "transaction": _identity(self.until, manifest.version),
        }

    @cached_property
    def _between(self) -> RowsBetween:
        assert self.since is not None
        try:
            return find_between(self.since, self.until, columns_read(self.source))
        except NotFoundError as gone:
            raise wrong(self.source.spot, f"{gone.message}. {_WAY_OUT}") from gone


def landed(source: Source, opened: Snapshot, context: RunContext) -> Snapshot:
    """The version of the table's own history that has what a commit pins.

    A transaction of the repository pins a state beside the history, which then lands on it as it
    is. The state itself where it has not, or not alone.
    """
    if source.table is None or not is_detached(opened.manifest.version):
        return opened
    revision = source.revision or context.base
    assert revision is not None, "a table was opened, so there is a commit"
    pin = context.repository.at(revision).pin(source.table)
    if pin.landing is None:
        return opened
    try:
        found = find_landing(opened.location, pin.landing)
        if not found.versions:
            return opened
        twin = load_snapshot(opened.location, version=found.versions[-1])
    except NotFoundError:
        return opened
    return twin if content_digest(twin.manifest.message) == pin.content else opened


def whole_table(source: Source, opened: Snapshot, context: RunContext) -> TableRows:
    """All that a table has."""
    return TableRows(source, opened, landed(source, opened, context))


def rows_since(source: Source, opened: Snapshot, context: RunContext, state: object) -> TableRows:
    """What a table has that was not there when the state was kept; all of it without a state.

    Raises InvalidInputError for a state of another table, and where the version is gone.
    """
    spot, until = source.spot.at("incremental"), landed(source, opened, context)
    if is_detached(until.manifest.version):
        raise wrong(
            spot,
            f"{until.location.uri} has not got what the commit pins, or has more than that: "
            "somebody wrote to it beside the repository. 'lw status' tells more; commit the table "
            "as it stands, and run again",
        )
    if not until.manifest.has_stable_row_ids:
        raise wrong(
            spot,
            f"{until.location.uri} has no stable row ids, so that nobody can tell which of its "
            "rows are new: read it whole, or make the table anew with them",
        )
    if state is None:
        return TableRows(source, opened, until)
    last = _checked(state, source)
    version, uri = Version(last["version"]), until.location.uri
    newest = until.manifest.version
    if version > newest:
        raise wrong(
            spot,
            f"the last run has read version {version}, and now version {newest} of "
            f"{called(until.manifest.branch)} of {uri} is meant, which is older. {_WAY_OUT}",
        )
    try:
        since = until if version == newest else Descent(until).load(version)
        identity = _identity(until, version)
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
            Table(until).changes(version)  # refuses what cannot be compared
    except (NotFoundError, UnsupportedError) as refused:
        raise wrong(spot, f"{refused.message}. {_WAY_OUT}") from refused
    except LancewoodError as refused:
        raise wrong(spot, refused.message) from refused
    return TableRows(source, opened, until, since)


def _identity(snapshot: Snapshot, version: Version) -> str:
    """The transaction that made a version; empty where none is known."""
    return Descent(snapshot).transaction(version).uuid


def _checked(state: object, source: Source) -> dict[str, Any]:
    if isinstance(state, dict) and all(isinstance(state.get(k), t) for k, t in _KEYS.items()):
        return state
    raise wrong(
        source.spot.at("incremental"),
        "what the last run has left about this source is not known to this Lancewood: "
        f"{state!r:.200}",
    )
