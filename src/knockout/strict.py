"""Strict reading of TOML into dataclasses. All faults of a file are reported at once, each with what is allowed."""

import dataclasses
import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_type_hints

import pydantic

from knockout.errors import UserError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_FILE_BYTES = 1_000_000

T = TypeVar("T")
D = TypeVar("D", bound="DataclassInstance")


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One error in a file: where it is, the value, what is allowed, and the nearest allowed name."""

    file: str
    key: str = ""
    got: str = ""
    allowed: str = ""
    nearest: str = ""

    def __str__(self) -> str:
        where = f"{self.file}: {self.key}" if self.key else self.file
        hint = f' (did you mean "{self.nearest}"?)' if self.nearest else ""
        return printable(": ".join(part for part in (where, self.got) if part) + hint) + (
            f"\n    allowed: {printable(self.allowed)}" if self.allowed else ""
        )


class Faults(list[Fault]):
    """The faults of one reading, collected."""

    def take(self, read: tuple[T, list[Fault]]) -> T:
        """The value that a reader returned; its faults are added."""
        value, faults = read
        self.extend(faults)
        return value


class FaultsError(UserError, ValueError):
    """A user's file is wrong. Holds all faults of the reading."""

    def __init__(self, faults: Iterable[Fault]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))


def printable(text: str) -> str:
    """The text with control characters and changes of writing direction replaced."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def nearest(name: object, allowed: Iterable[str]) -> str:
    """The allowed name that a misspelt one is closest to, or the empty string."""
    close = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6) if isinstance(name, str) else []
    return close[0] if close else ""


def shown(path: Path) -> str:
    """The path for a message: relative to the current folder where it is inside."""
    return os.path.relpath(path) if path.is_absolute() and path.is_relative_to(Path.cwd()) else str(path)


def got_text(value: object) -> str:
    """A value for a message, as JSON of at most 80 characters."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (RecursionError, ValueError):  # TOML can nest more deeply, and write longer integers, than Python prints
        return "a value too large to show"
    return text if len(text) <= 80 else text[:77] + "..."


def load_toml(path: Path) -> tuple[dict[str, Any] | None, str, list[Fault]]:
    """The content of a TOML file, its text and its faults. The content is `None` where there are any."""
    file = shown(path)
    try:
        return _load_toml(path, file)
    except OSError as error:  # a name that is too long, a file that may not be read
        return None, "", [Fault(file=file, got=f"not readable: {error.strerror}", allowed="a TOML file")]


def _load_toml(path: Path, file: str) -> tuple[dict[str, Any] | None, str, list[Fault]]:
    if not path.is_file():
        folder = path if path.is_dir() else path.parent
        others = sorted(p.name for p in folder.glob("*.toml")) if folder.is_dir() else []
        what = "is a folder" if path.is_dir() else "no such file"
        allowed = f"a TOML file; {folder} holds {', '.join(others) or 'none'}"
        stem = nearest(path.stem, [Path(name).stem for name in others])  # ".toml" alone is no likeness
        return None, "", [Fault(file=file, got=what, allowed=allowed, nearest=f"{stem}.toml" if stem else "")]
    if path.stat().st_size > MAX_FILE_BYTES:
        return (
            None,
            "",
            [Fault(file=file, got=f"{path.stat().st_size} bytes", allowed=f"at most {MAX_FILE_BYTES} bytes")],
        )
    try:
        text = path.read_text(encoding="utf-8-sig")
        return tomllib.loads(text), text, []
    except UnicodeDecodeError as error:
        return None, "", [Fault(file=file, got=f"no UTF-8 at byte {error.start}", allowed="TOML in UTF-8")]
    except tomllib.TOMLDecodeError as error:
        return None, "", [Fault(file=file, got=f"no TOML: {error}", allowed="TOML (https://toml.io)")]
    except ValueError:  # int() of thousands of digits
        return None, "", [Fault(file=file, got="no TOML: a number has too many digits", allowed="shorter numbers")]
    except RecursionError:
        return None, "", [Fault(file=file, got="no TOML: nested too deeply", allowed="TOML (https://toml.io)")]


def unknown_keys(raw: Mapping[str, Any], allowed: Iterable[str], file: str, table: str) -> list[Fault]:
    """A fault for every key that is not allowed."""
    allowed = list(allowed)
    return [
        Fault(
            file=file,
            key=f"{table}.{key}" if table else key,
            got="unknown key",
            allowed=", ".join(allowed),
            nearest=nearest(key, allowed),
        )
        for key in raw
        if key not in allowed
    ]


def build(cls: type[D], raw: Mapping[str, Any], file: str, table: str) -> tuple[D | None, list[Fault]]:
    """An instance of a dataclass from a TOML table, read strictly; `None` and the faults where that fails.

    Types are not converted, but for an integer where a float is asked for. Bounds (`ge`, `gt`, `le`, `lt`) stand in the
    metadata of the fields. `table` is the prefix of the keys in the faults.
    """
    names = [f.name for f in dataclasses.fields(cls)]
    faults = unknown_keys(raw, names, file, table)
    try:
        checked = _model(cls).model_validate({k: _tuples(v) for k, v in raw.items() if k in names})
    except pydantic.ValidationError as error:
        return None, faults + [_as_fault(e, file, table) for e in error.errors(include_url=False)]
    values = {name: getattr(checked, name) for name in names}
    plain = {k: v + 0.0 if isinstance(v, float) else v for k, v in values.items()}  # -0.0 is 0.0, also in a run's id
    return (None if faults else cls(**plain)), faults


@cache
def _model(cls: "type[DataclassInstance]") -> type[pydantic.BaseModel]:
    """A strict pydantic model with the fields, defaults and bounds of a dataclass."""
    hints = get_type_hints(cls)
    definitions: dict[str, Any] = {}
    for f in dataclasses.fields(cls):
        limits: dict[str, Any] = {k: v for k, v in f.metadata.items() if k in ("ge", "gt", "le", "lt")}
        limits |= {"allow_inf_nan": False} if hints[f.name] is float else {}
        required = f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        definitions[f.name] = (hints[f.name], pydantic.Field(... if required else f.default, **limits))
    return pydantic.create_model(cls.__name__, __config__=pydantic.ConfigDict(strict=True), **definitions)


def _tuples(value: Any) -> Any:
    return tuple(_tuples(v) for v in value) if isinstance(value, list) else value


def _as_fault(error: Any, file: str, table: str) -> Fault:
    context = error.get("ctx", {})
    key = ".".join(str(part) for part in (table, *error["loc"]) if part != "")
    if error["type"] == "missing":
        return Fault(file=file, key=key, got="missing", allowed="it must be given")
    got = f"got {got_text(error['input'])}"
    if error["type"] == "literal_error":
        allowed = context["expected"].replace("'", '"').replace(" or ", ", ")
        return Fault(
            file=file,
            key=key,
            got=got,
            allowed=allowed,
            nearest=nearest(error["input"], re.findall(r'"(.*?)"', allowed)),
        )
    signs = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
    limits = [f"{sign} {context[name]}" for name, sign in signs.items() if name in context]
    allowed = f"a number {limits[0]}" if limits else error["msg"].removeprefix("Input should be ")
    return Fault(file=file, key=key, got=got, allowed=allowed)
