"""The memory of this process: its resident size now, and its peak. Bytes."""

import contextlib
from pathlib import Path

import psutil


def resident_bytes() -> int:
    """The resident size of this process now."""
    return int(psutil.Process().memory_info().rss)


def reset_peak() -> None:
    """Start the count that `peak_bytes` reads at the resident size of now."""
    with contextlib.suppress(OSError):  # proc(5): "5" resets the high-water mark
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def peak_bytes() -> int:
    """The largest resident size of this process since `reset_peak`; without /proc, the resident size now."""
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
        return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
    return resident_bytes()
