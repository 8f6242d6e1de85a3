"""Figures as files of their own, and the answer on one slide.

Drawings on the page take their colours from its style sheet. In a file of its own, a drawing
carries the style sheet with it, with the tones for white paper in the place of variables, because
not every program that reads SVG knows them. PNG needs resvg (extra ``png``).
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from kdey.report.figures.groups import groups_figure
from kdey.report.figures.shares import prevalence_figure
from kdey.report.figures.time import time_figure
from kdey.report.group_words import groups_answer
from kdey.report.groups import GroupTable
from kdey.report.parts import Figure, Page
from kdey.report.render import figure_style
from kdey.report.svg import Drawing, wrapped
from kdey.report.vocabulary import theme_tones

if TYPE_CHECKING:
    from kdey.report.page import Report

FigureFormat = Literal["svg", "png"]
FORMATS: tuple[FigureFormat, ...] = ("svg", "png")
_FONTS = '"Segoe UI", "Helvetica Neue", "Liberation Sans", "DejaVu Sans", Arial, sans-serif'
#: Space around a figure, sizes of its title and its caption, and the height of their lines.
_MARGIN, _TITLE_SIZE, _CAPTION_SIZE, _LINE = 20.0, 15.0, 11.0, 1.4
#: Pixels of a picture for each unit of a drawing.
_ZOOM = 2.0
#: Width and height of a slide (16:9), and the space at its sides.
SLIDE = (1280.0, 720.0)
_SIDE = 56.0
#: Sizes of the texts of a slide, and the lines that they may have.
_SLIDE_TITLE, _SMALL = 22.0, 17.0
_HEADLINE_SIZES, _MOST_LINES = (34.0, 30.0, 26.0, 22.0), 3
#: Classes and groups on a slide: text must be readable from the last row.
_SLIDE_CLASSES, _SLIDE_PANELS, _SLIDE_WIDTH = 8, 2, 780.0


def figure_svg(figure: Figure) -> str:
    """Return a figure with its title and its caption as an SVG file."""
    drawing = figure.drawing
    width = max(drawing.width, 420.0) + 2 * _MARGIN
    room = width - 2 * _MARGIN
    page = Drawing(
        drawing.name, width, 0.0, drawing.title, drawing.description, with_tips=drawing.with_tips
    )
    y = _MARGIN + _TITLE_SIZE
    page.words(_MARGIN, y, drawing.title, "figure-title")
    page.insert(drawing, _MARGIN, y + 12)
    y += 12 + drawing.height + 8
    for line in wrapped(figure.caption, room, _CAPTION_SIZE) if figure.caption else []:
        y += _LINE * _CAPTION_SIZE
        page.words(_MARGIN, y, line, "tick")
    page.height = y + _MARGIN
    return svg_file(page)


def svg_file(drawing: Drawing) -> str:
    """Return a drawing as an SVG file that needs no style sheet."""
    style = re.sub(
        r"var\(--([a-z]+)\)", lambda found: theme_tones("light")[found[1]], figure_style()
    )
    width, height = f"{drawing.width:g}", f"{drawing.height:g}"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="{escape(_FONTS)}">\n'
        f"<title>{escape(drawing.title)}</title>\n<desc>{escape(drawing.description)}</desc>\n"
        f"<style>{escape(style, quote=False)}</style>\n"
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>\n'
        f"{''.join(drawing.parts)}\n</svg>\n"
    )


def check_format(kind: FigureFormat) -> None:
    """Raise ImportError if what a format needs is not installed."""
    if kind == "png":
        try:
            import resvg_py  # noqa: F401
        except ImportError:
            raise ImportError(
                "PNG files need resvg: pip install 'kdey[png]', or write SVG"
            ) from None


def png_bytes(svg: str) -> bytes:
    """Return an SVG file as a picture."""
    check_format("png")
    from resvg_py import svg_to_bytes

    return bytes(svg_to_bytes(svg_string=svg, zoom=_ZOOM, font_dirs=_font_folders()))


def _font_folders() -> list[str]:
    """Return where fonts are beside those of the system, which may have none: matplotlib's."""
    found = importlib.util.find_spec("matplotlib")
    if found is None or found.origin is None:
        return []
    folder = Path(found.origin).parent / "mpl-data" / "fonts" / "ttf"
    return [str(folder)] if folder.is_dir() else []


def encoded(svg: str, kind: FigureFormat) -> bytes:
    """Return an SVG file in a format."""
    return png_bytes(svg) if kind == "png" else svg.encode("utf-8", "replace")


def slide_format(path: str | os.PathLike[str]) -> FigureFormat:
    """Return the format of a slide by the ending of its name; raise ValueError for another one."""
    ending = Path(path).suffix.lower().removeprefix(".")
    for kind in FORMATS:
        if ending == kind:
            return kind
    raise ValueError(f"a slide is written as .svg or .png, got {os.fspath(path)!r}")


