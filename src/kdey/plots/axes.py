"""What the displays share: axes to draw on, colours, labels in per cent."""

from __future__ import annotations

from typing import Any

#: Colours that colour-blind readers tell apart (Okabe and Ito, 2008), darkest first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
#: Line styles beside the colours: lines differ on a grey print too.
STYLES = ("-", "--", "-.", ":")


def pyplot() -> Any:
    """Return matplotlib's pyplot, or say what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("plots need matplotlib: pip install 'kdey[plot]'") from None
    return plt


def axes_or_new(ax: Any, size: tuple[float, float]) -> Any:
    """Return ``ax``, or the axes of a new figure of a size in inches."""
    if ax is not None:
        return ax
    return pyplot().subplots(figsize=size, layout="constrained")[1]


def look(number: int) -> dict[str, Any]:
    """Return the colour and line style of the n-th line."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": STYLES[number // len(COLOURS) % len(STYLES)],
    }


def words(name: Any) -> str:
    r"""Return a name that comes from the data (a class, a group) so that it is drawn as it is.

    matplotlib takes what stands between dollars for a formula, and fails where it is none; names
    that begin with an underscore it leaves out of legends.
    """
    text = str(name).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def in_per_cent(axis: Any) -> None:
    """Label an axis of shares in per cent."""
    from matplotlib.ticker import PercentFormatter

    axis.set_major_formatter(PercentFormatter(1.0))


def plain(ax: Any) -> None:
    """Take away what does not carry data."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
    ax.set_axisbelow(True)


def legend(ax: Any, title: str | None = None) -> None:
    """Draw a legend where there is more than one name, outside where there are many."""
    handles, names = ax.get_legend_handles_labels()
    if len(names) < 2:
        return
    many = len(names) > 6
    place = {"loc": "upper left", "bbox_to_anchor": (1.01, 1.0)} if many else {"loc": "best"}
    ax.legend(handles, names, title=title, frameon=False, fontsize="small", **place)
