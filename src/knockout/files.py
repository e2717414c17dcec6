"""Files written whole: whoever reads sees the old file or the new one, never half of it, also after a power cut."""

import contextlib
import json
import os
import re
import shutil
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

import psutil

ABANDONED_SECONDS = 24 * 3600.0
"""Age from which a temporary file is taken for abandoned whose process cannot be seen from here."""

_TEMPORARY = re.compile(r"\..+?-(?:(?P<host>[^-]+)-(?P<pid>\d+)-)?[0-9a-f]{8}")


def temporary_beside(path: Path) -> Path:
    """Another name in the same folder, to be renamed to `path`. It says which process writes there."""
    return path.with_name(f".{path.name}-{_host()}-{os.getpid()}-{uuid.uuid4().hex[:8]}")


def clear_temporary(folders: Iterable[Path]) -> list[Path]:
    """Remove from these folders what `temporary_beside` named and no living process writes; return what is removed.

    Only names directly in a folder are looked at. One of another host, or without a process, goes after a day.
    """
    removed = []
    for folder in folders:
        with contextlib.suppress(OSError):
            for path in [path for path in folder.iterdir() if _abandoned(path)]:
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                removed.append(path)
    return removed


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9.]", "_", socket.gethostname())


def _abandoned(path: Path) -> bool:
    named = _TEMPORARY.fullmatch(path.name)
    if named is None:
        return False
    made = path.lstat().st_mtime
    if named["host"] != _host():
        return time.time() - made > ABANDONED_SECONDS
    try:  # a later process may have got the number of the one that died
        return bool(psutil.Process(int(named["pid"])).create_time() > made + 1.0)
    except psutil.NoSuchProcess:
        return True
    except psutil.Error:
        return False


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file through `write`, which gets it open, under another name; sync it, and rename it to `path`.

    Raises `OSError` when the disk refuses: the old file, if there was one, is unchanged then.
    """
    temporary = temporary_beside(path)
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        error.filename = str(path)  # a write that fails does not say where, and the other name says nothing to a user
        error.filename2 = None
        raise
    finally:
        temporary.unlink(missing_ok=True)  # still there if the disk refused
    sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole, in UTF-8 with line feeds as they are."""
    replace_bytes(path, text.encode())


def replace_bytes(path: Path, content: bytes) -> None:
    """Write a file of these bytes whole."""
    replace_file(path, lambda file: file.write(content))


def replace_json(path: Path, value: Any) -> None:
    """Write a JSON file whole, as `json_text`."""
    replace_text(path, json_text(value))


def json_text(value: Any) -> str:
    """Strict JSON: no NaN tokens, keys sorted, one line feed at the end."""
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"


def sync(path: Path) -> None:
    """Wait until a file or a folder is on the disk."""
    if os.name == "nt" and path.is_dir():  # Windows opens no folders
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
