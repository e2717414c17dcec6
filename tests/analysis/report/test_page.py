"""The report in a real browser: it asks for nothing, complains of nothing, and everyone can use it.

Debian's chromium, driven by playwright; axe-core judges the accessibility.
"""

import itertools
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from knockout.analysis.report.write import write_report
from knockout.files import replace_json
from tests.analysis.conftest import BuildStudy
from tests.designs import raw_design

pytestmark = pytest.mark.long

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
BASE: list[int | str] = [300, 304, 298, 301, 299, 303, 302]
ARMS: dict[str, list[int | str]] = {
    "baseline": BASE,
    "no_position": [280, 283, 279, 281, 280, 284, 279],
    "no_residual": ["diverged", 281, "dead", 283, 280, 281, 282],
    "heads_1": [*BASE],
    "heads_16": [301, 303, 299, 300, 300, 303, 301],
    "pool_max": [320, 280, 310, 301, 299, 290, 330],
}
HOSTILE = {"no_position": "<script>alert(1)</script>", "heads_1": "注意力" * 30, "pool_max": "x" * 200}
CLAIMS = '[[claims]]\nid = "X2"\nvariant = "no_position"\nsays = "worse"\ntext = "without"\n'


class Seen:
    """A page with what the browser said of it."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.complaints: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: self.complaints.append(dialog.message))

    def texts(self, selector: str) -> list[str]:
        return [text.strip() for text in self.page.locator(selector).all_inner_texts()]

    def order(self) -> list[str]:
        """The variants whose rows are shown, the baseline's first."""
        return self.texts("table.main tbody tr:not([hidden]) th a, table.main tbody tr:first-child th")


Open = Callable[..., Seen]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed; `make deps-debian` installs it")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def report(build_study: BuildStudy) -> Path:
    root = build_study(ARMS, claims=CLAIMS)
    write_report(root)
    return root / "report.html"


@contextmanager
def opened(
    browser: Browser, path: Path, *, width: int = 1280, scheme: Literal["light", "dark"] = "light", at: str = ""
) -> Iterator[Seen]:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    try:
        seen = Seen(context.new_page())
        seen.page.goto(path.as_uri() + at)
        yield seen
        assert seen.complaints == []
        assert {url.partition("#")[0] for url in seen.requests} == {path.as_uri()}
    finally:
        context.close()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_finds_nothing_serious_with_every_section_open(
    browser: Browser, report: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    with opened(browser, report, width=width, scheme=scheme) as seen:
        seen.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
        seen.page.evaluate(axe)
        found = seen.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        assert len(found["passes"]) > 10  # it did look
        bad = [
            (rule["id"], rule["impact"], [node["target"] for node in rule["nodes"]][:3])
            for rule in found["violations"]
            if rule["impact"] in ("serious", "critical")
        ]
        assert bad == []


@pytest.mark.parametrize("width", [390, 1280, 1600])
def test_nothing_but_scroll_regions_is_wider_than_the_screen_and_the_verdicts_are_on_it(
    browser: Browser, report: Path, width: int
) -> None:
    with opened(browser, report, width=width) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width
        edges = seen.page.evaluate(
            "[...document.querySelectorAll('table.main .verdict')].map(one => one.getBoundingClientRect().right)"
        )
        assert len(edges) == len(ARMS) - 1
        assert max(edges) <= width


def test_the_first_screen_has_the_question_the_answer_and_the_head_of_the_table(browser: Browser, report: Path) -> None:
    with opened(browser, report) as seen:
        for selector in ("h1", ".question", "#answer", "table.main tbody tr:nth-child(3)"):
            box = seen.page.locator(selector).bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 800, selector


def test_the_table_sorts_by_the_numbers_and_the_baseline_stays(browser: Browser, report: Path) -> None:
    means = {v: [x for x in cells if isinstance(x, int)] for v, cells in ARMS.items()}
    level = {v: sum(x) / len(x) for v, x in means.items()}
    with opened(browser, report) as seen:
        assert seen.order() == list(ARMS)
        button = seen.page.get_by_role("button", name="Accuracy, %")
        button.focus()
        seen.page.keyboard.press("Enter")
        head = seen.page.locator("table.main th", has_text="Accuracy, %")
        variants = [v for v in ARMS if v != "baseline"]
        assert head.get_attribute("aria-sort") == "ascending"
        assert seen.order() == ["baseline", *sorted(variants, key=lambda v: level[v])]
        assert "ascending" in seen.page.locator("#said").inner_text()
        button.click()
        assert head.get_attribute("aria-sort") == "descending"
        assert seen.order() == ["baseline", *sorted(variants, key=lambda v: -level[v])]
        seen.page.get_by_role("button", name="Variant").click()
        assert seen.order() == ["baseline", *sorted(variants)]
        assert head.get_attribute("aria-sort") == "none"


def test_a_missing_number_comes_last_in_both_directions(browser: Browser, build_study: BuildStudy) -> None:
    root = build_study({**ARMS, "no_residual": ["dead"] * 7})
    write_report(root)
    with opened(browser, root / "report.html") as seen:
        for _ in range(2):
            seen.page.get_by_role("button", name="Difference").click()
            assert seen.order()[-1] == "no_residual"


def test_the_table_filters_by_text_and_verdict_and_says_how_many(browser: Browser, report: Path) -> None:
    with opened(browser, report) as seen:
        seen.page.get_by_label("Show variants with").fill("HEADS")
        assert seen.order() == ["baseline", "heads_1", "heads_16"]
        assert seen.page.locator("#said").inner_text() == "2 of 5 variants shown"
        assert seen.page.locator("#said").get_attribute("aria-live") == "polite"
        seen.page.get_by_label("Show variants with").fill("")
        seen.page.get_by_role("combobox").select_option("worse")
        assert seen.order() == ["baseline", "no_position"]
        seen.page.get_by_label("Show variants with").fill("pool")
        assert seen.order() == ["baseline"]


def test_a_link_opens_what_it_leads_to(browser: Browser, report: Path) -> None:
    with opened(browser, report) as seen:
        inside = seen.page.locator("#variant-heads_1 dl").first
        assert not inside.is_visible()
        seen.page.locator("table.main").get_by_role("link", name="heads_1", exact=True).click()
        assert inside.is_visible()
        term = seen.page.locator("#term-max-t")
        assert not term.is_visible()
        seen.page.evaluate("location.hash = 'robustness'")
        seen.page.locator("#robustness .terms").get_by_role("link", name="Max-T").click()
        assert term.is_visible()
    with opened(browser, report, at="#leave-one-seed-out") as seen:
        assert seen.page.locator("#leave-one-seed-out table").is_visible()


def test_copying_gives_the_table_and_the_file(browser: Browser, report: Path) -> None:
    with opened(browser, report) as seen:
        seen.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        seen.page.get_by_role("button", name="Copy as CSV: Verdicts").click()
        lines = seen.page.evaluate("navigator.clipboard.readText()").splitlines()
        assert lines[0].startswith("Variant,Verdict,")
        assert [line.split(",")[0].split(";")[0] for line in lines[1:]] == list(ARMS)
        seen.page.evaluate("location.hash = 'paper'")
        seen.page.get_by_role("button", name="Copy: tables.tex").click()
        copied = seen.page.evaluate("navigator.clipboard.readText()")
        assert copied == (report.parent / "tables.tex").read_text(encoding="utf-8")


def test_copying_goes_on_where_there_is_no_clipboard(browser: Browser, report: Path) -> None:
    with opened(browser, report, at="#paper") as seen:
        seen.page.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
        seen.page.evaluate("document.execCommand = () => { window.taken = document.activeElement.value; return true }")
        button = seen.page.get_by_role("button", name="Copy: tables.tex")
        button.click()
        assert seen.page.evaluate("window.taken") == (report.parent / "tables.tex").read_text(encoding="utf-8")
        assert seen.page.locator("#said").inner_text() == "Copied"


def test_the_theme_is_the_systems_until_the_reader_chooses(browser: Browser, report: Path) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    colours = {}
    for scheme in SCHEMES:
        with opened(browser, report, scheme=scheme) as seen:
            colours[scheme] = seen.page.evaluate(background)
            drawn = "getComputedStyle(document.documentElement).getPropertyValue('--fig-ink').trim()"
            assert seen.page.evaluate(drawn).startswith("#")
            seen.page.get_by_role("button", name="Light or dark").click()
            assert seen.page.evaluate(background) != colours[scheme]
    assert colours["light"] != colours["dark"]


def test_headings_go_down_one_level_at_a_time(browser: Browser, report: Path) -> None:
    with opened(browser, report) as seen:
        levels = seen.page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map(one => +one.tagName[1])")
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels))


