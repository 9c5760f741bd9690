"""Refs as files: one JSON object for each branch and tag, and the name of its file. Pure.

Two spellings of the keys are in use: the specification's (``manifest_size``) and pylance's
(``manifestSize``). Both are written; where both are found, pylance's counts, because pylance drops
the other when it rewrites a file. Unknown keys are kept. The sizes in a ref are hints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote, unquote_to_bytes

from lancewood.errors import FormatError, InvalidInputError
from lancewood.format.json_object import decode_object
from lancewood.format.layout import REFS_DIR
from lancewood.model.ids import Version
from lancewood.model.lines import MOST_SPACES, Line
from lancewood.model.refs import MAIN, Branch, BranchName, BranchPoint, Tag, TagName
from lancewood.model.table_config import RESET_KEY

BRANCHES_DIR = f"{REFS_DIR}/branches"
TAGS_DIR = f"{REFS_DIR}/tags"
SPACES_DIR = f"{REFS_DIR}/lancewood/rows"
"""Which spaces of row ids are claimed: one file for each, none of them a ref."""

MAX_REF_SIZE = 4 << 20
"""The largest file, in bytes, that is read or written; metadata may take some."""

_SUFFIX = ".json"
_space_number = re.compile(rf"([0-9]{{{len(str(MOST_SPACES))}}}){re.escape(_SUFFIX)}").fullmatch
_is_plain = re.compile(r"[A-Za-z0-9._-]+").fullmatch
"""Whether the name of a file needs no decoding."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d{1,30}))?([Zz]|([+-])(\d\d):(\d\d))",
    re.ASCII,
)

_BRANCH_PAIRS = {
    "parent_branch": "parentBranch",
    "parent_version": "parentVersion",
    "create_at": "createAt",
    "manifest_size": "manifestSize",
}
_BRANCH_KEYS = {*_BRANCH_PAIRS, *_BRANCH_PAIRS.values(), "identifier", "metadata", RESET_KEY}
_TAG_PAIRS = {"manifest_size": "manifestSize"}
_TAG_KEYS = {*_TAG_PAIRS, *_TAG_PAIRS.values(), "branch", "version", "createdAt", "updatedAt"}
_TAG_KEYS |= {"metadata"}


def ref_file_name(name: BranchName | TagName) -> str:
    """The bare name of a ref's file: UTF-8, percent-encoded except for letters, digits, ``.-_``."""
    return f"{name if _is_plain(name) else quote(name, safe='')}{_SUFFIX}"


def ref_name(file_name: str) -> str | None:
    """The ref's name for a file in a directory of refs; None for a file that is not a ref.

    Raises FormatError for a file name in another than the canonical spelling: two files for one ref
    must not exist. Does not check that the name is allowed; ``BranchName.found`` does.
    """
    if not file_name.endswith(_SUFFIX):
        return None
    stem = file_name.removesuffix(_SUFFIX)
    if _is_plain(stem):
        return stem
    try:
        name = unquote_to_bytes(stem).decode()
    except UnicodeError as cause:
        raise FormatError(
            f"ref file {file_name!r}: its name is not UTF-8", file=file_name
        ) from cause
    expected = quote(name, safe="")
    if expected != stem:
        raise FormatError(
            f"ref file {file_name!r}: the file of {name!r} is {expected + _SUFFIX!r}; rename it",
            file=file_name,
        )
    return name


def branch_key(name: BranchName) -> str:
    """The key of a branch's file."""
    return f"{BRANCHES_DIR}/{ref_file_name(name)}"


def tag_key(name: TagName) -> str:
    """The key of a tag's file."""
    return f"{TAGS_DIR}/{ref_file_name(name)}"


def space_key(space: int) -> str:
    """The key of the file that claims a space. Names descend, as those of manifests do, so that an
    ordered listing begins with the highest."""
    return f"{SPACES_DIR}/{MOST_SPACES - space:0{len(str(MOST_SPACES))}}{_SUFFIX}"


def claimed_space(file_name: str) -> int | None:
    """The space that a file of that directory claims; None for another file."""
    found = _space_number(file_name)
    space = MOST_SPACES - int(found[1]) if found else 0
    return space if space > 0 else None


