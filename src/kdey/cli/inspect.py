"""``kdey inspect``: what a model file holds."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import guarded, printable

if TYPE_CHECKING:
    from kdey.quantifiers.base import BaseQuantifier
    from kdey.tables.schema import TableSchema


#: Categories of a column that are shown; --json has all of them.
_MOST_TEXTS = 8


@click.command()
@click.argument("model")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of lines.")
@guarded
def inspect(model: str, as_json: bool) -> None:
    """Show what MODEL was fitted on and with: classes, columns, method, settings."""
    from kdey import load
    from kdey.persistence.model_file import describe

    quantifier = load(model)
    facts = _facts(quantifier, describe(model))
    if as_json:
        click.echo(json.dumps(facts, indent=2, allow_nan=False))
        return
    explanation = facts.pop("explanation", [])
    for name, value in facts.items():
        click.echo(printable(f"{name}: {_line(_shortened(value))}"))
    for line in explanation:
        for part in textwrap.wrap(printable(line), 80, subsequent_indent="  "):
            click.echo(part)


def _facts(quantifier: BaseQuantifier, manifest: dict[str, Any]) -> dict[str, Any]:
    schema = quantifier.table_schema
    labels = quantifier.classes_.tolist()
    shares = quantifier.prevalence_.tolist()
    facts: dict[str, Any] = {
        "method": type(quantifier).__name__,
        "written by": f"kdey {manifest.get('kdey')}",
        "libraries": manifest.get("libraries") or None,
        "classes": {str(label): round(p, 6) for label, p in zip(labels, shares, strict=True)},
        "training rows": _rows(quantifier),
        "classifier": _classifier(quantifier),
        "settings": _settings(quantifier),
    }
    if schema is not None:
        facts |= _columns(schema)
    facts |= _choices(quantifier)
    return {name: value for name, value in facts.items() if value not in (None, {}, [])}


def _choices(quantifier: BaseQuantifier) -> dict[str, Any]:
    """Return what was chosen at fit: in a sentence, or in the lines of an explanation."""
    record = quantifier.tuning_record
    explanation = getattr(quantifier, "explain", quantifier.summary)()
    if explanation is None or (record is not None and explanation == record.summary()):
        return {"tuning": explanation}
    return {"explanation": explanation.splitlines()}


def _columns(schema: TableSchema) -> dict[str, Any]:
    """Return what the columns of the training table are taken for."""
    unused = schema.with_role("id", "ignored")
    return {
        "label column": schema.label,
        _needed_title(schema): list(schema.needed),
        "columns of categories": {
            c.name: list(c.categories) for c in schema.feature_columns if c.categories
        },
        "columns of sentences": [c.name for c in schema.feature_columns if c.kind == "text"],
        "columns with missing values": {
            c.name: c.n_missing for c in schema.feature_columns if c.n_missing
        },
        "unused columns": {c.name: c.reason for c in unused},
    }


def _needed_title(schema: TableSchema) -> str:
    """Return what to call the columns that estimates need."""
    if not schema.scores:
        return "feature columns"
    return "column of decisions" if len(schema.scores) == 1 else "score columns"


def _rows(quantifier: BaseQuantifier) -> int | None:
    from kdey.model import kept_training

    training = kept_training(quantifier)
    return None if training is None else len(training.labels)


def _classifier(quantifier: BaseQuantifier) -> str:
    from kdey.stacking.pooled_classifier import pool_of

    classifier = quantifier.fitted_classifier
    if classifier is None:
        return "none: fitted on scores"
    pool = pool_of(classifier)
    if pool is not None:
        return f"a pool of {', '.join(pool.models_)}"
    steps = getattr(classifier, "steps", None)
    return type(classifier if steps is None else steps[-1][1]).__name__


def _settings(quantifier: BaseQuantifier) -> dict[str, Any]:
    plain = (bool, int, float, str)
    return {
        name: value
        for name, value in quantifier.get_params(deep=False).items()
        if isinstance(value, plain)
    }


def _shortened(value: Any) -> Any:
    """Return facts with lists inside them cut short; --json has all of it."""
    if not isinstance(value, dict):
        return value
    return {key: _cut(item) if isinstance(item, list) else item for key, item in value.items()}


def _cut(texts: list[str]) -> str:
    shown = ", ".join(text if len(text) <= 30 else f"{text[:29]}…" for text in texts[:_MOST_TEXTS])
    more = f", and {len(texts) - _MOST_TEXTS} more" if len(texts) > _MOST_TEXTS else ""
    return f"({shown}{more})"


def _line(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
