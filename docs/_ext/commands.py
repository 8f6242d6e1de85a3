"""The help of every command, made from the commands when the site is built.

``{commands}`` is a section for each command of ``kdey`` with what its ``--help`` prints.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import click
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

#: Columns of the help.
WIDTH = 96


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("commands", Commands)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}


class Commands(Directive):
    """A section for each command."""

    has_content: ClassVar[bool] = False

    def run(self) -> list[nodes.Node]:
        """Return the sections."""
        from kdey.cli.__main__ import kdey

        return [_section(name, text) for name, text in help_texts(kdey, "kdey")]


def help_texts(
    command: click.Command, name: str, parent: click.Context | None = None
) -> Iterator[tuple[str, str]]:
    """Return the full name and the help of every command below a group, in the group's order."""
    word = name.rpartition(" ")[2]
    settings = {"max_content_width": WIDTH, **command.context_settings}
    with click.Context(command, info_name=word, parent=parent, **settings) as context:
        context.terminal_width = WIDTH
        if not isinstance(command, click.Group):
            yield name, command.get_help(context)
            return
        for child in command.list_commands(context):
            below = command.get_command(context, child)
            if below is not None:
                yield from help_texts(below, f"{name} {child}", context)


def _section(name: str, text: str) -> nodes.section:
    section = nodes.section(ids=[nodes.make_id(name)], names=[nodes.fully_normalize_name(name)])
    section += nodes.title("", name)
    section += nodes.literal_block(text, text, language="none")
    return section
