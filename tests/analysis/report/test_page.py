"""The report in a real browser: it shows what it should, asks for nothing, and complains of nothing."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from knockout.analysis.report.write import write_report
from tests.analysis.conftest import BuildStudy

Browse = Callable[[Path], "subprocess.CompletedProcess[str]"]

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.fixture
def browse(tmp_path: Path) -> Browse:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; `make deps-debian` installs it")

    def open_page(page: Path) -> subprocess.CompletedProcess[str]:
        options = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
            *("--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--dump-dom"),
        ]
        command = [str(CHROMIUM), *options, f"--user-data-dir={tmp_path / 'profile'}", page.as_uri()]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return open_page


def test_the_page_shows_its_tables_and_figures_and_nothing_is_refused(browse: Browse, build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, 301, 299, 305, 303], "heads_1": [290, 288, 291, 287, 289]})
    write_report(root)
    seen = browse(root / "report.html")
    assert seen.returncode == 0, seen.stderr
    assert "heads_1" in seen.stdout
    assert seen.stdout.count("<svg") >= 2
    assert "<table" in seen.stdout
    complaints = [line for line in seen.stderr.splitlines() if "CONSOLE" in line or "Refused" in line]
    assert complaints == []


def test_a_request_from_the_page_would_have_been_noticed(browse: Browse, tmp_path: Path) -> None:
    """The test above can fail: Chromium does report what a policy refuses."""
    page = tmp_path / "page.html"
    policy = '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'">'
    page.write_text(
        f"<!doctype html><html><head>{policy}</head><body><img src='x.png'></body></html>", encoding="utf-8"
    )
    seen = browse(page)
    assert any("CONSOLE" in line for line in seen.stderr.splitlines()), seen.stderr
