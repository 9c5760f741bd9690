"""Names of branches, tags and refs by git's rules, and the root of a repository.

A refused name comes with the rule that it breaks. Rules of Lance for names are checked elsewhere. A
root is a directory of a disk, or a place in a bucket by its uri. Symbolic links below it are
refused: they lead out of the repository.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from lancewood.errors import InvalidInputError
from lancewood.store.disk_root import refuse_links

HEAD = "HEAD"
HEADS = "refs/heads/"
TAGS = "refs/tags/"

_MOST_BYTES = 250
"""Number of bytes in a part of a name: file names have 255, and the suffix of a lock takes five."""
_is_half = re.compile(r"[\ud800-\udfff]").search
_is_forbidden = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]").search
_UNSEEN = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF]
)
"""Characters that one file system leaves out when it compares names."""
RepositoryRoot: TypeAlias = Path | str
"""A ``Path`` is a directory; a ``str`` is the uri of a place in an object store."""
_has_scheme = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://").match


def checked_branch(text: str) -> str:
    """The name of a branch, without ``refs/heads/``; raises InvalidInputError."""
    return _checked("branch", text)


def checked_tag(text: str) -> str:
    """The name of a tag, without ``refs/tags/``; raises InvalidInputError."""
    return _checked("tag", text)


def checked_ref(text: str) -> str:
    """The full name of a ref, ``refs/`` included; raises InvalidInputError.

    A checked name always leads to a path below ``refs``.
    """
    why = _not_a_text(text) or _broken_rule(text)
    if why is None and not text.startswith("refs/"):
        why = "the full name of a ref starts with 'refs/'"
    if why:
        raise InvalidInputError(f"ref name {text!r} is not allowed: {why}")
    return text


def is_ref(text: str) -> bool:
    """Whether a text is the full name of a ref."""
    return text.startswith("refs/") and _broken_rule(text) is None


def is_dot_git(name: str) -> bool:
    """Whether some file system would take the name for ``.git``."""
    plain = name.translate(_UNSEEN).replace("\\", ":").partition(":")[0].rstrip(" .").lower()
    return plain in (".git", "git~1")


def _checked(kind: str, text: str) -> str:
    why = _not_a_text(text) or _broken_rule(text)
    if why is None and _is_half(text):
        why = "it is not UTF-8"
    if why is None and text.startswith("-"):
        why = "it starts with '-'"
    if why is None and text in (HEAD, "@"):
        why = "it stands for the current commit"
    if why:
        raise InvalidInputError(f"{kind} name {text!r} is not allowed: {why}")
    return text


def _not_a_text(text: object) -> str | None:
    return None if isinstance(text, str) else "it is not a text"


@lru_cache(maxsize=1024)
def _broken_rule(text: str) -> str | None:
    """The rule of ``git check-ref-format`` that a name breaks, or None."""
    if not text:
        return "it is empty"
    found = _is_forbidden(text)
    if found:
        return f"it contains {_said(found[0])}"
    for bad in ("..", "@{", "//"):
        if bad in text:
            return f"it contains {bad!r}"
    if text[0] == "/" or text[-1] in "/.":
        return f"it starts or ends with {(text[0] if text[0] == '/' else text[-1])!r}"
    for part in text.split("/"):
        if part.startswith("."):
            return f"{part!r} starts with '.'"
        if part.endswith(".lock"):
            return f"{part!r} ends with '.lock'"
        try:
            # git's names are bytes: those that a disk or packed refs hold are known like this
            size = len(part.encode("utf-8", "surrogateescape"))
        except UnicodeEncodeError:
            return "it is not UTF-8"
        if size > _MOST_BYTES:
            return f"one part of it is {size} bytes long, and {_MOST_BYTES} is the most"
    return None


def _said(character: str) -> str:
    if character == " ":
        return "a space"
    if character.isprintable():
        return repr(character)
    return f"the control character {character!r}"


def is_uri(location: str | os.PathLike[str]) -> bool:
    """Whether a place is given by a uri other than ``file:``, and so is not on a disk."""
    if not isinstance(location, str):
        return False
    return _has_scheme(location) is not None and not location.lower().startswith("file:")


def below(root: RepositoryRoot, key: str) -> RepositoryRoot:
    """A place inside; the key has no characters that need quoting in a uri. Raises
    InvalidInputError if the place, or a directory on the way, is a symbolic link."""
    if not isinstance(root, Path):
        return f"{root.rstrip('/')}/{key}"
    refuse_links(str(root), key)
    return root / key


def real_repository_root(root: RepositoryRoot) -> str:
    """A root as roots are compared: a directory without symbolic links, a uri as it is."""
    return os.path.realpath(root) if isinstance(root, Path) else root.rstrip("/")


def parse_repository_root(text: str) -> RepositoryRoot:
    """A root from the text that ``real_repository_root`` gave."""
    return text if is_uri(text) else Path(text)
