"""Options of a command from a TOML file; those typed on the command line win."""

from __future__ import annotations

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
