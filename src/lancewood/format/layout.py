"""Names and keys of the files of a table.

Pure. Names from a manifest are checked here, before a file is opened or deleted by them.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from lancewood.errors import FormatError
from lancewood.model.ids import DETACHED_BIT, MAX_U64, BaseId, Version, is_detached
from lancewood.proto import table_pb2

DATA_DIR = "data"
VERSIONS_DIR = "_versions"
TRANSACTIONS_DIR = "_transactions"
DELETIONS_DIR = "_deletions"
INDICES_DIR = "_indices"
REFS_DIR = "_refs"
TREE_DIR = "tree"
OWNED_DIRS = (
    VERSIONS_DIR,
    TRANSACTIONS_DIR,
    DELETIONS_DIR,
    INDICES_DIR,
    REFS_DIR,
    TREE_DIR,
    DATA_DIR,
)
"""Every directory that the format owns."""
HINT_KEY = f"{VERSIONS_DIR}/latest_version_hint.json"

_SUFFIX = ".manifest"
_DATA_SUFFIX = ".lance"
_HALF_WRITTEN = r"\.tmp[A-Za-z0-9]{6}"
"""The name of a file on a disk that the codec has not finished; a killed writer leaves it."""
_DATA_KEY = re.compile(
    rf"{DATA_DIR}/(?:[^/]+(?:\{_DATA_SUFFIX}|/[01]{{32}}\.blob)|{_HALF_WRITTEN})"
)
_V2_DIGITS = 20
_TRANSACTION_NAME = re.compile(rf"([0-9]{{1,{_V2_DIGITS}}})-([^/]+)\.txn")


class NamingScheme(Enum):
    """How manifest files are named; one table never mixes them."""

    V1 = "V1"
    V2 = "V2"


@dataclass(frozen=True, slots=True)
class ManifestName:
    """What the name of a manifest file says."""

    version: Version
    scheme: NamingScheme

    @property
    def detached(self) -> bool:
        return is_detached(self.version)


def manifest_name(version: Version, scheme: NamingScheme) -> str:
    """The bare name of a version's manifest file."""
    if is_detached(version):
        return f"d{version}{_SUFFIX}"
    if scheme is NamingScheme.V1:
        return f"{version}{_SUFFIX}"
    return f"{MAX_U64 - version:0{_V2_DIGITS}d}{_SUFFIX}"


def manifest_key(version: Version, scheme: NamingScheme) -> str:
    """The key of a version's manifest file."""
    return f"{VERSIONS_DIR}/{manifest_name(version, scheme)}"


def parse_manifest_name(name: str) -> ManifestName | None:
    """What a name in ``_versions`` says; None for everything that is not a manifest."""
    if not name.endswith(_SUFFIX):
        return None
    stem = name[: -len(_SUFFIX)]
    if stem.startswith("d"):
        number = _number(stem[1:])
        if number is None or not DETACHED_BIT <= number <= MAX_U64:
            return None
        return ManifestName(Version(number), NamingScheme.V2)
    number = _number(stem)
    if number is None or number > MAX_U64:
        return None
    if len(stem) == _V2_DIGITS:
        version = Version(MAX_U64 - number)
        return None if is_detached(version) else ManifestName(version, NamingScheme.V2)
    return ManifestName(Version(number), NamingScheme.V1)


def _number(digits: str) -> int | None:
    if not (0 < len(digits) <= _V2_DIGITS and digits.isascii() and digits.isdigit()):
        return None
    return int(digits)


def detached_version() -> Version:
    """A fresh random version number with the detached bit set."""
    return Version(DETACHED_BIT | secrets.randbits(63))


def transaction_name(read_version: Version, uuid: str) -> str:
    """The bare name of a transaction file."""
    return f"{read_version}-{uuid}.txn"


def transaction_parts(name: str) -> tuple[Version, str] | None:
    """The read version and the identity in the name of a transaction file; None for other names."""
    found = _TRANSACTION_NAME.fullmatch(name)
    if found is None or int(found[1]) > MAX_U64:
        return None
    return Version(int(found[1])), found[2]


def transaction_key(name: str) -> str:
    """The key of a transaction file that a manifest names."""
    return f"{TRANSACTIONS_DIR}/{check_file_name(name, 'a transaction file')}"


def data_key(name: str) -> str:
    """The key of a data file below the root that it belongs to."""
    return f"{DATA_DIR}/{name}"


def blob_directory(data_file: str) -> str:
    """The directory for bytes of blobs: beside the data file they belong to, with the same name.

    Takes the key of the data file, or its bare name.
    """
    return data_file.removesuffix(_DATA_SUFFIX)


def blob_key(data_file: str, blob_id: int) -> str:
    """The key of a file with bytes of blobs, named by the bits of its id, the lowest first."""
    return f"{blob_directory(data_file)}/{f'{blob_id:032b}'[::-1]}.blob"


def is_data_key(key: str) -> bool:
    """Whether a key below a table's root is that of a data file, whole or half written, or of
    bytes of blobs."""
    return _DATA_KEY.fullmatch(key) is not None


def check_file_name(name: str, what: str) -> str:
    """The name itself if it is a bare file name; raises FormatError otherwise.

    A manifest must never lead a reader, let alone a cleanup, outside of the directory it means.
    """
    if not name or "/" in name or "\\" in name or "\0" in name or name in (".", ".."):
        raise FormatError(f"{what} is named {name!r}: expected a bare file name")
    return name


def find_base(bases: Iterable[table_pb2.BasePath], base_id: BaseId) -> table_pb2.BasePath:
    """The base path with that id; raises FormatError if the manifest declares none."""
    known = list(bases)
    found = [each for each in known if each.id == base_id]
    if len(found) == 1:
        return found[0]
    if found:
        raise FormatError(f"base path {base_id} is declared {len(found)} times", base_id=base_id)
    ids = ", ".join(str(each.id) for each in known) or "none"
    raise FormatError(
        f"a file refers to base path {base_id}, but the manifest declares {ids}", base_id=base_id
    )


def key_in_base(base: table_pb2.BasePath | None, directory: str, name: str) -> str:
    """The key of a file below its base: in the standard directory of a dataset root, directly below
    the path of any other base."""
    if base is not None and not base.is_dataset_root:
        return name
    return f"{directory}/{name}"
