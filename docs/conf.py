"""Sphinx configuration of the documentation site: ``make docs`` writes it to ``build/docs``.

Nothing is fetched while building, and the pages load nothing from elsewhere when read: formulas are
MathML (``_ext/mathml.py``), fonts and scripts are the theme's own files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_ext"), str(HERE / "try"), str(HERE.parent / "src")]
# The fits of the examples are small: more threads would only wait for each other.
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

from sphinx_gallery.sorting import FunctionSortKey  # noqa: E402
from teaching import taught_order  # noqa: E402

import kdey  # noqa: E402

project = "kdey"
author = "The kdey developers"
copyright = author
version = release = kdey.__version__
language = "en_GB"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "build_core",
    "campaigns",
    "commands",
    "mathml",
    "references",
    "repository",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
# The examples have a page of their own, by kind; that of the gallery has one list of all.
exclude_patterns = ["_ext", "_templates", "api/backreferences", "auto_examples/index.rst"]
templates_path = ["_templates"]
highlight_language = "none"  # fences say what they hold; the others are formulas and output
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Links that lead nowhere are errors: `make docs` builds with -W and -n. Names of other libraries
# are printed as they are, since looking them up would need a network.
others = ("joblib", "numpy", "pandas", "pathlib", "scipy", "sklearn", "torch")
nitpick_ignore_regex = [("py:.*", rf"({'|'.join(others)})\..*")]

# Markdown: formulas in dollars, and links to headings as the repository's viewer makes them.
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 4
html_math_renderer = "mathml"

# Reference: one page per name. Types are told by the docstrings, with shapes.
autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
toc_object_entries_show_parents = "hide"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "ignore_pattern": r"^(?!plot_)",  # other scripts draw nothing
    "backreferences_dir": "api/backreferences",
    "doc_module": ("kdey",),
    "within_subsection_order": FunctionSortKey(taught_order),
    "minigallery_sort_order": FunctionSortKey(taught_order),
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,  # its page loads scripts from elsewhere
    "download_all_examples": False,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = f"kdey {release}"
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system is
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_show_sphinx = False
html_theme_options = {
    "logo": {"text": "kdey"},
    "show_prev_next": False,
    "navigation_depth": 3,
    "show_toc_level": 2,
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}
html_sidebars = {"index": [], "get-started": [], "try/index": [], "mathematics": []}
