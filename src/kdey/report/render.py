"""From a page to HTML: one file that needs nothing else. Needs jinja2 (extra ``report``)."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from kdey.report.parts import Page
from kdey.report.vocabulary import page_colours
from kdey.tables.output import sortable_html


def render_page(page: Page) -> str:
    """Return a page as HTML."""
    script = _text("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    html: str = _template().render(
        page=page, style=_style(), script=script, script_hash=digest, table_html=sortable_html
    )
    return html


def figure_style() -> str:
    """Return the style sheet of drawings, in which colours are variables."""
    return _text("figures.css")


def _template() -> Any:
    try:
        import jinja2
    except ImportError:
        raise ImportError("a report needs jinja2: pip install 'kdey[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("kdey.report", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html")


def _style() -> str:
    """Return the style sheet with the colours of both themes."""
    style = _text("page.css").replace("/* figures */", figure_style())
    for theme in ("light", "dark"):
        style = style.replace(f"/* {theme} colours */", page_colours(theme))
    return style


def _text(name: str) -> str:
    return files("kdey.report").joinpath("templates", name).read_text(encoding="utf-8")
