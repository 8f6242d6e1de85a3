"""
Densities on the simplex
========================

What KDEy does, in a picture. With three classes a posterior is a point of a triangle. The points
of each training class have a density there, by a kernel around each of them; the points of a bag
have one too. KDEy looks for the mixture of the three class densities that fits the bag: its
weights are the prevalences.

The posteriors are those of a logistic regression on three kinds of wine, which come with
scikit-learn; only the bag is made up. The classifier sees two of the thirteen features.
"""

import matplotlib.pyplot as plt
import mpltern  # noqa: F401  (makes the ternary axes known)
import numpy as np
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

from kdey import KDEyML
from kdey.kernels import class_log_sums

# %%
# Fit, and estimate a bag
# -----------------------
# The bandwidth is fixed, so that one density can be drawn; by default several are averaged.

wine = load_wine()
X, y = scale(wine.data)[:, [0, 1]], wine.target
rng = np.random.default_rng(0)
true = np.array([0.1, 0.3, 0.6])
bag = X[rng.choice(len(y), 400, p=true[y] / np.bincount(y)[y])]
quantifier = KDEyML(LogisticRegression(), bandwidth=0.08, random_state=0).fit(X, y)
estimate = quantifier.predict(bag)
print("estimated", estimate.round(3), "true", true)

# %%
# Densities on a grid
# -------------------
# ``class_log_sums`` is the kernel of the library: the log of the sum of Gaussian kernels around
# the points of each class.

step = np.arange(0, 61) / 60
first, second = (part.ravel() for part in np.meshgrid(step, step))
inside = first + second <= 1 + 1e-9
first, second = first[inside], second[inside]
grid = np.column_stack([first, second, np.clip(1 - first - second, 0, 1)])


def density(points):
    """Return the mean kernel of some posteriors at the points of the grid."""
    sums = class_log_sums(grid, points, np.array([0, len(points)]), [quantifier.bandwidth])
    return np.exp(sums[0, :, 0]) / len(points)


training = quantifier.training_
classes = [density(training.posteriors[training.labels == code]) for code in range(3)]
mixture = estimate @ np.array(classes)
observed = density(quantifier.classifier_.predict_proba(bag))
counted = quantifier.estimate(bag).classify_and_count @ np.array(classes)
errors = [np.abs(made - observed).mean() / observed.mean() for made in (mixture, counted)]
print("misfit of the mixture: {:.0%} estimated, {:.0%} counted".format(*errors))

# %%
# What to read off
# ----------------
# Above: the three training classes. Classes 0 and 1 crowd in their corners, class 2 is spread
# along two edges. Below: the density of the bag, the mixture at the estimated prevalences, and the
# mixture at the counted ones, which has too little of class 2. The estimated mixture looks like
# the bag, although it has two free numbers only.

panels = dict(zip(["class 0", "class 1", "class 2"], classes, strict=True))
panels |= {"the bag": observed, "estimated mixture": mixture, "counted mixture": counted}
colours = ["Blues", "Oranges", "Greens", "Greys", "Greys", "Greys"]
fig = plt.figure(figsize=(7.5, 5.4), layout="constrained")
for place, (name, values) in enumerate(panels.items()):
    ax = fig.add_subplot(2, 3, place + 1, projection="ternary")
    top = observed.max() if place > 2 else values.max()
    levels = np.linspace(0.02, 1.001, 10)
    shade = np.sqrt(np.minimum(values / top, 1.0))
    ax.tricontourf(grid[:, 2], grid[:, 0], grid[:, 1], shade, levels=levels, cmap=colours[place])
    for side, label in (("t", "2"), ("l", "0"), ("r", "1")):
        getattr(ax, f"set_{side}label")(label)
    for axis in (ax.taxis, ax.laxis, ax.raxis):
        axis.set_label_position("corner")
        axis.set_label_rotation_mode("horizontal")
        axis.set_ticks([])
    ax.set_title(name, fontsize="medium", pad=16)
plt.show()
