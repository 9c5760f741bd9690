"""A pin: what a commit says about one table, as text that ``git diff`` shows well.

One fact per line, keys in a fixed order. Anybody may have written a pin, so it is read strictly:
its uri is either below the repository or a full name, and never something in between. Unknown keys
are refused, since a later Lancewood may have given the other keys another meaning with them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, NoReturn, TypeGuard
from urllib.parse import unquote

from lancewood.catalog.names import own_table, own_table_uri
from lancewood.errors import FormatError, InvalidInputError, UnsupportedError
from lancewood.format.json_object import decode_object
from lancewood.format.layout import VERSIONS_DIR, parse_manifest_name
from lancewood.model.ids import MAX_U64, Version, is_detached
from lancewood.model.lines import Landing
from lancewood.model.refs import MAIN, BranchName

_MOST_URI = 4096
_is_digest = re.compile(r"[0-9a-f]{64}").fullmatch
_is_full = re.compile(r"[a-z][a-z0-9+.-]*://[^/]", re.IGNORECASE).match
_is_odd = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]").search
MAX_PIN_SIZE = 16 << 20
"""The most bytes of a pin; schemas of many thousand columns need some."""
_KEYS = (
    "uri",
    "branch",
    "version",
    "manifest",
    "size",
    "sha256",
    "content",
    "rows",
    "fragments",
    "landing",
    "schema",
)
_LANDING_KEYS = ("base", "transaction", "steps")
_is_detached_text = re.compile(r"d[0-9]{19,20}").fullmatch
_quoted = json.JSONEncoder(ensure_ascii=False).encode
_is_plain_column = re.compile(r'[^":\x00-\x1f][^:\x00-\x1f]*').fullmatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin:
    """One state of one table. Raises InvalidInputError for impossible values."""

    uri: str
    """``tables/<name>.lance`` below the repository; elsewhere an absolute path or a URI."""
    branch: BranchName | None
    """None means main."""
    version: Version
    """Detached for a state that a transaction of the repository made."""
    manifest: str
    """The key of its manifest below the root of the branch."""
    size: int
    """The size of the manifest when it was pinned; relocating the table changes it."""
    sha256: str
    """``format.manifest.manifest_digest``."""
    content: str
    """``format.manifest.content_digest``: equal for versions with the same rows."""
    rows: int | None
    """Number of rows; None if the writer of the table left it out."""
    fragments: int
    schema: tuple[tuple[str, str], ...]
    """Each column and its type, for people."""
    landing: Landing | None = None
    """How the state gets onto its branch; None for a version that is there already."""

    def __post_init__(self) -> None:
        why = (
            _broken_uri(self.uri)
            or _broken_manifest(self.version, self.manifest)
            or _broken_number("size", self.size)
            or _broken_digest("sha256", self.sha256)
            or _broken_digest("content", self.content)
            or _broken_number("rows", self.rows or 0)
            or _broken_number("fragments", self.fragments)
            or _broken_landing(self.version, self.landing)
        )
        if why is not None:
            raise InvalidInputError(f"no table can be pinned like this: {why}", uri=self.uri)

    @property
    def is_own(self) -> bool:
        """Whether the table lives below the repository."""
        return own_table(self.uri) is not None

    @property
    def exact_version(self) -> Version:
        """The version number of the state once it has landed, if nothing else was written since."""
        return self.version if self.landing is None else self.landing.last_exact_version

    def on(self, branch: BranchName | None) -> Pin:
        """This pin for another branch of the table, to find that branch's root."""
        return replace(self, branch=branch)


def encode_pin(pin: Pin) -> bytes:
    """The text of a pin; raises InvalidInputError if it is too large."""
    document = {
        "uri": pin.uri,
        "branch": MAIN if pin.branch is None else str(pin.branch),
        "version": _version_text(pin.version),
        "manifest": pin.manifest,
        "size": pin.size,
        "sha256": pin.sha256,
        "content": pin.content,
        "rows": pin.rows,
        "fragments": pin.fragments,
        "landing": None if pin.landing is None else _landing_document(pin.landing),
        "schema": [_column_text(*each) for each in pin.schema],
    }
    try:
        data = f"{_laid_out(document)}\n".encode()
    except UnicodeEncodeError as cause:
        raise InvalidInputError(f"the pin of {pin.uri} holds half a character") from cause
    if len(data) > MAX_PIN_SIZE:
        raise InvalidInputError(
            f"the pin of {pin.uri} would have {len(data):,} bytes, {MAX_PIN_SIZE:,} are allowed: "
            f"its schema has {len(pin.schema):,} columns"
        )
    return data


