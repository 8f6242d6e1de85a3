"""Make examples/news20_scores.npz: posteriors of news20 posts, for the case study.

Posts of twenty newsgroups (300 dimensions of latent semantic analysis) are classified into six
fields by a logistic regression on 3,000 posts of the training part. Kept are its posteriors, those
of the training posts by cross-validation, in half precision, and the newsgroups: numbers, no text.

Needs the data set text/news20-lsa300 (``python -m experiments data list``). Run it again only to
change the example.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict, train_test_split

from experiments.download import paths
from kdey.datasets.registry import find

TARGET = Path(__file__).parents[1] / "examples" / "news20_scores.npz"
#: Newsgroups by the beginning of their names -> field.
FIELDS = {
    "comp.": "computing",
    "misc.forsale": "for sale",
    "rec.": "recreation",
    "sci.": "science",
    "talk.politics.": "politics",
    "alt.atheism": "religion",
    "soc.religion.": "religion",
    "talk.religion.": "religion",
}


def field_of(newsgroup: str) -> str:
    """Return the field of a newsgroup."""
    return next(field for start, field in FIELDS.items() if newsgroup.startswith(start))


def main() -> None:
    """Write the file."""
    table = pd.read_csv(paths(find("text/news20-lsa300"))[0])
    features = [name for name in table.columns if name.startswith("s") and name[1:].isdigit()]
    rest = [name for name in table.columns if name not in features]
    label = next(name for name in rest if table[name].nunique() == 20)
    part = next(name for name in rest if set(table[name].unique()) == {"train", "test"})
    X, newsgroup = table[features].to_numpy(), table[label].to_numpy(dtype=str)
    fields = np.array([field_of(name) for name in newsgroup])
    is_training = (table[part] == "train").to_numpy()
    candidates = np.flatnonzero(is_training)
    chosen, _ = train_test_split(
        candidates, train_size=3_000, stratify=newsgroup[candidates], random_state=0
    )
    classifier = LogisticRegression(C=10.0, max_iter=1000)
    folds = cross_val_predict(classifier, X[chosen], fields[chosen], cv=10, method="predict_proba")
    new = np.flatnonzero(~is_training)
    classifier.fit(X[chosen], fields[chosen])
    np.savez_compressed(
        TARGET,
        classes=classifier.classes_,
        training_posteriors=folds.astype(np.float16),
        training_fields=fields[chosen],
        posteriors=classifier.predict_proba(X[new]).astype(np.float16),
        newsgroups=newsgroup[new],
        fields=fields[new],
    )
    print(TARGET, TARGET.stat().st_size, classifier.score(X[new], fields[new]))


if __name__ == "__main__":
    main()
