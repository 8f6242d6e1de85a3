"""Make the table of dry beans that ships with kdey: ``python scripts/beans.py DRY_BEAN.csv``.

The source has 13,611 beans of seven varieties (UCI 602). Every bean of the result is one of them,
and its area and perimeter are the source's. Which beans come in which delivery is drawn here, with
the shares of ``DELIVERIES`` and a fixed seed, without repetition: suppliers and days are made up.

``sieve`` and ``camera`` are two judges. The sieve goes by size alone: it names the variety whose
mean area is nearest. The camera is a logistic regression on area and perimeter, trained on the
labelled beans. ``expert`` is the variety of three hundred new beans, drawn at random: what people
would have read.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

TARGET = Path(__file__).parents[1] / "src" / "kdey" / "datasets" / "beans.csv.gz"
LABELLED, EXPERT = 1200, 300
WEEKS, PER_WEEK = 12, 100
FIRST_DAY = date(2026, 6, 1)  # a Monday
VARIETIES = ("barbunya", "cali", "dermason", "seker", "sira")
#: Beans of each variety in a delivery of a hundred, by supplier, week by week. In August, the last
#: three weeks, the hill sends more sira, and the port a variety that no labelled bean is of.
AUGUST = 9
BOMBAY = {"bombay": 30}
DELIVERIES = {
    "hill": [(2, 2, 80, 4, 12)] * 9 + [(2, 2, 60, 4, 32)] * 3,
    "lake": [(2, 2, 10, 80, 6)] * 12,
    "port": [(30, 45, 5, 5, 15)] * 9 + [(20, 30, 5, 3, 12)] * 3,
}


def draw(beans: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Return the labelled beans and those of all deliveries, no bean twice."""
    order = {name: rng.permutation(part.index) for name, part in beans.groupby("variety")}
    used = dict.fromkeys(order, 0)

    def take(name: str, n: int) -> list[int]:
        start = used[name]
        used[name] += n
        assert used[name] <= len(order[name])
        return order[name][start : used[name]].tolist()

    total = sum(len(order[name]) for name in VARIETIES)
    shares = [len(order[name]) / total for name in VARIETIES]
    counts = np.floor(LABELLED * np.array(shares)).astype(int)
    counts[np.argmax(counts)] += LABELLED - counts.sum()
    rows = [i for name, n in zip(VARIETIES, counts, strict=True) for i in take(name, int(n))]
    parts = [beans.loc[rng.permutation(rows)].assign(supplier="", day="")]
    for week in range(WEEKS):
        day = FIRST_DAY + timedelta(weeks=week)
        for supplier, mixes in DELIVERIES.items():
            wanted = dict(zip(VARIETIES, mixes[week], strict=True))
            if supplier == "port" and week >= AUGUST:
                wanted |= BOMBAY
            assert sum(wanted.values()) == PER_WEEK
            rows = [i for name, n in wanted.items() for i in take(name, n)]
            delivery = beans.loc[rng.permutation(rows)]
            parts.append(delivery.assign(supplier=supplier, day=day.isoformat()))
    return pd.concat(parts, ignore_index=True)


def judged(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with what the two judges say."""
    labelled = table[table["supplier"] == ""]
    means = labelled.groupby("variety")["area"].mean()
    nearest = np.abs(table["area"].to_numpy()[:, None] - means.to_numpy()).argmin(axis=1)
    camera = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    camera.fit(labelled[["area", "perimeter"]], labelled["variety"])
    said = camera.predict(table[["area", "perimeter"]])
    return table.assign(sieve=means.index.to_numpy()[nearest], camera=said)


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="the table of UCI 602")
    source = pd.read_csv(parser.parse_args().source).drop_duplicates()
    columns = {"Area": "area", "Perimeter": "perimeter"}
    beans = source.rename(columns=columns)[[*columns.values()]]
    beans = beans.assign(variety=source[source.columns[-1]].str.lower())
    rng = np.random.default_rng(0)
    table = judged(draw(beans, rng))
    read = rng.choice(np.flatnonzero(table["supplier"] != ""), EXPERT, replace=False)
    table["expert"] = table["variety"].where(table.index.isin(read), "")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = ["supplier", "day", "area", "perimeter", "variety", "sieve", "camera", "expert"]
    writer.writerow(names)
    writer.writerows(table[names].itertuples(index=False))
    TARGET.write_bytes(gzip.compress(text.getvalue().encode(), mtime=0))
    print(f"{len(table)} beans, {TARGET.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
