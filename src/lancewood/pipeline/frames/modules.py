"""The Python of a pipeline: from ``module:function`` to the function, first beside the file.

A module beside the file is loaded afresh for each run and then forgotten, as two pipelines may have
modules of one name. Since it cannot be imported, its functions travel to executors by value, with
what they use of other modules beside the file. Modules from elsewhere are imported as usual, and
executors must have them too.
"""

from __future__ import annotations

import importlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from lancewood.pipeline.definition.model import Spot
from lancewood.pipeline.definition.refusal import near, wrong

_NEVER = frozenset(["__main__", "lancewood", "pyspark_lance", *sys.stdlib_module_names])
"""Modules that are not looked for beside the file."""
_loading = threading.RLock()
_INIT = "__init__.py"


@dataclass
class Modules:
    """The modules of one run, each loaded once."""

    folder: Path
    """The directory of the pipeline file."""
    _loaded: dict[str, ModuleType] = field(default_factory=dict)
    _beside: dict[str, ModuleType] = field(default_factory=dict)
    """What was loaded from the folder, including modules that others import."""

    def function(self, named: str, spot: Spot) -> Callable[..., Any]:
        """What ``module:function`` names; raises InvalidInputError if it is missing or not
        callable."""
        module_name, _, function_name = named.partition(":")
        found: Any = self._module(module_name, spot)
        for part in function_name.split("."):
            if not hasattr(found, part):
                callables = [name for name in vars(found) if callable(getattr(found, name))]
                raise wrong(
                    spot,
                    f"{named!r}: {_location(found)} has no {part!r}; "
                    + near(part, (each for each in callables if not each.startswith("_"))),
                )
            found = getattr(found, part)
        if not callable(found):
            raise wrong(spot, f"{named!r} is a {type(found).__name__}, not a function")
        return found  # type: ignore[no-any-return]

    def _module(self, name: str, spot: Spot) -> ModuleType:
        known = self._loaded.get(name)
        if known is None:
            try:
                known = self._loaded[name] = self._load(name)
            except ModuleNotFoundError as missing:
                if missing.name is None or not f"{name}.".startswith(f"{missing.name}."):
                    raise wrong(spot, f"module {name!r} does not load: {missing}") from missing
                raise wrong(
                    spot,
                    f"there is no module {name!r}, neither beside the file in {self.folder} nor "
                    "among the packages of this Python",
                ) from missing
            except Exception as error:
                raise wrong(
                    spot, f"module {name!r} does not load: {type(error).__name__}: {error}"
                ) from error
        return known

    def _load(self, name: str) -> ModuleType:
        if not self._is_beside(name.partition(".")[0]):
            return importlib.import_module(name)
        with _loading, self._first(), self._apart():
            # Modules loaded later import the same objects as earlier ones.
            sys.modules.update(self._beside)
            found = importlib.import_module(name)
            self._beside.update(self._those_beside())
        return found

    def _is_beside(self, top: str) -> bool:
        locations = (self.folder / f"{top}.py", self.folder / top / "__init__.py")
        return top not in _NEVER and any(each.is_file() for each in locations)

    def _those_beside(self) -> dict[str, ModuleType]:
        """The loaded modules whose names stand for something in the folder."""
        tops: dict[str, bool] = {}
        found = {}
        for name, module in list(sys.modules.items()):
            top = name.partition(".")[0]
            if top not in tops:
                tops[top] = self._is_beside(top)
            if tops[top]:
                found[name] = module
        return found

    @contextmanager
    def _first(self) -> Iterator[None]:
        """Put the folder first on the path inside the block; nothing is written into it."""
        location, was = str(self.folder), sys.dont_write_bytecode
        importlib.invalidate_caches()
        sys.path.insert(0, location)
        sys.dont_write_bytecode = True
        try:
            yield
        finally:
            sys.dont_write_bytecode = was
            sys.path.remove(location)

    @contextmanager
    def _apart(self) -> Iterator[None]:
        """Hide modules of the same names from elsewhere inside the block."""
        others = self._those_beside()
        for each in others:
            del sys.modules[each]
        try:
            yield
        finally:
            for each in self._those_beside():
                del sys.modules[each]
            sys.modules.update(others)


def _location(found: Any) -> str:
    return str(getattr(found, "__file__", None) or getattr(found, "__name__", repr(found)))
