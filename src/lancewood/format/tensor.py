"""The numbers of a model inside the files of an index: bytes to an array. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message
from numpy.typing import NDArray

from lancewood.errors import FormatError
from lancewood.proto import index_pb2

_M = TypeVar("_M", bound=Message)
_Tensor = index_pb2.Tensor
_TYPES: Mapping[int, np.dtype[Any]] = {
    _Tensor.FLOAT16: np.dtype("<f2"),
    _Tensor.FLOAT32: np.dtype("<f4"),
    _Tensor.FLOAT64: np.dtype("<f8"),
    _Tensor.UINT8: np.dtype("u1"),
}


def decode_tensor(data: bytes, name: str) -> NDArray[Any]:
    """The array in the bytes of a ``Tensor``; raises FormatError, which names the file."""
    return _array(_parsed(_Tensor, data, name), name)


def decode_centroids(data: bytes, name: str) -> NDArray[Any]:
    """The centroids in the bytes of ``Partitions``, one in a row; raises FormatError, too."""
    message = _parsed(index_pb2.Partitions, data, name)
    found = _array(message.centroids, name)
    if found.ndim != 2 or not found.size:
        raise FormatError(f"{name}: has partitions without centroids", file=name)
    return found


def _parsed(kind: type[_M], data: bytes, name: str) -> _M:
    try:
        return kind.FromString(data)
    except DecodeError as cause:
        raise FormatError(f"{name}: the numbers of a model cannot be read", file=name) from cause


def _array(message: index_pb2.Tensor, name: str) -> NDArray[Any]:
    kind = _TYPES.get(message.data_type)
    if kind is None:
        raise FormatError(f"{name}: a model has numbers of type {message.data_type}", file=name)
    if len(message.data) != math.prod(message.shape) * kind.itemsize:
        raise FormatError(
            f"{name}: a model of shape {tuple(message.shape)} has {len(message.data)} bytes of "
            f"{kind}",
            file=name,
        )
    return np.frombuffer(message.data, kind).reshape(tuple(message.shape))
