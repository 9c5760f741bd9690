"""Writes docs/reference/api.md from the public names themselves. A test checks that the page is
current, another one that a word means the same in every signature.

.venv/bin/python scripts/api_reference.py

Signatures are told as the source writes them, defaults by their value. Nothing here needs pyspark:
what only type checkers import stays a name.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
import typing
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "api.md"
MODULES = ("lancewood", "lancewood.spark", "lancewood.items", "lancewood.pipeline")
HANDLES = (
    "Table.branches",
    "Table.tags",
    "Repository.branches",
    "Repository.tags",
    "Repository.marks",
    "Repository.transaction",
)
"""What hangs from a table or a repository: classes without a public name, but full of verbs."""
MADE_BY_HAND = ("BasePath", "LocalRunner")
"""Classes that people call; the others come from verbs."""
MACHINES = {"workers": "WORKERS"}
"""Defaults that are not the same on every machine: what the source calls them."""
FOR_JOBS = {"CommitOptions": {"policy", "retry", "of"}}
"""Members that other rooms of ours use, and no caller of a verb."""
WIDTH = 100
HEAD = """\
# The Python API

<!-- Written by scripts/api_reference.py from the code itself; do not edit. -->

Every public name: what it takes, and the first sentence of what it says about itself; `help(name)`
says the rest. The [guide](../guide.md) goes through the verbs of a table, [the
repository](../repository.md) through those of many; [Spark](../spark.md), [items](../items.md) and
[pipelines](../pipeline.md) have pages of their own. Arguments after `*` are given by name. Types
that are no public names are [at the end](#types-in-signatures).
"""


class Member(NamedTuple):
    """Something with a name and a type, or with arguments."""

    name: str
    told: str
    """What it says about itself, in one sentence; empty where it says nothing."""
    names: dict[str, Any]
    """The names that its annotations stand among: those of its module."""
    signature: inspect.Signature | None = None
    """Of what is called."""
    kind: str = ""
    """The type of what is read."""
    value: str = ""
    """What is read, or its default, if that is known."""

    def texts(self) -> Iterator[str]:
        """Its annotations."""
        if self.signature is not None:
            yield self.signature.return_annotation
            yield from (each.annotation for each in self.signature.parameters.values())
        yield self.kind


class Group(NamedTuple):
    """Members that one class has of its own; ``told`` is what that class says about itself."""

    told: str
    members: list[Member]


class Subject(NamedTuple):
    """A class or a function, by the name that people use for it."""

    name: str
    value: Any
    module: str = ""

    @property
    def path(self) -> str:
        """``spark.write``; without ``lancewood``, since that is where people begin."""
        return f"{self.module}.{self.name}".removeprefix("lancewood").removeprefix(".")


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for module in MODULES:
        parts += _module(module, [each for each in named() if each.module == module])
        if module == "lancewood":
            parts.append("## What hangs from a table or a repository\n")
            parts += (part for each in handles() for part in _class(each))
    parts += ["## Types in signatures\n", *_types()]
    return "\n".join(parts).rstrip() + "\n"


def signatures() -> dict[str, inspect.Signature]:
    """Every public signature: ``create``, ``Table.append``, ``Table.branches.create``, …"""
    found = {}
    for subject in (*named(), *handles()):
        for each in _members(subject):
            if each.signature is not None:
                path = subject.path if each.name == subject.name else f"{subject.path}.{each.name}"
                found[path] = each.signature
    return found


@cache
def named() -> tuple[Subject, ...]:
    """What ``__all__`` of each module names, in its order."""
    modules = {name: import_module(name) for name in MODULES}
    return tuple(
        Subject(name, getattr(module, name), path)
        for path, module in modules.items()
        for name in module.__all__
    )


@cache
def handles() -> tuple[Subject, ...]:
    """What the properties and verbs of HANDLES give."""
    owners = {each.path: each for each in named()}
    found = []
    for path in HANDLES:
        owner, _, name = path.partition(".")
        (verb,) = (each for each in _members(owners[owner]) if each.name == name)
        kind = verb.kind or str(verb.signature and verb.signature.return_annotation)
        called = path if verb.kind else f"{path}()"
        found.append(Subject(called, _meant(kind.partition("[")[0], verb.names)))
    return tuple(found)


# Looking


def _members(subject: Subject) -> list[Member]:
    if isinstance(subject.value, FunctionType):
        return [_function(subject.name, subject.value)]
    if inspect.isclass(subject.value):
        return [each for group in _groups(subject.value) for each in group.members]
    return []


def _groups(of: type) -> Iterator[Group]:
    """The members of a class: its own, and those of every class that it is made of, in order."""
    seen: set[str] = set()
    for each in of.__mro__:
        if not each.__module__.startswith("lancewood."):
            continue
        members = [member for member in _own(each) if member.name not in seen]
        seen.update(member.name for member in members)
        if each is of and of.__name__ in MADE_BY_HAND:
            members.insert(0, _function(of.__name__, each.__dict__["__init__"]))
        if members:
            yield Group(told_of(each), members)


def _own(of: type) -> Iterator[Member]:
    names = vars(sys.modules[of.__module__])
    said = _said_below(of)
    if dataclasses.is_dataclass(of):
        for field in dataclasses.fields(of):
            if field.name in inspect.get_annotations(of) and _is_public(field.name):
                value = _field_default(field)
                told = said.get(field.name, "")
                yield Member(field.name, told, names, kind=str(field.type), value=value)
    elif hasattr(of, "_fields"):
        for name, kind in of.__annotations__.items():
            yield Member(name, said.get(name, ""), names, kind=str(kind))
    elif issubclass(of, Enum):
        for each in of:
            value = _default(each.value)
            yield Member(each.name, said.get(each.name, ""), names, value=value)
    for name, value in vars(of).items():
        if not _is_public(name):
            continue
        if name in FOR_JOBS.get(of.__name__, ()):
            continue
        if isinstance(value, property | cached_property):
            getter: Any = value.fget if isinstance(value, property) else value.func
            kind = inspect.signature(getter).return_annotation
            yield Member(name, told_of(value), getter.__globals__, kind=kind)
        elif isinstance(value, classmethod | staticmethod | FunctionType):
            yield _function(name, value)


def _function(name: str, value: Any) -> Member:
    function = getattr(value, "__func__", value)
    signature = inspect.signature(function)
    if "." in function.__qualname__ and not isinstance(value, staticmethod):
        _, *others = signature.parameters.values()
        signature = signature.replace(parameters=others)
    if function.__name__ == "__init__":
        signature = signature.replace(return_annotation=signature.empty)
    return Member(name, told_of(function), function.__globals__, signature)


def _is_public(name: str) -> bool:
    return not name.startswith("_")


def told_of(value: Any) -> str:
    """The first sentence of what something says about itself."""
    text = value.__doc__ or ""
    is_made_up = inspect.isclass(value) and text.startswith(f"{value.__name__}(")
    return "" if is_made_up else _first_sentence(text)


def _first_sentence(text: str) -> str:
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?]) ", paragraph)[0].replace("``", "`")


def _said_below(of: type) -> dict[str, str]:
    """What stands below the fields of a class, as a text of its own."""
    parts = _tree(sys.modules[of.__module__]).body
    (tree,) = (
        each for each in parts if isinstance(each, ast.ClassDef) and each.name == of.__name__
    )
    return {name: told for name, (_, told) in _assigned(tree.body).items()}


def _assigned(body: list[ast.stmt]) -> dict[str, tuple[str, str]]:
    """Names that are given a type or a value: what that is, and what is said below it."""
    found = {}
    for one, after in zip(body, [*body[1:], ast.Pass()], strict=True):
        if not isinstance(one, ast.Assign | ast.AnnAssign):
            continue
        target = one.target if isinstance(one, ast.AnnAssign) else one.targets[0]
        if isinstance(target, ast.Name):
            told = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                told = _first_sentence(str(after.value.value))
            found[target.id] = _value(one), told
    return found


def _value(one: ast.Assign | ast.AnnAssign) -> str:
    """What is assigned. An alias that stands in quotes, since its types are loaded late, is shown
    without them."""
    if one.value is None:
        return ""
    is_alias = isinstance(one, ast.AnnAssign) and ast.unparse(one.annotation) == "TypeAlias"
    if is_alias and isinstance(one.value, ast.Constant):
        return _quoted(str(one.value.value))
    return _quoted(ast.unparse(one.value))


# Printing


def _module(path: str, subjects: list[Subject]) -> Iterator[str]:
    yield f"## `{path}`\n"
    for subject in subjects:
        if isinstance(subject.value, FunctionType):
            yield f"### {subject.name}\n"
            yield from _member("", _function(subject.name, subject.value))
    classes = [each for each in subjects if inspect.isclass(each.value)]
    errors = [each for each in classes if issubclass(each.value, Exception)]
    for subject in classes:
        if subject not in errors:
            yield from _class(subject)
    for subject in subjects:
        if alias := typing.get_args(subject.value) and _alias(subject.name, subject.value):
            yield f"### {subject.name}\n"
            yield f"`{alias[1]}`. {alias[2]}".rstrip() + "\n"
    if errors:
        yield "### Errors\n"
        for each in errors:
            above = ", ".join(kind.__name__ for kind in each.value.__bases__)
            yield _item(f"{each.name}({above})", told_of(each.value))
        yield ""
    values = [each for each in subjects if isinstance(each.value, str)]
    if values:
        yield "### Values\n"
        yield from (_item(f"{each.name}: {type(each.value).__name__}", "") for each in values)
        yield ""


def _class(subject: Subject) -> Iterator[str]:
    yield f"### {subject.name}\n"
    told = told_of(subject.value)
    if told:
        yield f"{told}\n"
    for group in _groups(subject.value):
        if group.told != told:
            yield f"**{group.told.rstrip('.')}**\n"
        made = [each for each in group.members if each.name == subject.name]
        read = [each for each in group.members if each.signature is None]
        yield from (part for each in made for part in _member("", each))
        yield from map(_field, read)
        if read:
            yield ""
        for each in group.members:
            if each not in made and each not in read:
                yield from _member(f"{subject.name}.", each)


def _member(prefix: str, member: Member) -> Iterator[str]:
    """A signature and its sentence."""
    assert member.signature is not None
    yield f"```py\n{_signature(prefix + member.name, member.signature)}\n```\n"
    if member.told:
        yield f"{member.told}\n"


def _field(member: Member) -> str:
    kind = f": {_quoted(member.kind)}" if member.kind else ""
    value = f" = {member.value}" if member.value else ""
    return _item(f"{member.name}{kind}{value}", member.told)


def _item(code: str, told: str) -> str:
    return f"- `{code}`" + (f": {told}" if told else "")


def _signature(name: str, signature: inspect.Signature) -> str:
    """On one line if it fits, else with a line for each argument."""
    arguments = list(_arguments(signature))
    given = signature.return_annotation
    end = "" if given is signature.empty else f" -> {_quoted(given)}"
    line = f"{name}({', '.join(arguments)}){end}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"    {each}," for each in arguments), f"){end}"])


def _arguments(signature: inspect.Signature) -> Iterator[str]:
    is_named = False
    for each in signature.parameters.values():
        if each.kind is each.KEYWORD_ONLY and not is_named:
            yield "*"
        is_named |= each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        stars = "*" if each.kind is each.VAR_POSITIONAL else ""
        stars = "**" if each.kind is each.VAR_KEYWORD else stars
        kind = "" if each.annotation is each.empty else f": {_quoted(each.annotation)}"
        yield f"{stars}{each.name}{kind}{default_of(each)}"


def _quoted(annotation: str) -> str:
    """Texts in an annotation, in the quotes that the source has."""
    return annotation.replace("'", '"')


def default_of(parameter: inspect.Parameter) -> str:
    """`` = None``; empty for an argument that must be given."""
    if parameter.default is parameter.empty:
        return ""
    return f" = {MACHINES.get(parameter.name) or _default(parameter.default)}"


def _default(value: Any) -> str:
    """A value as one would write it."""
    if isinstance(value, bool | None):
        return repr(value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, int):
        return f"{value:_}"
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, timedelta):
        for unit in ("days", "minutes", "seconds"):
            count, rest = divmod(value, timedelta(**{unit: 1}))
            if not rest:
                return f"timedelta({unit}={count})"
    if isinstance(value, float) or value in ((), frozenset()):
        return repr(value)
    raise TypeError(f"say here how to print a default such as {value!r}")


def _field_default(field: dataclasses.Field[Any]) -> str:
    if field.default is not dataclasses.MISSING:
        return _default(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return f"{getattr(field.default_factory, '__name__', '…')}()"
    return ""


# The types that signatures name


class Named(NamedTuple):
    """A type that signatures name and that has no public name."""

    name: str
    home: str
    """Its module, or the handle that it is."""
    told: str


def _types() -> Iterator[str]:
    found = sorted({*_named_types()})
    often = Counter(each.name for each in found)
    for each in found:
        origin = f" (`{each.home}`)" if often[each.name] > 1 else ""
        yield f"- `{each.name}`{origin}: {each.told}"


def _named_types() -> Iterator[Named]:
    """Aliases with what they stand for, classes with what they say about themselves."""
    documented = {id(each.value) for each in (*named(), *handles())}
    for each in handles():
        yield Named(each.value.__name__, each.name, f"what `{each.name}` gives, see there.")
    waiting = [
        (text, member.names)
        for subject in (*named(), *handles())
        for member in _members(subject)
        for text in member.texts()
    ]
    seen = set()
    while waiting:
        text, names = waiting.pop()
        for name in re.findall(r"(?<![\w.\"'])[A-Z]\w*", str(text)):
            value = _meant(name, names)
            if (name, id(value)) in seen or id(value) in documented:
                continue
            seen.add((name, id(value)))
            if inspect.isclass(value):
                if value.__module__.startswith("lancewood."):
                    yield Named(name, value.__module__, _class_in_short(value))
            elif alias := _alias(name, value):
                module, meaning, told = alias
                yield Named(name, module.__name__, " ".join([f"`{meaning}`.", told]).rstrip())
                waiting.append((meaning, vars(module)))


def _meant(name: str, names: dict[str, Any]) -> Any:
    """What a name stands for in a module, also one that the module imports for type checkers."""
    if name in names:
        return names[name]
    for node in ast.walk(_tree(sys.modules[names["__name__"]])):
        if isinstance(node, ast.ImportFrom) and name in {each.name for each in node.names}:
            origin = str(node.module)
            return getattr(import_module(origin), name) if origin.startswith("lancewood.") else None
    return None


def _class_in_short(of: type) -> str:
    is_plain = dataclasses.is_dataclass(of) or hasattr(of, "_fields")
    members = [each for group in _groups(of) for each in group.members]
    fields = [f"`{each.name}`" for each in members if each.signature is None]
    listed = f"Fields: {', '.join(fields)}." if is_plain else ""
    return f"{told_of(of)} {listed}".strip()


def _alias(name: str, value: Any) -> tuple[ModuleType, str, str] | None:
    """The module of ours that defines an alias, its meaning and what is said below it; the one
    that defines it under this name, if there are several. None for what is not ours."""
    if value is None or getattr(typing, name, None) is value:
        return None
    homes = [
        (known != name, path, known)
        for path, module in sys.modules.items()
        if path.startswith("lancewood.")
        for known, each in vars(module).items()
        if each is value and re.search(rf"^{known}\b.* = ", _source(module), re.MULTILINE)
    ]
    if not homes:
        return None
    _, path, known = min(homes)
    module = sys.modules[path]
    return module, *_assigned(_tree(module).body)[known]


@cache
def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(_source(module))


@cache
def _source(module: ModuleType) -> str:
    return inspect.getsource(module)


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {PAGE}")
