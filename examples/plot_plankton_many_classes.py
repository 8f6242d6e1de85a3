"""
Plankton: many classes, and one that nobody knew
================================================

An imaging instrument takes pictures of plankton, a network turns each into a vector, and a
classifier knows 32 taxa. The counts per taxon are what biologists want. Two things go wrong in
practice: the mix at sea is far from that of the labelled pictures, and sooner or later something
swims by that was never labelled. Intervals take care of the first; the fit check finds the
second.

The vectors are made up in this script: a cloud per taxon, some of which overlap.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression

from kdey import KDEyML, check_fit

# %%
# 32 taxa, a few common and many rare
# -----------------------------------

rng = np.random.default_rng(1)
K = 32
TAXA = np.array([f"taxon {i:02d}" for i in range(K)])
centres = rng.normal(size=(K + 1, 12)) * 1.6
centres[K] *= 0.2  # the one without a label: it looks a little like many others


def pictures(counts):
    """Return vectors of the given numbers of each taxon, and their taxa."""
    taxa = np.repeat(np.arange(len(counts)), counts)
    return centres[taxa] + rng.normal(size=(len(taxa), 12)), taxa


X, taxa = pictures(rng.integers(40, 90, size=K))
quantifier = KDEyML(LogisticRegression(max_iter=1000), random_state=0).fit(X, TAXA[taxa])

# %%
# Two hauls
# ---------
# In May six taxa make up three fifths of the haul. In August one picture in ten is of something
# that training never had.

at_sea = rng.dirichlet(np.full(K, 0.35))
may, seen = pictures(rng.multinomial(900, at_sea))
counts = rng.multinomial(810, rng.dirichlet(np.full(K, 0.35)))
august, _ = pictures(np.append(counts, 90))

checks = {
    month: check_fit(quantifier, haul, random_state=0)
    for month, haul in {"May": may, "August": august}.items()
}
for month, check in checks.items():
    print(f"{month}: {check.verdict}")

# %%
# Which pictures to look at
# -------------------------
# The check ranks the pictures by how badly they fit; the worst are those to send to a taxonomist.

worst = checks["August"].worst(30)
found = np.mean(worst >= len(august) - 90)
print(f"{found:.0%} of the 30 worst pictures of August are of the unknown taxon")

# %%
# What to read off
# ----------------
# Left: May, taxon by taxon. The intervals meet the diagonal, from taxa that are a seventh of the
# haul to those that are not in it, although each was about 3 % of training. Right: how well
# single pictures fit, as local p-values, which are spread evenly where all is well. August has a
# heap at zero: too many pictures that no known taxon explains.

estimate = quantifier.estimate(may)
true = np.bincount(seen, minlength=K) / len(may)
fig, (left, right) = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
left.plot([0, true.max()], [0, true.max()], color="#999999", linewidth=1)
left.vlines(true, estimate.low, estimate.high, color="#0072B2", linewidth=3, alpha=0.4)
left.plot(true, estimate.estimate, "o", color="#0072B2", ms=5, label="estimate, 95 % interval")
left.plot(true, estimate.classify_and_count, "D", color="#D55E00", mfc="none", label="counted")
left.set(xlabel="true share", ylabel="estimated share", title="May: 32 taxa, 900 pictures")
left.legend(frameon=False, loc="lower right")
for month, check in checks.items():
    right.hist(check.local_p_values, bins=20, histtype="step", linewidth=2, label=month)
right.set(xlabel="local p-value of a picture", ylabel="pictures", title="Does the haul fit?")
right.legend(frameon=False)
plt.show()
