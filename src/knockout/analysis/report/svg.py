"""SVG from matplotlib, the same bytes for the same data, with one look and one set of colours for all figures."""

import io
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from knockout.strict import printable

BASELINE_COLOUR = "#5A5A5A"
PALETTE = (
    # Okabe & Ito 2008 without black and yellow (too pale for lines), then darker and lighter tones of the same hues.
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D00", "#004B76",
    "#8F3E00", "#00543D", "#8A3F6E", "#5D4A9C", "#2B7FA8", "#A63A3A", "#6B8E23", "#3D3D8F",
)  # fmt: skip
LABEL_LENGTH = 34


def colours(variants: Sequence[str]) -> dict[str, str]:
    """One colour per variant, the same in all figures."""
    return {v: PALETTE[i % len(PALETTE)] for i, v in enumerate(variants)}


def plain_axes(ax: Axes) -> None:
    """Axes without a frame, with pale vertical lines."""
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    ax.tick_params(labelsize=8.5)
    ax.grid(visible=True, axis="x", color="#EEEEEE", linewidth=0.6, zorder=0)
    ax.set_axisbelow(True)


def label_text(text: object, length: int = LABEL_LENGTH) -> str:
    """Any text as one that an SVG can hold: no control characters, and short enough (the CSV has it whole)."""
    whole = printable(str(text))
    return whole if len(whole) <= length else whole[: length - 1] + "…"


@contextmanager
def _settings(name: str) -> Iterator[None]:
    with warnings.catch_warnings(), mpl.rc_context():
        # The font only measures text here. Whoever shows the SVG has the glyphs that it lacks (CJK, emoji).
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font", category=UserWarning)
        mpl.rcdefaults()
        mpl.rcParams.update(
            {
                "svg.hashsalt": f"knockout {name}",  # ids in the file would be random without
                "svg.fonttype": "none",  # text stays text: it can be searched, read aloud and copied
                "text.parse_math": False,  # a label with $ is a label
                "axes.unicode_minus": True,
                "font.family": "DejaVu Sans",  # comes with matplotlib, so that every machine lays out alike
                "font.size": 9.5,
            }
        )
        yield


def svg_text(draw: Callable[[Figure], None], *, name: str, width: float, height: float) -> str:
    """A figure as SVG text: the same bytes for the same data, with no date and no random ids. Sizes in inches."""
    with _settings(name):
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        out = io.StringIO()
        figure.savefig(
            out, format="svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight", pad_inches=0.05
        )
    text = out.getvalue()
    text = re.sub(r" *<metadata>.*?</metadata>\n", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = text.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, Arial, sans-serif")
    # Several figures stand in one HTML file, where ids must not meet.
    return re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
