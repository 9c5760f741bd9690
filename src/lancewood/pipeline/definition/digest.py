"""One number for what a file says: the same for the same pipeline, however it is laid out.

Parameters are filled in. Of secrets only the templates count; formatting, comments, the order of
tables and the settings of the session do not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from lancewood.pipeline.definition.model import Secret, Spot
from lancewood.pipeline.definition.parameters import Filling

_LEFT_OUT = ("params", "spark")


def digest_of(data: Mapping[str, Any], filling: Filling, spot: Spot) -> str:
    """SHA-256 of ``canonical``, in hex."""
    return hashlib.sha256(canonical(data, filling, spot).encode()).hexdigest()


def canonical(data: Mapping[str, Any], filling: Filling, spot: Spot) -> str:
    """What the file says, as JSON with one way to write it."""
    said = {
        key: _said(value, filling, spot.at(key))
        for key, value in data.items()
        if key not in _LEFT_OUT and value != {}
    }
    return json.dumps(said, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def _said(value: Any, filling: Filling, spot: Spot) -> Any:
    if isinstance(value, dict):
        return {key: _said(each, filling, spot.at(key)) for key, each in value.items()}
    if isinstance(value, list):
        return [_said(each, filling, spot.at(index)) for index, each in enumerate(value)]
    if isinstance(value, str):
        filled = filling.option(value, spot)
        return {"secret": filled.template} if isinstance(filled, Secret) else filled
    if isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return {"float": repr(value)}
    return {"time": value.isoformat()}
