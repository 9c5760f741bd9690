"""Our classes as the classes that Spark asks for: made of them when somebody looks.

Spark's Python sources must derive from classes of pyspark, which is not loaded when ours are
imported. A module that has such classes lists them, and hands them out by its ``__getattr__``; they
pickle by name like any other. Knows nothing of tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import new_class
from typing import Any

from lancewood.errors import UnsupportedError
from lancewood.version import how_to_install


def spark_class(
    namespace: dict[str, Any], classes: Mapping[str, tuple[type, *tuple[str, ...]]], name: str
) -> Any:
    """The class that a module calls ``name``: ours, derived from some of pyspark's, too.

    ``classes`` has ours and the full names of Spark's. ``namespace`` is the module's; the class is
    put there. Raises AttributeError for a name that is not listed, as a module does.
    """
    module = namespace["__name__"]
    if name in namespace and name in classes:
        return namespace[name]
    if name not in classes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    own, *theirs = classes[name]
    try:
        bases = [_found(each) for each in theirs]
    except ImportError as missing:
        raise UnsupportedError(
            f'format("lance") needs pyspark, which does not import: {missing}. '
            f"Run {how_to_install('spark')}"
        ) from missing

    def fill(body: dict[str, Any]) -> None:
        body.update(__module__=module, __doc__=own.__doc__)

    return namespace.setdefault(name, new_class(name, (own, *bases), exec_body=fill))


def _found(full_name: str) -> Any:
    module, _, name = full_name.rpartition(".")
    return getattr(import_module(module), name)
