"""Facts about the machine and the versions that a result depends on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

PACKAGES = ("lancewood", "pylance", "pyarrow", "protobuf", "numpy", "obstore")


def machine_facts() -> dict[str, str]:
    """Name and value, in the order in which they are printed."""
    cores = len(os.sched_getaffinity(0))
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "processor": f"{_processor()}, {cores} cores",
        "memory": f"{gigabytes:.0f} GB",
        "system": f"{platform.system()} {platform.release()}",
        "load average at the start": f"{os.getloadavg()[0]:.2f}",
        "Python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def is_busy() -> bool:
    """Whether others were using the machine: figures of such a run say little."""
    return os.getloadavg()[0] > 0.5


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [each.split(":", 1)[1].strip() for each in lines if each.startswith("model name")]
    return names[0] if names else platform.machine()
