"""Every code block of every page runs, or says why it does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.documents.pages import MADE, ROOT, Page, all_pages
from tests.documents.running import BASH, run_page

PAGES = all_pages()
#: Languages of blocks that hold no code to run: output, formulas, files and Sphinx's directives.
QUIET = {"text", "toml", "json", "yaml"}
#: Pages that other tests run, to look at what comes out.
ELSEWHERE = {
    "README.md": "test_readme.py",
    "docs/index.md": "test_readme.py",  # it has the block of the README
    "CONTRIBUTING.md": "test_contributing.py",
    "docs/migrating-from-quapy.md": "tests/interop/test_migration_guide.py",
}
#: The blocks that are not run, page by page: to be kept short.
NOT_RUN = {
    "README.md": 2,
    "docs/lab/comparison.md": 3,
    "docs/index.md": 1,
    "docs/migrating-from-quapy.md": 1,
    "docs/lab/reproduction.md": 1,
    "docs/scale.md": 2,
}
#: Folders that hold nothing but what was built; those of environments and caches begin with a dot.
BUILT = {"build", "dist"}
NEEDED = ("click", "rich", "pyarrow", "skops", "jinja2", "matplotlib", "pandas", "dask")


HERE = [page for page in PAGES if page.code and page.name not in ELSEWHERE]


@pytest.mark.parametrize("page", HERE, ids=lambda page: page.name)
def test_blocks_run_in_order(page: Page, tmp_path: Path) -> None:
    for name in NEEDED:
        pytest.importorskip(name, reason=f"the pages need {name} (extra all)")
    if BASH is None:
        pytest.skip("the commands are typed into bash")
    run_page(page, tmp_path)


def test_blocks_that_are_not_run_are_few_and_say_why() -> None:
    left_out = {page.name: [one for one in page.blocks if one.not_run] for page in PAGES}
    assert {name: len(blocks) for name, blocks in left_out.items() if blocks} == NOT_RUN
    assert all(len(str(one.not_run)) > 10 for blocks in left_out.values() for one in blocks)


def test_every_fence_says_what_it_holds() -> None:
    for page in PAGES:
        for block in page.blocks:
            directive = re.fullmatch(r"\{[a-z-]+\}.*", block.language)
            assert block.language in {"python", "sh", *QUIET} or directive, block.where
        fences = re.findall(r"^```", page.text, re.M)
        assert len(fences) == 2 * len(page.blocks), f"a fence of {page.name} is not closed"


@pytest.mark.smoke
def test_links_lead_somewhere() -> None:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.text, flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            target = (ROOT / page.name).parent / link
            made = target.resolve().is_relative_to(ROOT / MADE[0])
            assert "://" in link or made or target.exists(), f"{page.name}: {link}"


def test_files_that_are_named_exist() -> None:
    # "rows/density.py" stands for src/kdey/rows/density.py.
    files = [path.relative_to(ROOT).as_posix() for path in _sources()]
    for page in PAGES:
        if page.name == "CHANGELOG.md":
            continue  # it speaks of the files of its day
        for name in re.findall(r"`([\w./-]+\.(?:py|cpp|hpp|h|sh|toml|csv))`", page.text):
            known = any(f"/{file}".endswith(f"/{name}") for file in files)
            assert known, f"{page.name} names {name}, which does not exist"


def _sources() -> list[Path]:
    """Return the files of the repository, without those that were built."""
    folders = [
        path
        for path in ROOT.iterdir()
        if path.is_dir() and not path.name.startswith(".") and path.name not in BUILT
    ]
    below = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    return [*(path for path in ROOT.iterdir() if path.is_file()), *below]
