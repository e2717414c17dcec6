"""Copies of a study's file and plan in its folder: as they are now, and as they were when the first run started.

    study.toml, plan.toml               those of the newest `run`, and so of the report beside them
    study.first.toml, plan.first.toml   those of the first run

Folders of earlier versions have those of the first run only, as study.toml and plan.toml. design.json holds the sha256
of all of them, and so which is which.
"""

import hashlib
from pathlib import Path
from typing import Literal

from knockout.files import replace_text

Kind = Literal["study", "plan"]
KINDS: tuple[Kind, ...] = ("study", "plan")


def newest_path(root: Path, kind: Kind) -> Path:
    """The copy of the newest run."""
    return root / f"{kind}.toml"


def first_path(root: Path, kind: Kind) -> Path:
    """The copy of the first run."""
    return root / f"{kind}.first.toml"


def text_of(path: Path) -> str | None:
    """The text of a copy; `None` where there is none, or it is no text."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError, UnicodeDecodeError):
        return None


def copy_with(root: Path, kind: Kind, sha256: str, *, newest: bool = False) -> Path | None:
    """The copy whose text has this sha256, or `None`. Where both have it, the first one, or the `newest`."""
    paths = (first_path(root, kind), newest_path(root, kind))
    for path in reversed(paths) if newest else paths:
        text = text_of(path)
        if text is not None and _digest(text) == sha256:
            return path
    return None


def oldest_copy(root: Path) -> tuple[Path, Path] | None:
    """The oldest copies of study file and plan that are there, not checked; `None` where one of them is missing."""
    found = [[p for p in (first_path(root, k), newest_path(root, k)) if p.is_file()][:1] for k in KINDS]
    return (found[0][0], found[1][0]) if all(found) else None


def write_copies(root: Path, kind: Kind, text: str, *, first_sha256: str) -> None:
    """Keep the copy of the first run, which has this sha256, and make the newest one `text`. Each is written whole.

    A copy of the first run that is lost, and is neither the newest one nor `text`, stays lost.
    """
    newest, first = newest_path(root, kind), first_path(root, kind)
    known = copy_with(root, kind, first_sha256)
    if known != first:
        original = text if _digest(text) == first_sha256 else text_of(known) if known else None
        if original is not None:
            replace_text(first, original)
    if text_of(newest) != text:
        replace_text(newest, text)


def damaged_copies(root: Path, kind: Kind, *, now_sha256: str, first_sha256: str) -> list[tuple[Path, str]]:
    """The copies that are not what was copied, each with what is wrong in words."""
    newest, first = newest_path(root, kind), first_path(root, kind)
    found = []
    for path, known, when in (
        (newest, (now_sha256, first_sha256), "of the newest run"),
        (first, (first_sha256,), "of the first run"),
    ):
        text = text_of(path)
        if path.exists() and (text is None or _digest(text) not in known):
            found.append((path, f"{path.name}: not the file {when} any more"))
    if not newest.exists():
        found.append((newest, f"{newest.name}: missing"))
    if not first.exists() and copy_with(root, kind, first_sha256) is None:
        found.append((first, f"{first.name}: missing"))
    return found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
