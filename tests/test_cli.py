"""The command line as a person meets it: what is printed, what is written, how it ends."""

import dataclasses
import io
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from knockout.terminal import out, working
from knockout.variants import SYSTEMS, VARIANTS, Factors, Recipe
from tests.command_line import knockout

REPOSITORY = Path(__file__).parents[1]


def test_list_names_every_variant_with_what_differs_and_the_paper(tmp_path: Path) -> None:
    told = knockout("list", cwd=tmp_path)
    assert told.returncode == 0
    for name in VARIANTS:
        assert re.search(rf"^{name}\b", told.stdout, re.MULTILINE), name
    assert "num_heads: 8 -> 16" in told.stdout
    assert "norm: pre -> post" in told.stdout
    assert "Xiong et al. 2020" in told.stdout
    for name, system in SYSTEMS.items():
        assert re.search(rf"^{name}\b", told.stdout, re.MULTILINE), name
        for key, value in system.recipe.items():
            assert f"{key} {value}" in " ".join(told.stdout.split())


@pytest.mark.parametrize("width", [60, 80, 120])
def test_list_shows_all_choices_bounds_and_defaults_at_any_width(
    width: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(out, "width", width)
    told = knockout("list", cwd=tmp_path).stdout
    assert max(map(len, told.splitlines())) <= width
    words = " ".join(told.split())
    for cls in (Factors, Recipe):
        for field in dataclasses.fields(cls):
            assert re.search(rf"^\S*\b{field.name} .* {re.escape(json.dumps(field.default))} *$", told, re.MULTILINE)
    for part in ('"pre", "post", "none"', "a number >= 0 and < 1", "an integer >= 1"):
        assert part in words
    for word in ("([CLS]);", "Gurevych", "2019,", "Post-LN;"):  # of the papers, nothing is cut off at the right
        assert word in told.split()


@pytest.mark.parametrize("arguments", [("--help",), ("list",), ("run", "--help")])
def test_help_and_list_load_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    program = (
        "import sys\nfrom knockout.cli import app\n"
        f"try: app({list(arguments)!r})\nexcept SystemExit: pass\n"
        "heavy = {'torch', 'optuna', 'datasets', 'pandas', 'scipy', 'matplotlib', 'pyarrow'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert "heavy: []" in done.stdout, done.stdout + done.stderr


def test_check_says_what_runs_and_what_it_can_show(tmp_path: Path) -> None:
    told = knockout("check", str(REPOSITORY / "ablations" / "quick.toml"), cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "10 variants and the baseline x 12 seeds = 132 runs" in told.stdout
    assert "post_norm" in told.stdout
    assert "norm: pre -> post" in told.stdout
    assert "equivalent" in told.stdout
    assert list(tmp_path.iterdir()) == []


BAD = """
question = "what is wrong here?"
variants = ["no_positoin", "heads_3", "pool_max"]
seeds = [1, -2]
[data]
source = "rotten_tomatoes"
[train]
epoch = 3
[variant.heads_3]
num_heads = 3
"""


@pytest.mark.parametrize("verb", ["check", "run"])
def test_all_faults_at_once_exit_code_2_and_nothing_written(verb: str, tmp_path: Path) -> None:
    (tmp_path / "bad.toml").write_text(BAD, encoding="utf-8")
    told = knockout(verb, "bad.toml", cwd=tmp_path)
    assert told.returncode == 2
    assert told.stdout == ""
    for part in (
        'bad.toml: train.epoch: unknown key (did you mean "epochs"?)',
        'bad.toml: variants: unknown variant "no_positoin" (did you mean "no_position"?)',
        "bad.toml: seeds: got [-2]",
        "bad.toml: variant heads_3: num_heads = 3 does not divide d_model = 64",
    ):
        assert part in told.stderr, told.stderr
    assert "Traceback" not in told.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("picture.toml", b"\x89PNG\r\n\x1a\n\x00", "no UTF-8"),
        ("prose.toml", b"Dear reader, this is no TOML.", "no TOML"),
        ("gone.toml", None, "no such file"),
    ],
)
def test_a_file_that_is_no_study(name: str, content: bytes | None, says: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    told = knockout("run", name, cwd=tmp_path)
    assert told.returncode == 2
    assert says in told.stderr
    assert "Traceback" not in told.stderr
    assert not (tmp_path / "results").exists()


def test_faults_of_data_and_devices_write_nothing(tmp_path: Path) -> None:
    text = 'question = "q"\nvariants = ["heads_1"]\nseeds = 1\n[data]\nsource = "{}"\n'
    (tmp_path / "nodata.toml").write_text(text.format("./absent"), encoding="utf-8")
    told = knockout("run", "nodata.toml", cwd=tmp_path)
    assert (told.returncode, "no such file or folder" in told.stderr) == (2, True), told.stderr
    (tmp_path / "gpu.toml").write_text(text.format("rotten_tomatoes") + '[run]\ndevice = "mps"\n', encoding="utf-8")
    if sys.platform == "linux":
        told = knockout("run", "gpu.toml", cwd=tmp_path)
        assert (told.returncode, 'run.device = "mps"' in told.stderr) == (2, True), told.stderr
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize("verb", ["report", "status"])
def test_a_folder_without_a_study(verb: str, tmp_path: Path) -> None:
    told = knockout(verb, "results/none", cwd=tmp_path)
    assert told.returncode == 2
    assert told.stderr.startswith("knockout: ")
    assert "Traceback" not in told.stderr


def test_a_study_from_its_file_to_the_verdict_table(tmp_path: Path) -> None:
    """The smoke study on the real sentences, in one go; then again, which trains nothing and repeats every byte."""
    study = str(REPOSITORY / "ablations" / "smoke.toml")
    ran = knockout("run", study, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "12 planned: 12 finished, 0 diverged, 0 missing; 12 trained now" in ran.stdout
    told = knockout("report", "results/smoke", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    for name in ("no_position", "heads_1", "pool_max"):
        assert re.search(rf"^{name}.*(better|worse|trivial|equivalent|inconclusive)", told.stdout, re.MULTILINE), name
    assert "report: results/smoke/report.html" in told.stdout
    folder = tmp_path / "results" / "smoke"
    first = {p.name: p.read_bytes() for p in folder.iterdir() if p.suffix in (".html", ".md", ".csv")}
    assert {"report.html", "report.md", "summary.csv", "contrasts.csv", "costs.csv"} <= set(first)

    again = knockout("run", study, cwd=tmp_path)
    assert (again.returncode, "0 trained now" in again.stdout) == (0, True)
    assert knockout("status", "results/smoke", cwd=tmp_path).returncode == 0
    knockout("report", "results/smoke", cwd=tmp_path)
    assert {name: (folder / name).read_bytes() for name in first} == first


def test_data_says_what_is_in_a_set(tmp_path: Path) -> None:
    lines = [f"a film {i} that is {'good' * (i % 2)}bad,{i % 2}" for i in range(200)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *lines, lines[0]]) + "\n", encoding="utf-8")
    told = knockout("data", "mine.csv", "--max-length", "4", cwd=tmp_path, KNOCKOUT_CACHE=str(tmp_path / "cache"))
    assert told.returncode == 0, told.stderr
    assert re.search(r"^unsplit +201 +0 +1 +0$", told.stdout, re.MULTILINE), told.stdout
    assert "max_length = 4 cuts 100.0% of the training texts and 33.3% of their tokens" in told.stdout
    assert "max_length = 6 keeps at least 95 % of them whole" in told.stdout
    assert "dropped: 1 (repeats in the data)" in told.stdout
    assert [p.name for p in tmp_path.iterdir() if p.name != "cache"] == ["mine.csv"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("absent.csv",), "no such file or folder"),
        (("mine.csv", "--text-column", "review"), "has no column 'review'"),
        (("mine.csv", "--group-column", "film"), "has no column 'film'"),
        (("mine.csv", "--tokens", "wrod"), "'wrod'"),
        (("mine.csv", "--max-length", "0"), "max-length"),
    ],
)
def test_data_that_cannot_be_read(arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("text,label\na,0\nb,1\n", encoding="utf-8")
    told = knockout("data", *arguments, cwd=tmp_path, KNOCKOUT_CACHE=str(tmp_path / "cache"))
    assert (told.returncode, told.stdout) == (2, "")
    assert says in told.stderr
    assert "Traceback" not in told.stderr


def test_data_speaks_of_its_own_options(tmp_path: Path) -> None:
    rows = "".join(f"text {i},{'' if i == 7 else i % 2}\n" for i in range(100))
    (tmp_path / "mine.csv").write_text("text,label\n" + rows, encoding="utf-8")
    told = knockout("data", "mine.csv", "--text-column", "review", "--label-column", "stars", cwd=tmp_path)
    assert "no column 'review' and no column 'stars'" in told.stderr
    assert "as --text-column and --label-column" in told.stderr
    told = knockout("data", "mine.csv", cwd=tmp_path)
    assert "1 of 100 rows of unsplit are without a label (row 8;" in told.stderr
    assert "leave them out with --drop-unlabeled" in told.stderr
    assert "data." not in told.stderr
    told = knockout("data", "mine.csv", "--drop-unlabeled", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "dropped: 1 (without a label in unsplit)" in told.stdout


def test_data_prints_no_control_characters(tmp_path: Path) -> None:
    lines = [f"film {i},{('[red]a', 'b')[i % 2]}\x1b[2J\u202e" for i in range(60)]
    (tmp_path / "mine.csv").write_text("\n".join(["text,label", *lines]) + "\n", encoding="utf-8")
    told = knockout("data", "mine.csv", cwd=tmp_path, KNOCKOUT_CACHE=str(tmp_path / "cache"))
    assert told.returncode == 0, told.stderr
    assert "[red]a" in told.stdout
    assert not any(c != "\n" and not c.isprintable() for c in told.stdout)


def test_small_splits_are_told_before_anything_runs(tmp_path: Path) -> None:
    rows = "".join(f"text {i} of some words,{'neg' if i % 2 else 'pos'}\n" for i in range(200))
    (tmp_path / "mine.csv").write_text("text,label\n" + rows, encoding="utf-8")
    (tmp_path / "mine.toml").write_text(
        'question = "q"\nvariants = ["heads_1"]\nseeds = 3\n[data]\nsource = "mine.csv"\n', encoding="utf-8"
    )
    told = knockout("check", "mine.toml", "--no-measure", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "a run counts as alive above about" in told.stdout
    assert re.search(r"test is small: with \d+ examples a run must exceed chance level by", told.stdout)
    assert "test is small: one example is more than the margin of 0.5 points" in told.stdout


@pytest.mark.long
def test_dead_runs_are_named_when_a_study_ends_and_by_status(tmp_path: Path) -> None:
    (tmp_path / "dead.toml").write_text(
        'question = "q"\nvariants = ["heads_1"]\nseeds = 1\n[data]\nsource = "rotten_tomatoes"\n'
        "max_length = 8\nvocabulary_size = 10\nsplit = [0.02, 0.1, 0.88]\n"
        "[model]\nd_model = 16\nnum_layers = 1\n[train]\nepochs = 1\nlearning_rate = 1e-9\n",
        encoding="utf-8",
    )
    ran = knockout("run", "dead.toml", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert f"results: {tmp_path / 'results' / 'dead'} (new)" in ran.stdout
    line = "2 of the finished runs are dead (no better than a constant answer): baseline seed 0, heads_1 seed 0"
    assert line in ran.stdout
    assert line in knockout("status", "results/dead", cwd=tmp_path).stdout


@pytest.mark.parametrize(
    ("given", "repeated"),
    [
        (("--only", "baseline,heads_1"), "`--only baseline --only heads_1`"),
        (("--set", "seeds=1,train.epochs=2"), "`--set seeds=1 --set train.epochs=2`"),
    ],
)
def test_a_list_with_commas_is_answered_with_the_option_repeated(
    given: tuple[str, str], repeated: str, tmp_path: Path
) -> None:
    study = 'question = "q"\nvariants = ["heads_1"]\nseeds = 3\n[data]\nsource = "rotten_tomatoes"\n'
    (tmp_path / "s.toml").write_text(study, encoding="utf-8")
    ran = knockout("run", "s.toml", *given, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "")  # no "results: ..." before a refusal
    assert f"repeat the option: {repeated}" in ran.stderr
    assert not (tmp_path / "results").exists()


def test_a_misspelt_set_is_told_at_once(tmp_path: Path) -> None:
    told = knockout("data", "rotten_tomatos", cwd=tmp_path)
    assert told.returncode == 2
    assert told.stderr.strip() == (
        'knockout: rotten_tomatos: no such file, folder or set (did you mean "rotten_tomatoes"?)'
    )


def test_version_and_faults_of_the_command_as_a_process(tmp_path: Path) -> None:
    """What a shell sees; the tests above call the same `main` in their own process."""

    def process(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "knockout", *arguments]
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=300)

    assert re.fullmatch(r"\d+\.\d+\.\d+\n", process("--version").stdout)
    refused = process("run", "gone.toml")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("knockout: gone.toml: no such file")
    called = knockout("run", "gone.toml", cwd=tmp_path)
    assert (called.returncode, called.stdout, called.stderr) == (2, "", refused.stderr)


@pytest.mark.parametrize("given", ["results/quick", "quick", "quick.toml", "studies/quick.toml"])
def test_a_study_goes_by_its_folder_its_name_and_its_file(given: str, tmp_path: Path) -> None:
    shutil.copytree(REPOSITORY / "results" / "reference" / "quick", tmp_path / "results" / "quick")
    (tmp_path / "quick").mkdir()  # such as the folder of `knockout init quick`
    told = knockout("pack", given, "--output", "packed.parquet", cwd=tmp_path)
    assert told.returncode == 0, told.stderr
    assert "packed.parquet: 132 records of 132 planned runs" in told.stdout


@pytest.mark.parametrize("command", [(), ("run",), ("report",), ("compare",)])
def test_h_is_help_everywhere(command: tuple[str, ...], tmp_path: Path) -> None:
    assert knockout(*command, "-h", cwd=tmp_path).stdout == knockout(*command, "--help", cwd=tmp_path).stdout != ""


RUNS = "variant,seed,accuracy\n" + "".join(
    f"{name},{seed},{value + seed % 3 / 100:.2f}\n" for name, value in (("base", 0.8), ("a", 0.7)) for seed in range(6)
)


def test_quiet_prints_the_last_line_alone(tmp_path: Path) -> None:
    (tmp_path / "runs.csv").write_text(RUNS, encoding="utf-8")
    asked = ("compare", "runs.csv", "--baseline", "base")
    told = knockout(*asked, "--quiet", cwd=tmp_path)
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout == "1 worse; report: runs_report/report.html\n"
    loud = knockout(*asked, cwd=tmp_path)
    assert loud.stdout.splitlines()[-1] == "report: runs_report/report.html"
    assert len(loud.stdout.splitlines()) > 5
    assert loud.stderr in ("", "judging runs.csv and drawing its figures ...\n")  # after two seconds

    planned = knockout("run", str(REPOSITORY / "ablations" / "smoke.toml"), "--dry-run", "-q", cwd=tmp_path)
    assert (planned.stdout, planned.stderr) == ("12 of 12 runs would be trained; nothing was written\n", "")
    refused = knockout("report", "results/none", "-q", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "knockout: results/none" in refused.stderr


def test_a_pipe_is_shown_what_takes_long_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    with working("judging [x]", quiet=False, after=0.01):
        time.sleep(0.3)
    with working("sooner", quiet=False, after=30):
        pass
    with working("hushed", quiet=True, after=0.0):
        time.sleep(0.05)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "judging [x] ...\n")


def test_a_terminal_shows_a_spinner_where_a_report_takes_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Console(file=io.StringIO(), force_terminal=True, legacy_windows=False, width=80)
    monkeypatch.setattr("knockout.terminal.err", screen)
    with working("judging [x]", quiet=False):
        pass
    assert isinstance(screen.file, io.StringIO)
    drawn = screen.file.getvalue()
    assert "judging [x] ..." in drawn
    assert "\x1b[2K" in drawn  # and it is wiped
    with working("judging", quiet=True):
        pass
    assert screen.file.getvalue() == drawn


def test_values_set_on_the_command_line(tmp_path: Path) -> None:
    study = str(REPOSITORY / "ablations" / "smoke.toml")
    ran = knockout("run", study, "--dry-run", "--set", "seeds=2", "--set", "variants=['heads_1']", cwd=tmp_path)
    assert (ran.returncode, "4 of 4 runs would be trained" in ran.stdout) == (0, True), ran.stdout + ran.stderr
    for command in (("run", study, "--dry-run"), ("check", study, "--no-measure")):
        told = knockout(*command, "--set", "train.epoch=1", cwd=tmp_path)
        assert (told.returncode, told.stdout) == (2, "")
        assert 'smoke.toml: train.epoch: unknown key (did you mean "epochs"?)' in told.stderr
    checked = knockout("check", study, "--no-measure", "--set", "train.epochs=7", cwd=tmp_path)
    assert "epochs 7" in checked.stdout
    assert list(tmp_path.iterdir()) == []
