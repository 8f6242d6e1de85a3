"""The command line in this process, with what it says on the two streams kept apart."""

from __future__ import annotations

from inspect import signature
from typing import Any

from click import Command
from click.testing import CliRunner, Result

from kdey.cli.__main__ import kdey

#: click before 8.2 mixes the streams unless told, and then has nothing that holds both.
_OLD = "mix_stderr" in signature(CliRunner).parameters


class _BothStreams(Result):
    """A result of an older click, with ``output`` as newer ones have it."""

    @property
    def output(self) -> str:
        return str(self.stdout + self.stderr)


def invoke(*arguments: Any, **options: Any) -> Result:
    """Return what ``kdey ARGUMENTS`` did."""
    return invoke_command(kdey, *arguments, **options)


def invoke_command(command: Command, *arguments: Any, **options: Any) -> Result:
    """Return what a command did."""
    apart: dict[str, Any] = {"mix_stderr": False} if _OLD else {}
    result = CliRunner(**apart).invoke(command, [str(one) for one in arguments], **options)
    if _OLD:
        result.__class__ = _BothStreams
    return result
