"""
An LLM judge and 200 human labels
=================================

A language model grades the answers of a system as right, partly right or wrong, and gives a score
for each grade. It grades 5,000 answers of a new release in an hour, but it is generous. 200
answers of the *old* release were graded by people too. Scores in, answer out: ``fit_posteriors``
learns from the 200 how the judge's scores look for each true grade, and ``estimate_posteriors``
reads off the mix of the new release. No classifier is fitted.

The judge is made up in this script: its scores lean to the better grades and blur the middle one.
"""

import matplotlib.pyplot as plt
import numpy as np

from kdey import KDEyML, Options

# %%
# A generous judge
# ----------------

GRADES = np.array(["partly", "right", "wrong"])  # classes are sorted: so are the columns
LEANS = np.array([[0.7, 1.0, -0.4], [-0.2, 2.0, -1.4], [0.5, 0.3, 0.9]])
rng = np.random.default_rng(0)


def judged(n, mix):
    """Return the judge's scores, shape (n, 3), and the true grades of n answers."""
    grades = rng.choice(3, n, p=mix)
    raw = np.exp(LEANS[grades] + rng.normal(scale=0.7, size=(n, 3)))
    return raw / raw.sum(axis=1, keepdims=True), GRADES[grades]


old = [0.25, 0.60, 0.15]
new = [0.25, 0.35, 0.40]
scores, _ = judged(5000, new)

# %%
# How many human labels are enough?
# ---------------------------------
# Intervals know of both sources of chance: 5,000 scores of the new release, and the few labels
# that the templates are made of.

sizes = [50, 100, 200, 400, 800]
release, human = judged(max(sizes), old)
made = {n: KDEyML(random_state=0).fit_posteriors(release[:n], human[:n]) for n in sizes}
estimates = {n: quantifier.estimate_posteriors(scores) for n, quantifier in made.items()}
print(estimates[200])

# %%
# The same 200 labels, with a bootstrap that draws the new scores again but takes the templates
# for granted: what an interval looks like that does not know how few labels there were.

naive = made[200].estimate_posteriors(
    scores, options=Options(method="bootstrap", resample_templates=False)
)
wrong = int(np.flatnonzero(GRADES == "wrong")[0])
print(f"wrong, templates taken for granted: {naive.low[wrong]:.3f} to {naive.high[wrong]:.3f}")

# %%
# What to read off
# ----------------
# The judge itself says that less than a quarter of the new answers are wrong (dashed); the truth
# is 40 % (line). The intervals contain the truth at every number of labels. With 50 they say that
# nothing can be said; with 200 they exclude the judge's own count. The 5,000 scores were never
# the scarce thing. The orange bar takes the templates for granted: it is several times narrower
# than 200 labels allow, and only luck keeps it honest.

low, middle, high = (
    np.array([getattr(e, part)[wrong] for e in estimates.values()])
    for part in ("low", "estimate", "high")
)
fig, ax = plt.subplots(figsize=(6.4, 3.8), layout="constrained")
ax.axhline(new[wrong], color="black", linewidth=1, label="truth")
counted = estimates[200].classify_and_count[wrong]
ax.axhline(counted, color="black", linestyle="--", linewidth=1, label="the judge, counted")
ax.vlines(range(5), low, high, color="#0072B2", linewidth=5, alpha=0.5)
ax.plot(range(5), middle, "o", color="#0072B2", label="estimate, 95 % interval")
ax.vlines(2.18, naive.low[wrong], naive.high[wrong], color="#D55E00", linewidth=3)
ax.plot([2.18], naive.estimate[[wrong]], ".", color="#D55E00", label="templates taken for granted")
ax.set_xticks(range(5), sizes)
ax.set(xlabel="human labels", ylabel="share of wrong answers", ylim=(0, 1))
ax.legend(frameon=False, fontsize="small")
plt.show()
