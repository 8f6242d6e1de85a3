"""Links of the repository's pages, as its viewer follows them, made to work in the site too.

README and the pages under ``docs/`` link to files beside ``docs/``. Those that the site has under
another name become links to its pages, the others can be downloaded.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

ROOT = Path(__file__).parents[2]

#: Pages of the repository that lie outside ``docs/``, and where the site has them.
PAGES = {
    "README.md": "index",
    "ARCHITECTURE.md": "lab/project/architecture",
    "CONTRIBUTING.md": "lab/project/contributing",
    "CHANGELOG.md": "lab/project/changelog",
    "SECURITY.md": "lab/project/security",
    "benchmarks/README.md": "lab/project/benchmarks",
    "examples/README.md": "tutorials/index",
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Rewrite links as soon as a page is read, before downloads are collected."""
    app.connect("doctree-read", rewrite, priority=100)
    app.connect("doctree-read", leave_out_of_search, priority=900)
    app.connect("doctree-resolved", name_targets, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def rewrite(app: Sphinx, doctree: nodes.document) -> None:
    """Point the links of a page that lead out of ``docs/`` to the site's own places."""
    for link in list(doctree.findall(addnodes.pending_xref)):
        if link.get("reftype") == "myst":
            _rewrite(link)
    for link in list(doctree.findall(addnodes.download_reference)):
        page = page_of(_below_root(link["reftarget"]))
        if page is not None:
            link.replace_self(_to_page(page, app.env.docname, link.children))


def leave_out_of_search(app: Sphinx, doctree: nodes.document) -> None:
    """Keep the lab book out of the search: measurements and decisions are not for users."""
    if app.env.docname.startswith("lab/"):
        app.env.metadata[app.env.docname]["nosearch"] = True


def _rewrite(link: addnodes.pending_xref) -> None:
    path = _below_root(link["reftarget"])
    page = page_of(path)
    if page is not None:
        link.replace_self(_to_page(page, link["refdoc"], link.children))
    elif (ROOT / path).is_file():
        there = addnodes.download_reference("", "", reftarget=f"/../{path}", refdoc=link["refdoc"])
        there += link.children
        link.replace_self(there)


def page_of(path: str) -> str | None:
    """Return the site's page of a file of the repository, or None."""
    example = re.fullmatch(r"examples/(plot_\w+)\.py", path)
    return f"auto_examples/{example[1]}" if example else PAGES.get(path)


def _below_root(target: str) -> str:
    """Return a target as a path in the repository; MyST names pages in full, without suffix."""
    if target.startswith(f"{ROOT}/"):
        return f"{target.removeprefix(f'{ROOT}/')}.md"
    return re.sub(r"^/?(\.\./)*", "", target.split("#")[0])


def _to_page(page: str, source: str, children: Any) -> addnodes.pending_xref:
    link = addnodes.pending_xref(
        "", refdoc=source, refdomain="std", reftype="doc", reftarget=f"/{page}", refexplicit=True
    )
    link += children
    return link


def name_targets(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Give links between pages the title of the page that they lead to."""
    for link in doctree.findall(nodes.reference):
        path = link.get("refuri", "").split("#")[0]
        if "reftitle" in link or "://" in path or not path.endswith(".html"):
            continue
        page = posixpath.normpath(posixpath.join(posixpath.dirname(docname), path))
        title = app.env.titles.get(page.removesuffix(".html"))
        if title is not None:
            link["reftitle"] = title.astext()
