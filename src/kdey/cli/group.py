"""Options of a command from a TOML file; those typed on the command line win.

The group of all commands. Help and completion must not load NumPy, so nor may this file.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import click


def read_config(ctx: click.Context, _: click.Parameter, path: str | None) -> str | None:
    """Make the entries of a TOML file the defaults of the command's options."""
    if path is None:
        return None
    import tomllib

    try:
        entries = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    except tomllib.TOMLDecodeError as error:
        raise click.UsageError(f"{path}: {error}") from None
    known = {one.name: one for one in ctx.command.params if isinstance(one, click.Option)}
    defaults = {}
    for key, value in entries.items():
        name = key.replace("-", "_")
        if name not in known or name == "config":
            raise click.UsageError(
                f"{path}: no option {key!r}; known are {', '.join(sorted(set(known) - {'config'}))}"
            )
        defaults[name] = _as_given(value, known[name].multiple)
    ctx.default_map = {**(ctx.default_map or {}), **defaults}
    return path


def _as_given(value: Any, several: bool) -> Any:
    """Return a TOML value as the command line would give it."""
    if isinstance(value, dict):  # a table of settings: name=value, repeated
        return tuple(f"{key}={item!r}" for key, item in value.items())
    if several:
        return tuple(str(one) for one in value) if isinstance(value, list) else (str(value),)
    return value


config_option = click.option(
    "--config",
    is_eager=True,
    expose_value=False,
    callback=read_config,
    help="TOML file with these options by name; the command line wins.",
)


#: Command -> its module under ``kdey.cli`` and one line of help. The module holds a click command
#: of the same name; it may import click and the standard library at its top, nothing else.
COMMANDS = {
    "fit": ("fit", "Fit on a labelled table and write a model file."),
    "estimate": ("estimate", "Estimate the prevalences of a table, or of its groups."),
    "report": ("report", "Write one HTML page on the prevalences of a table."),
    "inspect": ("inspect", "Show what a model file holds."),
    "evaluate": ("evaluate", "Compare methods on bags of a labelled table."),
    "select": ("select", "Find the best settings of a method on a labelled table."),
    "demo": ("demo", "Compare the paper's methods on scikit-learn's handwritten digits."),
    "data": ("data", "List, fetch, locate and check the data sets of the paper."),
    "reproduce": ("reproduce", "Run the paper's experiments; make its tables and figures."),
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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without loading them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kdey")
def kdey() -> None:
    """Estimate class prevalences in unlabelled data."""
