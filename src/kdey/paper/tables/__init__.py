"""Tables of results: made as values (``model``), then drawn in five ways."""

from kdey.paper.tables.model import Entry, Line, Table
from kdey.paper.tables.results import make_tables
from kdey.paper.tables.writers import write_document, write_tables

__all__ = ["Entry", "Line", "Table", "make_tables", "write_document", "write_tables"]
