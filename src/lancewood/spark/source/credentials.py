"""Named sets of storage options, in a file beside the driver: secrets that no plan ever has.

``.option("credentials", "lake")`` names a set; Spark plans with the name, and logs it. The set is
read where the source is made, on the machine of the driver or of the Connect server, and goes to
tasks as other storage options do, pickled. Shows no value, whatever is wrong with the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lancewood.errors import InvalidInputError, NotFoundError
from lancewood.spark.source.options import SourceOptions
from lancewood.store.options import StorageOptions

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
