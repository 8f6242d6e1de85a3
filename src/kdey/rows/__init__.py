"""Row maps: what one instance, and one class, contribute to a problem.

A *row spec* is a frozen dataclass of parameters. Its ``fit(training, n_classes, n_threads)``
gives a *row map*: a frozen dataclass that holds the templates of the classes and turns points
(posteriors, or features for the methods without a classifier) into *rows*, one per instance.
Rows of a pool are made once; a bag is a weighting of them. What the three promise is in
``interface.py``; each other file has one kind of rows.
"""

from kdey.rows.interface import ArrayRows, RowMap, Rows, RowSpec, class_means

__all__ = ["ArrayRows", "RowMap", "RowSpec", "Rows", "class_means"]
