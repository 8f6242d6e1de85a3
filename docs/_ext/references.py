"""Names that docstrings use, found where the site documents them.

Docstrings speak of names where they live (``kdey.quantifiers.densities.KDEyML``) or as their
neighbours do (``KDEyML``); the site documents them where users import them from (``kdey.KDEyML``).
What is inherited from scikit-learn is documented there, not here.
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
    target = node["reftarget"]
    if target.startswith("kdey._") or (node["reftype"] == "mod" and target.startswith("kdey.")):
        return text  # modules and private names have no page: the name says where to look
    wanted = target.split(".")
    for tail in (wanted[-2:], wanted[-1:]):
        found = _ending(env, tail, KINDS.get(node["reftype"]))
        if len(found) == 1:
            ((name, entry),) = found.items()
            builder: Any = app.builder
            return make_refnode(builder, node["refdoc"], entry.docname, entry.node_id, text, name)
    return None


def _ending(env: BuildEnvironment, tail: list[str], kinds: set[str] | None) -> dict[str, Any]:
    """Return the documented objects of some kinds whose names end so, without aliases."""
    domain: Any = env.domains["py"]
    return {
        name: entry
        for name, entry in domain.objects.items()
        if name.split(".")[-len(tail) :] == tail
        and not entry.aliased
        and (kinds is None or entry.objtype in kinds)
    }


def skip_inherited(
    app: Sphinx, what: str, name: str, member: Any, skip: bool, options: Any
) -> bool | None:
    """Leave out what others define: metadata routing, ``set_output``, ``score``, ``count``."""
    home = getattr(member, "__module__", None) or ""
    requests = name.startswith("set_") and name.endswith("_request")
    return True if home.startswith(("sklearn.", "collections.")) or requests else None
