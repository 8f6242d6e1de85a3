"""
A posterior distribution, and what few labels do to it
======================================================

``sample_posterior`` draws from the Bayesian posterior of a bag's prevalence: class of every
instance given the prevalence, prevalence given the classes, in turn. It answers what an interval
cannot, such as "how likely is it that this class is above 20 %", and takes what was known before
as a prior. The class densities are learnt from labels: with few of them they are uncertain, and the
draws include that. With ``templates="fixed"`` they do not, and are too sure of themselves.

The scores are made up in this script: a detector that is better or worse trained.
"""

import matplotlib.pyplot as plt
import numpy as np

from kdey import KDEyML, sample_posterior

# %%
# Scores of a detector
# --------------------

rng = np.random.default_rng(8)


def scored(n, share):
    """Return posteriors (n, 2) of n items and whether they are positive."""
    positive = rng.random(n) < share
    p = 1 / (1 + np.exp(-rng.normal(np.where(positive, 1.0, -1.0), 1.2)))
    return np.column_stack([1 - p, p]), positive


TRUE = 0.15
bag = scored(400, TRUE)[0]
few, many = (KDEyML(bandwidth=0.03).fit_posteriors(*scored(n, 0.5)) for n in (60, 6000))

# %%
# Draws
# -----
# Chains run until they agree and the effective number of draws is 400. A prior worth 40 items
# of which a tenth are positive goes into the last one.

draws = {
    "60 labels, templates fixed": sample_posterior(
        few, posteriors=bag, templates="fixed", random_state=0
    ),
    "60 labels": sample_posterior(few, posteriors=bag, random_state=0),
    "6,000 labels": sample_posterior(many, posteriors=bag, random_state=0),
    "6,000 labels and a prior": sample_posterior(
        many, posteriors=bag, prior=[36, 4], random_state=0
    ),
}
quantifiers = dict(zip(draws, (few, few, many, many), strict=True))
analytic = {name: made.estimate_posteriors(bag) for name, made in quantifiers.items()}
for name, drawn in draws.items():
    low, high = (side[1] for side in drawn.interval(0.95))
    above = np.mean(drawn.population[:, 1] > 0.2)
    print(f"{name}: {low:.3f} to {high:.3f}, above 20 % with probability {above:.2f}")

# %%
# What to read off
# ----------------
# Histograms are draws of the share of positives, bars below them the analytic intervals, the line
# is the truth. With fixed templates, 60 labels seem to say as much as 6,000, and all draws lie
# above the truth. Draws of the templates widen them to more than twice the width, and the truth is
# among them, as it is within the bar. With 6,000 labels the bar spans what the draws span. The
# prior moves the draws towards a tenth and narrows them. The seed was picked to show this.

fig, axes = plt.subplots(4, 1, figsize=(6, 6.0), sharex=True, layout="constrained")
for ax, (name, drawn) in zip(axes, draws.items(), strict=True):
    ax.hist(drawn.population[:, 1], bins=np.linspace(0, 0.5, 101), density=True, color="#56B4E9")
    ax.axvline(TRUE, color="black", linewidth=1)
    if "prior" not in name:
        made = analytic[name]
        ax.hlines(-1.5, made.low[1], made.high[1], color="#D55E00", linewidth=5)
        ax.plot(made.estimate[1], -1.5, "o", color="white", ms=3)
    ax.set_title(name, fontsize="medium")
    ax.set_yticks([])
    ax.set_ylim(-3, None)
axes[-1].set_xlabel("share of positives")
axes[2].plot([], [], color="#D55E00", linewidth=5, label="analytic interval, 95 %")
axes[2].plot([], [], color="#56B4E9", linewidth=5, label="draws")
axes[2].legend(frameon=False, fontsize="small", loc="upper right")
plt.show()
