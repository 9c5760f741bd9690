"""Errors in the words of the command line: where the API would say ``force=True``, ``--force``.

Knows the few arguments that errors advise. Does not know which command raised them.
"""

from __future__ import annotations

import re
from shlex import quote

_ON_BRANCH = re.compile(r"branches\.(reset|delete)\('([^']*)'\)(?: there)?")
_SET_BASE = re.compile(r"set_base\(id, ('[^']*')\)")
_OF_REPOSITORY = re.compile(
    r"(?<![\w.])(commit|reset|log|status|switch|gc|fsck|merge|remove|snapshot)\(\)"
)
_OF_TABLE = re.compile(r"(?<![\w.])(drop|repair|verify)\(\)")
_PROTECT = re.compile(r"(?<![\w.])protect\('([^']*)'\)")
_ADD = re.compile(r"repo\.add\('([^']*)', (?:uri|'([^']*)')\)")
_TYPED = {
    "switch(create=True)": "lw switch -c",
    "create=True": "-c",
    "already: open it": "already, and stays as it is: lw status looks at it",
    "detach() goes there": "lw switch -d goes there",
    "log(table=…)": "lw log --table NAME",
    "adopt=True": "--adopt",
    "force=True": "--force",
    "check=False": "--no-check",
    "in_flight=timedelta(0)": "--in-flight 0s",
    "lw.drop": "lw table drop",
    "manifest_store takes": "--manifest-store takes",
    "Open it with that manifest_store": "Name that one with --manifest-store",
    "set_config({'lancewood.manifest_store': None})": (
        "lw table config URI --unset lancewood.manifest_store"
    ),
    "'allow_http': 'true' in storage_options": "--storage-option allow_http=true",
    "'region' in storage_options": "--storage-option region=…",
    "'timeout' in storage_options": "--storage-option timeout=…",
    "in storage_options or in the environment": "with --storage-option or in the environment",
    "set_base": "lw table base URI --set",
    ". A pathlib.Path is never taken for a revision": "",
}


def as_typed(message: str) -> str:
    """The message with options in the place of arguments.

    >>> as_typed("it is needed; force=True does it all the same")
    'it is needed; --force does it all the same'
    >>> as_typed("it has diverged; commit() takes it as it stands, repo.add('a', uri) takes it in")
    'it has diverged; lw commit takes it as it stands, lw add a URI takes it in'
    >>> as_typed("an http:// endpoint needs 'allow_http': 'true' in storage_options")
    'an http:// endpoint needs --storage-option allow_http=true'
    """
    message = _SET_BASE.sub(r"lw table base URI --set ID \1", message)
    message = _ADD.sub(lambda found: f"lw add {found[1]} {quote(found[2] or 'URI')}", message)
    message = _PROTECT.sub(r"lw protect \1", message)
    message = _OF_REPOSITORY.sub(r"lw \1", message)
    message = _OF_TABLE.sub(r"lw table \1", message)
    for argument, option in _TYPED.items():
        message = message.replace(argument, option)
    return _ON_BRANCH.sub(r"lw table branch URI --\1 \2", message)
