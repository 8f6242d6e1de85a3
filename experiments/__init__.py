"""The experiments of the paper on KDEy, and submissions to the LeQua challenges.

``settings`` defines the methods and what they are compared on; ``tasks`` provides the data and the
bags; ``run`` runs them, cell by cell, into a results file (``results``); ``sensitivity`` varies one
parameter; ``scores`` gathers our cells and the published ones; ``tables`` and ``figures`` are made
from such files alone; ``submission`` writes and scores files for LeQua. The command line is
``python -m experiments``.
"""
