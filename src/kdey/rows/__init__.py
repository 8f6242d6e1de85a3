"""Row maps: what an instance, and what a class, contributes to a problem.

A *row map* is a frozen dataclass of parameters. Its ``fit(training, n_classes, n_threads)`` returns
it with what it has learnt, the templates of the classes above all; called, it turns points
(posteriors, or features for methods without a classifier) into *rows*, one per instance. The rows
of a pool are computed once, and a bag is a weighting of them. ``base.py`` declares both; each of
the other files has one kind of rows.
"""

from kdey.rows.base import ArrayRows, RowMap, Rows, RowSpec, class_means, fitted

__all__ = ["ArrayRows", "RowMap", "RowSpec", "Rows", "class_means", "fitted"]
