"""Parameters, ``${name}``, and secrets, ``${env:NAME}``, in the texts of a file.

A value may not break out of the SQL that it is put into: inside quotes it may not end them, and
outside it may be any expression, but not start a comment or another statement. Only the quotes and
comments of Spark SQL are understood, not its grammar. No secret appears in an error, in any of the
spellings in which errors of other libraries might repeat it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, quote_plus

from lancewood.pipeline.definition.model import Option, Pipeline, Secret, Spot
from lancewood.pipeline.definition.refusal import described, near, wrong

_opening = re.compile(r"(?:(?<![A-Za-z0-9_])[rR])?(['\"])|(`)|(--)|(/\*)").search
_closings = {
    "'": re.compile(r"(?:[^'\\]|\\.)*?'", re.DOTALL).match,
    '"': re.compile(r'(?:[^"\\]|\\.)*?"', re.DOTALL).match,
    "r'": re.compile(r"[^']*'").match,
    'r"': re.compile(r'[^"]*"').match,
    "`": re.compile(r"[^`]*`").match,
    "--": re.compile(r"[^\n]*\n").match,
    "/*": re.compile(r".*?\*/", re.DOTALL).match,
}
_ENDS = {"--": ("\n", "\r"), "/*": ("*/", "/*")}
_OUTSIDE = (";", "--", "/*")
_COMMENTS = ("--", "/*")
KEYS = ("default", "required", "help")
"""Keys of a parameter that is declared as a table."""
_ENVIRONMENT = "env:"
_location = re.compile(r"(\$\$\{)|\$\{([^{}\n]*)\}|(\$\{)")
_is_name = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*").fullmatch
_is_variable = re.compile(r"[A-Za-z_][A-Za-z0-9_]*").fullmatch


@dataclass(slots=True)
class Filling:
    """The values that are filled into the texts of a file."""

    parameters: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)
    used: set[str] = field(default_factory=set)
    """The parameters that some text has used."""

    def text(self, template: str, spot: Spot) -> str:
        """The text with parameters filled in; secrets are refused."""
        return "".join(value for _, value in self._parts(template, spot))

    def sql(self, template: str, spot: Spot) -> str:
        """The SQL with parameters filled in: no value may end the quotes or the comment around
        it."""
        quoting = Quoting()
        parts = []
        for name, value in self._parts(template, spot):
            if name is None:
                quoting.read(value)
            else:
                why = quoting.breaks(value)
                if why is not None:
                    raise wrong(spot, f"the value of ${{{name}}} {why}: {described(value)}")
            parts.append(value)
        filled = "".join(parts)
        if "${" in filled:
            raise wrong(
                spot,
                "the SQL still has a '${' in it, which Spark would fill in by itself: write it "
                "as concat('$', '{')",
            )
        return filled

    def option(self, template: str, spot: Spot) -> Option:
        """The text with parameters filled in; a Secret if it uses the environment."""
        shown, filled, values = [], [], {}
        for name, value in self._parts(template, spot, with_secrets=True):
            is_secret = name is not None and name.startswith(_ENVIRONMENT)
            if is_secret and name is not None:
                values[name.removeprefix(_ENVIRONMENT)] = value
            shown.append(f"${{{name}}}" if is_secret else value)
            filled.append(value)
        if not values:
            return "".join(filled)
        return Secret("".join(shown), "".join(filled), tuple(values.items()))

    def _parts(
        self, template: str, spot: Spot, *, with_secrets: bool = False
    ) -> Iterator[tuple[str | None, str]]:
        """(name of the placeholder, text) from left to right; the name is None for literal text."""
        end = 0
        for found in _location.finditer(template):
            yield None, template[end : found.start()]
            end = found.end()
            if found[1]:
                yield None, "${"
            elif found[3]:
                raise wrong(spot, "a '${' is not closed; '$${' stands for '${' itself")
            elif found[2].startswith(_ENVIRONMENT):
                yield found[2], self._variable(found[2], spot, is_allowed=with_secrets)
            else:
                yield found[2], self._parameter(found[2], spot)
        yield None, template[end:]

    def _parameter(self, name: str, spot: Spot) -> str:
        if name not in self.parameters:
            raise wrong(
                spot,
                f"${{{name}}} is not declared in [params]: {near(name, self.parameters)} "
                "('${env:NAME}' is the environment, '$${' stands for '${' itself)",
            )
        self.used.add(name)
        return self.parameters[name]

    def _variable(self, location: str, spot: Spot, *, is_allowed: bool) -> str:
        name = location.removeprefix(_ENVIRONMENT)
        if not is_allowed:
            raise wrong(
                spot,
                f"${{{location}}} is a secret, and this text is shown and kept: secrets are "
                "allowed in the options of sources and in storage_options; take a parameter for "
                "what is none",
            )
        if not _is_variable(name):
            raise wrong(spot, f"{name!r} is no name of an environment variable")
        if name not in self.environment:
            raise wrong(spot, f"the environment variable {name} is not set")
        return self.environment[name]


def read_parameters(declared: object, given: Mapping[str, str], spot: Spot) -> dict[str, str]:
    """The value of every parameter: the given one, or its default.

    ``declared`` is the table ``[params]``. Refuses a given parameter that is not declared, and a
    required one that is not given.
    """
    table = declared if declared is not None else {}
    if not isinstance(table, dict):
        raise wrong(spot, f"takes a table [params], got {described(table)}")
    defaults = {name: _default(name, value, spot.at(name)) for name, value in table.items()}
    for name, value in given.items():
        if name not in defaults:
            raise wrong(spot, f"there is no parameter {name!r}: {near(name, defaults)}")
        if not isinstance(value, str) or not _is_plain(value):
            raise wrong(spot.at(name), f"takes a text in UTF-8, got {described(value)}")
    for name, default in defaults.items():
        if default is None and name not in given:
            raise wrong(
                spot.at(name),
                f"the parameter has no default and was not given: {name}=…{_help(table[name])}",
            )
    return {name: given.get(name, default or "") for name, default in defaults.items()}


def _default(name: str, value: Any, spot: Spot) -> str | None:
    """The default value of a parameter; None for a required one."""
    if not _is_name(name):
        raise wrong(
            spot,
            "the name of a parameter begins with a letter or '_' and goes on with letters, "
            "digits, '_' and '-'",
        )
    if isinstance(value, dict):
        return _default_of_table(value, spot)
    if not isinstance(value, str):
        raise wrong(
            spot,
            f"a parameter is a text, got {described(value)}: write it in quotes, "
            "or as { required = true }",
        )
    return _plain_default(value, spot)


def _default_of_table(table: dict[str, Any], spot: Spot) -> str | None:
    for key, value in table.items():
        if key not in KEYS:
            raise wrong(spot.at(key), f"there is no such key: {near(key, KEYS)}")
        wanted = bool if key == "required" else str
        if not isinstance(value, wanted):
            kind = "true or false" if wanted is bool else "a text"
            raise wrong(spot.at(key), f"takes {kind}, got {described(value)}")
    if ("default" in table) == table.get("required", False):
        raise wrong(spot, 'takes either default = "…" or required = true')
    return _plain_default(table["default"], spot.at("default")) if "default" in table else None


def _plain_default(text: str, spot: Spot) -> str:
    if "${" in text:
        raise wrong(spot, "a default has no ${…} in it: use both where the value is used")
    if not _is_plain(text):
        raise wrong(spot, "a parameter cannot hold a NUL")
    return text


def _help(declared: Any) -> str:
    text = declared.get("help") if isinstance(declared, dict) else None
    return f" ({text})" if text else ""


def _is_plain(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in text


class Quoting:
    """Reads SQL text in parts, and knows which quotes or comment the next part is inside."""

    def __init__(self) -> None:
        self._inside = ""

    def read(self, text: str) -> None:
        """Continue over a part of the file."""
        at = 0
        while at < len(text):
            if not self._inside:
                found = _opening(text, at)
                if found is None:
                    return
                self._inside, at = found[0].lower(), found.end()
                continue
            closing = _closings[self._inside](text, at)
            if closing is None:
                return
            self._inside, at = "", closing.end()

    def breaks(self, value: str) -> str | None:
        """Why a value may not stand here; None if it may."""
        if not self._inside:
            found = [each for each in _OUTSIDE if each in value]
            return f"has a {found[0]!r}, which would end the statement here" if found else None
        ends = _ENDS.get(self._inside) or (self._inside[-1], "\\")
        found = [each for each in ends if each in value]
        where = "a comment" if self._inside in _COMMENTS else f"{self._inside[-1]} quotes"
        return f"has a {found[0]!r}, and stands inside {where}" if found else None


def plain_options(options: Mapping[str, Option]) -> dict[str, str]:
    """Options with secrets spelt out, only for Spark and stores."""
    return {name: each.text if isinstance(each, Secret) else each for name, each in options.items()}


def hide(pipeline: Pipeline, text: str) -> str:
    """The text with the template of every secret in place of its value.

    Every value from the environment is hidden, plain and as it looks in a uri, in JSON and in a
    Python text.
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
