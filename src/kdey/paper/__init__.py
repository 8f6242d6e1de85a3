"""The paper's experiments: methods, settings, cells, tables and figures.

``methods`` and ``settings`` say what is run, ``run`` runs it cell by cell into a results file
(``store``), ``tables`` and ``figures`` are made from such files alone. The command line is
``kdey reproduce``.
"""
