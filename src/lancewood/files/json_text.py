"""Values as one line of JSON, which is strict where nothing else is said. Loads no Arrow."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any


def json_text(document: object) -> str:
    """One line of strict JSON: bytes are base64, what is not a finite number is null."""
    text = finite_json_text(document)
    return _encode(_finite(document)) if text is None else text


def finite_json_text(document: object) -> str | None:
    """A document as JSON; None if a number in it is not finite, for which JSON has no word."""
    try:
        return _encode(document)
    except ValueError:
        return None


def json_text_with_nan(document: object) -> str:
    """One line of JSON with the words NaN, Infinity and -Infinity, which strict JSON has not."""
    return _encode_all(document)


def _plain(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_plain).encode
_encode_all = json.JSONEncoder(ensure_ascii=False, default=_plain).encode


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value
