"""From a page to text: HTML that stands alone, and Markdown. All that is printed is escaped."""

from collections.abc import Callable

import jinja2

from knockout.analysis.report.blocks import Page
from knockout.strict import printable


def html_page(page: Page) -> str:
    """The page as one HTML file, which requests nothing from anywhere."""
    return _html().get_template("report.html.j2").render(page=page)


def markdown_page(page: Page) -> str:
    """The same page in Markdown; figures are links into the folder `figures`."""
    return _markdown().get_template("report.md.j2").render(page=page)


def markdown_note(**shown: object) -> str:
    """The short note that the dashboard shows, in Markdown."""
    return _markdown().get_template("note.md.j2").render(shown)


def _html() -> jinja2.Environment:
    return _environment(autoescape=True, finalize=lambda value: value if hasattr(value, "__html__") else plain(value))


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
