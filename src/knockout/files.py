"""Files written whole: whoever reads sees the old file or the new one, never half of it, also after a power cut."""

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO


def replace_file(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file through `write`, which gets it open, under another name; sync it, and rename it to `path`.

    Raises `OSError` when the disk refuses: the old file, if there was one, is unchanged then.
    """
    temporary = path.with_name(f".{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)  # still there if the disk refused
    sync(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Write a text file whole, in UTF-8 with line feeds as they are."""
    replace_file(path, lambda file: file.write(text.encode()))


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
