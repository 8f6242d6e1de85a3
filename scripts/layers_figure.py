"""Draw the layers of the package: ``python scripts/layers_figure.py``, into docs/figures.

The layers are those of ``LAYERS`` in ``tests/test_imports.py``, which fails where an import points
upwards; another test fails where the figure is not the one that this script draws.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "tests" / "test_imports.py"
FIGURE = ROOT / "docs" / "figures" / "layers.svg"
#: Rooms on the path from posteriors to the paper's tables.
PATH = {
    *("posteriors", "rows", "matching", "model", "quantifiers", "evaluation"),
}
NAMES = {"__init__": "kdey"}
#: What the rooms of a layer do, under the name of one of them.
NOTES = {
    "cli": "the command kdey",
    "datasets": "public data sets; a network trained on bags",
    "__init__": "the public names",
    "plots": "histories with alarms; matplotlib displays",
    "persistence": "model files, reports, QuaPy",
    "evaluation": "protocols, errors on bags, searches, significance, check_quantifier",
    "quantifiers": "the named methods: a row spec and a matching",
    "groups": "frames, files and clusters to one answer per group",
    "diagnostics": "posterior draws, fit check, pools of classifiers",
    "tuning": "labels of the bag; bandwidths and bins by held-out bags",
    "intervals": "estimates with intervals",
    "model": "what a fit has learnt, frozen",
    "options": "what is rarely asked for, checked once",
    "gpu": "the same rows and problems with torch; errors; columns of tables",
    "matching": "templates and rows to a problem, and to prevalences with certificates",
    "rows": "posteriors to rows and templates",
    "posteriors": "X, y to training posteriors; kernel sums",
    "bags": "bags as weights over a pool; adapted classifiers and folds",
    "status": "fingerprints of data; words of a status",
    "simplex": "posteriors checked, columns in class order; projection, sampling",
    "validation": "arrays, frames, devices, parameters, weights and labels, checked",
    "native": "files; what people see; the C++ core and threads",
}
LEFT, TOP, STEP, HEIGHT, GAP, NOTE_AT, WIDTH = 14, 14, 34, 24, 8, 360, 760
STYLE = """
  text { font: 13px system-ui, sans-serif; fill: #24303d; }
  .note { fill: #5b6875; }
  rect { fill: #eef1f4; stroke: #c3ccd5; rx: 4px; }
  .path { fill: #cfe3f7; stroke: #6f9fd0; }
  .page { fill: #ffffff; stroke: none; }
"""


def read_layers() -> list[tuple[str, ...]]:
    """Return the layers, lowest first."""
    for node in ast.parse(SOURCE.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
            return list(ast.literal_eval(node.value))
    raise ValueError(f"{SOURCE} holds no LAYERS")


def draw(layers: list[tuple[str, ...]]) -> str:
    """Return the figure: the highest layer on top, imports point down."""
    height = 2 * TOP + STEP * len(layers)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">',
        "<title>The layers of kdey: a room imports from those below it</title>",
        f"<style>{STYLE}</style>",
        f'<rect class="page" width="{WIDTH}" height="{height}"/>',
    ]
    for number, rooms in enumerate(reversed(layers)):
        lines += draw_layer(rooms, TOP + STEP * number)
    return "\n".join([*lines, "</svg>", ""])


def draw_layer(rooms: tuple[str, ...], y: int) -> Iterator[str]:
    """Yield the boxes of one layer and what they do."""
    x = LEFT
    for room in rooms:
        name = NAMES.get(room, room)
        width = 18 + 7.4 * len(name)
        kind = ' class="path"' if room in PATH else ""
        yield f'<rect{kind} x="{x:.0f}" y="{y}" width="{width:.0f}" height="{HEIGHT}"/>'
        yield f'<text x="{x + width / 2:.0f}" y="{y + 16}" text-anchor="middle">{name}</text>'
        x += round(width) + GAP
    note = next((NOTES[room] for room in rooms if room in NOTES), "")
    yield f'<text class="note" x="{NOTE_AT}" y="{y + 16}">{escape(note)}</text>'


def main() -> None:
    """Write the figure."""
    FIGURE.write_text(draw(read_layers()), encoding="utf-8")


if __name__ == "__main__":
    main()
