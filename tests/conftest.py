"""What several test files share."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from knockout import terminal

SCREEN = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE")
"""Variables by which a user says what the terminal is like."""

for name in SCREEN:  # also for the processes that tests start
    os.environ.pop(name, None)
    os.unsetenv(name)  # readline, which pytest imports, sets COLUMNS where os.environ does not see it


@pytest.fixture(autouse=True)
def screen_as_in_a_pipe() -> Iterator[None]:
    """No test depends on the terminal that the tests are started from, and none leaves a variable for the next."""
    with pytest.MonkeyPatch.context() as patch:
        for name in SCREEN:
            patch.delenv(name, raising=False)
        for console in (terminal.out, terminal.err):
            patch.setattr(console, "width", terminal.PIPE_WIDTH)
        yield
        left = [name for name in SCREEN if name in os.environ]
        assert not left, f"the test left {left} in the environment"


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
