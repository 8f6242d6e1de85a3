"""
Certificates, and solvers that stop short
=========================================

An estimate is the solution of a small optimisation problem. How does one know that it was
solved? For the mixture likelihood of KDEy-ML the gradient tells: with g_i the mean over the bag
of D_i / (D . alpha), the objective lies at most max(g) - 1 above its optimum. kdey reports this
number as ``gap``. Any other solver's answer can be judged by it too. Here these are SLSQP of
SciPy without a gradient, and EM that stops once prevalences move by less than 1e-4 in the mean:
both are common for this task.

The posteriors are made up in this script: ten classes that overlap.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

from kdey import KDEyML

# %%
# Posteriors of ten classes
# -------------------------

K = 10
rng = np.random.default_rng(0)


def scored(n, mix):
    """Return posteriors of n instances, shape (n, K), and their classes."""
    codes = rng.choice(K, n, p=mix)
    raw = np.exp(1.2 * np.eye(K)[codes] + rng.normal(size=(n, K)))
    return raw / raw.sum(axis=1, keepdims=True), codes


quantifier = KDEyML(bandwidth=0.1).fit_posteriors(*scored(3000, np.full(K, 1 / K)))
bags = [scored(500, rng.dirichlet(np.ones(K)))[0] for _ in range(40)]

# %%
# One problem, three solvers
# --------------------------
# ``row_map_`` gives the log-densities of the classes at each instance, the D above. A row may be
# divided by its largest entry: that changes the objective by a constant.


def gap_of(D, alpha):
    """Return the certificate of any answer."""
    return (D / (D @ alpha)[:, None]).mean(axis=0).max() - 1


def by_slsqp(D):
    """Return the answer of SLSQP from the uniform mix."""
    found = minimize(
        lambda alpha: -np.log(D @ alpha).mean(),
        np.full(K, 1 / K),
        method="SLSQP",
        bounds=[(1e-12, 1)] * K,
        constraints={"type": "eq", "fun": lambda alpha: alpha.sum() - 1},
    )
    return found.x / found.x.sum()


def by_em(D):
    """Return the answer of EM from the uniform mix."""
    alpha, moved = np.full(K, 1 / K), 1.0
    while moved > 1e-4:
        new = alpha * (D / (D @ alpha)[:, None]).mean(axis=0)
        alpha, moved = new, np.abs(new - alpha).mean()
    return alpha


gaps = {"kdey": [], "SLSQP": [], "EM": []}
away = {"kdey": [], "SLSQP": [], "EM": []}
for posteriors in bags:
    best = quantifier.solve_posteriors(posteriors)
    logs = quantifier.row_map_(posteriors).array
    D = np.exp(logs - logs.max(axis=1, keepdims=True))
    answers = {"kdey": best.prevalence[0], "SLSQP": by_slsqp(D), "EM": by_em(D)}
    for name, alpha in answers.items():
        gaps[name].append(gap_of(D, alpha))
        away[name].append(np.abs(alpha - best.prevalence[0]).max())
for name in gaps:
    print(f"{name:6s} largest gap {max(gaps[name]):.0e}, off by up to {max(away[name]):.4f}")

# %%
# What to read off
# ----------------
# A mark is a bag; its height is the prevalence that is off most, against kdey's answer. kdey's
# gaps are below 1e-8 (line). SLSQP reports success at gaps ten thousand times as large, which is
# harmless here: the fourth digit. EM comes to rest, too, and a share may still be off by a
# point, more than a bag of a few thousand would leave to chance. The certificate finds both
# unsolved without knowing the better answer.

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
ax.axvline(1e-8, color="#999999", linewidth=1)
looks = {"kdey": ("o", "#0072B2"), "SLSQP": ("D", "#D55E00"), "EM": ("^", "#009E73")}
for name, (mark, colour) in looks.items():
    x, y = np.maximum(gaps[name], 1e-12), np.maximum(away[name], 1e-6)
    ax.plot(x, y, mark, color=colour, mfc="none" if name != "kdey" else colour, label=name)
ax.set(xscale="log", yscale="log", xlabel="certified gap to the optimum")
ax.set(ylabel="largest error of a prevalence")
ax.set_yticks([1e-6, 1e-4, 1e-2], ["none", "0.0001", "0.01"])
ax.minorticks_off()
ax.legend(frameon=False, loc="upper left")
plt.show()