def encode_claim(line: Line, at_ns: int, uuid: str) -> bytes:
    """The bytes of a file that claims a space: whose it is, and unlike those of any other claim."""
    told = {"line": line.id, "branch": line.branch or MAIN}
    claim = {**told, "createdAt": _encode_moment(at_ns), "uuid": uuid}
    return json.dumps(claim, ensure_ascii=False).encode()


def claiming_line(data: bytes) -> str | None:
    """The id of the line that a claim says it is of; None if that cannot be told."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    line = found.get("line") if isinstance(found, dict) else None
    return line if isinstance(line, str) else None


def decode_branch(name: BranchName, data: bytes) -> Branch:
    """The branch in the bytes; raises FormatError naming the file."""
    return _Reader(branch_key(name), data, _BRANCH_PAIRS).branch(name)


def decode_tag(name: TagName, data: bytes) -> Tag:
    """The tag in the bytes; raises FormatError naming the file."""
    return _Reader(tag_key(name), data, _TAG_PAIRS).tag(name)


def encode_branch(branch: Branch) -> bytes:
    """The bytes of a branch's file; raises InvalidInputError if it is too large."""
    values: dict[str, Any] = {
        "parent_branch": branch.parent_branch,
        "parent_version": branch.parent_version,
        "create_at": branch.created_at_seconds,
        "manifest_size": branch.manifest_size,
    }
    document = _unknown(branch.unknown, _BRANCH_KEYS - {"identifier"})
    document |= {_BRANCH_PAIRS[key]: value for key, value in values.items()} | values
    if branch.identifier is not None:
        mapping = [[each.version, each.uuid] for each in branch.identifier]
        document["identifier"] = {**document.get("identifier", {}), "version_mapping": mapping}
    if branch.reset_in is not None:
        document[RESET_KEY] = branch.reset_in
    document["metadata"] = dict(branch.metadata)
    return _encode(branch_key(branch.name), document)


def encode_tag(tag: Tag) -> bytes:
    """The bytes of a tag's file; raises InvalidInputError if it is too large."""
    document = _unknown(tag.unknown, _TAG_KEYS)
    document |= {"branch": tag.branch, "version": tag.version}
    for key, moment in (("createdAt", tag.created_at_ns), ("updatedAt", tag.updated_at_ns)):
        if moment is not None:
            document[key] = _encode_moment(moment)
    document |= {"manifestSize": tag.manifest_size, "manifest_size": tag.manifest_size}
    document["metadata"] = dict(tag.metadata)
    return _encode(tag_key(tag.name), document)


def _unknown(found: Mapping[str, Any], known: set[str]) -> dict[str, Any]:
    return {key: value for key, value in found.items() if key not in known}


def _encode(key: str, document: Mapping[str, Any]) -> bytes:
    try:
        data = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as cause:
        raise InvalidInputError(f"{key} cannot be written as JSON: {cause}") from cause
    if len(data) > MAX_REF_SIZE:
        raise InvalidInputError(
            f"{key} would have {len(data):,} bytes, {MAX_REF_SIZE:,} are allowed"
        )
    return data


def _encode_moment(ns: int) -> str:
    seconds, rest = divmod(ns, 10**9)
    moment = _EPOCH + timedelta(seconds=seconds)
    return f"{moment.replace(tzinfo=None).isoformat()}.{rest:09d}Z"


_T = TypeVar("_T")


