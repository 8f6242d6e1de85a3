"""The named methods: each a row spec and a matching, or a wrapper around other quantifiers.

``base.py`` has the base class of all quantifiers, ``aggregative.py`` that of methods on rows. A new
method is a subclass of :class:`AggregativeQuantifier` (see CONTRIBUTING).
"""

from kdey.quantifiers.aggregative import AggregativeQuantifier, FeatureQuantifier
from kdey.quantifiers.base import BaseQuantifier

__all__ = ["AggregativeQuantifier", "BaseQuantifier", "FeatureQuantifier"]
