"""The report in a browser."""

import os
import sys
import webbrowser
from pathlib import Path

from knockout.terminal import err, say


def show_page(path: Path, *, wanted: bool) -> None:
    """Open a page in the user's browser where that is `wanted`; say on standard error where there is none.

    On Linux a browser without a screen would take the terminal: then nothing is started.
    """
    if not wanted:
        return
    if not has_screen() or not _opened(path):
        say("no browser opens here; the page is at:", whole=str(path.resolve()), console=err)


def has_screen() -> bool:
    """Whether a browser window could be shown here."""
    named = any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"))
    return named or sys.platform in ("darwin", "win32")


def _opened(path: Path) -> bool:
    try:
        return webbrowser.open(path.resolve().as_uri())
    except (webbrowser.Error, OSError):
        return False
