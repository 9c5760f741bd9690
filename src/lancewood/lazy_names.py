"""Packages that load a name when it is first asked for: nobody waits for what is not used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazy_names(
    package: dict[str, Any], modules: Mapping[str, str], faces: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    ``package`` are its ``globals()``, ``modules`` the names that it has from each module. Its other
    names, those that ``__all__`` lists besides, are from the ``faces``, packages of the same kind.
    Under ``if TYPE_CHECKING`` it imports all of them, for type checkers.
    """
    known = {name: module for module, names in modules.items() for name in names.split()}

    def __getattr__(name: str) -> Any:
        module = known.get(name)
        if module is None and name in package["__all__"]:
            module = next((each for each in faces if name in import_module(each).__all__), None)
        if module is None:
            raise AttributeError(f"module {package['__name__']!r} has no attribute {name!r}")
        found = package[name] = getattr(import_module(module), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*package, *package["__all__"]})

    return __getattr__, __dir__
