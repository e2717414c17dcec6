"""What `compare` returns, as a notebook and a paper show it: short, escaped, with the columns that matter."""

import csv
import json
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from scipy import stats

from knockout.analysis import Comparison, UnpairedComparison, compare, compare_unpaired, replay
from knockout.analysis.external.frame import FrameError
from knockout.analysis.results import ResultsError

JITTER = (0.004, -0.003, 0.001, 0.002, -0.002, 0.0)
SCORES = {"base": 0.80, "<b>no_x & 50%</b>": 0.77, "wide|2": 0.801}


def frame() -> pd.DataFrame:
    return pd.DataFrame(
        [
            {"variant": v, "seed": s, "accuracy": score + jitter * (1 + len(v) / 9)}
            for v, score in SCORES.items()
            for s, jitter in enumerate(JITTER)
        ]
    )


@pytest.fixture(params=["paired", "unpaired"])
def found(request: pytest.FixtureRequest) -> Comparison | UnpairedComparison:
    if request.param == "paired":
        return compare(frame(), baseline="base")
    return compare_unpaired(frame().drop(columns="seed"), baseline="base")


def test_a_repr_fits_a_few_lines(found: Comparison | UnpairedComparison) -> None:
    assert len(repr(found)) < 300
    assert "no_x & 50%</b>: worse" in repr(found)
    assert all(len(repr(c)) < 100 for c in compare(frame(), baseline="base").contrasts)
    many = pd.concat([frame(), *(frame().replace({"wide|2": f"wide {i}"}) for i in range(40))]).drop_duplicates(
        ["variant", "seed"]
    )
    assert "36 more" in repr(compare(many, baseline="base"))
    assert len(repr(compare(many, baseline="base"))) < 400


class Cells(HTMLParser):
    """The texts of the cells, by row, as a browser shows them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, _: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_a_notebook_shows_a_table_in_which_names_are_no_markup(found: Comparison | UnpairedComparison) -> None:
    shown = Cells(found._repr_html_())
    assert [row[0] for row in shown.rows] == ["Variant", *SCORES]
    assert shown.tags == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert shown.rows[2][1].startswith("worse")
    assert {len(row) for row in shown.rows} == {len(shown.rows[0])}


def test_latex_has_the_rules_of_booktabs_and_no_bare_character(found: Comparison | UnpairedComparison) -> None:
    text = found.to_latex()
    for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\begin{tabular}", r"\end{tabular}"):
        assert text.count(rule) == 1
    assert r"no\_x \& 50\%" in text
    body = text[text.index(r"\begin") :]
    assert body.isascii()  # pdflatex knows no −, ± or – by itself
    lines = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert len({line.replace(r"\&", "").count("&") for line in lines}) == 1
    assert len(lines) == 1 + len(SCORES)


def test_markdown_keeps_its_columns(found: Comparison | UnpairedComparison) -> None:
    lines = [line for line in found.to_markdown().splitlines() if line.startswith("|")]
    assert len({line.replace(r"\|", "").count("|") for line in lines}) == 1
    assert len(lines) == 2 + len(SCORES)
    assert r"wide\|2" in lines[-1]


def test_a_table_has_ten_columns_and_all_of_them_on_demand(
    found: Comparison | UnpairedComparison, tmp_path: Path
) -> None:
    short, whole = found.table(), found.table(all=True)
    assert short.shape == (2, 10)
    assert list(short.columns)[:2] == ["variant", "verdict"]
    pd.testing.assert_frame_equal(short, whole[list(short.columns)])
    paths = found.write(tmp_path / "report")
    header = next(csv.reader(paths["contrasts.csv"].read_text(encoding="utf-8").splitlines()))
    assert header == list(whole.columns)


def test_write_makes_the_report_and_keeps_other_folders(found: Comparison | UnpairedComparison, tmp_path: Path) -> None:
    paths = found.write(str(tmp_path / "report"))
    assert {"report.html", "report.md", "contrasts.csv", "analysis.json"} <= set(paths)
    assert all(path.is_file() for path in paths.values())
    assert found.write(tmp_path / "report") == paths
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("mine")
    with pytest.raises(ResultsError, match="no report"):
        found.write(tmp_path / "thesis")


def test_everything_about_an_unpaired_comparison_says_so(tmp_path: Path) -> None:
    found = compare_unpaired(frame().drop(columns="seed"), baseline="base")
    texts = [repr(found), str(found), found._repr_html_(), found.to_latex(), found.to_markdown(), *found.sentences()]
    paths = found.write(tmp_path / "report")
    texts += [paths[name].read_text(encoding="utf-8") for name in ("report.html", "report.md", "contrasts.csv")]
    assert all("unpaired" in text.lower() for text in texts)
    assert all("weaker comparison" in text for text in texts[:5])
    audit = json.loads(paths["analysis.json"].read_text(encoding="utf-8"))
    assert audit["comparison"] == "unpaired"
    again = [replay(call) for call in audit["calls"] if call["function"].endswith(".welch")]
    ours = frame().set_index("variant")["accuracy"]
    expected = [stats.ttest_ind(ours.loc[v], ours.loc["base"], equal_var=False).pvalue for v in list(SCORES)[1:]]
    assert [made.p for made in again][: len(expected)] == pytest.approx(expected)


def test_an_unpaired_report_leaves_no_figure_of_a_paired_one(tmp_path: Path) -> None:
    compare(frame(), baseline="base").write(tmp_path)
    assert (tmp_path / "figures" / "forest.svg").exists()
    compare_unpaired(frame(), baseline="base").write(tmp_path)
    assert not list(tmp_path.glob("figures/*"))
    assert not (tmp_path / "seeds.csv").exists()


def test_a_frame_without_seeds_is_sent_to_the_unpaired_comparison() -> None:
    with pytest.raises(FrameError, match="compare_unpaired needs none, and is the weaker comparison"):
        compare(frame().drop(columns="seed"), baseline="base")
