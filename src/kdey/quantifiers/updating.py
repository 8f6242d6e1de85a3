"""New labels for a fitted quantifier: templates and calibration learn them, the classifier stays.

Rows that were labelled after the fit are new to the classifier, so that its posteriors of them are
those of a held-out part, and no folds are needed. They join the training posteriors, from which
templates and calibration are made again; parameters that were chosen at ``fit`` stay. Only the new
rows are scored.

:class:`Update` says what that has changed. Under label shift the posteriors of a class are
distributed as before, whatever its share. Whether new rows of a class look like the old ones is
tested by the ranks of their posteriors (Mann and Whitney, 1947), one test for each column, the
smallest p-value times their number. Rows of a cluster count as one, by their mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import mannwhitneyu

from kdey._display import Overview, percentages, row_names, text_column
from kdey.bags import Array, Bags
from kdey.diagnostics.score_check import kept_fold_models
from kdey.intervals import estimate_points
from kdey.model import Model, Place
from kdey.options import Options
from kdey.posteriors import TrainingPosteriors, given_stage, training_clusters
from kdey.validation import encode_labels, make_frame, on_host

#: A change of a class is named where its p-value, times the number of classes, is below this.
LEVEL = 0.01


@dataclass(frozen=True, eq=False, repr=False)
class Update:
    """What labels have changed that a fitted quantifier has learnt.

    Attributes
    ----------
    classes : array of shape (k,)
    n_before, n_new : int64 arrays of shape (k,)
        Labelled rows of each class before, and new ones.
    prevalence_before, prevalence_after : arrays of shape (k,)
        Shares of the classes among labelled rows, by their weights.
    error_before, error_after : arrays of shape (k,)
        Standard error of the share of each class that the limited number of labelled rows causes,
        in a bag like the new rows; NaN where the method does not know it.
    p_values : array of shape (k,)
        Whether the new rows of a class look like those before. NaN with fewer than two of either.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kdey import KDEyML
    >>> X, y = load_iris(return_X_y=True)
    >>> q = KDEyML(bandwidth=0.1).fit(X[::2], y[::2])
    >>> q.update(X[1:50:2], y[1:50:2]).n_new
    array([25,  0,  0])
    """

    classes: NDArray[Any]
    n_before: NDArray[np.int64]
    n_new: NDArray[np.int64]
    prevalence_before: Array
    prevalence_after: Array
    error_before: Array
    error_after: Array
    p_values: Array

    @property
    def changed(self) -> list[Any]:
        """The classes whose new rows do not look like those before, at level 0.01 in all."""
        k = int(np.count_nonzero(~np.isnan(self.p_values)))
        found: list[Any] = self.classes[self.p_values * k < LEVEL].tolist()
        return found

    def summary(self) -> str:
        """Return in a few sentences what has changed."""
        new, before = int(self.n_new.sum()), int(self.n_before.sum())
        parts = [f"{new:,} new labelled rows have joined {before:,}."]
        known = ~np.isnan(self.error_before + self.error_after)
        if known.any():
            errors = [100 * float(e[known].max()) for e in (self.error_before, self.error_after)]
            parts.append(
                "The largest standard error of a share that the number of labelled rows causes "
                f"goes from {errors[0]:.2g} to {errors[1]:.2g} points, in a bag like the new rows."
            )
        if self.changed:
            names = ", ".join(map(str, self.changed))
            parts.append(
                f"New rows of {names} do not look like those before: old labels may mislead, so "
                "fit again, on recent rows if there are enough."
            )
        elif np.isnan(self.p_values).all():
            parts.append("They are too few to tell whether they look like those before.")
        else:
            parts.append("Nothing shows that they look unlike those before.")
        return " ".join(parts)

    def to_frame(self, backend: str | None = None) -> Any:
        """Return one row per class as a data frame of pandas, polars or pyarrow."""
        names = ("n_before", "n_new", "prevalence_before", "prevalence_after")
        names += ("error_before", "error_after", "p_values")  # type: ignore[assignment]
        columns = {"class": self.classes} | {name: getattr(self, name) for name in names}
        return make_frame(columns, backend)

    def overview(self) -> Overview:
        """Return the summary, and a table by class."""
        p = ["-" if np.isnan(value) else f"{value:.2g}" for value in self.p_values]
        return Overview(
            self.summary(),
            row_names("class", self.classes),
            (
                text_column("before", [f"{n:,}" for n in self.n_before]),
                text_column("new", [f"{n:,}" for n in self.n_new], importance=9),
                text_column("std. error before", percentages(self.error_before, 2)),
                text_column("after", percentages(self.error_after, 2)),
                text_column("p", p, importance=8),
            ),
        )

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()


def updated(
    model: Model,
    points: Any,
    y: ArrayLike,
    *,
    X: Any = None,
    sample_weight: ArrayLike | None = None,
    clusters: ArrayLike | None = None,
    strata: NDArray[np.int64] | None = None,
    place: Place,
) -> tuple[Model, Update]:
    """Return a model that has learnt new labelled rows, and what has changed.

    Parameters
    ----------
    model : Model
        With training posteriors or features.
    points : array of shape (m, d)
        Of the new rows.
    y : array-like of shape (m,)
    X : instances, optional
        The new rows, for what the model keeps of their columns.
    sample_weight, clusters : array-like of shape (m,), optional
    strata : int64 array of shape (m,), optional
        Codes of the strata, where the model has some.
    place : Place

    Raises
    ------
    ValueError
        If y holds a class that the classifier has not seen.
    """
    old, k = model.training, model.n_classes
    assert old is not None, "checked by the caller"
    codes = _known_codes(y, model.classes)
    if len(codes) != len(points):
        raise ValueError(
            f"X and y must have the same number of rows, got {len(points)} and {len(codes)}"
        )
    drawn = None if clusters is None else training_clusters(clusters, len(codes))
    new = given_stage(points, codes, sample_weight, drawn, strata).training
    after = model.with_training(old.joined(new), place.n_threads)
    if model.columns is not None and X is not None:
        columns = model.columns.with_rows(X, codes, new.weights, drawn)
        after = replace(after, columns=columns)
    looked = new if X is None else _as_fold_models_see(model, X, new)
    account = Update(
        model.classes,
        np.bincount(old.labels, minlength=k),
        np.bincount(codes, minlength=k),
        model.prevalence,
        after.prevalence,
        _error_of_labels(model, points, place),
        _error_of_labels(after, points, place),
        change_of_classes(old, looked, k),
    )
    return after, account


def _known_codes(y: ArrayLike, classes: NDArray[Any]) -> NDArray[np.int64]:
    try:
        return encode_labels(y, classes)[0]
    except ValueError as error:
        raise ValueError(
            f"{error}: a class that the classifier has never seen cannot be added by an update; "
            "fit again on all labelled rows"
        ) from None


def _as_fold_models_see(model: Model, X: Any, new: TrainingPosteriors) -> TrainingPosteriors:
    """Return new rows as the old ones were scored, if the models of the folds were kept.

    A classifier that has seen more rows is surer than those of the folds.
    """
    kept = kept_fold_models(model) if model.takes_posteriors else None
    if kept is None or model.training is None or model.training.folds is None:
        return new
    return TrainingPosteriors(kept.posteriors(X, 0), new.labels, clusters=new.clusters)


def _error_of_labels(model: Model, points: Any, place: Place) -> Array:
    """Return the standard error that templates cause in a bag of these points, shape (k,)."""
    bag = Bags.whole(len(points))
    estimate = estimate_points(model, points, bag, Options(check_fit=False), None, place)[0]
    covariance = estimate.uncertainty.template_covariance()
    if covariance is None:
        return np.full(model.n_classes, np.nan)
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))


def change_of_classes(old: TrainingPosteriors, new: TrainingPosteriors, n_classes: int) -> Array:
    """Return a p-value for each class: whether its new rows look like the old ones, shape (k,)."""
    out = np.full(n_classes, np.nan)
    for label in range(n_classes):
        before, after = (_units(each, label) for each in (old, new))
        if min(len(before), len(after)) < 2:
            continue
        varies = np.ptp(np.concatenate([before, after]), axis=0) > 0
        if not varies.any():
            out[label] = 1.0
            continue
        p = np.asarray(mannwhitneyu(after[:, varies], before[:, varies]).pvalue)
        # Two posteriors that sum to one say the same.
        n_tests = 1 if before.shape[1] == 2 and n_classes == 2 else len(p)
        out[label] = min(1.0, n_tests * float(p.min()))
    return out


def _units(rows: TrainingPosteriors, label: int) -> Array:
    """Return the points of a class, or the means of its clusters."""
    own = np.flatnonzero((rows.labels == label) & (rows.row_weights > 0))
    points = np.asarray(on_host(rows.required())[own], dtype=np.float64)
    if rows.clusters is None or not len(own):
        return points
    _, unit, sizes = np.unique(rows.clusters[own], return_inverse=True, return_counts=True)
    sums = np.zeros((len(sizes), points.shape[1]))
    np.add.at(sums, unit, points)
    return sums / sizes[:, None]
