"""Tables on any terminal: whole at 60 columns, aligned for wide characters, printable in any encoding."""

import io
import subprocess
import sys
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console

from knockout.terminal import NAMES, Column, encodable, fitted

COLUMNS = (
    Column(name="variant", folds=True, least=NAMES),
    Column(name="changes", folds=True, drop=2),
    Column(name="failed runs", right=True, drop=1),
    Column(name="difference [95 % CI]", right=True),
    Column(name="p (Holm)", right=True),
    Column(name="verdict", folds=True, below=True, verdict=True),
)
ROWS = (
    ("baseline", "", "0 of 10", "", "", "baseline"),
    ("no_residual", "residual: on → off", "0 of 10", "−1.21 [−1.80, −0.62]", ".005", "worse, exploratory"),
    ("無残差 🚀", "scale: sqrt_dk → none", "1 of 10", "+0.01 [−1.14, +1.15]", "1", "inconclusive, rests on seed 5"),
)  # fmt: skip


def drawn(width: int, rows: Sequence[Sequence[str]] = ROWS, *, terminal: bool = False, encoding: str = "utf-8") -> str:
    raw = io.BytesIO()
    console = Console(
        file=io.TextIOWrapper(raw, encoding=encoding, newline=""),
        width=width, force_terminal=terminal, color_system="standard" if terminal else None, legacy_windows=False,
    )  # fmt: skip
    console.print(fitted(COLUMNS, rows, console=console))
    console.file.flush()
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize("width", [60, 61, 72, 80, 100, 120, 200])
def test_nothing_that_counts_is_broken_from_60_columns_on(width: int) -> None:
    text = drawn(width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for whole in ("no_residual", "無残差 🚀", "−1.21 [−1.80, −0.62]", "+0.01 [−1.14, +1.15]", "worse", "inconclusive"):
        assert whole in text
    assert ("scale: sqrt_dk → none" in text) == (width >= 120)


@pytest.mark.parametrize("width", [60, 70, 80])
def test_several_columns_that_fold_fit_together_and_lose_no_letter(width: int) -> None:
    raw = io.StringIO()
    console = Console(file=raw, width=width)
    columns = (Column(name="name", folds=True, least=NAMES), Column(name="b", folds=True), Column(name="c", folds=True))
    row = ("a_name_of_twenty_char", " ".join(["words,"] * 12), " ".join(["others"] * 12))
    console.print(fitted(columns, [row], console=console))
    for cell in row:
        assert raw.getvalue().split().count(cell.split()[0]) == len(cell.split())


def test_wide_characters_do_not_move_the_columns_after_them() -> None:
    lines = [line for line in drawn(120).splitlines() if "[−" in line]
    ends = [cell_len(line[: line.index("]")]) for line in lines]
    assert len(lines) == 2
    assert ends[0] == ends[1]


def test_a_long_name_without_blanks_is_folded_and_kept_whole() -> None:
    name = "x" * 90
    text = drawn(60, [(name, "", "", "−1.21 [−1.80, −0.62]", "1", "worse")])
    assert text.count("x") == 90
    assert max(cell_len(line) for line in text.splitlines()) <= 60


def test_verdicts_are_coloured_on_a_terminal_unless_no_color_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = drawn(120, terminal=True)
    assert "\x1b[31mworse\x1b[0m, exploratory" in text
    assert "\x1b[33minconclusive" in text
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in drawn(120, terminal=True)
    assert "\x1b" not in drawn(120)


def test_markup_in_a_name_is_printed_as_it_is() -> None:
    assert "[red]a" in drawn(120, [("[red]a", "", "", "", "", "[bold]worse")])


def test_columns_are_aligned_where_the_encoding_lacks_characters() -> None:
    text = drawn(120, encoding="cp1252")
    assert "residual: on -> off" in text
    assert "-1.21 [-1.80, -0.62]" in text
    ends = [line.index("]") for line in text.splitlines() if "[-" in line]
    assert ends[0] == ends[1]
    assert encodable("無 ± −", "cp1252") == "? ± -"


def test_a_pipe_of_windows_takes_any_text() -> None:
    program = (
        "from knockout.terminal import err, out, write_any_text; write_any_text()\n"
        "out.print('−1 → 2 無'); err.print('≤ 🚀')"
    )
    environment = {"PYTHONIOENCODING": "cp1252", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout.decode("cp1252"), done.stderr.decode("cp1252")) == (0, "-1 -> 2 ?\n", "<= ?\n")
