"""Reports: one self-contained HTML file with the answer, its figures, tables and settings.

``page`` defines what a report is made of, and makes one from estimates; ``from_table`` makes one
from a table. ``sections`` puts its page together: ``words`` writes the sentences,
``share_figures``, ``time_figures`` and ``technical_figures`` draw, ``page_tables`` lists the
numbers, ``differences`` compares groups. ``shown_groups`` and ``calendar`` hold groups and periods
as they are shown, ``vocabulary`` the words and colours that all figures share, ``svg`` lines and
texts of drawings, and ``html`` writes files.
"""

from kdey.report.differences import differences_of
from kdey.report.page import Report, make_report, write_report
from kdey.report.shown_groups import Group, GroupTable, estimates_table, group_table

__all__ = [
    "Group",
    "GroupTable",
    "Report",
    "differences_of",
    "estimates_table",
    "group_table",
    "make_report",
    "write_report",
]
