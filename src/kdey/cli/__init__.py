"""The command line ``kdey``: one file per command, loaded when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        from kdey.cli.exit_codes import run_process
        from kdey.cli.group import kdey
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("the kdey command needs its extra: pip install 'kdey[cli]'")
    run_process(kdey)