class _Reader:
    """One file of a ref: its object, whose values are checked as they are read."""

    def __init__(self, key: str, data: bytes, pairs: Mapping[str, str]) -> None:
        self._key = key
        self._pairs = pairs
        self._document = decode_object(data, name=key, most=MAX_REF_SIZE)

    def branch(self, name: BranchName) -> Branch:
        points, odd = self._identifier()
        unknown = _unknown(self._document, _BRANCH_KEYS)
        is_reset = RESET_KEY in self._document
        try:
            return Branch(
                name=name,
                parent_branch=self._branch_name("parent_branch"),
                parent_version=Version(self._number("parent_version")),
                created_at_seconds=self._number("create_at"),
                manifest_size=self._number("manifest_size"),
                identifier=points,
                reset_in=Version(self._number(RESET_KEY)) if is_reset else None,
                metadata=self._metadata(),
                unknown={**unknown, "identifier": odd} if odd else unknown,
            )
        except InvalidInputError as error:
            self._fail(str(error))

    def tag(self, name: TagName) -> Tag:
        try:
            return Tag(
                name=name,
                branch=self._branch_name("branch"),
                version=Version(self._number("version")),
                manifest_size=self._number("manifest_size"),
                created_at_ns=self._moment("createdAt"),
                updated_at_ns=self._moment("updatedAt"),
                metadata=self._metadata(),
                unknown=_unknown(self._document, _TAG_KEYS),
            )
        except InvalidInputError as error:
            self._fail(str(error))

    def _fail(self, why: str) -> NoReturn:
        raise FormatError(f"{self._key}: {why}", file=self._key)

    def _find(self, key: str) -> tuple[str, Any]:
        """The spelling of a key that is there, and its value; None where there is neither."""
        other = self._pairs.get(key, key)
        spelling = other if other in self._document else key
        return spelling, self._document.get(spelling)

    def _number(self, key: str) -> int:
        spelling, value = self._find(key)
        if spelling not in self._document:
            self._fail(f"{spelling!r} is missing")
        return self._whole(spelling, value)

    def _whole(self, what: str, value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int):
            self._fail(f"{what!r} is {_shown(value)} instead of a whole number")
        return value

    def _branch_name(self, key: str) -> BranchName | None:
        spelling, value = self._find(key)
        if value is None or value == MAIN:
            return None
        try:
            return BranchName.found(self._of(spelling, value, str, "a text"))
        except FormatError as error:
            self._fail(f"{spelling!r}: {error}")

    def _of(self, what: str, value: object, kind: type[_T], called: str) -> _T:
        if not isinstance(value, kind):
            self._fail(f"{what!r} is {_shown(value)} instead of {called}")
        return value

    def _metadata(self) -> dict[str, str]:
        found = self._of("metadata", self._document.get("metadata", {}), dict, "an object")
        return {
            key: self._of(f"metadata.{key}", value, str, "a text") for key, value in found.items()
        }

    def _identifier(self) -> tuple[tuple[BranchPoint, ...] | None, dict[str, Any]]:
        """The descent, and the unknown keys of its object."""
        if "identifier" not in self._document:
            return None, {}
        found = self._of("identifier", self._document["identifier"], dict, "an object")
        listed = self._of("version_mapping", found.get("version_mapping"), list, "a list")
        points = []
        for each in listed:
            pair = self._of("version_mapping", each, list, "a list of pairs")
            if len(pair) != 2:
                self._fail(f"'version_mapping' has {len(pair)} values where a pair was expected")
            version = self._whole("version_mapping", pair[0])
            uuid = self._of("version_mapping", pair[1], str, "a text")
            points.append(BranchPoint(Version(version), uuid))
        return tuple(points), _unknown(found, {"version_mapping"})

    def _moment(self, key: str) -> int | None:
        value = self._document.get(key)
        if value is None:
            return None
        text = self._of(key, value, str, "a moment")
        try:
            return _decode_moment(text)
        except (ValueError, OverflowError):
            self._fail(f"{key!r} is {_shown(text)}, not a time such as 2026-01-31T12:00:00Z")


@lru_cache(maxsize=64)
def _decode_moment(text: str) -> int:
    """Nanoseconds since 1970; a leap second counts as the first one after it."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    leap = second == 60
    moment = datetime(year, month, day, hour, minute, second - leap, tzinfo=UTC)
    seconds = (moment - _EPOCH) // timedelta(seconds=1) + leap
    if found[9]:
        hours, minutes = int(found[10]), int(found[11])
        if hours > 23 or minutes > 59:
            raise ValueError(text)
        seconds -= (hours * 3600 + minutes * 60) * (1 if found[9] == "+" else -1)
    return seconds * 10**9 + int((found[7] or "0")[:9].ljust(9, "0"))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:50]}…"
