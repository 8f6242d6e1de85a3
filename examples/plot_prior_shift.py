"""
Why counting fails
==================

A classifier that errs counts wrongly as soon as the mix of classes moves away from that of
training: its false alarms do not vanish with the class that they are mistaken for. This script
draws bags over the whole range of prevalences and compares two ways of counting, of decisions
(CC) and of posteriors (PCC), with two ways of correcting (PACC, KDEy-ML).

Digits come with scikit-learn; only the bags are made up. The question is how many of them are
large (five to nine), which a linear classifier on a quarter of the pixels often gets wrong.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from kdey import CC, PACC, PCC, KDEyML, evaluate
from kdey.evaluation import GridAPP, fit_many
from kdey.plots import DiagonalDisplay

# %%
# One classifier, four quantifiers
# --------------------------------
# ``fit_many`` fits the classifier once for all of them.

images, digit = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8)[:, ::2, ::2].reshape(-1, 16) / 16
X, X_pool, y, y_pool = train_test_split(images, digit > 4, random_state=0, train_size=0.5)
labelled = y | (np.arange(len(y)) % 3 > 0)  # training has fewer small digits than large ones
X, y = X[labelled], np.where(y[labelled], "large", "small")
y_pool = np.where(y_pool, "large", "small")
classifier = LogisticRegression(max_iter=1000)
methods = {
    "CC": CC(classifier),
    "PCC": PCC(classifier),
    "PACC": PACC(classifier),
    "KDEy-ML": KDEyML(classifier, random_state=0),
}
fitted = fit_many(methods, X, y)
training = fitted["CC"].prevalence_[0]
print(f"large digits in training: {training:.0%}")
print(f"right on {np.mean(fitted['CC'].classifier_.predict(X_pool) == y_pool):.0%} of the pool")

# %%
# Bags at every prevalence
# ------------------------
# ``GridAPP`` takes the prevalences 0, 5, ..., 100 per cent in turn, here 20 bags of 150 at each.

protocol = GridAPP(n_prevalences=21, repeats=20, bag_size=150, random_state=0)
results = evaluate(fitted, X_pool, y_pool, protocol)
print(results.summary("pandas")[["method", "ae"]].round(3).to_string(index=False))

# %%
# What to read off
# ----------------
# The dashed diagonal is the truth. Counting meets it once, near the prevalence of training
# (dotted); with no large digit in the bag both counts still report some, and with nothing else
# they miss many. Posteriors counted (PCC) are flatter yet than decisions. PACC and KDEy-ML follow
# the diagonal, up to a few points that are the same in every bag: the chance in 750 training
# images. Bands are one standard deviation over bags, and wider: what correcting costs.

display = DiagonalDisplay.from_results(results, label="large", n_bins=21)
display.ax_.axvline(training, color="#999999", linestyle=":", linewidth=1)
plt.show()
