"""
Seroprevalence with an imperfect test
=====================================

A survey tests 1,500 people for antibodies. The test is good but not perfect: on 120 people known
to be infected it found 103, on 400 known not to be it was wrong on 6. When few people were
infected, most positives of the survey are false ones, and the honest answer may be "between none
and 2 %". Textbook corrections give negative shares or intervals there. The same machinery that
estimates classes from scores handles it: the test is a classifier with two outcomes, the two
panels are its training set.

The numbers are made up.
"""

import matplotlib.pyplot as plt
import numpy as np

from kdey import ACC

# %%
# The test, as it did on known people
# -----------------------------------
# A row of scores is (1, 0) for a negative result and (0, 1) for a positive one.


def results(negative, positive):
    """Return one row of scores per result."""
    return np.repeat(np.eye(2), [negative, positive], axis=0)


panel = np.vstack([results(394, 6), results(17, 103)])
known = np.repeat(["not infected", "infected"], [400, 120])
# Classes are sorted, "infected" first: the columns have to follow.
test = ACC().fit_posteriors(panel[:, ::-1], known)

# %%
# One survey
# ----------
# 40 of 1,500 are positive: 2.7 %, hardly more than the 1.5 % that the test finds where there is
# nothing.


def survey(positives, size=1500):
    """Return the estimated share of infected people, with its interval."""
    found = test.estimate_posteriors(results(size - positives, positives)[:, ::-1])
    return found.estimate[0], found.low[0], found.high[0]


print("infected: {:.3f}, 95 % interval {:.3f} to {:.3f}".format(*survey(40)))

# %%
# With rates from a leaflet, and no panels, there is an answer too, but no interval for the test's
# own errors.

known_rates = ACC.from_rates(sensitivity=103 / 120, specificity=394 / 400)
print(f"from rates alone: {known_rates.adjust([1460 / 1500, 40 / 1500])[1]:.3f}")

# %%
# What to read off
# ----------------
# Up to about 45 positives the survey cannot say that anyone was infected: the band touches zero,
# and stays within the possible. The dashed line is the share of positives taken at its word. The
# grey line is the textbook correction of Rogan and Gladen, which turns negative.

counts = np.arange(0, 151, 5)
middle, low, high = np.array([survey(int(count)) for count in counts]).T
textbook = (counts / 1500 - 6 / 400) / (103 / 120 - 6 / 400)
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.fill_between(counts, low, high, color="#0072B2", alpha=0.2, label="95 % interval")
ax.plot(counts, middle, color="#0072B2", label="estimate")
ax.plot(
    counts, counts / 1500, color="black", linestyle="--", linewidth=1, label="share of positives"
)
ax.plot(counts, textbook, color="#999999", linewidth=1, label="textbook correction")
ax.set(xlabel="positives among 1,500 people", ylabel="share of infected people")
ax.legend(frameon=False)
plt.show()
