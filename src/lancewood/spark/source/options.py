"""What ``.option(…)`` says, checked and put into one value; an unknown option is an error.

Names are those of the JVM connector where it has them, so that code moves over unchanged; what it
only tunes with is taken and not used. Spark gives every name in lower case. Opens nothing.

| option | also called | for |
|---|---|---|
| ``path`` | | the table; may carry a revision: ``photos.lance@exp`` |
| ``branch`` | | reading and writing |
| ``version`` ``tag`` ``asOf`` | ``versionAsOf`` ``timestampAsOf`` | reading one version |
| ``columns`` | | ``a,b``, a JSON list, or a JSON object of names and SQL texts |
| ``filter`` | ``where`` | SQL text; only rows that pass are read |
| ``limit`` | | so many rows, without a filter |
| ``withRowId`` ``withRowAddress`` | | the columns ``_rowid`` and ``_rowaddr`` |
| ``batchRows`` | ``batch_size`` | rows that are handed to Spark at a time |
| ``numPartitions`` | | about so many tasks read |
| ``metadata`` | | a table about the table, see ``metadata`` |
| ``maxRowsPerFile`` | ``max_row_per_file`` | writing |
| ``maxBytesPerFile`` | ``max_bytes_per_file`` | writing |
| ``fileVersion`` | ``data_storage_version`` ``file_format_version`` | a new table |
| ``stableRowIds`` | ``enable_stable_row_ids`` | a new table |
| ``app`` ``batch`` | | writing exactly once |
| ``message`` ``properties`` | | kept with the version; properties as a JSON object |
| ``serializable`` | | writing only if nobody else did meanwhile |
| ``mergeSchema`` ``overwriteSchema`` | | columns that the table does not have |
| ``replaceWhere`` | | overwriting the rows that meet a condition |
| ``credentials`` | | a named set of storage options |
| ``storage.…``, ``aws_…``, ``azure_…``, ``google_…`` | | storage options |
| ``baseStorageOptions`` | | storage options of base paths, as a JSON object of objects |

A named set of storage options is in a file beside the driver: secrets that no plan ever has. Spark
plans with the name, ``.option("credentials", "lake")``, and logs it. The set is read where the
source is made, on the machine of the driver or of the Connect server, and goes to tasks as other
storage options do, pickled. No value of it is shown, whatever is wrong with the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from datetime import datetime
from difflib import get_close_matches
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from lancewood.engine.base import FileLimits
from lancewood.engine.snapshot import Access, Address
from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.spark import option_values as values
from lancewood.spark.streaming.options import (
    STARTING_TAG,
    STARTING_TIMESTAMP,
    STARTING_VERSION,
    STREAM_READ_OPTIONS,
)
from lancewood.store.options import StorageOptions

STORAGE_PREFIX = "storage."


class Use(Enum):
    """What an option is for."""

    READ = "read"
    WRITE = "write"
    READ_STREAM = "readStream"
    WRITE_STREAM = "writeStream"


_ALL = frozenset(Use)
_READS = frozenset({Use.READ, Use.READ_STREAM})
_WRITES = frozenset({Use.WRITE, Use.WRITE_STREAM})
_ONE_READ = frozenset({Use.READ})
_ONE_WRITE = frozenset({Use.WRITE})


class _Option(NamedTuple):
    field: str
    parse: Callable[[str, str], Any]
    uses: frozenset[Use]


def _option(
    name: str,
    parse: Callable[[str, str], Any],
    uses: frozenset[Use],
    default: Any = None,
    *,
    shown: bool = True,
) -> Any:
    """A field that an option of this name sets."""
    return field(default=default, repr=shown, metadata={name: (parse, uses)})


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """Everything that options can say."""

    path: str = _option("path", values.text, _ALL, MISSING)
    branch: str | None = _option("branch", values.text, _ALL)
    version: int | None = _option("version", values.positive, _ONE_READ)
    tag: str | None = _option("tag", values.text, _ONE_READ)
    as_of: datetime | None = _option("asOf", values.moment, _ONE_READ)  # noqa: RUF009
    columns: list[str] | dict[str, str] | None = _option("columns", values.columns, _READS)  # noqa: RUF009
    where: str | None = _option("filter", values.text, _READS)
    limit: int | None = _option("limit", values.number, _ONE_READ)
    with_row_id: bool = _option("withRowId", values.flag, _READS, False)
    with_row_address: bool = _option("withRowAddress", values.flag, _READS, False)
    batch_rows: int | None = _option("batchRows", values.positive, _READS)
    partitions: int | None = _option("numPartitions", values.positive, _READS)
    metadata: str | None = _option("metadata", values.text, _ONE_READ)
    max_rows_per_file: int = _option(
        "maxRowsPerFile", values.positive, _WRITES, FileLimits().max_rows
    )
    max_bytes_per_file: int = _option(
        "maxBytesPerFile", values.positive, _WRITES, FileLimits().max_bytes
    )
    file_version: str | None = _option("fileVersion", values.file_version, _WRITES)
    stable_row_ids: bool | None = _option("stableRowIds", values.flag, _WRITES)
    app: str | None = _option("app", values.text, _WRITES)
    batch: int | None = _option("batch", values.number, _ONE_WRITE)
    message: str | None = _option("message", values.text, _WRITES)
    properties: dict[str, str] | None = _option("properties", values.texts, _WRITES)  # noqa: RUF009
    serializable: bool = _option("serializable", values.flag, _WRITES, False)
    merge_schema: bool = _option("mergeSchema", values.flag, _WRITES, False)
    overwrite_schema: bool = _option("overwriteSchema", values.flag, _WRITES, False)
    replace_where: str | None = _option("replaceWhere", values.text, _ONE_WRITE)
    streaming: Mapping[str, str] = field(default_factory=dict)
    """What is said to streams that read, not yet looked at: see ``spark.streaming.options``."""
    credentials: str | None = _option("credentials", values.text, _ALL)
    storage_options: StorageOptions | None = field(default=None, repr=False)
    base_storage_options: dict[str, dict[str, str]] | None = _option(  # noqa: RUF009
        "baseStorageOptions", values.nested_texts, _ALL, shown=False
    )
    manifest_store: str | None = _option("manifestStore", values.text, _ALL, shown=False)

    @property
    def address(self) -> Address:
        """Where the table is, and how it is reached."""
        access = Access(
            storage_options=self.storage_options,
            base_storage_options=self.base_storage_options,
            manifest_store=self.manifest_store,
        )
        return Address(self.path, access)

    @property
    def given(self) -> list[str]:
        """The options that say something else than what holds anyway."""
        default = {each.name: each.default for each in fields(self)}
        known = {name: option.field for name, option in _OPTIONS.items()}
        said = [name for name, each in known.items() if getattr(self, each) != default[each]]
        return [*said, *self.streaming]

    @property
    def narrowing(self) -> list[str]:
        """The options given that make a reader see less than the newest version of a branch."""
        return [
            name
            for name in self.given
            if Use.READ in USES[name] and Use.WRITE not in USES[name] and name not in _TUNING
        ]


_OPTIONS: dict[str, _Option] = {
    name: _Option(each.name, parse, uses)
    for each in fields(SourceOptions)
    for name, (parse, uses) in each.metadata.items()
}
USES: dict[str, frozenset[Use]] = {
    **{name: option.uses for name, option in _OPTIONS.items()},
    **dict.fromkeys(STREAM_READ_OPTIONS, frozenset({Use.READ_STREAM})),
}
"""What each option is for."""
_TUNING = frozenset({"batchRows", "numPartitions"})
"""What changes how rows are read, and not which."""
_INSTEAD = {
    "version": f"a stream goes on with the versions of a branch; begin with {STARTING_VERSION}",
    "tag": f"a stream goes on with the versions of a branch; begin with {STARTING_TAG}",
    "asOf": f"a stream goes on with the versions of a branch; begin with {STARTING_TIMESTAMP}",
    "limit": "a stream has no end; maxRowsPerTrigger bounds a batch",
    "metadata": "metadata tables are read at once, with spark.read",
    "batch": "Spark numbers its batches itself",
    "replaceWhere": "a batch has no condition of its own; write in foreachBatch",
}
"""What to do in a stream, where an option is for one read or one write."""
_ALSO_CALLED = {
    "versionAsOf": "version",
    "timestampAsOf": "asOf",
    "where": "filter",
    "batch_size": "batchRows",
    "max_row_per_file": "maxRowsPerFile",
    "max_rows_per_file": "maxRowsPerFile",
    "max_bytes_per_file": "maxBytesPerFile",
    "data_storage_version": "fileVersion",
    "file_format_version": "fileVersion",
    "enable_stable_row_ids": "stableRowIds",
}
_NOT_USED = frozenset(
    {
        *("pushdownfilters", "topn_push_down", "block_size", "index_cache_size"),
        *("metadata_cache_size", "batch_readahead", "batch_prefetch_queue_depth"),
        *("max_rows_per_group", "use_queued_write_buffer", "queue_depth"),
    }
)
"""What the JVM connector tunes its own readers and writers with; it changes no result."""
_REFUSED = {
    "readchangefeed": 'a stream has changed and deleted rows with .option("onChange", "changes")',
    "nearest": "vector search is not done here: lancewood.spark.search() does it for a frame",
    "write_mode": 'the mode is said to Spark: df.write.mode("append") or .mode("overwrite")',
    "mode": 'the mode is said to Spark: df.write.mode("append") or .mode("overwrite")',
}
_OF_SPARK = frozenset({"paths", "checkpointlocation", "queryname", "outputmode"})
_OF_A_CATALOG = frozenset({"owner", "provider", "location"})
"""What Spark adds to the options of CREATE TABLE."""
_OF_METADATA = frozenset({"version", "tag", "asOf", "metadata"})
"""Options that choose a version, and the table itself, among those that narrow a read."""
_STORAGE_NAMES = frozenset(
    {
        *("region", "endpoint", "endpoint_url", "allow_http", "account_name", "account_key"),
        *("access_key_id", "secret_access_key", "session_token", "sas_token"),
        *(
            "dynamodb_endpoint",
            "client_max_retries",
            "client_retry_timeout",
            "virtual_hosted_style_request",
        ),
    }
)
_STORAGE_FAMILIES = ("aws_", "azure_", "google_")
_NAMES = {each.lower(): each for each in (*_OPTIONS, *STREAM_READ_OPTIONS)}
_ALIASES = {each.lower(): meant for each, meant in _ALSO_CALLED.items()}
_TABLE_TRAP = (
    "without the columnar door Spark keeps no options for a table of its catalog; DROP TABLE "
    "removes its entry, and no rows. Use CREATE TEMP VIEW … USING lance OPTIONS (path '…'), or "
    'spark.read.format("lance").load(…)'
)


def parse_options(given: Mapping[str, str]) -> SourceOptions:
    """Raises InvalidInputError for an option that is not known, said twice, or cannot be right."""
    found: dict[str, Any] = {}
    said: dict[str, str] = {}
    streaming: dict[str, str] = {}
    storage: dict[str, str] = {}
    if any(each.lower() in _OF_A_CATALOG for each in given):
        raise InvalidInputError(f"CREATE TABLE … USING lance would not work: {_TABLE_TRAP}")
    for key, value in given.items():
        lower = key.lower()
        name = _ALIASES.get(lower) or _NAMES.get(lower)
        if name is None:
            stored = storage_option(lower)
            if stored is not None:
                _once(said, stored, key)
                storage[stored] = value
            elif not (lower.startswith("__") or lower in _OF_SPARK or lower in _NOT_USED):
                raise _unknown(key)
            continue
        _once(said, name, key)
        if name in STREAM_READ_OPTIONS:
            streaming[name] = value
        else:
            option = _OPTIONS[name]
            found[option.field] = option.parse(key if lower in _ALIASES else name, value)
    if "path" not in found:
        found["path"] = _only_path(given)
    options = SourceOptions(
        **found,
        streaming=streaming,
        storage_options=StorageOptions(storage) if storage else None,
    )
    _check_metadata(options)
    return options


def check_use(asked: SourceOptions, use: Use) -> None:
    """Raises InvalidInputError for an option that is not for this, and would do nothing.

    A view serves reads and INSERT INTO, with the same options for both. So a read passes over
    those of writes, and a write over those that only tune a read; streams have no views.
    """
    for name in asked.given:
        uses = USES[name]
        if use in uses:
            continue
        if (use is Use.READ and Use.WRITE in uses) or (use is Use.WRITE and name in _TUNING):
            continue
        raise InvalidInputError(_not_for(name, use), option=name)


def _not_for(name: str, use: Use) -> str:
    uses = USES[name]
    if uses == {Use.READ_STREAM}:
        return f"option {name!r} is for spark.readStream"
    if use in (Use.READ_STREAM, Use.WRITE_STREAM) and uses in (_ONE_READ, _ONE_WRITE):
        is_reading = use is Use.READ_STREAM
        if is_reading == (uses == _ONE_READ):
            return f"option {name!r} is not for a stream: {_INSTEAD[name]}"
    if Use.READ in uses:
        return (
            f"option {name!r} is for reading, and rows go to the newest version of a branch; leave "
            "it out, and INSERT INTO a view that is made without it"
        )
    return f"option {name!r} is for writing, and a stream that reads writes nothing; leave it out"


def _check_metadata(options: SourceOptions) -> None:
    """A metadata table comes whole: what would narrow its rows or columns is not passed over."""
    if options.metadata is None:
        return
    for name in options.narrowing:
        if name not in _OF_METADATA:
            raise InvalidInputError(
                f"option {name!r} is not for metadata tables: they are small, use df.select(…), "
                "df.where(…) or df.limit(…)",
                option=name,
            )


def storage_option(key: str) -> str | None:
    """The storage option that an option in lower case means; None if it means none."""
    if key.startswith(STORAGE_PREFIX):
        return key.removeprefix(STORAGE_PREFIX)
    return key if key.startswith(_STORAGE_FAMILIES) or key in _STORAGE_NAMES else None


def _once(said: dict[str, str], name: str, key: str) -> None:
    if name in said:
        raise InvalidInputError(f"options {said[name]!r} and {key!r} are the same one; give one")
    said[name] = key


def _only_path(given: Mapping[str, str]) -> str:
    """The only path in the list that Spark calls ``paths``."""
    listed = next((value for key, value in given.items() if key.lower() == "paths"), None)
    paths = [] if listed is None else values.list_of_texts("paths", listed)
    if not paths:
        raise InvalidInputError(
            f'format("lance") needs a path: .load(path), .save(path), LOCATION; {_TABLE_TRAP}'
        )
    if len(paths) > 1:
        raise InvalidInputError(
            f'format("lance") reads one table at a time, got {len(paths)} paths; load each, and '
            "union them"
        )
    return values.text("path", paths[0])


def _unknown(key: str) -> InvalidInputError:
    refused = _REFUSED.get(key.lower())
    if refused is not None:
        return InvalidInputError(f"option {key!r} is not taken: {refused}", option=key)
    known = {**_NAMES, **{each: each for each in _ALIASES}}
    near = get_close_matches(key.lower(), known, n=1, cutoff=0.6)
    names = ", ".join(_NAMES.values())
    hint = f"did you mean {known[near[0]]!r}?" if near else f"there are {names}"
    return InvalidInputError(
        f'option {key!r} is not known to format("lance"): {hint} (storage options begin with '
        f"{STORAGE_PREFIX!r})",
        option=key,
    )


VARIABLE = "LANCEWOOD_CREDENTIALS"
"""Names the file, where it is not the usual one."""
_NAME = "credentials"


def with_credentials(asked: SourceOptions, environ: Mapping[str, str]) -> SourceOptions:
    """Put the options of named credential sets in place of their names; options given besides win.

    A base path has its set under the same name, in ``baseStorageOptions``. Raises NotFoundError if
    there is no file or no such set, InvalidInputError for a file that holds something else.
    """
    bases = asked.base_storage_options or {}
    if asked.credentials is None and not any(_NAME in each for each in bases.values()):
        return asked
    sets = _Sets(environ)
    options = {**sets.named(asked.credentials), **(asked.storage_options or {})}
    return replace(
        asked,
        storage_options=StorageOptions(options),
        base_storage_options={
            base: {**sets.named(each.get(_NAME)), **{k: v for k, v in each.items() if k != _NAME}}
            for base, each in bases.items()
        },
    )


def credentials_file(environ: Mapping[str, str]) -> Path:
    """Where the sets are: one table of TOML for each."""
    named = environ.get(VARIABLE)
    if named:
        return Path(named)
    above = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "~"), ".config")
    return Path(above).expanduser() / "lancewood" / "credentials.toml"


class _Sets:
    """The sets of one file."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._path = credentials_file(environ)
        where = f"{self._path} on the machine where Spark plans ({os.uname().nodename})"
        try:
            self._found: dict[str, Any] = tomllib.loads(self._path.read_text("utf-8"))
        except FileNotFoundError as missing:
            raise NotFoundError(
                f"option 'credentials' needs the file {where}, and there is none: write it, or "
                f"name another with {VARIABLE} in the environment of the driver before Spark starts"
            ) from missing
        except (OSError, ValueError) as wrong:
            raise InvalidInputError(f"cannot read the credentials of {where}: {wrong}") from None

    def named(self, name: str | None) -> Mapping[str, str]:
        """The options of a set; none for None."""
        if name is None:
            return {}
        found = self._found.get(name)
        if not isinstance(found, dict):
            known = ", ".join(sorted(map(repr, self._found))) or "none"
            raise NotFoundError(
                f"there are no credentials {name!r} in {self._path}: it has {known}"
            )
        wrong = [key for key, each in found.items() if not isinstance(each, str)]
        if wrong:
            raise InvalidInputError(
                f"credentials {name!r} of {self._path}: {wrong[0]} is no text; write it in quotes"
            )
        return found
