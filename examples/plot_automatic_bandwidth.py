"""
The bandwidth that nobody had to choose
=======================================

The paper tunes the bandwidth of KDEy by a grid on validation data. ``KDEyML()`` chooses it at
``fit``, from the cross-validated training posteriors that are there anyway: bags are drawn from
one part of them, densities are made of the others, and bandwidths are judged by the error on
these bags, in the plain simplex and in four log-ratio geometries. The best of each are averaged.
Was it a good choice? Bags from images that training never saw tell.

Digits come with scikit-learn; only the bags are made up.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from kdey import APP, KDEyML, evaluate
from kdey.evaluation import fit_many
from kdey.plots import TuningDisplay

# %%
# The choice, in words
# --------------------

images, digit = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8)[:, ::2, ::2].reshape(-1, 16) / 16  # a quarter of the pixels
X, X_pool, y, y_pool = train_test_split(images, digit, train_size=0.5, random_state=0)
classifier = LogisticRegression(max_iter=1000)
automatic = KDEyML(classifier, random_state=0)

# %%
# Beside fixed bandwidths
# -----------------------
# All share one classifier and one set of training posteriors (``fit_many``), and meet the same
# bags.

widths = 0.02 * 2.0 ** np.arange(0, 5, 0.5)
fixed = {f"{h:.3f}": KDEyML(classifier, bandwidth=h, random_state=0) for h in widths}
fitted = fit_many({"automatic": automatic, **fixed}, X, y)
tuning = fitted["automatic"].tuning_
print(tuning.summary())
results = evaluate(fitted, X_pool, y_pool, APP(200, 300, random_state=0), metrics="ae")
errors = np.array([results.errors("ae", name).mean() for name in fixed])
chosen = results.errors("ae", "automatic").mean()
print(f"mean error of new bags: {chosen:.4f} automatic, {errors.min():.4f} best fixed in hindsight")

# %%
# What to read off
# ----------------
# Left: the error on the tuning bags, one curve per geometry; large dots mark what is averaged,
# the legend says with which weight. The dotted line is the error of answering all classes alike.
# Right: the error on new bags. A fixed bandwidth on the plain simplex costs half as much again
# where it is too small, and several times as much where it is too large. The automatic choice is
# below every one of them: no single geometry is as good as the average.

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 4.2), layout="constrained")
TuningDisplay.from_tuning(tuning, ax=left)
left.set(ylim=(0.011, 0.3))
left.set_xticks([0.01, 0.1, 1], ["0.01", "0.1", "1"])
left.set_yticks([0.02, 0.05, 0.1], ["0.02", "0.05", "0.1"])
left.minorticks_off()
left.set_title("tuning bags, from training", fontsize="medium")
right.plot(widths, errors, "o-", color="#0072B2", label="fixed, plain simplex")
right.axhline(chosen, color="#D55E00", label="automatic")
right.set(xscale="log", yscale="log", xlabel="bandwidth", ylabel="mean absolute error")
right.set_xticks([0.02, 0.05, 0.1, 0.2, 0.5], ["0.02", "0.05", "0.1", "0.2", "0.5"])
right.set_yticks([0.01, 0.02, 0.04], ["0.01", "0.02", "0.04"])
right.minorticks_off()
right.set_title("new bags", fontsize="medium")
right.legend(frameon=False)
plt.show()
