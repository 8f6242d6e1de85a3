"""
A better classifier for this bag
================================

Once the mix of a bag is known, the classifier itself can be put right: its posteriors were made
for the mix of training. ``adapt_posteriors`` multiplies them by the ratio of the two prevalences
(Bayes' rule), and ``AdaptedClassifier`` wraps that around any fitted classifier. Single
decisions get better, without one new label.

Digits come with scikit-learn; only the mixes of the bags are made up.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from kdey import AdaptedClassifier, KDEyML

# %%
# Training: every digit alike
# ---------------------------

images, digit = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8)[:, ::2, ::2].reshape(-1, 16) / 16  # a quarter of the pixels
X, X_pool, y, y_pool = train_test_split(images, digit, train_size=0.5, random_state=0)
quantifier = KDEyML(LogisticRegression(max_iter=1000), random_state=0).fit(X, y)

# %%
# Bags that are less and less like it
# -----------------------------------
# Three digits take a growing share of each bag. Every bag is estimated, and the classifier
# adapted to the estimate, and to the truth for comparison.

rng = np.random.default_rng(0)
shares = np.array([0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
common = np.isin(y_pool, [1, 8, 9])
right = []
for share in shares:
    scores = []
    for _ in range(10):
        n_common = round(400 * share)
        bag = np.concatenate(
            [
                rng.choice(np.flatnonzero(common), n_common),
                rng.choice(np.flatnonzero(~common), 400 - n_common),
            ]
        )
        seen = X_pool[bag], y_pool[bag]
        truth = np.bincount(y_pool[bag], minlength=10) / len(bag)
        models = [
            quantifier.classifier_,
            AdaptedClassifier.from_quantifier(quantifier, quantifier.predict(X_pool[bag])),
            AdaptedClassifier.from_quantifier(quantifier, truth),
        ]
        scores.append([model.score(*seen) for model in models])
    right.append(np.mean(scores, axis=0))
right = np.array(right)
print(f"errors at {shares[-2]:.0%}: {1 - right[-2, 0]:.1%} before, {1 - right[-2, 1]:.1%} adapted")

# %%
# What to read off
# ----------------
# At 30 %, which is training's mix, there is nothing to gain. The further the bag is from it, the
# more decisions the adapted classifier gets right, eleven points at the far end, and it does so
# with the estimate nearly as well as with the true mix.

fig, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
labels = ["as trained", "adapted to the estimate", "adapted to the truth"]
looks = [("s", "#999999", "-"), ("o", "#0072B2", "-"), ("", "#009E73", "--")]
for column, label, (mark, colour, line) in zip(right.T, labels, looks, strict=True):
    ax.plot(shares, column, marker=mark, color=colour, linestyle=line, label=label)
ax.set(xlabel="share of ones, eights and nines in the bag", ylabel="decisions that are right")
ax.xaxis.set_major_formatter("{x:.0%}")
ax.yaxis.set_major_formatter("{x:.0%}")
ax.legend(frameon=False)
plt.show()
