"""Formulas as MathML, which browsers draw themselves: no script, no font, no network."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the renderer that ``html_math_renderer = "mathml"`` names."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def inline(translator: Any, node: nodes.math) -> None:
    """Write a formula of a line of text."""
    translator.body.append(to_mathml(node, node.astext(), "inline"))
    raise nodes.SkipNode


def block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula that stands alone; several lines are aligned at their ``&``."""
    text = node.astext().strip()
    if r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    text = re.sub(r"\\(max|min)_", r"\\\1\\limits_", text)
    translator.body.append(f'<div class="math-block">{to_mathml(node, text, "block")}</div>\n')
    raise nodes.SkipNode


def to_mathml(node: nodes.Node, text: str, display: str) -> str:
    """Return a formula as MathML; a command that the converter does not know is a warning."""
    # A logarithm wants a little room on both sides, but for a parenthesis that follows it.
    text = re.sub(r"(?<=[\w}])\s*\\log", r"\\,\\log", text)
    text = re.sub(r"\\log(?=\s+[^\s(])(?!\s+\\left)", r"\\log\\,", text)
    formula = convert(text, display=display)
    # Bars of a norm are not to grow with what stands after them.
    formula = re.sub("<mo>(&#x0?2016;|‖)</mo>", r'<mo stretchy="false">\1</mo>', formula)
    for unknown in re.findall(r">(\\[A-Za-z]+)<", formula):
        LOGGER.warning("formula with unknown command %s", unknown, location=node)
    return formula
