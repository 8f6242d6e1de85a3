"""``python -m kdey.cli``."""

from kdey.cli import main

main()