def test_on_paper_every_section_is_open_and_no_table_is_cut(browser: Browser, report: Path) -> None:
    with opened(browser, report, width=703) as seen:  # the width of A4 less its margins, in CSS pixels
        seen.page.emulate_media(media="print")
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert seen.page.locator("main details:not([open])").count() == 0
        wide = seen.page.evaluate(
            "[...document.querySelectorAll('table')].filter(t => t.getBoundingClientRect().right > innerWidth + 1)"
            ".map(t => t.caption.textContent)"
        )
        assert wide == []
        seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert seen.page.locator("main details:not([open])").count() > 10


def test_hostile_names_come_out_as_text(browser: Browser, build_study: BuildStudy) -> None:
    root = build_study(ARMS, claims=CLAIMS)
    text = json.dumps(raw_design(root), ensure_ascii=False)
    for name, other in HOSTILE.items():
        text = text.replace(json.dumps(name), json.dumps(other, ensure_ascii=False))
    replace_json(root / "design.json", json.loads(text))
    write_report(root)
    for width in (390, 1280):
        with opened(browser, root / "report.html", width=width) as seen:
            assert set(HOSTILE.values()) <= set(seen.order())
            assert seen.page.evaluate("document.documentElement.scrollWidth") == width
            assert seen.page.locator("script").count() == 1


def test_without_scripts_the_page_still_has_everything(browser: Browser, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert page.locator("table.main tbody tr").count() == len(ARMS)
    assert not page.locator("form.filter").is_visible()
    assert not page.locator("#theme").is_visible()
    page.locator("#glossary summary").click()
    assert page.locator("#glossary dl").is_visible()
    context.close()


def test_a_request_or_a_foreign_script_would_have_been_noticed(browser: Browser, report: Path, tmp_path: Path) -> None:
    """The tests above can fail: the policy refuses a script that is not the page's own, and the browser says so."""
    text = report.read_text(encoding="utf-8")
    other = tmp_path / "other.html"
    other.write_text(text.replace("</main>", "<script>document.title = 'run'</script></main>"), encoding="utf-8")
    context = browser.new_context()
    seen = Seen(context.new_page())
    seen.page.goto(other.as_uri())
    assert seen.page.title() != "run"
    assert any("Content Security Policy" in line for line in seen.complaints)
    context.close()
