"""The file as TOML: its bytes, checked, and what tomllib reads in them.

Knows files and TOML, and nothing of pipelines.
"""

from __future__ import annotations

import re
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from lancewood.errors import InvalidInputError, NotFoundError, StorageError
from lancewood.pipeline.definition.key_lines import lines_of_keys
from lancewood.pipeline.definition.model import Spot
from lancewood.pipeline.definition.refusal import wrong

MOST_BYTES = 1_000_000
MOST_LEVELS = 30
_endless_key = re.compile(
    r"""(?<![\w"'-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){100}""", re.ASCII
).search
"""tomllib needs minutes for a key of many thousand parts."""
_location = re.compile(r" \(at line (\d+), column (\d+)\)$").search

_HINTS = (
    ("Illegal character '\\n'", "a text ends on its line: is a quote missing?"),
    ("Illegal character '\\r'", "a text ends on its line: is a quote missing?"),
    ("Cannot declare", "targets and checks are lists: each begins with [[targets]] or [[checks]]"),
    ("Cannot overwrite", "this key is there already"),
    ("Invalid value", "texts stand in quotes, and it is true or false in small letters"),
    ("Unescaped '\\'", "between single quotes a '\\' is itself"),
    ("Unclosed inline table", "what stands between '{' and '}' stands on one line"),
    ("Unclosed array", "is a comma or a ']' missing?"),
)
"""What tomllib says of common slips, and the way out."""


def read_toml(path: Path) -> tuple[dict[str, Any], Spot]:
    """What the file says, and the spot above all its keys.

    Raises NotFoundError where there is no such file, and InvalidInputError for one that is too
    large, not UTF-8 or not TOML.
    """
    text = _text(path, _bytes(path))
    if _endless_key(text):
        raise _too_deep(path)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(path) from None
    except ValueError as error:
        raise _not_toml(path, str(error)) from None
    huge = _check_depth(path, data)
    spot = Spot(path.name, "", None, lines_of_keys(text, data))
    for each in huge:
        raise wrong(spot.at(*each), "takes a number of 64 bits at most")
    return data, spot


def _check_depth(path: Path, data: dict[str, Any]) -> list[tuple[str | int, ...]]:
    """Refuse what nests without end, and find the numbers that TOML does not promise to hold."""
    huge = []
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), data)]
    while stack:
        keys, value = stack.pop()
        if len(keys) > MOST_LEVELS:
            raise _too_deep(path)
        if isinstance(value, dict):
            stack += [((*keys, key), below) for key, below in value.items()]
        elif isinstance(value, list):
            stack += [((*keys, index), below) for index, below in enumerate(value)]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            huge.append(keys)
    return huge


def _too_deep(path: Path) -> InvalidInputError:
    return InvalidInputError(f"{path.name}: the file nests deeper than {MOST_LEVELS} levels")


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            found = file.read(MOST_BYTES + 1)
    except FileNotFoundError as gone:
        raise NotFoundError(f"there is no file {path}{_near(path)}", path=str(path)) from gone
    except IsADirectoryError as cause:
        raise InvalidInputError(
            f"{path} is a directory, and a pipeline is a file{_near(path / '.toml')}"
        ) from cause
    except ValueError as cause:  # a NUL in its name
        raise InvalidInputError(f"{str(path)!r} is no path: {cause}") from cause
    except OSError as cause:
        raise StorageError(f"{path} cannot be read: {cause.strerror or cause}") from cause
    if len(found) > MOST_BYTES:
        raise InvalidInputError(
            f"{path.name}: the file has more than {MOST_BYTES:,} bytes, which is no pipeline"
        )
    return found


def _near(path: Path) -> str:
    try:
        names = [each.name for each in path.parent.iterdir() if each.suffix == ".toml"]
    except OSError:
        return ""
    close = get_close_matches(path.name, names, n=1) or (names if len(names) == 1 else [])
    return f"; did you mean {path.parent / close[0]}?" if close else ""


def _text(path: Path, found: bytes) -> str:
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = found.count(b"\n", 0, error.start) + 1
        raise InvalidInputError(
            f"{path.name} line {line}: the file is not UTF-8: byte {found[error.start]:#04x} "
            "does not belong there; save it as UTF-8",
            file=path.name,
            line=line,
        ) from None


def _not_toml(path: Path, said: str) -> InvalidInputError:
    """tomllib's own words, its place put in front."""
    found = _location(said)
    line = int(found[1]) if found else None
    where = f" line {found[1]}" if found else ""
    column = f", at column {found[2]}" if found else ""
    reason = (said[: found.start()] if found else said)[:300]
    hint = next((f" ({way_out})" for slip, way_out in _HINTS if reason.startswith(slip)), "")
    return InvalidInputError(
        f"{path.name}{where}: this is not TOML{column}: {reason}{hint}", file=path.name, line=line
    )
