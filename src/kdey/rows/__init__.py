"""Row maps: what an instance, and what a class, contributes to a problem.

A *row spec* is a frozen dataclass of parameters. Its ``fit(training, n_classes, n_threads)``
returns a *row map*: a frozen dataclass that has the templates of the classes and turns points
(posteriors, or features for methods without a classifier) into *rows*, one per instance. The rows
of a pool are computed once, and a bag is a weighting of them. ``base.py`` declares the three;
each of the other files has one kind of rows.
"""

from kdey.rows.base import ArrayRows, RowMap, Rows, RowSpec, class_means

__all__ = ["ArrayRows", "RowMap", "RowSpec", "Rows", "class_means"]
