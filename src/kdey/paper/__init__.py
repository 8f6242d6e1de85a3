"""The paper's experiments and data sets, apart from what users of the library import.

``methods`` and ``settings`` define what is run; ``datasets`` and ``tasks`` provide the data and
the bags; ``run`` runs it, cell by cell, into a results file (``results``); ``tables``,
``figures`` and ``sketches`` are made from such files alone. The command line is
``kdey reproduce``.
"""
