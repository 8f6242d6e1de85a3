"""The API pages of the site list every public name, once, under a module that has it."""

from __future__ import annotations

import re
from collections import Counter
from importlib import import_module

import pytest

import kdey
from tests.documents.pages import ROOT

#: Pages with tables of names: those for users, and the building blocks.
PAGES = [*sorted((ROOT / "docs" / "api").glob("*.rst")), ROOT / "docs" / "lab" / "inside.rst"]
#: Packages whose public names are all listed, under their own name or that of ``kdey``.
PACKAGES = (
    *(
        "bayes",
        "datasets",
        "diagnostics",
        "evaluation",
        "gpu",
        "groups",
    ),
    *(
        "interop",
        "intervals",
        "labelled",
        "monitoring",
        "persistence",
    ),
    *("matching", "plots", "quantifiers", "report"),
    *("rows", "stacking", "tuning"),
)
#: Names of types for annotations: nothing to call, nothing to tell.
TYPES = {"AnyMatching", "Labelled"}


def listed() -> list[str]:
    """Return the full name of every entry of the pages' tables."""
    names: list[str] = []
    for page in PAGES:
        module = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            said = re.fullmatch(r"\.\. currentmodule:: ([\w.]+)", line)
            module = said[1] if said else "" if line == ".. toctree::" else module
            entry = re.fullmatch(r"   (\w+)", line)
            if entry and module:
                names.append(f"{module}.{entry[1]}")
    return names


def test_every_public_name_is_on_a_page() -> None:
    missing = [name for name in kdey.__all__ if f"kdey.{name}" not in listed()]
    assert missing == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_name_of_a_package_is_on_a_page(package: str) -> None:
    last = {name.rsplit(".", 1)[1] for name in listed()}
    assert set(import_module(f"kdey.{package}").__all__) - TYPES <= last


def test_no_name_twice() -> None:
    assert [name for name, n in Counter(listed()).items() if n > 1] == []


def test_no_page_lists_a_private_module() -> None:
    assert [name for name in listed() if "._" in name] == []


def test_listed_names_exist_and_say_what_they_are() -> None:
    for name in listed():
        module, last = name.rsplit(".", 1)
        found = getattr(import_module(module), last)
        assert not callable(found) or (found.__doc__ or "").strip(), name
