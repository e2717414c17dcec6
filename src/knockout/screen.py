"""Standard output and standard error as places that may go away: a closed pipe or terminal, a full disk.

What a command does must not end because it cannot be watched.
"""

import contextlib
import os
import sys
from typing import Literal, TextIO


class Screen:
    """A standard stream that drops what it cannot write. `lost` says why; `None` while all goes well."""

    def __init__(self, name: Literal["stdout", "stderr"]) -> None:
        self._name = name
        self.lost: OSError | ValueError | None = None

    def _stream(self) -> TextIO | None:
        stream: TextIO | None = getattr(sys, self._name)
        return stream

    @property
    def encoding(self) -> str:
        return getattr(self._stream(), "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        try:
            stream = self._stream()
            return stream is not None and stream.isatty()
        except (OSError, ValueError):
            return False

    def fileno(self) -> int:
        stream = self._stream()
        if stream is None:
            raise OSError(f"{self._name} is closed")
        return stream.fileno()

    def write(self, text: str) -> int:
        stream = self._stream()
        if stream is not None:
            try:
                stream.write(text)
            except (OSError, ValueError) as error:
                self._lose(error)
        return len(text)

    def flush(self) -> None:
        stream = self._stream()
        if stream is not None:
            try:
                stream.flush()
            except (OSError, ValueError) as error:
                self._lose(error)

    def _lose(self, error: OSError | ValueError) -> None:
        if isinstance(error, UnicodeError):
            raise error
        self.lost = self.lost or error
        # Whoever else writes there, such as Python when it ends and empties its buffer, must not fail once more.
        stream = self._stream()
        if stream is None:
            return
        if stream.closed:
            setattr(sys, self._name, open(os.devnull, "w"))  # noqa: SIM115
            return
        with contextlib.suppress(OSError, ValueError):
            descriptor = os.open(os.devnull, os.O_WRONLY)
            os.dup2(descriptor, stream.fileno())
            os.close(descriptor)


stdout = Screen("stdout")
stderr = Screen("stderr")


def open_closed() -> None:
    """Open the null device for each standard stream that is closed: before Python started, or by a trainer.

    Else the next file that is opened takes its number, and whatever is printed below Python goes into that file.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        with contextlib.suppress(OSError):
            try:
                os.fstat(number)
            except OSError:
                os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
                os.set_inheritable(number, True)
            if getattr(sys, name) is None:
                setattr(sys, name, open(number, "r" if name == "stdin" else "w", closefd=False))  # noqa: SIM115
