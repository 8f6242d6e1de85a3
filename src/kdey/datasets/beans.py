"""A small real data set that comes with kdey: dry beans, by supplier and day.

``beans.md`` beside this file says where it is from, its licence, and what was drawn.
"""

from __future__ import annotations

import csv
import gzip
import io
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: Columns of what people and judges say of a new bean.
SAID = ("variety", "sieve", "camera", "expert")


def bean_rows() -> list[dict[str, str]]:
    """Return all beans, a dictionary of texts for each; those without a supplier are labelled."""
    packed = (files("kdey.datasets") / "beans.csv.gz").read_bytes()
    return list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))


def load_beans() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Return dry beans: labelled ones, new ones by supplier and day, and what is known of these.

    A camera sees the area and the perimeter of a bean. Of 1,200 beans the variety is known. What
    share of each variety is in the deliveries of three suppliers over twelve weeks? Beans and
    measurements are real (Koklu and Ozkan 2020, UCI 602, CC BY 4.0); suppliers, days and the
    shares in each delivery were chosen. In August the hill sends more sira, and the port sends a
    variety of which no bean is labelled. It needs pandas.

    Returns
    -------
    labelled : DataFrame
        1,200 beans with ``area``, ``perimeter`` and ``variety``, five of them.
    new : DataFrame
        3,600 beans with ``supplier``, ``day``, ``area`` and ``perimeter``.
    known : DataFrame
        For each row of ``new``: the true ``variety``; ``sieve`` and ``camera``, what two judges
        take it for; and ``expert``, the variety of 300 beans drawn at random, otherwise missing.

    See Also
    --------
    kdey.predict_groups : The shares of each supplier.
    kdey.audit : What the labels of a judge are worth.

    Examples
    --------
    >>> from kdey import Quantifier
    >>> from kdey.datasets import load_beans
    >>> labelled, new, known = load_beans()
    >>> q = Quantifier(["extra trees"], effort="low", random_state=0)
    >>> q = q.fit(labelled[["area", "perimeter"]], labelled["variety"])
    >>> lake = new["supplier"] == "lake"
    >>> float(q.predict(new[lake])[3].round(1))  # seker
    0.8
    >>> float((known["sieve"][lake] == "seker").mean().round(1))  # by size alone
    0.4
    """
    import pandas as pd

    table = pd.DataFrame(bean_rows())
    table = table.astype({"area": int, "perimeter": float})
    new = table["supplier"] != ""
    labelled = table.loc[~new, ["area", "perimeter", "variety"]].reset_index(drop=True)
    rest = table[new].reset_index(drop=True)
    known = rest[list(SAID)].assign(expert=rest["expert"].where(rest["expert"] != ""))
    return labelled, rest[["supplier", "day", "area", "perimeter"]], known
