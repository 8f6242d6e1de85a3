"""Tables of results: made as values (``model``), then drawn in five ways."""

from kdey.experiments.tables.make import make_tables
from kdey.experiments.tables.model import Entry, Line, Table
from kdey.experiments.tables.write import write_document, write_tables

__all__ = ["Entry", "Line", "Table", "make_tables", "write_document", "write_tables"]
