"""The command line ``kdey``: commands that are loaded when they are called.

``__main__`` lists them; ``fit_commands``, ``answer_commands`` and ``data_commands`` hold them.
``options`` and ``model_options`` hold what they share, ``output`` what they print and how they end.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line, or say what to install for it."""
    try:
        from kdey.cli.__main__ import kdey
        from kdey.cli.output import run_process
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.exit("the kdey command needs its extra: pip install 'kdey[cli]'")
    except KeyboardInterrupt:  # Nothing stands that could say so yet.
        sys.exit(130)
    run_process(kdey)