def figure_files(page: Page, kinds: Sequence[FigureFormat]) -> dict[str, bytes]:
    """Return the figures of a page by the names of their files."""
    return {
        f"{figure.drawing.name}.{kind}": encoded(figure_svg(figure), kind)
        for figure in page.figures
        for kind in kinds
    }


def slide_svg(report: Report) -> str:
    """Return the answer on one slide as an SVG file: title, answer, figure and whether checked."""
    page = report.page()
    width, height = SLIDE
    slide = Drawing("slide", width, height, page.title, " ".join(page.lead), with_tips=False)
    room = width - 2 * _SIDE
    slide.add("rect", x=0, y=0, width=14.0, height=height, class_="heat")
    slide.words(_SIDE, 58, wrapped(page.title, room, _SLIDE_TITLE)[0], "slide-title")
    y = _write_headline(slide, page.lead[0], room)
    for line in _second_sentence(report, room):
        y += 1.45 * _SMALL
        slide.words(_SIDE, y, line, "slide-small")
    foot = height - 36
    bottom = _write_verdict(slide, page, foot - 30, room)
    _place_figure(slide, _slide_figure(report), y + 22, bottom - 14)
    made = f"{page.created:%Y-%m-%d}, kdey. Brackets and bars are limits of error."
    slide.words(_SIDE, foot, made, "slide-foot")
    return svg_file(slide)


def _write_headline(slide: Drawing, text: str, room: float) -> float:
    """Write the answer as large as it fits, and return where it ends."""
    for size in _HEADLINE_SIZES:
        lines = wrapped(text, room, size)
        if len(lines) <= _MOST_LINES:
            break
    y = 68.0
    for line in lines:
        y += 1.28 * size
        slide.add("text", line, x=_SIDE, y=y, class_=f"slide-headline h{size:.0f}")
    return y + 8


def _second_sentence(report: Report, room: float) -> list[str]:
    """Return the lines of what groups show, if there are groups."""
    groups = report.shown_groups
    sentences = [] if groups is None else groups_answer(groups, report.totals)
    # Without an answer for all records, the first sentence on groups is the headline.
    second = 0 if report.estimate is not None else 1
    shown = sentences[second : second + 1]
    return [line for text in shown for line in wrapped(text, room, _SMALL)[:2]]


def _write_verdict(slide: Drawing, page: Page, bottom: float, room: float) -> float:
    """Write whether the answer was checked above a height, and return where that begins."""
    if page.verdict is None:
        return bottom
    tone, headline, sentence = page.verdict
    lines = wrapped(f"{headline} {sentence}", room - 18, _SMALL)[:3]
    top = bottom - 1.4 * _SMALL * len(lines)
    for number, line in enumerate(lines, start=1):
        slide.words(_SIDE + 18, top + 1.4 * _SMALL * number - 5, line, "slide-small")
    kind = f"slide-{tone}" if tone else "bar"
    slide.add("rect", x=_SIDE, y=top, width=5.0, height=bottom - top, class_=kind)
    return top


def _slide_figure(report: Report) -> Drawing:
    """Return the figure that shows most: over time, of all classes, or of groups."""
    groups = report.shown_groups
    if groups is not None and groups.time is not None:
        most = 1 if len(groups.series) > 1 else _SLIDE_PANELS
        varied = groups.with_classes(_most_varied(groups)[:most])
        return time_figure(varied, "slide-figure", width=_SLIDE_WIDTH)
    if report.estimate is not None and report.rows is not None:
        rows = report.rows[:_SLIDE_CLASSES]
        return prevalence_figure(
            rows, report.estimate.confidence, "slide-figure", width=_SLIDE_WIDTH
        )
    assert groups is not None, "a report has an estimate or groups"
    varied = groups.with_classes(_most_varied(groups)[:_SLIDE_PANELS])
    return groups_figure(varied, "slide-figure", width=_SLIDE_WIDTH)


def _most_varied(table: GroupTable) -> list[str]:
    """Return the classes by how much their shares differ between groups, the largest first."""
    shares: dict[str, list[float]] = {name: [] for name in table.classes}
    for group in table.groups:
        for row in group.rows:
            if row.estimate is not None:
                shares[row.name].append(row.estimate)
    spread = {name: max(known) - min(known) if known else 0.0 for name, known in shares.items()}
    return sorted(spread, key=lambda name: -spread[name])


def _place_figure(slide: Drawing, drawing: Drawing, top: float, bottom: float) -> None:
    """Draw a figure as large as it fits between two heights, in their middle."""
    scale = min((slide.width - 2 * _SIDE) / drawing.width, (bottom - top) / drawing.height)
    left = (slide.width - scale * drawing.width) / 2
    slide.insert(drawing, left, (top + bottom - scale * drawing.height) / 2, scale)
