"""
Sentiment by week
=================

How did the mood of posts about a product move over half a year, and what did an outage do to it?
A classifier was trained once, on posts in which the three moods were equally frequent. It errs on
some posts, so counting its decisions pulls every week towards that even mix. ``predict_groups``
estimates the mix of each week, with intervals.

The posts are made up in this script: a few words each, drawn from lists.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from kdey import KDEyML
from kdey.plots import PrevalenceOverTimeDisplay

# %%
# Posts of a mood
# ---------------
# Most words of a post say nothing about its mood, and each mood borrows words of the others.

MOODS = np.array(["negative", "neutral", "positive"])
PLAIN = "the app update today my team again new version still phone login page work".split()
OWN = {
    "negative": "slow crash broken refund worst down error hate".split(),
    "neutral": "question how where settings release notes maybe account".split(),
    "positive": "love great fast thanks smooth best easy nice".split(),
}
rng = np.random.default_rng(0)


def post(mood):
    """Return seven words of which one or two tell the mood, more or less."""
    told = [mood if rng.random() < 0.7 else rng.choice(MOODS) for _ in range(rng.integers(1, 3))]
    return " ".join([*rng.choice(PLAIN, 5), *(rng.choice(OWN[one]) for one in told)])


labels = np.repeat(MOODS, 400)
labelled = pd.DataFrame({"text": [post(mood) for mood in labels]})

# %%
# Half a year of new posts
# ------------------------
# 300 a week. In the week of 6 April the service was down.

weeks = pd.date_range("2026-01-05", periods=26, freq="7D")
since = np.arange(26) - 13
negative = np.where(since >= 0, 0.12 + 0.55 * np.exp(-np.maximum(since, 0) / 3), 0.12)
truth = np.column_stack([negative, 0.3 * (1 - negative), 0.7 * (1 - negative)])
moods = [rng.choice(MOODS, p=share) for share in truth for _ in range(300)]
posts = pd.DataFrame({"day": np.repeat(weeks, 300), "text": [post(mood) for mood in moods]})
posts["day"] += pd.to_timedelta(rng.integers(7, size=len(posts)), unit="D")

# %%
# Fit once, estimate every week
# -----------------------------

words = make_column_transformer((CountVectorizer(), "text"))
quantifier = KDEyML(make_pipeline(words, LogisticRegression()), random_state=0)
quantifier.fit(labelled, labels)
by_week = quantifier.predict_groups(posts, time="day", every="1w").to_frame()
print(by_week[["day", "class", "n", "estimate", "low", "high"]].head(3).to_string(index=False))

# %%
# What to read off
# ----------------
# The band holds the dotted truth in nearly every week. The dashed line, the classifier's
# decisions counted, is about right only where the mix happens to be that of training: it sees too
# many negative posts before the outage and too few in it.

display = PrevalenceOverTimeDisplay.from_results(by_week, "day", classes=["negative"])
rows = by_week[by_week["class"] == "negative"]
ax = display.ax_
ax.plot(rows["day"], rows["classify_and_count"], "--", color="#D55E00", label="counted")
ax.plot(weeks, negative, ":", color="black", label="truth")
ax.set(xlabel="week", title="Share of negative posts")
ax.legend(frameon=False)
plt.show()
