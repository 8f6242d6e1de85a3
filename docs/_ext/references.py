"""Names that docstrings use, found where the site documents them.

Docstrings speak of names where they live (``kdey.quantifiers.kde.KDEyML``) or as their neighbours
do (``KDEyML``); the site documents them where users import them from (``kdey.KDEyML``). What is
inherited from scikit-learn is documented there, not here.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.nodes import make_refnode

#: The kinds of object that a role means, where a function and methods share a name.
KINDS = {"func": {"function"}, "class": {"class", "exception"}, "meth": {"method"}}


def setup(app: Sphinx) -> dict[str, Any]:
    """Ask here for what was not found, and for what to leave out."""
    app.connect("missing-reference", find_name)
    app.connect("autodoc-skip-member", skip_inherited)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


def find_name(
    app: Sphinx, env: BuildEnvironment, node: addnodes.pending_xref, text: nodes.Element
) -> nodes.Element | None:
    """Return a link to the one documented name that ends as the reference does."""
    if node.get("refdomain") != "py":
        return None
    if node["reftype"] == "mod" and node["reftarget"].startswith("kdey."):
        return text  # modules have no page: the name says where to look
    last = node["reftarget"].split(".")[-1]
    kinds = KINDS.get(node["reftype"])
    found = [
        (name, entry)
        for name, entry in env.domains["py"].objects.items()  # type: ignore[attr-defined]
        if name.split(".")[-1] == last
        and not entry.aliased
        and (kinds is None or entry.objtype in kinds)
    ]
    if len(found) != 1:
        return None
    ((name, entry),) = found
    builder: Any = app.builder
    return make_refnode(builder, node["refdoc"], entry.docname, entry.node_id, text, name)


def skip_inherited(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out members that scikit-learn defines: metadata routing, ``set_output``, ``score``."""
    home = getattr(member, "__module__", None) or ""
    requests = name.startswith("set_") and name.endswith("_request")
    return True if home.startswith("sklearn.") or requests else None
