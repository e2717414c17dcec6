"""Lines on a terminal: they break between words, and never inside what is meant for copying."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from knockout.lines import print_lines, wrapped
from knockout.plurals import plural

AGAIN = "knockout run studies/mine.toml --results 'my results' --set train.epochs=1"


def test_words_stay_whole_and_a_line_goes_on_below_its_first_letter() -> None:
    text = (
        "mine.toml: vriants: unknown key\n    allowed: "
        + ", ".join(f"a_name_{i}" for i in range(30))
        + "\n- "
        + "word " * 30
    )
    lines = wrapped(Text(text), 60).plain.splitlines()
    assert max(map(len, lines)) <= 60
    assert all(line.startswith("    ") for line in lines[1:-3])
    assert lines[-1].startswith("  word")
    assert " ".join(" ".join(lines).split()) == " ".join(text.split())


@pytest.mark.parametrize("width", [20, 60, 80, 200])
def test_what_is_meant_for_copying_stays_whole(width: int) -> None:
    named = '--only: "a variant of mine" is not run; repeat the option: `--only a --only b`'
    text = f"{named}\n  {AGAIN} {AGAIN}\nstopped by a signal; continue with: {AGAIN}"
    lines = wrapped(Text(text), width, whole=AGAIN).plain.splitlines()
    assert f"  {AGAIN} {AGAIN}" in lines
    assert sum(line.endswith(AGAIN) for line in lines) == 2
    for part in ('"a variant of mine"', "`--only a --only b`"):
        assert any(part in line for line in lines)


def test_wide_characters_and_styles_are_kept() -> None:
    text = Text.from_markup("[red]knockout:[/red] " + "無残差 " * 30)
    lines = wrapped(text, 40).split("\n")
    assert max(cell_len(line.plain) for line in lines) <= 40
    assert [span.style for span in lines[0].spans] == ["red"]


@pytest.mark.parametrize(("terminal", "columns", "lines"), [(True, "", 3), (False, "", 1), (False, "60", 3)])
def test_a_pipe_gets_whole_lines(terminal: bool, columns: str, lines: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    console = Console(file=io.StringIO(), force_terminal=terminal, width=60, legacy_windows=False, color_system=None)
    print_lines(console, Text("some words " * 15))
    assert isinstance(console.file, io.StringIO)
    assert len(console.file.getvalue().splitlines()) == lines


def test_plurals() -> None:
    assert [plural(n, "run") for n in (0, 1, 2, 1200)] == ["0 runs", "1 run", "2 runs", "1,200 runs"]
    assert plural(2, "class") == "2 classes"
