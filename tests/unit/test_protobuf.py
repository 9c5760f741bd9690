from __future__ import annotations

import os
import subprocess
import sys

CODE = "import warnings; warnings.simplefilter('always'); import lancewood.proto"


def test_a_slow_protobuf_runtime_is_told() -> None:
    slow = {**os.environ, "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION": "python"}
    done = subprocess.run(
        [sys.executable, "-c", CODE], env=slow, capture_output=True, text=True, timeout=60
    )
    assert "much slower than 'upb'" in done.stderr
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60)
    assert "upb" not in done.stderr