def decode_pin(data: bytes, name: str) -> Pin:
    """The pin in the bytes of the file ``name``.

    Raises FormatError naming the file, UnsupportedError for keys of a later Lancewood.
    """
    return _Reader(name, decode_object(data, name=name, most=MAX_PIN_SIZE)).pin()


def _laid_out(value: Any, margin: str = "\n") -> str:
    """Exactly ``json.dumps(value, indent=2, ensure_ascii=False)``, five times as fast."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, int):
        return str(int(value))
    if not value:
        return json.dumps(value)
    deeper = f"{margin}  "
    if isinstance(value, dict):
        inner = [f"{_quoted(key)}: {_laid_out(each, deeper)}" for key, each in value.items()]
        return f"{{{deeper}{f',{deeper}'.join(inner)}{margin}}}"
    inner = [_laid_out(each, deeper) for each in value]
    return f"[{deeper}{f',{deeper}'.join(inner)}{margin}]"


def _version_text(version: Version) -> int | str:
    return f"d{version}" if is_detached(version) else int(version)


def _landing_document(landing: Landing) -> dict[str, Any]:
    steps = [_version_text(each) for each in landing.steps]
    return {"base": int(landing.base), "transaction": landing.uuid, "steps": steps}


def _column_text(column: str, kind: str) -> str:
    """Quotes a name that could be mistaken for the beginning of a type."""
    plain = column if _is_plain_column(column) else _quoted(column)
    return f"{plain}: {kind}"


def _parse_column(text: str) -> tuple[str, str] | None:
    if not text.startswith('"'):
        column, colon, kind = text.partition(": ")
        return (column, kind) if colon else None
    try:
        column, end = json.JSONDecoder().raw_decode(text)
    except ValueError:
        return None
    rest = text[end:]
    return (column, rest[2:]) if isinstance(column, str) and rest.startswith(": ") else None


class _Reader:
    """Reads one file, and checks every value."""

    def __init__(self, name: str, document: dict[str, Any]) -> None:
        self._name = name
        self._document = document

    def pin(self) -> Pin:
        self._check_keys(self._document, _KEYS, "")
        try:
            return Pin(
                uri=self._text("uri"),
                branch=self._branch(),
                version=self._version("version", self._document["version"]),
                manifest=self._text("manifest"),
                size=self._number("size"),
                sha256=self._text("sha256"),
                content=self._text("content"),
                rows=None if self._document["rows"] is None else self._number("rows"),
                fragments=self._number("fragments"),
                landing=self._landing(),
                schema=self._schema(),
            )
        except InvalidInputError as refused:
            self._fail(refused.message, refused)

    def _branch(self) -> BranchName | None:
        text = self._text("branch")
        if text == MAIN:
            return None
        try:
            return BranchName.found(text)
        except FormatError as refused:
            self._fail(refused.message, refused)

    def _landing(self) -> Landing | None:
        found = self._document["landing"]
        if found is None:
            return None
        if not isinstance(found, dict):
            self._wrong("landing", "null or an object", found)
        self._check_keys(found, _LANDING_KEYS, "landing.")
        base, uuid, steps = (found[key] for key in _LANDING_KEYS)
        if not _is_number(base):
            self._wrong("landing.base", "a number", base)
        if not isinstance(uuid, str):
            self._wrong("landing.transaction", "a text", uuid)
        if not isinstance(steps, list) or not steps:
            self._wrong("landing.steps", "a list of versions", steps)
        return Landing(
            Version(base), uuid, tuple(self._version("landing.steps", each) for each in steps)
        )

    def _schema(self) -> tuple[tuple[str, str], ...]:
        found = self._document["schema"]
        if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
            self._wrong("schema", "a list of texts", found)
        columns = [_parse_column(each) for each in found]
        known = [each for each in columns if each is not None]
        if len(known) != len(columns):
            self._wrong("schema", "texts like 'id: int64'", found[columns.index(None)])
        return tuple(known)

    def _text(self, key: str) -> str:
        value = self._document[key]
        return value if isinstance(value, str) else self._wrong(key, "a text", value)

    def _number(self, key: str) -> int:
        value = self._document[key]
        return value if _is_number(value) else self._wrong(key, "a number", value)

    def _version(self, key: str, value: Any) -> Version:
        number = value if _is_number(value) else 0
        if isinstance(value, str) and _is_detached_text(value):
            number = int(value[1:])
        if not 0 < number <= MAX_U64 or is_detached(Version(number)) != isinstance(value, str):
            self._wrong(key, "a version, as 12 or 'd9223372036854775809'", value)
        return Version(number)

    def _check_keys(self, found: dict[str, Any], keys: tuple[str, ...], where: str) -> None:
        missing = [where + each for each in keys if each not in found]
        if missing:
            self._fail(f"does not say {', '.join(missing)}")
        unknown = sorted(where + each for each in found if each not in keys)
        if unknown:
            names = ", ".join(repr(each[:80]) for each in unknown[:5])
            raise UnsupportedError(
                f"{self._name}: says {names}, which this Lancewood does not know; a later release "
                "wrote it, read it with that one",
                file=self._name,
                keys=unknown[:5],
            )

    def _wrong(self, key: str, wanted: str, value: Any) -> NoReturn:
        self._fail(f"{key} is {_shown(value)}; expected {wanted}")

    def _fail(self, why: str, cause: Exception | None = None) -> NoReturn:
        raise FormatError(f"{self._name}: {why}", file=self._name) from cause


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_uri(uri: str) -> None:
    """Raise InvalidInputError for a uri that no pin may have, with the rule that it breaks."""
    why = _broken_uri(uri)
    if why is not None:
        raise InvalidInputError(f"a table cannot be pinned there: {why}", uri=uri)


def _broken_uri(uri: str) -> str | None:
    """A uri is a table below the repository or the full uri of another one."""
    why = _broken_location(uri)
    shown = uri if len(uri) <= 200 else f"{uri[:150]}…{uri[-40:]}"
    return None if why is None else f"the uri {shown!r} is not allowed: {why}"


def _broken_location(uri: str) -> str | None:
    if not uri:
        return "it is empty"
    if len(uri) > _MOST_URI:
        return f"it has {len(uri):,} characters, {_MOST_URI:,} are allowed"
    odd = _is_odd(uri)
    if odd:
        return f"it contains {odd[0]!r}"
    if "\\" in uri:
        return "it contains a backslash"
    if own_table(uri) is not None:
        return None
    if _is_full(uri):
        path = unquote(uri.partition("://")[2])
    elif uri.startswith("/"):
        path = uri[1:]
    else:
        own = own_table_uri("<name>")
        return f"a table below the repository is at {own}, others by their full uri"
    if path.endswith("/") or not path:
        return "it ends with '/'"
    if any(each in ("", ".", "..") for each in path.split("/")):
        return "it has an empty segment, or one that is '.' or '..'"
    return None


def _broken_manifest(version: Version, key: str) -> str | None:
    """The key must be that of the version's manifest, in either naming scheme."""
    if not 0 < version <= MAX_U64:
        return f"the version {version} cannot exist"
    name = key.removeprefix(f"{VERSIONS_DIR}/")
    named = None if name == key else parse_manifest_name(name)
    if named is None or named.version != version:
        return f"{key[:200]!r} is not the manifest of version {version}"
    return None


def _broken_digest(what: str, digest: str) -> str | None:
    return None if _is_digest(digest) else f"{what} is {digest[:80]!r}, which is no SHA-256 in hex"


def _broken_number(what: str, number: int) -> str | None:
    return None if 0 <= number <= MAX_U64 else f"{what} is {number}, which is out of range"


def _broken_landing(version: Version, landing: Landing | None) -> str | None:
    """A detached version needs a landing, and no other version may have one."""
    if landing is None:
        return "a detached version needs a landing" if is_detached(version) else None
    if landing.version != version:
        return f"the landing ends with version {landing.version}, not with the pinned one"
    return None
