"""The settings of a repository: git's ``config`` file, read and written with dulwich.

Knows sections, keys and texts. Does not know what they mean.
"""

from __future__ import annotations

import os
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO

from dulwich.config import ConfigFile, StackedConfig

from lancewood.errors import FormatError, InvalidInputError, StorageError
from lancewood.git.ref_files import locked
from lancewood.store.disk_root import refuse_links
from lancewood.store.wholefile import move_over, read_file, stage, sync_directory

_is_section = re.compile(r"[A-Za-z0-9-]+(\.[^\n\0]+)?").fullmatch
_is_key = re.compile(r"[A-Za-z][A-Za-z0-9-]*").fullmatch


class GitSettings(ABC):
    """The settings in ``file``, wherever that is, and below them the user's and the machine's."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._lock = threading.Lock()
        self._seen: SeenSettings | None = None
        self._inherited: list[ConfigFile] | None = None

    def get(self, section: str, key: str) -> str | None:
        """A setting, as git finds it: the repository's, or else the user's, or else the machine's.

        ``section`` may have a second part after a dot. Raises FormatError.
        """
        answers = self._look().answers
        if (section, key) not in answers:
            answers[section, key] = self._find(section, key)
        return answers[section, key]

    def own(self, section: str, key: str) -> str | None:
        """The repository's own setting. Raises FormatError."""
        return _get(self._look().settings, section, key)

    def sections(self, name: str) -> dict[str, str]:
        """Every key of a section of the repository, in small letters, and its last value."""
        _path(name, "any")
        found = self._look().settings
        where = tuple(each.encode() for each in name.split(".", 1))
        if where not in found.sections():
            return {}
        return {
            key.decode("utf-8", "replace").lower(): value.decode("utf-8", "replace")
            for key, value in found.items(where)
        }

    @abstractmethod
    def set(self, section: str, key: str, value: str) -> None:
        """Write a setting of the repository, durably. Raises InvalidInputError for a text that
        would not be read back."""

    @abstractmethod
    def _stamp(self) -> object:
        """A mark of the file's state, which another state does not have. Raises FormatError if it
        is missing."""

    @abstractmethod
    def _read(self) -> bytes:
        """The bytes of the file. Raises FormatError if it is missing."""

    def _look(self) -> SeenSettings:
        """The file as it is now, which is read if it is another one than was seen; what was read is
        kept if the file is the same before and after."""
        stamp, seen = self._stamp(), self._seen
        if seen is not None and seen.stamp == stamp:
            return seen
        try:
            found = SeenSettings(stamp, _parsed(self._read()))
        except ValueError as cause:
            raise FormatError(f"{self.file}: {cause}", file=self.file) from cause
        if self._stamp() == stamp:
            self._seen = found
        return found

    def _missing(self) -> FormatError:
        return FormatError(f"{self.file} is missing", file=self.file)

    def _changed(self, data: bytes, section: str, key: str, value: str) -> bytes:
        """The file with another value; every other setting stays as it is."""
        path = _path(section, key)
        if not isinstance(value, str) or "\0" in value:
            raise _unfit(section, key, value)
        try:
            settings = _parsed(data)
        except ValueError as cause:
            raise FormatError(f"{self.file}: {cause}", file=self.file) from cause
        try:
            settings.set(*path, value.encode())
            out = BytesIO()
            settings.write_to_file(out)
            again = _get(_parsed(out.getvalue()), section, key)
        except ValueError as cause:
            raise _unfit(section, key, value) from cause
        if again != value:
            raise _unfit(section, key, value)
        return out.getvalue()

    def _find(self, section: str, key: str) -> str | None:
        own = self.own(section, key)
        if own is not None:
            return own
        for each in self._all_inherited():
            found = _get(each, section, key)
            if found is not None:
                return found
        return None

    def _all_inherited(self) -> list[ConfigFile]:
        with self._lock:
            if self._inherited is None:
                try:
                    self._inherited = StackedConfig.default_backends()
                except (OSError, ValueError) as cause:
                    raise FormatError(f"the user's git configuration: {cause}") from cause
            return self._inherited


class Config(GitSettings):
    """``config`` of the repository at ``root`` of a disk."""

    def __init__(self, root: str, *, fsync: bool, patience: float) -> None:
        super().__init__(f"{root}/config")
        self._root = root
        self._fsync = fsync
        self._patience = patience

    def set(self, section: str, key: str, value: str) -> None:
        with locked(self.file, self._root, self._patience):
            after = self._changed(self._read(), section, key, value)
            try:
                move_over(stage(self._root, after, sync=self._fsync), self.file)
                if self._fsync:
                    sync_directory(self._root)
            except OSError as cause:
                raise StorageError(f"cannot write {self.file}: {cause.strerror}") from cause

    def _stamp(self) -> object:
        refuse_links(self._root, os.path.basename(self.file))
        with self._reading():
            now = os.stat(self.file)
            return now.st_ino, now.st_mtime_ns, now.st_size

    def _read(self) -> bytes:
        with self._reading():
            return read_file(self.file)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as cause:
            raise self._missing() from cause
        except OSError as cause:
            raise StorageError(f"cannot read {self.file}: {cause.strerror}") from cause


@dataclass(frozen=True, slots=True)
class SeenSettings:
    """The config file at one moment."""

    stamp: object
    """A mark of the file's state, which another state does not have."""
    settings: ConfigFile
    answers: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """What was found for who asked, also among the user's and the machine's settings."""


def _parsed(data: bytes) -> ConfigFile:
    """Read the bytes of a config file; raises ValueError."""
    # Other files that it asks to include would be written into this one by the next set.
    return ConfigFile.from_file(BytesIO(data), expand_includes=False)


def _get(settings: ConfigFile, section: str, key: str) -> str | None:
    where, name = _path(section, key)
    try:
        return settings.get(where, name).decode("utf-8", "replace")
    except KeyError:
        return None


def _path(section: str, key: str) -> tuple[tuple[bytes, ...], bytes]:
    if not _is_section(section) or not _is_key(key):
        raise InvalidInputError(f"{section!r} and {key!r} do not name a setting of git")
    return tuple(each.encode() for each in section.split(".", 1)), key.encode()


def _unfit(section: str, key: str, value: object) -> InvalidInputError:
    return InvalidInputError(f"{value!r} cannot be written as {section}.{key} of git's settings")
