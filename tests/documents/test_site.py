"""The outline of the site: every page can be reached, none is a bare list of links."""

from __future__ import annotations

import re
import sys

import pytest

from kdey.cli.__main__ import COMMANDS, kdey
from tests.documents.pages import ROOT, all_pages

EXTENSIONS = ROOT / "docs" / "_ext"


@pytest.fixture(autouse=True)
def extensions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the extensions of the site be imported."""
    monkeypatch.setattr(sys, "path", [str(EXTENSIONS), *sys.path])


def entries(text: str) -> list[str]:
    """Return the pages that the toctrees of a page name."""
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```", text, re.M | re.S)
    lines = [line.strip() for tree in trees for line in tree.splitlines()]
    lines = [line for line in lines if line and not line.startswith(":")]
    return [re.sub(r".*<(.*)>", r"\1", line) for line in lines]


def test_every_page_is_in_one_toctree() -> None:
    pages = [page for page in all_pages() if page.name.startswith("docs/")]
    named: list[str] = []
    for page in pages:
        folder = (ROOT / page.name).parent
        for entry in entries(page.text):
            named += [path.as_posix() for path in sorted(folder.glob(f"{entry}.md"))]
    reference = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    named += [
        str(ROOT / "docs" / "api" / f"{name}.md")
        for name in re.findall(r"^   ([\w-]+)$", reference, re.M)
    ]
    resolved = [(ROOT / name).resolve() for name in named]
    missing = [page.name for page in pages if (ROOT / page.name).resolve() not in resolved]
    assert missing == ["docs/index.md"]
    twice = {path.name for path in resolved if resolved.count(path) > 1}
    assert twice == set()


def test_no_index_is_a_bare_list_of_links() -> None:
    indexes = [page for page in all_pages() if entries(page.text)]
    assert len(indexes) >= 6
    for page in indexes:
        prose = re.sub(r"^```.*?^```$", "", page.text, flags=re.M | re.S)
        assert len(prose.split()) >= 40, page.name


def test_pages_for_users_are_few_and_short() -> None:
    folders = [ROOT / "docs" / name for name in ("", "tutorials", "try", "gallery", "api")]
    pages = [
        page for folder in folders for end in ("md", "rst") for page in folder.glob(f"*.{end}")
    ]
    assert 25 <= len(pages) <= 30  # another one takes the place of one that is there
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 45_000


def test_no_page_speaks_of_internal_targets() -> None:
    for page in all_pages():
        if not page.name.startswith(("docs/lab/decisions", "CHANGELOG")):
            found = re.findall(r"(?:\| wanted +\||\(wanted|was wanted|wanted at most)", page.text)
            assert found == [], page.name
            assert re.findall(r"\b[Ii]ssue #?\d+\b", page.text) == [], page.name


def test_gallery_is_in_the_order_of_its_list() -> None:
    from teaching import taught_order

    names = [path.name for path in (ROOT / "examples").glob("plot_*.py")]
    ordered = sorted(names, key=taught_order)
    assert ordered[:2] == ["plot_first_answer.py", "plot_case_study_news.py"]
    with pytest.raises(ValueError, match="plot_nothing"):
        taught_order("plot_nothing.py")


def test_page_of_examples_has_the_kinds_and_the_order_of_the_list() -> None:
    from teaching import listed

    readme = (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
    text = (ROOT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    kinds = re.findall(r"^## (.*)$", readme, re.M)
    assert re.findall(r"^## (.*)$", text, re.M) == kinds
    assert kinds[0] == "Case studies"
    assert re.findall(r"\.\./examples/(plot_\w+\.py)$", text, re.M) == listed(readme)
    drawn = [entry.rpartition("/")[2] + ".py" for entry in entries(text) if "auto_ex" in entry]
    assert drawn == listed(readme)


def test_help_of_every_command_is_on_the_site() -> None:
    pytest.importorskip("docutils")
    pytest.importorskip("sphinx")
    from commands import help_texts

    texts = dict(help_texts(kdey, "kdey"))
    assert {name.split()[1] for name in texts} == set(COMMANDS)
    assert "--label" in texts["kdey fit"]
