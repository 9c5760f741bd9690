"""Work in a process that may take only a little more memory than it has when the work begins."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent

_PRELUDE = """
import resource, sys
from lancewood.errors import LancewoodError
{imports}

with open("/proc/self/statm") as file:
    held = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + {more}, held + {more}))
try:
    {act}
except (LancewoodError, MemoryError) as error:
    print(type(error).__name__, error, sep=": ")
"""


def bounded(imports: str, act: str, *args: str, megabytes: int = 200) -> str:
    """What the work prints, or the error that it ends with; ``args`` are ``sys.argv[1:]``."""
    work = dedent(act).strip().replace("\n", "\n    ")
    code = _PRELUDE.format(imports=dedent(imports), act=work, more=megabytes << 20)
    done = subprocess.run(
        [sys.executable, "-c", code, *args], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
