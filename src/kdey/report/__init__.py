"""Reports: one self-contained HTML file with the answer, its figures, tables and settings.

``page`` defines what a report is made of, and ``sections`` puts its page together: ``words``,
``group_words`` and ``trust`` write the sentences, ``figures`` draws, ``tables`` lists the numbers,
``comparisons`` shows differences between groups. ``parts`` defines what a page consists of,
``render`` puts it into ``templates/``, and ``export`` writes figures and slides as files of their
own. ``vocabulary`` holds the words and colours that all figures share. Nothing here runs a method:
estimates, groups and checks are handed in.
"""

from kdey.report.group_frames import estimates_table, group_table
from kdey.report.groups import Group, GroupTable
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
