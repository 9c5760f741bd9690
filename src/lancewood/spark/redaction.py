"""What Spark has to hide: values of options whose names say that they are secrets.

Spark writes options of sources into plans and event logs, over Connect whole requests, and its
settings, too. It hides a value by a pattern for names, and for whole texts by one that finds what
is to be cut out. Spark tries a pattern for names on values as well, so ours has whole words only:
``/data/monkeys.lance`` is to be seen. Java understands these patterns as Python does.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from lancewood.store.options import SECRET_WORDS

_JSON_OPTIONS = ("basestorageoptions", "manifeststore")
"""Options of ``format("lance")`` whose values may have secrets inside."""
_WORDS = rf"(?:{'|'.join((*SECRET_WORDS, *_JSON_OPTIONS))})s?(?![a-z-])"
NAMES = rf"(?i:(?<![a-z]){_WORDS})"
"""Finds the name of a secret, whatever stands before it: ``storage.account_key``."""
_SAID = r"""[\w.-]*[\\`"']{0,4}\s*(?:value:|[=:]|->)?\s*\\*"""
_QUOTED = r"""(?:"[^"\\]*(?:\\.[^"\\]*)*|'[^'\\]*(?:\\[^'][^'\\]*)*)"""
TEXTS = rf'(?i:(?<![a-z])(?!key: "){_WORDS}{_SAID}{_QUOTED})'
"""Finds such a name with its value, in the text of a request or of SQL: ``key: "account_key" value:
"…"``, ``account_key '…'``. What a request calls ``key`` is the name that follows."""
OF_SETTINGS = f"(?i:secret|password|token|access[.]?key)|{NAMES}"
"""For ``spark.redaction.regex``: what Spark hides anyway, and ours."""
_OF_SQL = {"spark.sql.redaction.options.regex": NAMES, "spark.sql.redaction.string.regex": TEXTS}


def hide_secrets(running: Any, given: Container[str]) -> None:
    """Have a session hide them besides what it hides already; a pattern that is ``given`` stays."""
    for name, pattern in _OF_SQL.items():
        found = running.conf.get(name, None)
        if name not in given and pattern not in (found or ""):
            running.conf.set(name, f"{found}|{pattern}" if found else pattern)
