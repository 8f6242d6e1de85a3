"""The command line ``kdey``: commands that are loaded when they are called.

``group`` lists them; ``fit_commands``, ``answer_commands``, ``evaluate_commands``, ``data`` and
``demo`` hold them. ``options`` and ``model_options`` hold what they share, ``printing`` what they
print, ``exit_codes`` how they end.
"""

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
