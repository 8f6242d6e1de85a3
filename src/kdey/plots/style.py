"""How displays look: axes, colours, labels in per cent, legends, and the text of files.

Every figure that matplotlib draws, in :mod:`kdey.plots`, in :mod:`experiments` and in the
documentation, uses these functions. Colours and words are shared with the report's pages.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from kdey.evaluation import Results
from kdey.report.page import COLOURS, GREY, tick_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure, SubFigure


__all__ = [
    "COLOURS",
    "DPI",
    "LINE_STYLES",
    "REFERENCE",
    "TRAINING_COLOUR",
    "add_figure_legend",
    "add_legend",
    "add_legend_above",
    "axes_or_new",
    "draw_band",
    "file_style",
    "label_in_percent",
    "label_log_axis",
    "line_style",
    "literal_text",
    "new_figure",
    "pyplot",
    "remove_clutter",
]


#: Line styles beside the colours, so that lines differ in a grey print too.
LINE_STYLES = ("-", "--", "-.", ":")
#: Lines to compare with: a diagonal, zero, a baseline.
REFERENCE: dict[str, Any] = {"color": "#777777", "linestyle": "--", "linewidth": 1}
#: The colour of what training had.
TRAINING_COLOUR = GREY
#: Pixels per inch of files.
DPI = 150


def pyplot() -> Any:
    """Return matplotlib's pyplot, or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'kdey[plot]'") from None
    return plt


def axes_or_new(ax: Axes | None, size: tuple[float, float]) -> Any:
    """Return ``ax``, or the axes of a new figure of a size in inches."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=size, layout="constrained")[1]


def new_figure(width: float, height: float) -> Figure:
    """Return a figure that belongs to no window, its size in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def file_style() -> AbstractContextManager[None]:
    """Return a context in which figures go to files: no window, small text."""
    import matplotlib as mpl

    return mpl.rc_context({"backend": "agg", "font.size": 9, "axes.titlesize": 10})


def line_style(number: int) -> dict[str, Any]:
    """Return the colour and line style of a series by its number."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": LINE_STYLES[number // len(COLOURS) % len(LINE_STYLES)],
    }


def literal_text(name: object) -> str:
    r"""Return a name that comes from the data (a class, a group) so that it is drawn unchanged.

    matplotlib reads text between dollars as a formula, and fails where it is none; it leaves
    names that begin with an underscore out of legends.
    """
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def label_in_percent(axis: Axis) -> None:
    """Label an axis of shares in per cent."""
    from matplotlib.ticker import FuncFormatter

    axis.set_major_formatter(FuncFormatter(lambda share, _: tick_label(share)))


def label_log_axis(axis: Axis) -> None:
    """Label a logarithmic axis with 1, 2 and 5 times powers of ten, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def remove_clutter(ax: Axes) -> None:
    """Remove what carries no data, and draw a faint grid behind the rest."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
    ax.set_axisbelow(True)


def add_legend(ax: Axes, title: str | None = None) -> None:
    """Draw a legend where there is more than one name, outside where there are many."""
    handles, names = ax.get_legend_handles_labels()
    if len(names) < 2:
        return
    many = len(names) > 6
    place: dict[str, Any] = (
        {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)} if many else {"loc": "best"}
    )
    ax.legend(handles, names, title=title, frameon=False, fontsize="small", **place)


def add_legend_above(ax: Axes) -> None:
    """Draw a legend above the axes, within their width: in one line, or in two."""
    entries = len(ax.get_legend_handles_labels()[1])
    # Four entries side by side are wider than a figure of the usual size: two lines of two.
    ncols = entries if entries < 4 else (entries + 1) // 2
    ax.legend(frameon=False, fontsize="small", ncols=ncols, loc="lower left", bbox_to_anchor=(0, 1))


def draw_band(
    ax: Axes, at: Any, middle: Any, band: tuple[Any, Any], label: str, number: int
) -> None:
    """Draw a line of a series with a band around it.

    Parameters
    ----------
    ax : matplotlib axes
    at, middle : arrays of shape (n,)
        The points of the line.
    band : two arrays of shape (n,)
        The lower and the upper border of the band.
    label : str
        For the legend.
    number : int
        Of the series, which gives it its colour.
    """
    style = line_style(number)
    ax.fill_between(at, *band, color=style["color"], alpha=0.15, linewidth=0)
    ax.plot(at, middle, marker=".", markersize=5, label=label, **style)


def add_figure_legend(figure: Figure, ax: Axes) -> None:
    """Draw one legend for all panels of a figure, to their right, with the names of ``ax``."""
    handles, names = ax.get_legend_handles_labels()
    figure.legend(handles, names, loc="outside right upper", frameon=False)


Shown = TypeVar("Shown")


class Display:
    """A figure.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        After ``plot``.
    """

    ax_: Axes
    figure_: Figure | SubFigure

    def _drawn_on(self, ax: Axes, *, legend: bool = False) -> Self:
        """Remove clutter from axes on which all is drawn, add a legend and keep them."""
        remove_clutter(ax)
        if legend:
            add_legend(ax)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _ipython_display_(self) -> None:
        """Show the figure in a notebook, unless the notebook shows it as an open figure anyway."""
        from IPython.display import display

        figure = self.figure_.figure
        if not pyplot().fignum_exists(getattr(figure, "number", None) or -1):
            display(figure)  # type: ignore[no-untyped-call]


class DisplayOf(Display, Generic[Shown]):
    """A figure of one object.

    Parameters
    ----------
    shown : object
        What is drawn.

    Attributes
    ----------
    ax_, figure_ : matplotlib objects
        After ``plot``.
    """

    def __init__(self, shown: Shown) -> None:
        self.shown = shown


class ResultsDisplay(DisplayOf[Results]):
    """A figure of the results of an evaluation."""

    @classmethod
    def from_results(
        cls, results: Results, *given: Any, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Return the display, plotted on ``ax`` or a new figure; the rest as for :meth:`plot`."""
        return cls(results).plot(*given, ax=ax, **options)

    def plot(self, *args: Any, **options: Any) -> Self:
        """Draw the results on ``ax`` or a new figure."""
        raise NotImplementedError
