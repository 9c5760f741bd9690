"""Our .proto files, and the messages compiled from them."""

from __future__ import annotations

import warnings

from google.protobuf.internal import api_implementation

if api_implementation.Type() != "upb":
    warnings.warn(
        f"protobuf runs on its {api_implementation.Type()!r} implementation, which is much slower "
        "than 'upb'; unset PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION or install a binary wheel",
        RuntimeWarning,
        stacklevel=2,
    )
