"""Values that `--set KEY=VALUE` puts in the place of a study file's, and their lines in the copies of that file.

A copy ends with one comment for each of them, so that it says what was run, and its sha256 differs from the file's.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from typing import Any

from knockout.strict import Fault, FaultsError, got_text

HEAD = "# Set on the command line (--set), in place of the values above:"
LINE = "# set: "
BARE = re.compile(r"[A-Za-z_./~][\w./:~-]*")
"""A value that need not be quoted: a word, a path, or a trainer."""
FORM = "KEY=VALUE with a dotted key and a TOML value, such as train.epochs=1 or model.d_model=32"


def override_lines(given: Sequence[str]) -> tuple[str, ...]:
    """Each `KEY=VALUE` as a line of TOML, a bare word quoted. Raises `FaultsError` with all that are none."""
    lines, faults = [], []
    for text in given:
        key, equals, value = (part.strip() for part in text.partition("="))
        line = f"{key} = {value}"
        if not _single(line) and BARE.fullmatch(value):
            line = f"{key} = {json.dumps(value)}"
        if equals and _single(line):
            lines.append(line)
        else:
            faults.append(Fault(file="--set", got=f"got {got_text(text)}{_repeated(text)}", allowed=FORM))
    if faults:
        raise FaultsError(faults)
    return tuple(lines)


def with_lines(text: str, lines: Sequence[str]) -> str:
    """The text of a study file with the lines that were set, as comments at its end."""
    if not lines:
        return text
    end = "" if text.endswith("\n") else "\n"
    return f"{text}{end}\n{HEAD}\n" + "".join(f"{LINE}{line}\n" for line in lines)


def lines_in(text: str) -> tuple[str, ...]:
    """The lines at the end of a copy that say what was set; none in a study file as its author wrote it."""
    _, head, end = text.rpartition(f"\n{HEAD}\n")
    lines = end.splitlines()
    if not head or not all(line.startswith(LINE) and _single(line.removeprefix(LINE)) for line in lines):
        return ()
    return tuple(line.removeprefix(LINE) for line in lines)


def apply_lines(raw: dict[str, Any], lines: Sequence[str], file: str) -> list[Fault]:
    """Set the values in the content of a study file, in order. Returns a fault for each key inside what is no table."""
    faults = []
    for line in lines:
        path, value = _parsed(line)
        table = raw
        for i, key in enumerate(path[:-1]):
            if path[:1] == ["plan"] and isinstance(raw.get("plan"), str):
                raw["plan"] = {"file": raw["plan"]}  # `plan = "plan.toml"` is short for this
            if path[:1] == ["baseline"] and isinstance(raw.get("baseline"), str):
                raw["baseline"] = {"system": raw["baseline"]}
            inner = table.setdefault(key, {})
            if not isinstance(inner, dict):
                at = ".".join(path[: i + 1])
                got = f"--set {line}: {at} is {got_text(inner)}"
                faults.append(Fault(file=file, key=".".join(path), got=got, allowed=f"a new value for {at} as a whole"))
                break
            table = inner
        else:
            table[path[-1]] = value
    return faults


def content(text: str) -> dict[str, Any]:
    """What a copy says was run: its TOML, with what was set. Raises `tomllib.TOMLDecodeError`."""
    raw = tomllib.loads(text)
    apply_lines(raw, lines_in(text), "")
    return raw


def _parsed(line: str) -> tuple[list[str], Any]:
    """The parts of a dotted key, and the value."""
    keys: Any = tomllib.loads(f"{line.partition('=')[0]} = 0")
    path, value = [], tomllib.loads(line)
    while isinstance(keys, dict):
        ((key, keys),) = keys.items()
        path.append(key)
        value = value[key]
    return path, value


def _repeated(text: str) -> str:
    """How several pairs are given that were written as one list with commas; "" where they are none."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) < 2 or not all("=" in part for part in parts):
        return ""
    return f"; repeat the option: `{' '.join(f'--set {shlex.quote(part)}' for part in parts)}`"


def _single(line: str) -> bool:
    """Whether a line is TOML that sets one key."""
    if not line.isprintable() or len(line) > 2000:
        return False
    try:
        _parsed(line)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return True
