"""Confidence-based performance estimation (CBPE) of NannyML on the bags of ``performance.py``.

    python benchmarks/performance.py --keep-posteriors
    python benchmarks/performance_peer.py      # in an environment with nannyml, without kdey
    python benchmarks/performance.py           # adds its errors to the summary

It reads the posteriors in ``build/benchmarks/performance`` and writes beside them what NannyML
expects of every bag. The reference is the labelled training set with out-of-fold posteriors, and
every bag is a chunk.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from nannyml import CBPE

FOLDER = Path(__file__).parents[1] / "build" / "benchmarks" / "performance"
METRICS = ("accuracy", "f1")


def frame(posteriors: np.ndarray, labels: np.ndarray | None, chunks: np.ndarray) -> pd.DataFrame:
    """Return the table that NannyML takes."""
    k = posteriors.shape[1]
    decided = posteriors.argmax(axis=1)
    columns: dict[str, object] = {"chunk": chunks}
    if k == 2:
        columns |= {"p": posteriors[:, 1], "decided": decided}
    else:
        columns |= {f"p{label}": posteriors[:, label] for label in range(k)}
        columns["decided"] = [f"c{label}" for label in decided]
    if labels is not None:
        columns["label"] = labels if k == 2 else [f"c{label}" for label in labels]
    return pd.DataFrame(columns)


def expected(path: Path) -> dict[str, list[float]]:
    """Return the expected accuracy and F1 of each bag of a file."""
    data = np.load(path)
    training, labels, bags = data["training"], data["labels"], data["bags"]
    k = training.shape[1]
    numbers = np.repeat(np.arange(len(bags)), bags.shape[1])
    proba = "p" if k == 2 else {f"c{label}": f"p{label}" for label in range(k)}
    estimator = CBPE(
        metrics=list(METRICS),
        y_pred="decided",
        y_pred_proba=proba,
        y_true="label",
        problem_type="classification_binary" if k == 2 else "classification_multiclass",
        chunk_size=bags.shape[1],
    )
    estimator.fit(frame(training, labels, np.zeros(len(labels), dtype=int)))
    pool = bags.reshape(-1, k)
    result = estimator.estimate(frame(pool, None, numbers)).filter(period="analysis").to_df()
    return {name: result[(name, "value")].astype(float).tolist() for name in METRICS}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    for file in sorted(FOLDER.glob("*.npz")):
        made = file.with_suffix(".cbpe.json")
        if not made.exists():
            made.write_text(json.dumps(expected(file)))
            print(file.stem, flush=True)
