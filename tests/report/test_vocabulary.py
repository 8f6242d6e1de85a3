"""Words and colours are the same on a page, in a display and in the paper's figures."""

from __future__ import annotations

import re

import pytest

from kdey.report.page import COLOURS, SHARES, page_colours

from .cases import full_report


def test_the_page_has_the_colours_of_both_themes_and_no_placeholder_left() -> None:
    page = full_report(3, "groups").html()
    style = page[page.index("<style>") : page.index("</style>")]
    # The light ones on the screen and on paper, the dark ones by the system and by choice.
    for tones in (page_colours("light"), page_colours("dark")):
        for name, tone in tones.items():
            assert style.count(f"--{name}: {tone};") >= 2
    assert "colours */" not in style
    used = set(re.findall(r"var\(--([a-z0-9]+)\)", page))
    assert used <= set(re.findall(r"--([a-z0-9]+):", style))
    assert " style=" not in page, "the policy allows the style sheet and nothing beside it"


def test_page_and_display_call_the_marks_by_the_same_names() -> None:
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    from kdey.plots import IntervalsDisplay

    report = full_report(3, "groups")
    assert report.estimate is not None
    display = IntervalsDisplay.from_estimate(report.estimate, truth=report.truth)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    plt.close(display.figure_)
    page = report.html()
    for name in ("naive", "training"):
        assert SHARES[name] in texts
        assert f"</span> {SHARES[name]}" in page
    assert texts[0].startswith(SHARES["estimate"])


def test_displays_and_the_papers_figures_take_their_colours_from_one_list() -> None:
    pytest.importorskip("matplotlib")
    from experiments.figures import _STYLES
    from kdey.plots.style import line_style

    assert {colour for colour, _ in _STYLES.values()} <= set(COLOURS)
    first = [line_style(number)["color"] for number in range(len(COLOURS))]
    assert tuple(first) == COLOURS
    again = [line_style(number) for number in range(3 * len(COLOURS))]
    assert len({tuple(style.values()) for style in again}) == len(again)
