"""The colours of all figures, and the form of a figure inside the page, whose colours follow the page's theme.

A file on disk has literal colours, since pdflatex and Inkscape know no CSS variables.
"""

import re

INK = "#222222"
ZERO = "#444444"
"""the line of no difference"""
SOFT = "#555555"
RULE = "#888888"
LINE = "#EEEEEE"
BAND = "#E8EDF2"
PAPER = "#FFFFFF"

THEME = {
    INK: "--fig-ink",
    ZERO: "--fig-ink",
    SOFT: "--fig-soft",
    RULE: "--fig-soft",
    LINE: "--fig-line",
    BAND: "--fig-band",
    PAPER: "--fig-paper",
}
"""Colour in a file -> the CSS variable in its place in the page, with the colour as the value where none is set."""

BASELINE_COLOUR = "#767676"
PALETTE = (
    # Blue, vermillion and green of Okabe & Ito 2008, then colours of like lightness: each has a contrast of at least 3
    # with white and with the dark page, and neighbours differ for readers with protanopia or deuteranopia.
    "#0072B2", "#D55E00", "#009E73", "#C2679B", "#8A7400", "#785AE1", "#E1004B", "#B41EA5",
    "#4BA50F", "#8787F0", "#007878", "#5A784B", "#A587C3", "#D26969", "#C31E78", "#D2784B",
)  # fmt: skip

_TAG = re.compile(r"<[^<>]+>")
_STYLE = re.compile(r'\bstyle="[^"]*"')
_COLOUR = re.compile(r"#[0-9a-fA-F]{6}\b")
_WIDTH = re.compile(r'\bviewBox="0 0 ([0-9.]+) ')
_VARIABLES = {colour.lower(): f"var({name}, {colour.lower()})" for colour, name in THEME.items()}


def themed(svg: str) -> str:
    """A figure as it stands in the page: neutral colours are CSS variables, and no text is drawn below 8 px.

    Its least width is one pixel per unit, so on a narrow screen it needs a box that scrolls. Names in the figure are
    left alone: only style attributes change.
    """
    body = _TAG.sub(lambda tag: _STYLE.sub(_with_variables, tag[0]), svg)
    found = _WIDTH.search(body)
    if found is None:
        return body
    width = float(found[1])
    return body.replace("<svg ", f'<svg style="min-width: {width:.0f}px; max-width: {1.6 * width:.0f}px" ', 1)


def _with_variables(style: re.Match[str]) -> str:
    return _COLOUR.sub(lambda colour: _VARIABLES.get(colour[0].lower(), colour[0]), style[0])
