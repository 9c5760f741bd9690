"""Packages that load a name when it is first asked for: nobody waits for what is not used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    package: dict[str, Any], modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package; ``modules`` says which module has a name.

    ``package`` are the package's ``globals()``. Under ``if TYPE_CHECKING`` it imports the same
    names, for those who read types.
    """

    def __getattr__(name: str) -> Any:
        module = modules.get(name)
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        found = package[name] = getattr(import_module(module), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*package, *modules})

    return __getattr__, __dir__
