"""Options that say how rows were drawn, which have labels, and how classes are shown.

Weights, clusters and strata from columns, labels of some rows, classes merged and in order.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from kdey.cli.common import Command, names
from kdey.cli.options import key_types

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kdey.groups import Request


def survey_options(command: Command) -> Command:
    """Give a command weights, clusters, strata, and the classes that are shown."""
    options = (
        click.option("--weights", help="Column of sampling weights."),
        click.option("--clusters", help="Column of the clusters in which rows were drawn."),
        click.option(
            "--strata", help="Column of strata: each is estimated by itself, then summed by shares."
        ),
        click.option(
            "--stratum-share",
            "stratum_shares",
            multiple=True,
            help="NAME=NUMBER: share or size of a stratum in the population; repeat for all. "
            "Default: the shares among the rows.",
        ),
        click.option(
            "--merge",
            multiple=True,
            help='"NEW=A,B": show classes A and B as one, with the limits of their sum; "NEW=A" '
            "shows A by another name; repeat.",
        ),
        click.option("--order", help="Classes in the order in which to show them, with commas."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def labelled_options(command: Command) -> Command:
    """Give a command labels of some rows."""
    options = (
        click.option(
            "--labelled",
            help="Column with the labels of some rows, a random draw of each group; the other "
            "cells are empty. Shows three estimates side by side, and which to believe.",
        ),
        click.option(
            "--selection",
            help="Column of the probabilities with which labelled rows were chosen, if not at "
            "random.",
        ),
        click.option(
            "--believe",
            type=click.Choice(["prediction-powered", "label-shift", "labels"]),
            default="prediction-powered",
            show_default=True,
            help="The estimate with labels that the column 'estimate' shows.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def request_of(
    options: Mapping[str, Any], classes: NDArray[Any], scores: list[str] | None = None
) -> Request:
    """Return what the options of a command ask for.

    Parameters
    ----------
    options : mapping
    classes : array of shape (k,)
    scores : list of str, optional
        Score columns where the options name none.
    """
    from kdey.groups import Request
    from kdey.options import Options

    known = {
        name: options[name]
        for name in ("target", "min_size", "check_fit", "level", "believe", "selection")
        if name in options
    }
    return Request.of(
        names(options["by"]),
        time=options["time"],
        every=options["every"],
        scores=names(options["scores"]) or scores,
        weights=options.get("weights"),
        clusters=options.get("clusters"),
        labelled=options.get("labelled"),
        merge=merge_of(options, classes) if "merge" in options else None,
        shrink=options.get("shrink_within") or options.get("shrink", False),
        smooth=options.get("smooth", False),
        options=Options(
            **known,
            confidence=options["confidence"],
            missing=options["missing"],
            date_format=options["date_format"],
            key_types=key_types(options["key_types"]),
            strata=options.get("strata"),
            stratum_shares=_stratum_shares(options.get("stratum_shares", ())),
        ),
    )


def _stratum_shares(texts: tuple[str, ...]) -> dict[str, float] | None:
    """Return the shares in ``NAME=NUMBER`` options; a name may contain "="."""
    shares = {}
    for text in texts:
        name, equals, number = text.rpartition("=")
        try:
            shares[name] = float(number)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise click.UsageError(f"--stratum-share takes NAME=NUMBER, got {text!r}")
    return shares or None


def merge_of(options: Mapping[str, Any], classes: NDArray[Any]) -> dict[Any, Any] | None:
    """Return the groups of classes that ``--merge`` and ``--order`` ask for; None: every class.

    Labels with commas are written in double quotes, as in CSV.

    Parameters
    ----------
    options : mapping
    classes : array of shape (k,)

    Returns
    -------
    dict from labels to lists of classes, or None

    Raises
    ------
    click.UsageError
        If an option cannot be read, or names a class that the model does not have.
    """
    from kdey.tables.columns import canonical_text

    known = {canonical_text(label): label for label in classes.tolist()}
    groups: dict[Any, list[Any]] = {}
    for text in options["merge"]:
        name, equals, members = text.partition("=")
        if not equals or not name.strip() or not members.strip():
            raise click.UsageError(f'--merge takes "NEW=A,B", got {text!r}')
        if name.strip() in groups:
            raise click.UsageError(f"--merge gives {name.strip()!r} twice")
        groups[name.strip()] = [_class(label, known, "--merge") for label in _listed(members)]
    if options["order"] is None:
        return groups or None
    ordered: dict[Any, list[Any]] = {}
    for label in _listed(options["order"]):
        if label in groups:
            ordered[label] = groups[label]
        else:
            single = _class(label, known, "--order")
            ordered[single] = [single]
    return ordered | groups


def _listed(text: str) -> list[str]:
    return [part.strip() for part in next(csv.reader([text], skipinitialspace=True)) if part]


def _class(text: str, known: Mapping[str, Any], option: str) -> Any:
    if text not in known:
        few = ", ".join(list(known)[:8]) + (", ..." if len(known) > 8 else "")
        raise click.UsageError(f"{option}: the model has no class {text!r}; it has {few}")
    return known[text]
