"""CONTRIBUTING.md: the quantifier of one file passes the checks it is told to pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from kdey.evaluation import check_quantifier
from tests.documents.pages import Page
from tests.documents.running import Session, page_names, run_block


@pytest.mark.smoke
def test_the_quantifier_of_the_page_passes_the_checks(tmp_path: Path) -> None:
    (block,) = Page("CONTRIBUTING.md").code
    with page_names() as names:
        run_block(block, Session(tmp_path, names))
        check_quantifier(names["PowerPACC"](cv=3))
