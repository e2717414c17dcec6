"""design.json as the tests change it: without its checksum, as versions wrote it that had none."""

import json
from pathlib import Path
from typing import Any


def raw_design(root: Path) -> Any:
    """The content of a folder's design.json without its checksum."""
    value = json.loads((root / "design.json").read_text(encoding="utf-8"))
    value.pop("sha256", None)
    return value
