"""The command line ``kdey``: commands that are loaded when they are called.

``__main__`` lists them. ``fit_commands`` holds those on a labelled table, ``model_commands`` those
on a model file, ``data_commands`` those that need no model; ``command_options`` holds options that
they share, ``terminal`` what they print and how they end.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        from kdey.cli.__main__ import kdey
        from kdey.cli.terminal import run_process
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("the kdey command needs its extra: pip install 'kdey[cli]'")
    except KeyboardInterrupt:  # Nothing stands that could say so yet.
        sys.exit(130)
    run_process(kdey)
