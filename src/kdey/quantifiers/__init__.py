"""The named methods: each a row spec and a matching, or a wrapper around other quantifiers.

``base.py`` has what every quantifier is, ``aggregative.py`` what those on rows share; a method of
your own subclasses :class:`AggregativeQuantifier` (see CONTRIBUTING).
"""

from kdey.quantifiers.aggregative import AggregativeQuantifier, FeatureQuantifier
from kdey.quantifiers.base import BaseQuantifier

__all__ = ["AggregativeQuantifier", "BaseQuantifier", "FeatureQuantifier"]
