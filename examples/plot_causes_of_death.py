"""
Causes of death by region
=========================

Where deaths are not certified, relatives answer a questionnaire about symptoms ("verbal autopsy")
and a model reads a cause from the answers. Health planners do not need the cause of each death;
they need the share of each cause in each region. The model was trained on deaths in hospitals,
where the mix of causes is another one, and a region has few deaths: intervals matter as much as
estimates.

Causes, symptoms and regions are made up in this script; they resemble such data in shape only.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from kdey import KDEyML

# %%
# Answers to thirty questions
# ---------------------------
# Each answer is yes, no or not known. A cause makes a few symptoms frequent; most say nothing.

CAUSES = np.array(
    ["heart", "injury", "malaria", "other", "perinatal", "pneumonia", "stroke", "tuberculosis"]
)
REGIONS = {"north": 90, "coast": 140, "hills": 70, "lakes": 220, "city": 400}
rng = np.random.default_rng(4)
rates = rng.beta(0.7, 2.5, size=(len(CAUSES), 30))


def answers(causes):
    """Return one row of answers per death, 12 % of them not known."""
    codes = np.searchsorted(CAUSES, causes)
    yes = rng.random((len(codes), 30)) < rates[codes]
    known = rng.random(yes.shape) > 0.12
    table = np.where(known, np.where(yes, "yes", "no"), "not known")
    return pd.DataFrame(table, columns=[f"symptom {i + 1}" for i in range(30)])


hospital = rng.choice(CAUSES, 1500, p=[0.2, 0.2, 0.06, 0.1, 0.12, 0.1, 0.16, 0.06])

# %%
# Deaths at home
# --------------
# Malaria and tuberculosis differ from region to region; hospitals see little of either.

mixes = {region: rng.dirichlet([3, 3, 6, 2, 3, 3, 2, 4]) for region in REGIONS}
at_home = pd.DataFrame({"region": np.repeat(list(REGIONS), list(REGIONS.values()))})
causes = np.array([rng.choice(CAUSES, p=mixes[region]) for region in at_home["region"]])
at_home = pd.concat([at_home, answers(causes)], axis=1)

# %%
# Fit on hospital deaths, estimate by region
# ------------------------------------------
# The fit check asks of each region whether its deaths look like a mixture of the hospital's
# causes. All regions here are such mixtures. At the level of 0.01 one of five is flagged by chance
# in one table of twenty: a single p-value just below the level is a reason to look, not a proof.

encoder = OneHotEncoder(handle_unknown="ignore")
classifier = make_pipeline(encoder, LogisticRegression(C=0.1, max_iter=1000))
quantifier = KDEyML(classifier, random_state=0).fit(answers(hospital), hospital)
by_region = quantifier.predict_groups(at_home, by="region").to_frame()
print(by_region[["region", "n", "fit_p_value", "status"]].drop_duplicates().to_string(index=False))

# %%
# What to read off
# ----------------
# A bar is what the data of a region can say about a cause; it narrows with the number of deaths,
# given beside the name. Diamonds, the counted decisions, are pulled towards the grey line, the
# share in the hospital: most where a region differs most, as malaria on the coast. Crosses are
# the true shares among these deaths.

shown = ["malaria", "tuberculosis", "heart", "injury"]
fig, axes = plt.subplots(1, 4, figsize=(10, 3.2), sharey=True, layout="constrained")
for ax, cause in zip(axes, shown, strict=True):
    rows = by_region[by_region["class"] == cause]
    true = [np.mean(causes[at_home["region"] == region] == cause) for region in rows["region"]]
    ax.axvline(rows["training_prevalence"].iloc[0], color="#999999", linewidth=1)
    ax.hlines(range(5), rows["low"], rows["high"], color="#0072B2", linewidth=4, alpha=0.5)
    ax.plot(rows["estimate"], range(5), "o", color="#0072B2", label="estimate, 95 %")
    ax.plot(
        rows["classify_and_count"], range(5), "D", color="#D55E00", mfc="white", label="counted"
    )
    ax.plot(true, range(5), "x", color="#009E73", label="true")
    ax.set(title=cause, xlim=(-0.02, 0.6), xlabel="share of deaths")
axes[0].set_yticks(range(5), [f"{r} ({n})" for r, n in zip(rows["region"], rows["n"], strict=True)])
axes[-1].legend(fontsize="small", frameon=False)
plt.show()
