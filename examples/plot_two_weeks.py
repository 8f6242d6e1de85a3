"""
Did anything change since last week?
====================================

A classifier sorts support tickets. Its owner watches the shares of the five queues and wants to
know after each week: is the change real, and is the classifier still looking at the kind of
tickets that it was trained on? ``difference`` answers the first question. Both weeks are judged
by the same templates, so what is wrong with them cancels in part, and the interval of the
difference is narrower than those of the two weeks suggest. ``check_fit`` answers the second.

The tickets are made up in this script: points in eight dimensions, a cloud per queue.
"""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from sklearn.linear_model import LogisticRegression

from kdey import KDEyML, check_fit, difference

# %%
# Tickets
# -------

QUEUES = np.array(["billing", "delivery", "login", "other", "returns"])
rng = np.random.default_rng(5)
centres = rng.normal(size=(5, 8))


def tickets(n, mix, fields=8):
    """Return n tickets and their queues; fields beyond the first few are left empty, zero."""
    queues = rng.choice(5, n, p=mix)
    filled = np.arange(8) < fields
    return np.where(filled, centres[queues] + rng.normal(size=(n, 8)), 0.0), queues


X, queues = tickets(800, np.full(5, 0.2))
quantifier = KDEyML(LogisticRegression(), random_state=0).fit(X, QUEUES[queues])

# %%
# Three weeks
# -----------
# From the first to the second returns go up by five points and billing down by as much. In the
# third a new form leaves three fields empty, and nothing else has changed.

first, second = [0.30, 0.25, 0.20, 0.15, 0.10], [0.25, 0.25, 0.20, 0.15, 0.15]
weeks = [tickets(3000, first)[0], tickets(3000, second)[0]]
weeks.append(tickets(3000, second, fields=5)[0])
estimates = [quantifier.estimate(week) for week in weeks]
change = difference(estimates[1], estimates[0])
print(change.to_frame("pandas").round(3))
for number, week in enumerate(weeks, start=1):
    check = check_fit(quantifier, week, random_state=0)
    print(f"week {number}: {check.verdict}")

# %%
# What to read off
# ----------------
# Left: the intervals of the two weeks overlap for every queue, and one might think that nothing
# happened. Right: those of the difference do not hold zero for returns and billing, and do for
# the other queues. Crosses are the truth. The third week is not drawn: its check says not to
# believe an estimate of it.

true = np.array(second) - np.array(first)
places = np.arange(5)
fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
for number, (estimate, colour) in enumerate(zip(estimates, ["#0072B2", "#D55E00"], strict=False)):
    at = places + 0.15 * (0.5 - number) * 2
    left.hlines(at, estimate.low, estimate.high, color=colour, linewidth=4, alpha=0.5)
    left.plot(estimate.estimate, at, "o", color=colour, ms=5, label=f"week {number + 1}")
left.set_yticks(places, QUEUES)
left.set(xlabel="share of tickets", title="Each week")
left.legend(frameon=False)
right.axvline(0, color="#999999", linewidth=1)
right.hlines(places, change.low, change.high, color="#009E73", linewidth=4, alpha=0.5)
right.plot(change.difference, places, "o", color="#009E73", ms=5)
right.plot(true, places, "x", color="black")
right.set(xlabel="change of the share", title="Second week less first")
for ax in (left, right):
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
plt.show()
