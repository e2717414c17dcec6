"""What several test files share."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def write_study(tmp_path: Path) -> Callable[..., Path]:
    """`write_study(text, name="study")` writes a study file into the test's own folder and returns its path."""

    def write(text: str, name: str = "study") -> Path:
        path = tmp_path / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prepared data and tables of the test go here instead of the user's cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("KNOCKOUT_CACHE", str(folder))
    return folder
