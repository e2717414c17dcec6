"""`--open` shows the page that was written, and says where it is if no browser opens."""

import webbrowser
from pathlib import Path

import pytest

from tests.command_line import knockout

RUNS = "variant,seed,accuracy\n" + "".join(
    f"{name},{seed},{0.8 + seed / 1000 + worth}\n" for name, worth in (("a", 0.0), ("b", 0.01)) for seed in range(3)
)
ASKED = ("compare", "runs.csv", "--baseline", "a", "--unpaired", "--open")


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The addresses that a browser is asked for."""
    seen: list[str] = []

    def show(url: str) -> bool:
        seen.append(url)
        return True

    (tmp_path / "runs.csv").write_text(RUNS, encoding="utf-8")
    monkeypatch.setattr(webbrowser, "open", show)
    monkeypatch.setenv("DISPLAY", ":7")
    return seen


@pytest.mark.parametrize("options", [(), ("--quiet",), ("--json",)])
def test_the_page_opens_and_nothing_more_is_said(options: tuple[str, ...], opened: list[str], tmp_path: Path) -> None:
    done = knockout(*ASKED, *options, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert opened == [(tmp_path / "runs_report" / "report.html").as_uri()]
    assert "no browser" not in done.stderr


def test_without_the_option_nothing_opens(opened: list[str], tmp_path: Path) -> None:
    assert knockout(*ASKED[:-1], cwd=tmp_path).returncode == 0
    assert opened == []


@pytest.mark.parametrize("case", ["no screen", "it refuses", "it fails"])
def test_where_no_browser_opens_the_path_is_printed(
    case: str, opened: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: str) -> bool:
        if case == "it fails":
            raise webbrowser.Error("could not locate runnable browser")
        return False

    if case == "no screen":
        monkeypatch.setattr("sys.platform", "linux")
        for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
            monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setattr(webbrowser, "open", fail)
    done = knockout(*ASKED, cwd=tmp_path)
    assert done.returncode == 0
    assert opened == []
    assert str(tmp_path / "runs_report" / "report.html") in done.stderr.replace("\n", "")
