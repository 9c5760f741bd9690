"""Numbers as floats of a narrower type: what such a type cannot hold is an error, not infinity."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def as_float(values: Any, target: pa.DataType) -> Any:
    """The float of a type that is nearest to each number.

    Raises ArrowInvalid for a finite number that would become infinite.
    """
    numbers = values if pt.is_floating(values.type) else values.cast(pa.float64(), safe=False)
    made = numbers.cast(target, safe=False)
    check_finite(numbers, made)
    return made


def check_finite(values: Any, made: Any) -> None:
    """Raise ArrowInvalid where a cast made a finite number infinite, in lists and structs too."""
    kind = made.type
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        check_finite(values.flatten(), made.flatten())
    elif pt.is_struct(kind):
        for name in (each.name for each in kind):
            check_finite(pc.struct_field(values, [name]), pc.struct_field(made, [name]))
    elif pt.is_floating(kind) and values.type != kind and not pt.is_null(values.type):
        numbers = values if pt.is_floating(values.type) else values.cast(pa.float64(), safe=False)
        grown = pc.and_(pc.is_inf(made.cast(pa.float64())), pc.is_finite(numbers))
        if pc.any(grown).as_py():
            value = numbers.filter(grown)[0].as_py()
            raise pa.ArrowInvalid(f"{value} is too large for {kind}")
