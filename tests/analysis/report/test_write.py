import base64
import hashlib
import json
import re
import shutil
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest

from knockout.analysis.report.render import markdown
from knockout.analysis.report.study import verdict_note
from knockout.analysis.report.write import Report, write_report
from knockout.analysis.results import ResultsError
from knockout.files import replace_json
from tests.analysis.conftest import BuildStudy
from tests.designs import raw_design

REPOSITORY = Path(__file__).parents[3]
HOSTILE = ["<img src=x onerror=alert(1)>", r"$\frac{1}{$", "=1+1", "a|b\nc `d` **e** [f](http://g)"]

BASE: list[int | str] = [300, 304, 298, 301, 299, 303, 302]
WHOLE: dict[str, list[int | str]] = {
    "baseline": BASE,
    "no_position": [280, 283, 279, 281, 280, 284, 279],
    "no_residual": ["diverged", 281, "dead", 283, 280, 281, 282],
    "heads_1": [*BASE],
    "heads_16": [*BASE[:5], "crashed", "missing"],
    "pool_max": [320, 280, 310, 301, 299, 290, 330],
}
CLAIMS = '[[claims]]\nid = "X2"\nvariant = "no_position"\nsays = "worse"\ntext = "without | positions"\n'


class Page(HTMLParser):
    """What a browser would see: tags, attributes, text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def html(report: Report) -> str:
    return report.paths["report.html"].read_text(encoding="utf-8")


def contents(root: Path, report: Report) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in report.paths}


@pytest.fixture
def hostile(build_study: BuildStudy) -> Path:
    """A study in whose frames any text is a name."""
    root = build_study(WHOLE, claims=CLAIMS)
    text = json.dumps(raw_design(root), ensure_ascii=False)
    for name, other in zip(("no_position", "no_residual", "heads_1", "pool_max"), HOSTILE, strict=True):
        text = text.replace(json.dumps(name), json.dumps(other))
    replace_json(root / "design.json", json.loads(text))
    return root


def test_a_whole_report(build_study: BuildStudy) -> None:
    report = write_report(build_study(WHOLE, claims=CLAIMS))
    page = Page(html(report))
    assert [c.label for c in report.contrasts] == [
        "worse",
        "undecidable by design",  # 4 * 2^-6 after Holm: no_position comes before it
        "equivalent",
        "inconclusive (incomplete: 5 of 7)",
        "inconclusive",
    ]
    for said in (
        "Ablation study “synthetic”, one learning rate for all variants (not tuned per variant)",
        "Which parts | of it matter?",
        "The study is not complete: 40 of 42 runs came to a result.",
        "heads_1 (+0.00 points, no spread; identical predictions) is equivalent to the baseline within",
        "no_residual is undecidable (runs failed).",
        "Runs failed: 2 of 7 of no_residual.",
        "position: sinusoidal → none",
        "identical predictions",
        "the loss is nan at step 22",
        "test accuracy 50.00% is no better than the constant answer's 50.00%",
        "RuntimeError: boom | <b>",
        "not run yet",
        "supported",
        "on this training set",
        "verdicts do not use it",
        "while 2 workers shared the machine",
    ):
        assert said in page.text, said
    assert report.results.runs["failed"].sum() == 2
    assert [j.ruling for j in report.claims] == ["supported"]


def test_the_html_stands_alone(build_study: BuildStudy) -> None:
    text = html(write_report(build_study(WHOLE)))
    page = Page(text)
    policy = [a["content"] for t, a in page.tags if t == "meta" and a.get("http-equiv") == "Content-Security-Policy"]
    (script,) = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)  # one, inline, and named by its hash
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == [f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"]
    assert [t for t, _ in page.tags].count("script") == 1
    assert {t for t, _ in page.tags}.isdisjoint({"img", "iframe", "link", "object", "base"})
    for tag, attributes in page.tags:
        for name, value in attributes.items():
            assert not name.startswith("on"), name
            assert (tag, name) != ("form", "action")
            if name in ("src", "href", "xlink:href"):
                carried = "download" in attributes and str(value).startswith("data:")
                assert carried or str(value).startswith("#"), value
    assert not re.findall(r"url\((?!#)", text)
    assert "@import" not in text
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="|url\()#([^")]+)', text)) <= set(ids)


def test_a_download_is_the_file_beside_the_page(build_study: BuildStudy) -> None:
    root = build_study(WHOLE)
    page = Page(html(write_report(root)))
    carried = {str(a["download"]): str(a["href"]) for t, a in page.tags if t == "a" and "download" in a}
    assert set(carried) == {"tables.tex", "contrasts.csv", "summary.csv"}
    for name, link in carried.items():
        assert base64.b64decode(link.partition(";base64,")[2]) == (root / name).read_bytes()


def test_every_variant_has_a_section_to_which_the_table_leads(hostile: Path) -> None:
    report = write_report(hostile)
    page = Page(html(report))
    ids = [a["id"] for t, a in page.tags if t == "section" and str(a.get("id", "")).startswith("variant")]
    links = [a["href"] for t, a in page.tags if t == "a" and str(a.get("href", "")).startswith("#variant")]
    assert len(ids) == len(report.contrasts)
    assert {f"#{i}" for i in ids} == set(links)


def test_the_short_report_has_answer_verdicts_and_limits_and_links_to_the_rest(build_study: BuildStudy) -> None:
    report = write_report(build_study(WHOLE))
    short, whole = (report.paths[n].read_text(encoding="utf-8") for n in ("report.md", "details.md"))
    assert len(short) < 8_000 < len(whole)
    heads = [line for line in short.splitlines() if line.startswith("## ")]
    assert heads == ["## Verdicts", "## What limits it", "## Figures", "## More"]
    for name in re.findall(r"\]\(([^)]+)\)", short):
        assert (report.paths["report.md"].parent / name).is_file(), name


def test_the_same_records_give_the_same_bytes(build_study: BuildStudy, tmp_path: Path) -> None:
    root = build_study(WHOLE)
    first = contents(root, write_report(root))
    assert contents(root, write_report(root)) == first
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(root, elsewhere)
    assert contents(elsewhere, write_report(elsewhere)) == first
    assert not list(root.rglob(".*"))  # nothing half-written is left


def test_any_label_comes_out_as_text(hostile: Path) -> None:
    report = write_report(hostile)
    page = Page(html(report))
    assert not [t for t, _ in page.tags if t == "img"]
    for label in HOSTILE:
        assert " ".join(label.split()) in page.text
    drawn = ET.fromstring(report.paths["figures/forest.svg"].read_text(encoding="utf-8"))
    labels = ["".join(e.itertext()) for e in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert {"<img src=x onerror=alert(1)>", r"$\frac{1}{$", "=1+1"} <= set(labels)
    for name in ("contrasts.csv", "summary.csv", "figures/forest.csv"):
        back = pd.read_csv(report.paths[name], dtype=str, keep_default_na=False)
        assert {HOSTILE[0], HOSTILE[1], "'=1+1", HOSTILE[3]} <= set(back["variant"])


@pytest.mark.parametrize(("name", "least"), [("report.md", 1), ("details.md", 20)])
def test_markdown_tables_keep_their_shape(hostile: Path, name: str, least: int) -> None:
    text = write_report(hostile).paths[name].read_text(encoding="utf-8")
    assert not re.search(r"(?<!\\)<", text)
    assert "](http" not in text
    lines = text.splitlines()
    rules = [i for i, line in enumerate(lines) if re.fullmatch(r"\|(:?-+:?\|)+", line)]
    assert len(rules) >= least  # details: verdicts, reading, claims, three or so per variant, and the specialist's
    for i in rules:
        columns = lines[i].count("|")
        j = i - 1
        while j < len(lines) and lines[j].startswith("|"):
            assert len(re.findall(r"(?<!\\)\|", lines[j])) == columns, lines[j]
            j += 1


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        ("a|b", r"a\|b"),
        ("a\nb\x07", "a b�"),
        ("<b>&", r"\<b\>\&"),
        ("$x$ *y* `z`", r"\$x\$ \*y\* \`z\`"),
        ("no_position", "no_position"),
        (7, "7"),
    ],
)
def test_markdown_escapes(raw: object, told: str) -> None:
    assert markdown(raw) == told


def test_a_study_midway_gives_a_report(build_study: BuildStudy) -> None:
    root = build_study({"baseline": [300, "missing", "missing"], "heads_1": [301, "missing", "missing"]})
    report = write_report(root)
    assert [c.label for c in report.contrasts] == ["inconclusive (incomplete: 1 of 3)"]
    page = Page(html(report))
    assert "2 of 6 runs came to a result" in page.text
    assert "inconclusive while runs are missing" in page.text


def test_the_note_says_what_the_report_says_and_writes_nothing(build_study: BuildStudy) -> None:
    root = build_study(WHOLE)
    before = sorted(root.rglob("*"))
    rows = _rows(verdict_note(root).replace("&ensp;", ""))
    assert sorted(root.rglob("*")) == before
    reported = _rows(write_report(root).paths["report.md"].read_text(encoding="utf-8"))
    assert rows == reported
    assert [row[0].split("; ")[0] for row in rows[1:]] == list(WHOLE)


def _rows(text: str) -> list[list[str]]:
    """The cells of the table of verdicts."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("| Variant |"))
    table = [line for line in lines[first : first + len(WHOLE) + 2] if not line.startswith("|---")]
    return [[cell.strip() for cell in line.strip("|").split(" |")] for line in table]


