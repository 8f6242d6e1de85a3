"""Models of earlier versions, brought to the form of today when they are read."""

from __future__ import annotations

import warnings
from pathlib import Path

from kdey.quantifiers.base import BaseQuantifier


def read_tables_by_schema(quantifier: BaseQuantifier, source: Path) -> None:
    """Let a model that kdey 0.1.0 fitted on a table read tables as those of today do.

    Version 0.1.0 stored the names and texts of columns beside the classifier, as ``table_``, and
    only some of its functions looked at them. They become the first step of the classifier. Such a
    model knows nothing else about its columns, which is said in a warning.

    Parameters
    ----------
    quantifier : fitted quantifier
        Changed in place.
    source : Path
        The model file, for the warning.
    """
    schema = quantifier.table_schema
    if schema is None or not schema.names_only:
        return
    if quantifier.fitted_classifier is not None and "table_" in vars(quantifier):
        from kdey.tables.features import reading_tables  # slow to import

        quantifier.replace_classifiers(lambda classifier: reading_tables(classifier, schema))
    warnings.warn(
        f"{source} was written by kdey 0.1.0 and has no schema of its table: columns are checked "
        "by name only. Fit it again to have types, ids and missing values checked too",
        UserWarning,
        stacklevel=3,
    )
