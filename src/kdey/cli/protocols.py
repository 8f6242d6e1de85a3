"""Protocols by name on the command line."""

from __future__ import annotations

from typing import Any

import click

PROTOCOLS = {"app": "APP", "npp": "NPP", "dirichlet": "DirichletProtocol"}


def protocol_options(command: Any) -> Any:
    """Give a command the options that say which bags are drawn."""
    for option in (
        click.option("--bag-size", default=100, show_default=True),
        click.option("--bags", default=200, show_default=True, help="Number of bags."),
        click.option(
            "--protocol",
            type=click.Choice(list(PROTOCOLS)),
            default="app",
            show_default=True,
            help="app: prevalences uniform on the simplex; npp: bags as the table is.",
        ),
    ):
        command = option(command)
    return command


def make_protocol(options: dict[str, Any]) -> Any:
    """Return the protocol that the options name."""
    import kdey

    cls = getattr(kdey, PROTOCOLS[options["protocol"]])
    return cls(n_bags=options["bags"], bag_size=options["bag_size"], random_state=options["seed"])