def test_any_label_is_text_in_the_note_too(hostile: Path) -> None:
    text = verdict_note(hostile)
    assert not re.search(r"(?<!\\)<", text)
    assert "](http" not in text
    columns = {len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")}
    assert columns == {10}


def test_the_note_says_so_while_nothing_has_finished(build_study: BuildStudy) -> None:
    root = build_study({"baseline": ["missing", "diverged"], "heads_1": ["crashed", "killed"]})
    assert "No verdict yet: none of the 4 planned runs has finished." in verdict_note(root)


def test_the_note_names_damaged_records(build_study: BuildStudy) -> None:
    root = build_study({"baseline": BASE, "heads_1": BASE})
    record = next((root / "runs").glob("heads_1-*"))
    (record / "log.txt").write_text("changed", encoding="utf-8")
    assert f"- runs/{record.name}: changed since it was written: log.txt" in verdict_note(root)


@pytest.mark.parametrize("seeds", [1, 2])
def test_two_seeds_or_fewer_are_undecidable(build_study: BuildStudy, seeds: int) -> None:
    report = write_report(build_study({"baseline": BASE[:seeds], "heads_1": [301, 302][:seeds]}))
    assert [c.label for c in report.contrasts] == ["undecidable by design"]
    assert "is undecidable by design" in Page(html(report)).text


def test_nothing_finished_is_no_report(build_study: BuildStudy) -> None:
    root = build_study({"baseline": ["missing", "diverged"], "heads_1": ["crashed", "killed"]})
    with pytest.raises(ResultsError, match="none of 4 planned runs has finished"):
        write_report(root)
    assert not (root / "report.html").exists()


def test_a_failed_baseline_is_said(build_study: BuildStudy) -> None:
    report = write_report(build_study({"baseline": ["dead", *BASE[1:]], "heads_1": [*BASE]}))
    assert "1 of the baseline's 7 runs failed." in report.answer


def test_a_baseline_of_which_every_run_failed_is_said_without_a_number(build_study: BuildStudy) -> None:
    report = write_report(build_study({"baseline": ["dead"] * 3, "heads_1": BASE[:3]}))
    assert "3 of the baseline's 3 runs failed." in report.answer
    assert any("A baseline that does not train shows nothing" in line for line in report.answer)
    assert not any("– %" in line for line in report.answer)


def test_a_baseline_that_failed_once_is_described_by_the_runs_that_did_not(build_study: BuildStudy) -> None:
    """The mean over two of three runs is not called one over three."""
    root = build_study({"baseline": [300, "dead", 310], "heads_1": [301, 302, 303]})
    report = write_report(root)
    answer = " ".join(report.answer)
    assert "76.25 ± 1.77 % accuracy over the 2 of 3 seeds that did not fail" in answer  # (75 + 77.5) / 2 of 400 texts
    assert "76.25 ± 1.77 (n = 2)" in Page(html(report)).text
    (contrast,) = report.contrasts
    assert contrast.estimate is not None
    assert contrast.estimate.n == 2
    assert contrast.estimate.g_z is None


def test_a_disk_that_refuses_leaves_the_old_report(build_study: BuildStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    root = build_study({"baseline": BASE, "heads_1": [*BASE]})
    first = contents(root, write_report(root))

    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_report(root)
    monkeypatch.undo()
    assert {name: (root / name).read_bytes() for name in first} == first
    assert not list(root.rglob(".*"))


def test_the_readme_names_every_column_and_file(build_study: BuildStudy) -> None:
    root = build_study(WHOLE)
    report = write_report(root)
    readme = (REPOSITORY / "results" / "README.md").read_text(encoding="utf-8")
    for name, path in report.paths.items():
        assert f"`{name}`" in readme, name
        if name.endswith(".csv"):
            for column in path.read_text(encoding="utf-8").splitlines()[0].split(","):
                assert f"`{column}`" in readme, (name, column)
    for path in (p for p in (root / "runs").glob("*/*")):
        assert f"`{path.name}`" in readme, path.name
