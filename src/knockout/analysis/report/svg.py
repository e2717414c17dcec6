"""Figures from matplotlib as SVG, PDF or PNG: the same bytes for the same data, one look for all."""

import io
import re
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from xml.sax.saxutils import escape

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import fontManager
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from knockout.analysis.report.figure_formats import Format
from knockout.analysis.report.theme import BASELINE_COLOUR, INK, LINE, PALETTE, SOFT
from knockout.strict import printable

__all__ = ["BASELINE_COLOUR", "PALETTE", "Drawing", "colours", "label_text", "plain_axes", "seed_looks", "wrapped"]

LABEL_LENGTH = 34
PAD = 0.06
"""inches around a figure"""
WIDE_FONTS = ("Noto Sans CJK SC", "Noto Sans SC", "WenQuanYi Zen Hei", "Source Han Sans SC", "PingFang SC", "SimHei")
"""Fonts with Chinese characters: PDF and PNG, which carry their glyphs, use those that the machine has."""
DASHES = ("-", (0, (5, 1.2)), (0, (1.6, 1)))
SHADES = (0.55, 0.35, 0.75)
MARKERS = "osDv^P<X>*"
LONG_PATH = 400
"""Characters of a path from which on tenths of a point are enough."""
_TAG = re.compile(r"<[^<>]+>")
_PATH = re.compile(r'<path ([^<>]*?)(?<!\w)d="([^"]*)"')
_ID = re.compile(r'(\bid="|href="#|url\(#)')

