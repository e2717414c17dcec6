"""Every object as text, and the JSON Schema of them all."""

import json
import math
import numbers
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from knockout.schema.check import Check
from knockout.schema.common import Value, Version
from knockout.schema.diff import Diff
from knockout.schema.judged import Compare, Report
from knockout.schema.status import Status


@dataclass(frozen=True, kw_only=True)
class Error:
    """What a user can mend, as standard error has it."""

    message: str


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Any command that ended with exit code 2. `command` is empty where none was named."""

    schema: Version
    command: str
    error: Error


Document = Check | Status | Report | Compare | Diff | Failure


def document_text(document: Document) -> str:
    """A document as one JSON object in ASCII, which every encoding has, with a line feed at its end."""
    return json.dumps(_plain(document), indent=2, allow_nan=False) + "\n"


def _plain(value: object) -> Value:
    """As JSON has it; null for NaN and infinity."""
    if is_dataclass(value):
        return {f.name: _plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value) if math.isfinite(value) else None
    if hasattr(value, "item"):  # numpy's bool
        return bool(value)
    raise TypeError(f"{type(value).__name__} is no value of a document")


def json_schema() -> dict[str, Any]:
    """The JSON Schema of all documents."""
    from pydantic import TypeAdapter

    made = TypeAdapter[Document](Document).json_schema(mode="serialization")
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "knockout --json", **made}


def schema_text() -> str:
    """docs/schema.json."""
    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
