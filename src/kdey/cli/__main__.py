"""The group of all commands, which ``python -m kdey.cli`` runs.

Help and completion must not load NumPy, nor may this file.
"""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click

import kdey as library
from kdey.cli.terminal import endings

#: Command -> its module under ``kdey.cli`` and one line of help. The module holds a click command
#: of the same name. A command on tables imports only click and the standard library at its top.
COMMANDS = {
    "check": ("fit_commands", "Show what the columns of a labelled table are taken for."),
    "fit": ("fit_commands", "Fit on a labelled table and write a model file."),
    "estimate": ("model_commands", "Estimate the shares in a table, or in each of its groups."),
    "compare": ("model_commands", "Compare the groups or periods of a table: did it change?"),
    "monitor": ("model_commands", "Add a period to a history, and raise alarms."),
    "report": ("model_commands", "Write one HTML page on the shares in a table."),
    "audit": ("data_commands", "Compare a judge's labels with a few labels of people."),
    "inspect": ("model_commands", "Show what a model file holds."),
    "evaluate": ("fit_commands", "Compare methods on samples drawn from a labelled table."),
    "demo": ("data_commands", "Compare methods on dry beans, or write tables to try."),
}


class LazyGroup(click.Group):
    """Loads a command's module when the command is run, not when the group is listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return one command, loaded."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"kdey.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the first word names; a mistyped one is told what is near."""
        near = get_close_matches(args[0].lower(), COMMANDS, n=1) if args else []
        if near and args[0] not in COMMANDS and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {near[0]!r}?")
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the options; see :mod:`kdey.cli.terminal` for how this may end."""
        with endings():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; see :mod:`kdey.cli.terminal` for how this may end."""
        with endings():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True}
)
@click.version_option(library.__version__)
def kdey() -> None:
    """Estimate the share of each class in unlabelled data."""


if __name__ == "__main__":
    from kdey.cli import main

    main()
