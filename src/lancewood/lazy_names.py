"""Packages whose names are loaded when they are first asked for, so that nobody waits for what he
does not use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: dict[str, Any], homes: Mapping[str, str], rooms: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package; ``homes`` says which module has a name,
    ``rooms`` are packages inside the package.

    ``package`` are the package's ``globals()``. Under ``if TYPE_CHECKING`` it imports the same
    names, for those who read types.
    """

    def __getattr__(name: str) -> Any:
        if name in rooms:
            return import_module(f"{package['__name__']}.{name}")
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        found = package[name] = getattr(import_module(home), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*package, *homes, *rooms})

    return __getattr__, __dir__
