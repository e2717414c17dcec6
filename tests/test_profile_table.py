"""profile.csv: what is written is read back, and a file that was cut or edited is not read."""

from pathlib import Path

import pytest

from knockout.profile_table import (
    COLUMNS,
    ENDINGS,
    RANGED,
    ProfileError,
    ProfileRow,
    profile_damage,
    read_profile,
    write_profile,
)

README = Path(__file__).parents[1] / "results" / "README.md"
ROWS = (
    ProfileRow(variant="baseline", run_id="a1", numbers={"parameters": 1200, "rounds": 3, "threads": 1}, texts={}),
    ProfileRow(variant="up", run_id="b2", numbers={"seconds_per_epoch": 0.1 + 0.2}, texts={"trouble": 'x, "y"\nz'}),
)


def test_a_table_reads_back_as_it_was_written(tmp_path: Path) -> None:
    assert read_profile(tmp_path) == ()
    write_profile(tmp_path, ROWS)
    first, second = read_profile(tmp_path)
    assert (first.variant, first.run_id, first.numbers) == ("baseline", "a1", ROWS[0].numbers)
    assert second.numbers == ROWS[1].numbers  # every digit
    assert second.texts["trouble"] == 'x, "y" z'  # one line


def test_no_flipped_bit_and_no_lost_line_passes(tmp_path: Path) -> None:
    path = write_profile(tmp_path, ROWS)
    whole, truth = path.read_bytes(), read_profile(tmp_path)
    header, first, second = whole.splitlines(keepends=True)
    damaged = [b"", header, header + first, first + second, whole[:-1] + b",x\n", whole + second, b"\xff" + whole]
    damaged += [whole[:i] + bytes([whole[i] ^ 4]) + whole[i + 1 :] for i in range(0, len(whole), 7)]
    damaged += [whole[:i] for i in range(0, len(whole) - 1, 50)]
    for content in damaged:
        path.write_bytes(content)
        with pytest.raises(ProfileError) as caught:
            read_profile(tmp_path)
        assert "\n" not in str(caught.value)
        assert profile_damage(tmp_path).startswith("profile.csv: ")
    path.write_bytes(whole)
    assert read_profile(tmp_path) == truth
    assert profile_damage(tmp_path) == ""


def test_a_folder_in_its_place_is_named(tmp_path: Path) -> None:
    (tmp_path / "profile.csv").mkdir()
    assert profile_damage(tmp_path) == "profile.csv: not readable (a folder)"


def test_every_column_is_explained() -> None:
    text = README.read_text(encoding="utf-8").partition("## profile.csv")[2].partition("\n## ")[0]
    derived = {f"{name}{ending}" for name in RANGED for ending in ENDINGS[1:]}
    for column in COLUMNS:
        if column not in derived:
            assert f"`{column}`" in text, column
    assert all(f"`{ending}`" in text for ending in ENDINGS[1:])
