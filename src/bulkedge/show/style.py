"""One look for all figures: sizes of a two-column paper, a palette the colour-blind can read, no global state.

Lines and bands are theory (the band is one standard error), markers with bars are measurements.
"""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure as _Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from bulkedge.show.formats import writable

P = ParamSpec("P")
R = TypeVar("R")

COLUMN, PAGE = 3.4, 7.0
"""Widths in inches of one column and of two."""

BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK, GREY = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#7F7F7F",
)
CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, BLACK)
KINDS = {"hidden": VERMILLION, "easy": GREEN, "weight": PURPLE}
DASHES = ("-", (0, (4, 1.5)), (0, (1, 1.2)), (0, (5, 1.2, 1, 1.2)))

MARKERS = ("o", "s", "^", "v", "D", "p", "h")
EIGENVALUE = r"eigenvalue of $m\,\nabla^2$Risk"

_RC: dict[Any, Any] = {
    "font.family": "STIXGeneral",
    "mathtext.fontset": "stix",
    "font.size": 9,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "legend.fontsize": 8,
    "legend.frameon": False,
    "legend.handlelength": 1.8,
    "legend.columnspacing": 1.4,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "xtick.direction": "in",
    "ytick.direction": "in",
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "axes.formatter.useoffset": False,
    "axes.formatter.limits": (-4, 5),
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "bulkedge",
}


class Figure(_Figure):
    """A matplotlib figure that notebooks display and that no global list keeps alive."""

    def _repr_png_(self) -> bytes:
        return to_bytes(self, "png")


def styled(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw with this module's look, whatever style the user has set; his settings come back afterwards."""

    @functools.wraps(draw)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        with matplotlib.rc_context():
            matplotlib.rcdefaults()
            matplotlib.rcParams.update(_RC)
            return draw(*args, **kwargs)

    return wrapper


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, that lays itself out."""
    return Figure(figsize=(width, height), layout="constrained")


def colours(count: int) -> list[Any]:
    """Colours for `count` things with an order: the palette, or shades from dark to light if it is too short."""
    if count <= len(CYCLE):
        return list(CYCLE[:count])
    shades = matplotlib.colormaps["cividis"]
    return [shades(0.95 * i / (count - 1)) for i in range(count)]


def line_key(colour: Any = BLACK, dash: Any = "-") -> Line2D:
    """A legend's sign for a line."""
    return Line2D([], [], color=colour, linestyle=dash)


def point_key(colour: Any = BLACK, marker: str = "o") -> Line2D:
    """A legend's sign for measured points."""
    return Line2D([], [], color=colour, linestyle="", marker=marker, markerfacecolor="white")


def area_key(colour: Any, alpha: float = 0.3) -> Patch:
    """A legend's sign for a shaded area."""
    return Patch(facecolor=colour, alpha=alpha, linewidth=0)


def legend(figure: Figure, keys: dict[str, Any], columns: int = 6) -> None:
    """One legend for the whole figure, above it and so never on the data."""
    if keys:
        figure.legend(
            list(keys.values()), list(keys), loc="outside upper center", ncols=min(columns, len(keys)), borderpad=0.1
        )


def plain_log(axis: Any) -> None:
    """Ticks 1, 2, 5, 10, ... on a logarithmic axis, written as numbers; only powers of ten over many decades."""
    low, high = sorted(axis.get_view_interval())
    steps = (1, 2, 5) if high / low < 100 else (1,)
    axis.set_major_locator(LogLocator(10, subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def letter(axes: Axes, index: int, text: str = "") -> None:
    """The panel's letter and what it shows, as a title at its left."""
    axes.set_title(f"({'abcdefghijklmnopqrstuvwxyz'[index % 26]}) {text}".rstrip())


@styled
def to_bytes(figure: Any, kind: str, dpi: int = 300) -> bytes:
    """The figure as a file's content; the same figure gives the same bytes."""
    stream = io.BytesIO()
    stamp = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    figure.savefig(stream, format=kind, dpi=dpi, metadata=stamp)
    return stream.getvalue()


def save(figure: Any, path: Any, dpi: int = 300) -> Path:
    """Write the figure as .png, .svg or .pdf, by the suffix of the path."""
    kind = writable(path)
    target = Path(path)
    target.write_bytes(to_bytes(figure, kind, dpi))
    return target
