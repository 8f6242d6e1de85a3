"""What the release check asks of an installed wheel holds for the tree, too."""

from __future__ import annotations

import ast
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "release_check.py"


def test_the_consumer_imports_what_is_there() -> None:
    """The names are found before a release, where the whole check runs."""
    (consumer,) = (
        ast.literal_eval(node.value)
        for node in ast.parse(SCRIPT.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "CONSUMER"
    )
    imports = [node for node in ast.parse(consumer).body if isinstance(node, ast.ImportFrom)]
    assert {"kdey", "kdey.evaluation"} <= {node.module for node in imports}
    for node in imports:
        exec(ast.unparse(node), {})
