"""Texts that may be shown: with templates where secrets would stand.

Knows where a pipeline may have secrets, and the spellings in which errors of others repeat them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote, quote_plus

from lancewood.pipeline.definition.model import Option, Pipeline, Secret


def hide(pipeline: Pipeline, text: str) -> str:
    """The text with the template of every secret in place of what it holds.

    Each value of the environment is hidden as a whole and by itself, as it is and as it looks in
    a uri, in JSON and in a Python text.
    """
    shown: dict[str, str] = {}
    for secret in _secrets(pipeline):
        for value, template in [
            (secret.text, secret.template),
            *((each, f"${{env:{name}}}") for name, each in secret.values),
        ]:
            for spelling in _spellings(value):
                shown.setdefault(spelling, template)
    found = sorted((each for each in shown if each), key=len, reverse=True)
    if not found:
        return text
    return re.sub("|".join(map(re.escape, found)), lambda each: shown[each[0]], text)


def _secrets(pipeline: Pipeline) -> Iterator[Secret]:
    options: list[Option] = [*pipeline.storage_options.values()]
    for source in pipeline.sources:
        options += source.options.values()
    yield from (each for each in options if isinstance(each, Secret))


def _spellings(value: str) -> Iterator[str]:
    yield value
    yield quote(value, safe="")
    yield quote(value)
    yield quote_plus(value)
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
