"""
From question to decision: which forums keep their science desk?
================================================================

A company runs six forums and pays an expert in each who answers questions on science. An expert is
worth the money where at least a fifth of the posts is on science. **Where can the desk be closed?**

Nobody reads all posts. There is a classifier of six fields, learnt from 3,000 posts of one forum
that were sorted by hand, and it is right on 77 % of new posts. We answer the question three times:
by counting its decisions, by kdey, and by kdey with 100 posts per forum sorted by hand.

The posts are real: those of *20 Newsgroups*, whose test part was written after its training part.
The six forums are made up here: they are mixtures of its posts, so that the truth is known. In the
forums D to F four of five science posts are on electronics, as after a course on it. Training has
one in four. Electronics looks like computing: these forums differ from training in more than the
prevalence of the fields.

``news20_scores.npz`` beside this script holds the classifier's posteriors, not the posts;
``scripts/news20_scores.py`` made it.
"""

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from kdey import EMQ, predict_groups


def find(name):
    """Return the path of a file beside this script, also where a gallery runs it."""
    folder = Path(__file__).parent if "__file__" in globals() else Path.cwd()
    return folder / name


def scores(name):
    """Return posteriors, which are stored with three digits, with rows that sum to one."""
    p = stored[name].astype(float)
    return p / p.sum(axis=1, keepdims=True)


stored = np.load(find("news20_scores.npz"))
classes, fields, newsgroups = stored["classes"], stored["fields"], stored["newsgroups"]
posteriors = scores("posteriors")

# %%
# Six forums
# ----------
# 500 posts each. The shares of the other fields keep their proportions.

rng = np.random.default_rng(0)
SCIENCE = dict(zip("ABCDEF", [0.14, 0.20, 0.34, 0.14, 0.20, 0.34], strict=True))
others = pd.Series([0.35, 0.08, 0.15, 0.25, 0.17, 0.0], classes)


def draw(forum):
    """Return the positions of a forum's posts."""
    share = others * (1 - SCIENCE[forum])
    share["science"] = SCIENCE[forum]
    chosen = []
    for field in rng.choice(classes, 500, p=share):
        candidates = fields == field
        if field == "science" and forum in "DEF":
            subject = "sci.electronics" if rng.random() < 0.8 else "sci.med"
            candidates = newsgroups == subject
        chosen.append(rng.choice(np.flatnonzero(candidates)))
    return np.array(chosen)


drawn = {forum: draw(forum) for forum in SCIENCE}
positions = np.concatenate(list(drawn.values()))
posts = pd.DataFrame(posteriors[positions], columns=[f"p_{name}" for name in classes])
posts.insert(0, "forum", np.repeat(list(drawn), 500))
true = {forum: float(np.mean(fields[rows] == "science")) for forum, rows in drawn.items()}

# %%
# Counting, and kdey
# ------------------
# The quantifier learns from the posteriors of the 3,000 sorted posts. ``classify_and_count`` is the
# share of the classifier's decisions. Each estimate has an interval, and a status by a check.

quantifier = EMQ(calibration="bcts").fit_posteriors(
    scores("training_posteriors"), stored["training_fields"]
)
score_columns = [f"p_{name}" for name in classes]
plain = predict_groups(quantifier, posts, "forum", scores=score_columns).to_frame()
plain = plain[plain["class"] == "science"].set_index("forum")
print(plain[["classify_and_count", "estimate", "low", "high", "status"]].round(3))

# %%
# "Poor fit" is a warning: these posts do not look like a mixture of the training posts. Newer posts
# differ from older ones everywhere, and so does electronics. The intervals are right only if
# nothing but the shares has changed, so a warning is a reason to look.
#
# A hundred labels per forum
# --------------------------
# We sort 100 random posts of each forum by hand, an hour's work, and write the field into a column
# of the same table. All other cells of it are empty.

posts["sorted"] = None
for _, part in posts.groupby("forum"):
    chosen = rng.choice(part.index, 100, replace=False)
    posts.loc[chosen, "sorted"] = fields[positions[chosen]]

table = predict_groups(
    quantifier, posts, "forum", scores=score_columns, labelled="sorted"
).to_frame()
table = table[table["class"] == "science"].set_index("forum")
ways = ["label_shift", "labels", "prediction_powered", "label_shift_p_value"]
print(table[ways].round(3))
print(table.loc["E", "verdict"])

# %%
# The labels find what is wrong: in two of the forums D to F they contradict label shift. The
# prediction-powered estimate does not rest on it. Its intervals are wider than those of kdey
# without labels, which are sure of something false. In five forums they are narrower than those
# of the labels alone; in E, where the classifier errs most, it does not help.
#
# The decision
# ------------
# A desk is closed where even the upper end of the interval is below a fifth.

methods = {
    "counting": plain["classify_and_count"],
    "kdey": plain["high"],
    "kdey with 100 labels": table["high"],
}
decisions = pd.DataFrame({name: values < 0.2 for name, values in methods.items()})
decisions["the share is"] = pd.Series(true)
wrongly_closed = {
    name: [forum for forum in SCIENCE if decisions.loc[forum, name] and true[forum] >= 0.2]
    for name in methods
}
print(decisions.replace({True: "close", False: "keep"}).round(3))
print("closed by mistake:", wrongly_closed)

# %%
# What to read off
# ----------------
# Counting closes two desks that it should keep. kdey without labels closes one of them, with an
# interval that excludes the truth; the warning about the fit stood beside it, as in most other
# forums. With labels no desk is closed by mistake. But the desks of A and D stay too, which could
# be closed: 100 labels cannot tell their shares from a fifth. ``kdey.plan_labels`` says how many
# could, and of which posts. Until then the company knows what it does not know.

figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
place = np.arange(len(SCIENCE))
axis.axhspan(0, 0.2, color="0.93", zorder=0)
axis.text(5.45, 0.006, "below a fifth: close", ha="right", fontsize=9, color="0.35")
axis.plot(place - 0.24, plain["classify_and_count"], "x", color="0.45", label="counting")
for values, shift, colour, name in (
    (plain, -0.08, "#D55E00", "kdey"),
    (table, 0.08, "#0072B2", "kdey with 100 labels"),
):
    errors = [values["estimate"] - values["low"], values["high"] - values["estimate"]]
    axis.errorbar(
        place + shift, values["estimate"], errors, fmt="o", color=colour, capsize=3, label=name
    )
axis.plot(place + 0.24, list(true.values()), "k*", markersize=9, label="truth")
axis.set_xticks(place, [f"forum {name}" for name in SCIENCE])
axis.set_ylim(0, 0.5)
axis.set_ylabel("share of posts on science")
axis.set_title("A to C: as in training.  D to F: science is mostly electronics.", fontsize=10)
axis.legend(loc="upper left", frameon=False, fontsize=9, ncols=2)
plt.show()