Dash = str | tuple[float, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class SeedLook:
    """How one seed is told from the others, in addition to the colour of its variant."""

    dash: Dash
    alpha: float
    marker: str


@dataclass(frozen=True)
class Drawing:
    """A figure that can be written in any format. Sizes in inches."""

    draw: Callable[[Figure], None]
    name: str
    width: float
    height: float

    def svg(self, title: str = "", description: str = "") -> str:
        """The figure as SVG text with literal colours, and what a screen reader says of it."""
        text = self.render("svg").decode()
        text = re.sub(r" *<metadata>.*?</metadata>\n", "", text[text.index("<svg") :], flags=re.DOTALL)
        text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, Arial, sans-serif")
        text = _PATH.sub(_compact, text)
        # Several figures stand in one HTML file, where ids must not meet.
        text = _TAG.sub(lambda tag: _ID.sub(rf"\g<1>{self.name}-", tag[0]), text)
        return _described(text, self.name, title, description) if title else text

    def render(self, form: Format) -> bytes:
        """The bytes of the figure in one format, without dates, random ids or the name of the software."""
        with _settings(self.name, form):
            figure = Figure(figsize=(self.width, self.height), layout="constrained")
            self.draw(figure)
            figure.draw_without_rendering()  # lays out; what is then drawn stays where it is
            figure.set_layout_engine("none")
            out = io.BytesIO()
            stamp = {
                "svg": {"Date": None, "Creator": None},
                "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
                "png": {"Software": None},
            }[form]
            dots = 200 if form == "png" else 72
            figure.savefig(out, format=form, metadata=stamp, bbox_inches=_bounds(figure), dpi=dots)
        return out.getvalue()


def colours(variants: Sequence[str]) -> dict[str, str]:
    """One colour per variant, the same in all figures."""
    return {v: PALETTE[i % len(PALETTE)] for i, v in enumerate(variants)}


def seed_looks(seeds: Sequence[object]) -> dict[object, SeedLook]:
    """Line, shade and marker of each seed, in the order in which the seeds first stand; nine lines, ten markers."""
    return {
        seed: SeedLook(
            dash=DASHES[i % len(DASHES)],
            alpha=SHADES[i // len(DASHES) % len(SHADES)],
            marker=MARKERS[i % len(MARKERS)],
        )
        for i, seed in enumerate(dict.fromkeys(seeds))
    }


def plain_axes(ax: Axes) -> None:
    """Axes without a frame, with pale vertical lines."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=8.5)
    ax.grid(visible=True, axis="x", color=LINE, linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)


def label_text(text: object, length: int = LABEL_LENGTH) -> str:
    """Any text as one that an SVG can hold: no control characters, and short enough (the CSV has it whole)."""
    whole = printable(str(text))
    return whole if len(whole) <= length else whole[: length - 1] + "…"


def wrapped(text: object, length: int = LABEL_LENGTH) -> str:
    """Any text whole, in lines of at most `length` columns; a Chinese character takes two. Broken after _ - + / , =."""
    lines: list[str] = []
    for word in re.findall(r"[^\s_\-+/,=]*[\s_\-+/,=]*", printable(str(text))):
        if lines and columns_of(lines[-1] + word.rstrip()) <= length:
            lines[-1] += word
            continue
        piece = ""
        for character in word:
            if piece and columns_of((piece + character).rstrip()) > length:
                lines.append(piece)
                piece = ""
            piece += character
        if piece:
            lines.append(piece)
    return "\n".join(line.strip() for line in lines)


def line_count(text: str) -> int:
    """The lines of a wrapped text."""
    return text.count("\n") + 1


def columns_of(text: str) -> int:
    """The width of a text in columns of a terminal: two for each wide character."""
    return len(text) + _wide(text)


def _wide(text: str) -> int:
    return sum(unicodedata.east_asian_width(character) in "WF" for character in text)


def _bounds(figure: Figure) -> Bbox:
    """What a figure takes, in inches, with room for wide characters: the font that measures them has none."""
    box = figure.get_tightbbox()
    room = 0.0
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        if text.get_visible():
            most = max((_wide(line) for line in text.get_text().split("\n")), default=0)
            room = max(room, 0.45 * most * float(text.get_fontsize()) / 72)
    return Bbox.from_extents(box.x0 - PAD - room, box.y0 - PAD, box.x1 + PAD + room, box.y1 + PAD)


def _compact(path: re.Match[str]) -> str:
    """A path with fewer decimals: hundredths of a point for marks, tenths for long lines."""
    decimals = 1 if len(path[2]) > LONG_PATH else 2

    def short(number: re.Match[str]) -> str:
        return f"{round(float(number[0]), decimals) + 0.0:.7g}"

    body = re.sub(r"-?\d+\.\d+", short, path[2])
    body = re.sub(r"\s*\n?\s*([MLQCz])\s*", r"\1", body)
    return f'<path {path[1]}d="{body}"'


def _described(svg: str, name: str, title: str, description: str) -> str:
    ids = f"{name}-title {name}-desc"
    said = f'<title id="{name}-title">{escape(printable(title))}</title>\n'
    said += f'<desc id="{name}-desc">{escape(printable(description))}</desc>\n'
    start = svg.index(">") + 1
    return f'<svg role="img" aria-labelledby="{ids}"{svg[4:start]}\n{said}{svg[start:].lstrip()}'


@contextmanager
def _settings(name: str, form: Format) -> Iterator[None]:
    families = ["DejaVu Sans"]  # comes with matplotlib, so that every machine lays out alike
    if form != "svg":
        have = {font.name for font in fontManager.ttflist}
        families += [font for font in WIDE_FONTS if font in have]
    with warnings.catch_warnings(), mpl.rc_context():
        # The font only measures text in an SVG. Whoever shows it has the glyphs that it lacks (CJK, emoji).
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font", category=UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.hashsalt": f"knockout {name}",  # ids in the file would be random without
                "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and copied
                "pdf.fonttype": 42,  # whole fonts, which publishers ask for, not shapes
                "text.parse_math": False,  # a label with $ is a label
                "axes.unicode_minus": True,
                "font.family": families,
                "font.size": 9.5,
                "text.color": INK,
                "axes.labelcolor": INK,
                "axes.edgecolor": SOFT,
                "xtick.color": SOFT,
                "ytick.color": SOFT,
                "xtick.labelcolor": INK,
                "ytick.labelcolor": INK,
            }
        )
        yield
