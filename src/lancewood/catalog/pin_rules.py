"""What the values of a pin may be: each rule says what breaks it, or None.

Pure. A uri is the one that matters most: it decides where a reader is sent.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from lancewood.catalog.names import home_uri, table_at_home
from lancewood.errors import InvalidInputError
from lancewood.format.layout import VERSIONS_DIR, parse_manifest_name
from lancewood.model.ids import MAX_U64, Version, is_detached
from lancewood.model.landing import Landing

_MOST_URI = 4096
_is_digest = re.compile(r"[0-9a-f]{64}").fullmatch
_is_full = re.compile(r"[a-z][a-z0-9+.-]*://[^/]", re.IGNORECASE).match
_is_odd = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]").search


def check_uri(uri: str) -> None:
    """Raise InvalidInputError for a place that no pin may name, saying which rule it breaks."""
    why = broken_uri(uri)
    if why is not None:
        raise InvalidInputError(f"a table cannot be pinned there: {why}", uri=uri)


def broken_uri(uri: str) -> str | None:
    """A table below the repository, or a full name of a place elsewhere, and nothing in between."""
    why = _broken_place(uri)
    shown = uri if len(uri) <= 200 else f"{uri[:150]}…{uri[-40:]}"
    return None if why is None else f"the uri {shown!r} is not allowed: {why}"


def _broken_place(uri: str) -> str | None:
    if not uri:
        return "it is empty"
    if len(uri) > _MOST_URI:
        return f"it has {len(uri):,} characters, {_MOST_URI:,} are allowed"
    odd = _is_odd(uri)
    if odd:
        return f"it contains {odd[0]!r}"
    if "\\" in uri:
        return "it contains a backslash"
    if table_at_home(uri) is not None:
        return None
    if _is_full(uri):
        path = unquote(uri.partition("://")[2])
    elif uri.startswith("/"):
        path = uri[1:]
    else:
        return f"a table below the repository is at {home_uri('<name>')}, others by their full uri"
    if path.endswith("/") or not path:
        return "it ends with '/'"
    if any(each in ("", ".", "..") for each in path.split("/")):
        return "it has an empty segment, or one that is '.' or '..'"
    return None


def broken_manifest(version: Version, key: str) -> str | None:
    """The key is that of the version's manifest, in either naming scheme."""
    if not 0 < version <= MAX_U64:
        return f"the version {version} cannot exist"
    name = key.removeprefix(f"{VERSIONS_DIR}/")
    named = None if name == key else parse_manifest_name(name)
    if named is None or named.version != version:
        return f"{key[:200]!r} is not the manifest of version {version}"
    return None


def broken_digest(what: str, digest: str) -> str | None:
    return None if _is_digest(digest) else f"{what} is {digest[:80]!r}, which is no SHA-256 in hex"


def broken_number(what: str, number: int) -> str | None:
    return None if 0 <= number <= MAX_U64 else f"{what} is {number}, which is out of range"


def broken_landing(version: Version, landing: Landing | None) -> str | None:
    """A detached version says how it lands, and only that does."""
    if landing is None:
        return "a detached version needs a landing" if is_detached(version) else None
    if landing.version != version:
        return f"the landing ends with version {landing.version}, not with the pinned one"
    return None
