"""
A first answer
==============

What share of each variety is in the beans that a supplier sent? A camera sees the area and the
perimeter of each bean, and of 1,200 beans the variety is known. The beans are real; suppliers and
deliveries were made up for the example (:func:`kdey.datasets.load_beans`).
"""

import matplotlib.pyplot as plt

from kdey import Quantifier
from kdey.datasets import load_beans
from kdey.plots import IntervalsDisplay

# %%
# Labelled beans, and new ones
# ----------------------------
# Classifiers and methods are chosen and weighted by themselves.

labelled, new, known = load_beans()
q = Quantifier(random_state=0).fit(labelled[["area", "perimeter"]], labelled["variety"])
estimate = q.estimate(new[new["supplier"] == "lake"])
print(estimate)

# %%
# What to read off
# ----------------
# Diamonds are the decisions of the same classifiers, counted: 61 % seker. Four fifths of the beans
# are seker (crosses), and the estimate (dots) says so, with an interval that contains the truth for
# every variety. Counting is pulled towards the mix of the labelled beans (ticks), because a
# classifier mistakes many seker for dermason and few dermason for seker.

shares = known["variety"][new["supplier"] == "lake"].value_counts(normalize=True)
truth = shares[q.classes_].to_numpy()
IntervalsDisplay.from_estimate(estimate, truth=truth)
plt.show()
