"""The command line in this process, with what it says on the two streams kept apart."""

from __future__ import annotations

from inspect import signature
from typing import Any

from click.testing import CliRunner, Result

from kdey.cli.group import kdey

#: click before 8.2 mixes the streams unless told.
_APART: dict[str, Any] = (
    {"mix_stderr": False} if "mix_stderr" in signature(CliRunner).parameters else {}
)


def invoke(*arguments: Any, **options: Any) -> Result:
    """Return what ``kdey ARGUMENTS`` did."""
    return CliRunner(**_APART).invoke(kdey, [str(one) for one in arguments], **options)
