"""
How large a bag, how many labels?
=================================

Before data are collected: how many instances must a bag have for an interval that is ten points
wide? ``identifiability`` splits the variance of an estimate into a part that falls with the size
of the bag and one that falls with the number of training labels. ``plan_bag_size`` and
``plan_labels`` solve for either. No bag is needed for that, only the labelled data.

Digits come with scikit-learn; only the bags that try the plan are made up. The classes are three
groups of digits, told apart by a few pixels.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from kdey import PACC, identifiability, plan_bag_size, plan_labels

# %%
# A quantifier, and what it expects
# ---------------------------------

images, digit = load_digits(return_X_y=True)
groups = np.array(["0 to 2", "3 to 6", "7 to 9"])[np.digitize(digit, [3, 7])]
images = images.reshape(-1, 8, 8)[:, 1::3, 1::3].reshape(len(digit), -1) / 16
order = np.random.default_rng(0).permutation(len(digit))
known, pool = order[:600], order[600:]
quantifier = PACC(LogisticRegression(max_iter=1000)).fit(images[known], groups[known])

report = identifiability(quantifier, bag_size=200, prevalence=[0.5, 0.3, 0.2])
print(report.verdict)
print(plan_bag_size(report, 0.2).verdict)
print(plan_bag_size(report, 0.1).verdict)
print(plan_labels(report, 0.2, bag_size=500).verdict)

# %%
# Was that right?
# ---------------
# Bags of several sizes, drawn from images without a label at the same mix; the mean width of
# their intervals.

sizes = np.array([50, 100, 200, 500, 1000, 2000, 5000])
rng = np.random.default_rng(1)
mix = dict(zip(quantifier.classes_, report.prevalence, strict=True))
weights = np.array([mix[name] / np.mean(groups[pool] == name) for name in groups[pool]])
weights /= weights.sum()
found = []
for size in sizes:
    bags = [rng.choice(len(pool), size, p=weights) for _ in range(10)]
    made = quantifier.estimate_bags(images[pool], bags)
    found.append(np.mean([e.high - e.low for e in made], axis=0))
found = np.array(found)
expected = np.array([report.width(int(size)) for size in sizes])
floors = plan_bag_size(report, 0.1).floors

# %%
# What to read off
# ----------------
# Lines are what the report expects for the three groups, marks what bags showed. The report is a
# little too hopeful for bags of 50, and close from 200 on. Widths fall with the size of the bag at
# first and then no more: dotted is what 600 labels leave, at which no bag gives intervals of ten
# points. Beyond a thousand instances labels are the better buy.

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for code, colour in enumerate(["#0072B2", "#D55E00", "#009E73"]):
    ax.plot(sizes, expected[:, code], color=colour, label=quantifier.classes_[code])
    ax.plot(sizes, found[:, code], "o", color=colour)
    ax.axhline(floors[code], color=colour, linestyle=":", linewidth=1)
ax.set(xscale="log", xlabel="instances in the bag", ylabel="width of the 95 % interval")
ax.set_xticks([50, 200, 1000, 5000], ["50", "200", "1,000", "5,000"])
ax.minorticks_off()
ax.set_ylim(bottom=0)
ax.legend(frameon=False, title="digits")
plt.show()
