"""Reports: one self-contained HTML file with the answer, its figures, tables and settings.

``make`` defines what a report is made of, and makes one from estimates or from a table.
``sections`` puts its page together, one function for each section, and ``technical`` has those for
specialists; ``words`` writes the sentences, ``share_figures`` draws. ``shown_groups`` holds groups
and periods as they are shown, ``drawing`` the words and colours that all figures share, and lines
and texts of drawings; ``html`` lists the numbers in tables and writes files.
"""

from kdey.report.make import Report, make_report, write_report
from kdey.report.sections import differences_of
from kdey.report.shown_groups import Group, GroupTable, group_table

__all__ = [
    "Group",
    "GroupTable",
    "Report",
    "differences_of",
    "group_table",
    "make_report",
    "write_report",
]
