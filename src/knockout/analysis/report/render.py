"""From a page to text: HTML that stands alone, and Markdown. All that is printed is escaped."""

import base64
import hashlib
from collections.abc import Callable

import jinja2
from markupsafe import Markup

from knockout.analysis.report.blocks import Page
from knockout.analysis.report.glossary import anchor
from knockout.analysis.report.words import PARTS, WORDS
from knockout.strict import printable


def html_page(page: Page) -> str:
    """The page as one HTML file, which requests nothing from anywhere.

    Its policy names the hash of its one script, so that no other can run.
    """
    environment = _html()
    style, script = (_source(environment, name) for name in ("report.css", "report.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return environment.get_template("report.html.j2").render(
        page=page,
        parts=PARTS,
        words=WORDS,
        style=Markup(style),
        script=Markup(script),
        script_hash=f"sha256-{digest}",
    )


def markdown_page(page: Page) -> str:
    """The short report in Markdown: the answer, the verdicts, what limits them, and links to all else."""
    return _markdown().get_template("report.md.j2").render(page=page, words=WORDS, parts=PARTS)


def markdown_details(page: Page) -> str:
    """The whole report in Markdown; figures are links into the folder `figures`."""
    return _markdown().get_template("details.md.j2").render(page=page, words=WORDS, parts=PARTS)


def markdown_note(**shown: object) -> str:
    """The short note that the dashboard shows, in Markdown."""
    return _markdown().get_template("note.md.j2").render(shown)


def _html() -> jinja2.Environment:
    made = _environment(autoescape=True, finalize=lambda value: value if hasattr(value, "__html__") else plain(value))
    made.filters |= {"anchor": anchor, "verbatim": _verbatim, "data_link": _data_link, "unbroken": _unbroken}
    return made


def _source(environment: jinja2.Environment, name: str) -> str:
    assert environment.loader is not None
    return environment.loader.get_source(environment, name)[0]


def _verbatim(text: str) -> Markup:
    """Text of several lines, escaped."""
    return Markup("\n").join(Markup.escape(printable(line)) for line in text.split("\n"))


def _unbroken(text: str) -> Markup:
    """An interval whose two ends stay on one line."""
    return Markup(",&nbsp;").join(plain(text).split(", "))


def _data_link(text: str, name: str) -> str:
    """The file itself, as a link."""
    kind = {"csv": "text/csv", "tex": "application/x-tex"}.get(name.rpartition(".")[2], "text/plain")
    return f"data:{kind};charset=utf-8;base64,{base64.b64encode(text.encode()).decode()}"


def _markdown() -> jinja2.Environment:
    """Everything that the template prints is escaped: no cell can end its table, and no name can become markup."""
    return _environment(autoescape=False, finalize=markdown)


def _environment(*, autoescape: bool, finalize: Callable[[object], object]) -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("knockout.analysis.report"),
        autoescape=autoescape,
        finalize=finalize,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def plain(value: object) -> str:
    """Any value as text of one line, without control characters."""
    return printable(" ".join(str(value).split()))


def markdown(value: object) -> str:
    """Any value as text of one line that Markdown prints as it is."""
    return "".join(f"\\{c}" if c in "\\|<>&`*$~" else c for c in plain(value)).replace("](", "]\\(")
