"""What makes a git repository one of the kind that Lancewood keeps: bare, in SHA-256 format.

Knows the settings that say so, as a new repository gets them and as one that is opened must have
them. Does not know where they are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from lancewood.errors import AlreadyExistsError, FormatError, InvalidInputError, UnsupportedError
from lancewood.git.config import Settings

_CONFIG = b"""\
[core]
\trepositoryformatversion = 1
\tfilemode = true
\tbare = true
\tlogallrefupdates = always
[extensions]
\tobjectformat = sha256
[gc]
\tpackrefs = false
"""
_is_setting = re.compile(r"[A-Za-z0-9-]+\.[A-Za-z][A-Za-z0-9-]*").fullmatch
_is_word = re.compile(r"[A-Za-z0-9._-]+").fullmatch
_EXTENSIONS = frozenset({"objectformat", "noop", "noop-v1", "preciousobjects"})


def new_config(settings: Mapping[str, str] | None) -> bytes:
    """The file of a new repository; ``settings`` are plain words, by ``section.key``.

    Raises InvalidInputError for what would need quoting.
    """
    return _CONFIG + b"".join(_setting(*each) for each in (settings or {}).items())


def check_kind(root: str, config: Settings) -> None:
    """Raise UnsupportedError for a repository of another kind, FormatError for no settings."""
    version = config.own("core", "repositoryformatversion") or "0"
    if version not in ("0", "1"):
        raise UnsupportedError(f"{root} has repository format {version!r}: 0 and 1 are known")
    extensions = config.sections("extensions") if version == "1" else {}
    kind = extensions.get("objectformat", "sha1").lower()
    if kind != "sha256":
        raise UnsupportedError(
            f"{root} is a git repository in {kind} format; Lancewood's is in sha256: "
            "make one elsewhere"
        )
    unknown = sorted(extensions.keys() - _EXTENSIONS)
    if unknown:
        raise UnsupportedError(
            f"{root} uses extensions of git that Lancewood does not know: {', '.join(unknown)}"
        )
    bare = (config.own("core", "bare") or "false").lower()
    if bare in ("false", "no", "off", "0"):
        raise UnsupportedError(
            f"{root} is a git repository with a work tree (core.bare is {bare}); Lancewood's is "
            "bare: make one elsewhere"
        )
    if bare not in ("true", "yes", "on", "1"):
        raise FormatError(f"{root}/config: core.bare is {bare!r}")


def already_there(root: str) -> AlreadyExistsError:
    """What is said where a repository was to be made, and one is."""
    return AlreadyExistsError(f"there is a repository at {root} already: open it", path=root)


def _setting(name: str, value: str) -> bytes:
    """A setting as git's file has it; raises InvalidInputError for what would need quoting."""
    if not _is_setting(name) or not _is_word(value):
        raise InvalidInputError(f"{name!r} = {value!r} is not a setting in plain words")
    section, _, key = name.partition(".")
    return f"[{section}]\n\t{key} = {value}\n".encode()
