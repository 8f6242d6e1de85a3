"""The answers of ``comparison.py`` as Markdown."""

from __future__ import annotations

from typing import Any

DASH = "–"


def as_table(answers: list[dict[str, Any]]) -> str:
    """Return one table: a row per question, a column per library."""
    names = [f"{one['library']} {one['package']['version']}" for one in answers]
    lines = ["| question | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for title, cell in rows(answers):
        lines.append("| " + " | ".join([title, *(cell(one) for one in answers)]) + " |")
    return "\n".join(lines)


def rows(answers: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    """Return titles, and the functions from an answer to a cell."""
    methods = list(dict.fromkeys(m for one in answers for m in one["methods"]))
    odd = list(dict.fromkeys(q for one in answers for q in one["odd input"]))
    return [
        *(
            (f"{m}: MAE, CPU ms per bag", lambda a, m=m: measured(a["methods"].get(m)))
            for m in methods
        ),
        *((q, lambda a, q=q: text(a["odd input"].get(q))) for q in odd),
        (
            "`set_params(bandwidth=1.0)` moves the estimate by",
            lambda a: number(a["set_params(bandwidth) moves the estimate by"]),
        ),
        ("`check_estimator(PACC())`", lambda a: checks(a["check_estimator(PACC)"])),
        ("`sample_weight` in fit, predict", lambda a: weights(a["package"]["sample_weight"])),
        ("`py.typed`", lambda a: "yes" if a["package"]["py.typed"] else "no"),
        ("command", lambda a: text(", ".join(f"`{c}`" for c in a["package"]["commands"]))),
    ]


def measured(found: dict[str, float] | None) -> str:
    return DASH if found is None else f"{found['mae']:.4f}, {found['ms']:.1f}"


def text(found: str | None) -> str:
    return (found or DASH).replace("|", "/")


def number(found: float | None) -> str:
    return DASH if found is None else f"{found:.3f}"


def checks(found: dict[str, Any]) -> str:
    if "error" in found:
        return text(found["error"])
    return ", ".join(f"{count} {name}" for name, count in found.items() if name != "names")


def weights(found: dict[str, bool]) -> str:
    return ", ".join("yes" if found[name] else "no" for name in ("fit", "predict"))
