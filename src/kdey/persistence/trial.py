"""A first answer of a quantifier that was just read, for parts that do not fit together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: What arrays, fields and parameters that do not belong together end in. Anything else is left to
#: the first bag: a refusal in words, a warning, a device that this machine has not.
_MISFITS = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError)
_OVERRUNS = (RecursionError, SystemError, NotImplementedError)


def check_answers(quantifier: Any) -> None:
    """Ask ``quantifier`` for one small bag; raise ValueError where its parts do not fit together.

    A file with checksums that match may still hold, say, templates of other classes, or lack a
    field. Better to hear of it where the file is read than from the first bag.
    """
    if getattr(quantifier, "device", None) not in (None, "cpu", "auto"):
        return  # making a device ready takes seconds
    try:
        if _takes_posteriors(quantifier):
            quantifier.aggregate(_corners(len(quantifier.classes_)))
        else:
            quantifier.predict(np.zeros((2, int(quantifier.n_features_in_))))
    except (*_MISFITS, *_OVERRUNS) as error:
        raise ValueError(f"its parts do not fit together ({error!r:.200})") from error
    except Exception:  # said again, with its own words, when a bag is asked for
        return


def _takes_posteriors(quantifier: Any) -> bool:
    """Return whether a quantifier, or what it wraps, works on posteriors rather than features."""
    members = getattr(quantifier, "quantifiers_", None)
    return _takes_posteriors(members[0]) if members else hasattr(quantifier, "aggregate")


def _corners(n_classes: int) -> NDArray[np.float64]:
    """Return posteriors that are nearly sure of each class in turn, shape (k, k)."""
    return np.asarray(0.9 * np.eye(n_classes) + 0.1 / n_classes)
