"""kdey: class prevalences in unlabelled data.

Not "which label does this item have" but "how many per cent of each class are in this bag", when
the mix has shifted since training::

    from kdey import Quantifier
    q = Quantifier().fit(X, y)     # labelled data
    q.estimate(X_bag)              # shares of the classes in X_bag, with intervals

========================  ========================================================
You want to               Use
========================  ========================================================
estimate one bag          Quantifier, or one method: KDEyML, EMQ, PACC, ACC, ...
estimate groups, weeks    predict_groups, compare_groups, kdey.monitoring
know whether to trust it  check_fit, identifiability
audit decided labels      audit
use a few new labels      q.estimate(X, labelled=(positions, labels)), plan_labels
plan                      plan_bag_size, plan_labels
compare two bags          difference
show it to others         write_report, estimate.plot(), the displays of kdey.plots
compare methods           evaluate with APP, NPP, ...; kdey.evaluation
tune                      GridSearchQ; others in kdey.evaluation
keep a model              save, load
correct a classifier      adapt_posteriors, AdaptedClassifier
========================  ========================================================

``help(kdey.Quantifier)`` has the parameters and an example, and so has every other name.
"""

from __future__ import annotations

import ast
import logging
from importlib import import_module
from pathlib import Path
from typing import Any

#: The one place of the version: the package's metadata are read from here.
__version__ = "0.2.0.dev0"
#: What the library has to tell an operator goes to loggers below this one, and nowhere by itself.
logging.getLogger("kdey").addHandler(logging.NullHandler())


def _homes() -> dict[str, str]:
    """Return the module of each public name, as the stub beside this file says.

    A name is imported when first asked for, so that importing kdey is quick and a tool that needs
    one part does not pay for the others.
    """
    stub = ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module or "" for node in imports for alias in node.names}


_HOMES = _homes()
__all__ = sorted(name for name, home in _HOMES.items() if home)


def __getattr__(name: str) -> Any:
    """Import a public name from its home, or a package."""
    if name not in _HOMES:
        raise AttributeError(f"module 'kdey' has no attribute {name!r}")
    home = _HOMES[name]
    if not home:  # a package
        return import_module(f"kdey.{name}")
    value = globals()[name] = getattr(import_module(f"kdey.{home}"), name)
    return value


def __dir__() -> list[str]:
    """Return the public names and packages."""
    return [*_HOMES, "__version__"]
