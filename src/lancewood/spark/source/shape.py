"""What Spark demands of a Python source: classes derived from pyspark's, and rows in a given shape.

pyspark is not loaded when our classes are imported. A module with such classes lists them and makes
them on demand in its ``__getattr__``; they pickle by name like any other.

``.schema(…)`` may name fewer columns, in another order, and declare all of them nullable. It cannot
change the type of a column. Values are not copied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from inspect import isfunction
from types import new_class
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lancewood.errors import InvalidInputError, UnsupportedError
from lancewood.spark.running.failures import telling_sentence_first
from lancewood.spark.types import handed_over
from lancewood.version import how_to_install

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def spark_class(
    namespace: dict[str, Any], classes: Mapping[str, tuple[type, *tuple[str, ...]]], name: str
) -> Any:
    """The class that a module calls ``name``: ours, derived from pyspark's as well.

    ``classes`` has our classes and the full names of pyspark's. Errors of its methods are told
    with their sentence first. The class is put into ``namespace``, the module's. Raises
    AttributeError for a name that is not listed, as a module does.
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
        for each in reversed(own.__mro__[:-1]):
            for name, method in vars(each).items():
                is_called = name == "__init__" or not name.startswith("_")
                if isfunction(method) and is_called:
                    body[name] = telling_sentence_first(method)

    return namespace.setdefault(name, new_class(name, (own, *bases), exec_body=fill))


def _found(full_name: str) -> Any:
    module, _, name = full_name.rpartition(".")
    return getattr(import_module(module), name)


@dataclass(frozen=True)
class BatchShape:
    """The schema that every batch is to have."""

    schema: pa.Schema

    def fit(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch in this schema."""
        columns = [batch.column(each.name).cast(each.type) for each in self.schema]
        if not columns:
            return batch.select([])
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def check_names(asked: StructType, known: Sequence[str]) -> list[str]:
    """The columns that a schema names; raises InvalidInputError for an unknown one."""
    names = [each.name for each in asked.fields]
    there = frozenset(known)
    for each in names:
        if each not in there:
            near = get_close_matches(each, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
            raise InvalidInputError(
                f"the schema names column {each!r}, which is not there; {hint}", column=each
            )
    return names


def shape_of(asked: StructType, given: StructType) -> BatchShape | None:
    """How ``given`` becomes ``asked``; None if they are the same.

    Raises InvalidInputError for another type, and for a nullable column that is declared not to be.
    """
    if asked == given:
        return None
    types = {each.name: each.dataType.simpleString() for each in given.fields}
    for each in asked.fields:
        if each.dataType.simpleString() != types[each.name]:
            raise InvalidInputError(
                f"the schema says that column {each.name!r} is {each.dataType.simpleString()}, it "
                f"is {types[each.name]}; leave the schema out, and cast the column afterwards",
                column=each.name,
            )
    wanted, there = handed_over(asked), handed_over(given)
    for field in wanted:
        _check_nulls(field.name, field, there.field(field.name))
    return None if wanted.equals(there) else BatchShape(wanted)


def _check_nulls(path: str, wanted: pa.Field, there: pa.Field) -> None:
    if there.nullable and not wanted.nullable:
        raise InvalidInputError(
            f"the schema says that {path!r} is never null, the table does not promise it; say that "
            "it may be null",
            column=path,
        )
    for at in range(there.type.num_fields):
        child = there.type.field(at)
        _check_nulls(f"{path}.{child.name}", wanted.type.field(at), child)
