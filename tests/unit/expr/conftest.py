"""Evaluating one SQL text over a few values, both ways, for every test of the room."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.acero as acero
import pytest

from lancewood.expr import parse_expression

Compute = Callable[..., list[Any]]


@pytest.fixture
def compute() -> Compute:
    """``compute(sql, parameters, a=array, …)``: the values, checked against to_pyarrow()'s."""

    def run(sql: str, parameters: Any = None, /, **columns: Any) -> list[Any]:
        arrays: Mapping[str, pa.Array] = {
            name: each if isinstance(each, pa.Array) else pa.array(each)
            for name, each in (columns or {"nothing": [1]}).items()
        }
        batch = pa.record_batch(arrays)
        expression = parse_expression(sql, batch.schema, parameters)
        array = expression.evaluate(batch)
        array.validate(full=True)
        assert array.type == expression.type
        found: list[Any] = array.to_pylist()
        assert _comparable(_through_acero(batch, expression.to_pyarrow())) == _comparable(found)
        return found

    return run


def _through_acero(batch: pa.RecordBatch, expression: Any) -> list[Any]:
    table = pa.Table.from_batches([batch])
    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(table))
    project = acero.Declaration("project", acero.ProjectNodeOptions([expression], ["r"]))
    plan = acero.Declaration.from_sequence([source, project])
    return list(plan.to_table(use_threads=False)["r"].to_pylist())


def _comparable(values: list[Any]) -> list[Any]:
    return ["nan" if isinstance(each, float) and math.isnan(each) else each for each in values]
