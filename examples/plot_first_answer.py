"""
A first answer
==============

Handwritten digits at a quarter of their pixels, so that a classifier makes mistakes. In the
labelled images every digit is a tenth; in the new ones there are zeros, ones and twos only. How
much of each digit is in the new images? Nothing is made up here but the mix of the new images:
the digits come with scikit-learn.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from kdey import Quantifier
from kdey.plots import IntervalsDisplay

# %%
# Two halves
# ----------
# Every second image has a label. Classifiers and methods are chosen and weighted by themselves.

images, digit = load_digits(return_X_y=True)
images = images.reshape(-1, 8, 8)[:, ::2, ::2].reshape(-1, 16) / 16  # a quarter of the pixels
X, y = images[::2], digit[::2]  # labelled: a tenth of each digit
X_bag = images[1::2][digit[1::2] < 3]  # not labelled: zeros, ones and twos only
q = Quantifier().fit(X, y)
estimate = q.estimate(X_bag)
print(estimate)

# %%
# What to read off
# ----------------
# Diamonds, the decisions of the same classifiers counted, give digits that are not there up to 3 %,
# and take them from the ones and twos. The estimate (dots) is close to the labels (crosses) for
# every digit, and its limits hold them. The ticks show where training was.

truth = np.bincount(digit[1::2][digit[1::2] < 3], minlength=10) / len(X_bag)
IntervalsDisplay.from_estimate(estimate, truth=truth)
plt.show()
