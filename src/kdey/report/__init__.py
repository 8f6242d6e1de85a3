"""Reports: one self-contained HTML file with the answer, its figures, tables and settings.

``page.py`` says what a report is made of; ``words.py`` tells it in sentences, ``figures/`` draws
it, ``tables.py`` and ``downloads.py`` list it, and ``render.py`` puts all into ``templates/``.
Nothing here runs a method: estimates, groups and checks are handed in.
"""

from kdey.report.groups import Group, GroupTable, estimates_table, group_table
from kdey.report.page import Report, make_report, write_report

__all__ = [
    "Group",
    "GroupTable",
    "Report",
    "estimates_table",
    "group_table",
    "make_report",
    "write_report",
]
