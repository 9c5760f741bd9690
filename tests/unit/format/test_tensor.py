"""The numbers of a model, from bytes of outside."""

from __future__ import annotations

import numpy as np
import pytest

from lancewood.errors import FormatError
from lancewood.format.container import decode_centroids, decode_tensor
from lancewood.proto.index_pb2 import Partitions, Tensor


def test_numbers_come_in_their_shape_and_type() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    data = Tensor(data_type=Tensor.FLOAT32, shape=[2, 3], data=values.tobytes())
    found = decode_tensor(data.SerializeToString(), "f")
    assert found.dtype == np.float32
    assert (found == values).all()


@pytest.mark.parametrize(
    "data",
    [
        b"\xff",
        Tensor(data_type=Tensor.BFLOAT16, shape=[1], data=b"12").SerializeToString(),
        Tensor(data_type=Tensor.FLOAT32, shape=[2], data=b"1234").SerializeToString(),
        Tensor(data_type=Tensor.FLOAT32, shape=[1 << 31, 1 << 31], data=b"").SerializeToString(),
    ],
)
def test_broken_numbers_are_an_error_that_names_the_file(data: bytes) -> None:
    with pytest.raises(FormatError, match="f: "):
        decode_tensor(data, "f")


def test_centroids_are_one_in_a_row() -> None:
    values = np.arange(6, dtype=np.float16).reshape(2, 3)
    numbers = Tensor(data_type=Tensor.FLOAT16, shape=[2, 3], data=values.tobytes())
    assert (
        decode_centroids(Partitions(centroids=numbers).SerializeToString(), "f") == values
    ).all()


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        Partitions().SerializeToString(),
        Partitions(
            centroids=Tensor(data_type=Tensor.FLOAT32, shape=[1], data=b"1234")
        ).SerializeToString(),
    ],
)
def test_partitions_without_centroids_are_an_error_that_names_the_file(data: bytes) -> None:
    with pytest.raises(FormatError, match="f: "):
        decode_centroids(data, "f")
