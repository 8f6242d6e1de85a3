"""A quantifier that is trained on bags (extra ``gpu``, which brings torch).

The methods of :mod:`kdey.quantifiers` learn from labelled instances and rest on label shift. A
network that is trained on bags with known prevalences learns whatever these bags have in common:
which prevalences are likely, how the classes have drifted, which error counts.
torch is needed to train, and imported only then. A trained network answers without it.
"""

from kdey.neural.histogram_network import HistNetQ

__all__ = ["HistNetQ"]
