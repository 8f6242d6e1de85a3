"""The checks that estimates, groups and reports make without being asked.

They never raise because a method cannot be checked: the result then says that the bag was not
checked, and why. What they need of training is computed once per fit and kept with the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kdey._display import muted
from kdey._fingerprints import row_hashes
from kdey.bags import Array, Bags, Indices
from kdey.diagnostics.column_check import bin_counts, check_columns, unknown_share_bound
from kdey.diagnostics.score_check import (
    DEFAULT_CHECK_LEVEL,
    N_NULL,
    FitCheck,
    FitChecker,
    one_model_each,
    sample_bags,
)
from kdey.intervals import Estimates
from kdey.intervals.checks import Checks, ColumnResult, ColumnVerdict, FitVerdict, NotChecked
from kdey.model import AnyModel, Fitted, Model, model_of
from kdey.tables.templates import Codes
from kdey.validation import on_host, take_rows

#: Why decided labels say nothing of the fit.
DECIDED = "only decisions are known, and shares of k classes always explain k counts"


def unchecked_scores(quantifier: Fitted) -> NotChecked | None:
    """Return why the scores of bags of this quantifier cannot be checked; None if they can."""
    model = model_of(quantifier)
    if not model.takes_posteriors:
        return NotChecked("the method works on features")
    if not isinstance(model, Model):
        return NotChecked("the method combines several quantifiers")
    posteriors = None if model.training is None else model.training.posteriors
    if posteriors is None:
        return NotChecked("the method keeps no training posteriors")
    k = model.n_classes
    if model.derived("few distinct posteriors", lambda: _are_decisions(posteriors, k)):
        return NotChecked(DECIDED, never=True)
    return None


def _are_decisions(posteriors: NDArray[np.floating], k: int) -> bool:
    """Return whether training posteriors take no more than k values, as decisions do."""
    if len(np.unique(row_hashes(posteriors[: 10 * k]))) > k:
        return False
    return len(np.unique(row_hashes(posteriors))) <= k


def default_checker(
    quantifier: Fitted, held: bool, most_references: int | None = None, *, n_threads: int = 1
) -> FitChecker:
    """Return the checker of a quantifier that can be checked, made once per fit.

    Parameters
    ----------
    quantifier : fitted quantifier
    held : bool
        Whether fold models that the quantifier keeps score the bags.
    most_references : int, optional
        See :meth:`FitChecker.fit`.
    n_threads : int

    Returns
    -------
    FitChecker
    """
    model = model_of(quantifier)
    by_folds = held and model.fold_models is not None

    def compute() -> FitChecker:
        with muted(UserWarning):  # the estimates have notes about classes of one instance
            return FitChecker.fit(
                model, n_jobs=n_threads, held=by_folds, most_references=most_references
            )

    return model.derived(f"fit checker {(n_threads, by_folds, most_references)}", compute)


def full_check(
    quantifier: Fitted,
    posteriors: NDArray[np.floating],
    weights: Array | None = None,
    *,
    by_folds: bool = False,
    hashes: NDArray[np.uint64] | None = None,
) -> FitCheck:
    """Return the full check of a bag at the level of default checks, as reports show it.

    Parameters
    ----------
    quantifier : fitted quantifier that can be checked
    posteriors : array of shape (m, k)
    weights : array of shape (m,), optional
    by_folds : bool
        Whether fold models that the quantifier keeps gave the posteriors.
    hashes : uint64 array of shape (m,), optional
        As for :meth:`FitChecker.screen`.

    Returns
    -------
    FitCheck
    """
    checker = default_checker(quantifier, held=by_folds)
    rng, points = np.random.default_rng(0), posteriors
    if by_folds and hashes is not None:
        points = one_model_each(posteriors, hashes, checker.densities.n_classes)
    return checker.check_points(points, weights, rng, level=DEFAULT_CHECK_LEVEL)


def with_fit_checks(
    quantifier: Fitted,
    estimates: Estimates,
    posteriors: NDArray[np.floating],
    bags: Bags,
    X: Any = None,
    *,
    clusters: ArrayLike | None = None,
    by_fold: NDArray[np.floating] | None = None,
    n_threads: int = 1,
) -> Estimates:
    """Return the estimates with the verdicts on the scores and columns of every bag.

    They are ``diagnostics["fit"]`` and ``diagnostics["columns"]``, and ``checks`` of an estimate.

    Parameters
    ----------
    quantifier : fitted quantifier
    estimates : Estimates
        Estimates of these bags.
    posteriors : array of shape (pool_size, k)
        Not used if the quantifier cannot be checked.
    bags : Bags
    X : instances of the pool, optional
        Scored by the fold models if the quantifier keeps them.
    clusters : array of shape (pool_size,), optional
        Ids of the clusters in which instances were drawn.
    by_fold : array of shape (F, pool_size, k), optional
        Posteriors by the fold models, where they are known.

    Returns
    -------
    Estimates
    """
    keywords: dict[str, Any] = {"clusters": clusters, "by_fold": by_fold, "n_threads": n_threads}
    return replace(
        estimates, checks=fit_checks(quantifier, posteriors, bags, estimates, X, **keywords)
    )


def fit_checks(
    quantifier: Fitted,
    posteriors: NDArray[np.floating],
    bags: Bags,
    estimates: Estimates,
    X: Any = None,
    *,
    clusters: ArrayLike | None = None,
    by_fold: NDArray[np.floating] | None = None,
    n_threads: int = 1,
) -> list[Checks]:
    """Return what the checks of scores and columns say of every bag.

    Parameters
    ----------
    quantifier, posteriors, bags, estimates, X, clusters, by_fold
        As for :func:`with_fit_checks`.

    Returns
    -------
    list of n_bags Checks
    """
    model, seed = model_of(quantifier), estimates.options.random_state
    known = None if X is None or model.columns is None else model.columns.codes(X)
    are_plain = len(estimates.classes) == model.n_classes
    scores: CheckedScores | NotChecked | None = unchecked_scores(model)
    return checks_of_bags(
        model,
        bags,
        estimates,
        CheckedScores.of(model, posteriors, bags, X, seed, by_fold, n_threads)
        if scores is None
        else scores,
        codes_to_check(model, known, "" if are_plain else "classes were merged"),
        clusters=None if clusters is None else np.asarray(clusters),
        seed=seed,
    )


def codes_to_check(model: AnyModel, codes: Codes | None, obstacle: str = "") -> Codes | NotChecked:
    """Return the bins of columns of the pool, or why the columns of bags are not checked.

    Parameters
    ----------
    model : model
    codes : uint8 array of shape (pool_size, d) or None
        None: only scores are there.
    obstacle : str
        What else stands against it.
    """
    if model.columns is None:
        return NotChecked("the model knows no columns of its training data")
    if codes is None:
        return NotChecked("scores were given, and no columns")
    return NotChecked(obstacle) if obstacle else codes[:, : len(model.columns)]


@dataclass(frozen=True, eq=False)
class CheckedScores:
    """Scores of bags that can be checked.

    Attributes
    ----------
    checker : FitChecker
    points : array of shape (n, k)
        By the models that the checker asks for.
    bags : Bags
        Over these points: samples of large bags.
    hashes : uint64 array of shape (n,), optional
        As for :meth:`FitChecker.screen`.
    """

    checker: FitChecker
    points: NDArray[np.floating]
    bags: Bags
    hashes: NDArray[np.uint64] | None = None

    @classmethod
    def of(
        cls,
        model: AnyModel,
        posteriors: NDArray[np.floating],
        bags: Bags,
        X: Any,
        seed: int,
        by_fold: NDArray[np.floating] | None,
        n_threads: int,
    ) -> CheckedScores:
        """Return the scores of bags of a model that can be checked."""
        checker = default_checker(model, held=X is not None, n_threads=n_threads)
        sampled, points = sample_bags(bags, checker.most_instances, seed), on_host(posteriors)
        if checker.models is not None:  # they score the instances that are checked, and no others
            used, indices = np.unique(sampled.indices, return_inverse=True)
            known = None if by_fold is None else by_fold[:, used]
            points = checker.models.posteriors(take_rows(X, used), seed, known)
            sampled = Bags(indices.astype(np.int64), sampled.offsets, len(used), sampled.weights)
        return cls(checker, points, sampled)

    def histograms(self, number: int) -> list[tuple[Array, Array]]:
        """Return the histogram of the scores of training and of a bag, if they are comparable."""
        rows = self.bags[number : number + 1]
        points = np.asarray(self.points[rows.indices])
        if self.hashes is not None:
            k = self.checker.densities.n_classes
            points = one_model_each(points, self.hashes[rows.indices], k)
        made = self.checker.histogram(points, rows.weights)
        return [] if made is None else [made]


def checks_of_bags(
    model: AnyModel,
    bags: Bags,
    estimates: Estimates,
    scores: CheckedScores | NotChecked,
    codes: Codes | NotChecked,
    *,
    clusters: NDArray[Any] | None = None,
    sizes: Indices | None = None,
    level: float = DEFAULT_CHECK_LEVEL,
    n_null: int = N_NULL,
    seed: int = 0,
) -> list[Checks]:
    """Return what the checks of scores and columns say of bags, with a bound where they do not fit.

    Two checks share the level; a bag fails where one of them does. The bound is on the share of the
    bag that belongs to no class.

    Parameters
    ----------
    model : model
    bags : Bags
    estimates : Estimates
        Of these bags and the classes of the model.
    scores : CheckedScores, or NotChecked
    codes : uint8 array of shape (pool_size, d), or NotChecked
        Bins of the columns of all rows.
    clusters : array of shape (pool_size,), optional
    sizes : int64 array of shape (n_bags,), optional
        Sizes of the bags before the caller drew a sample.
    level, n_null, seed
        As for :meth:`FitChecker.screen`.

    Returns
    -------
    list of n_bags Checks
    """
    verdicts: Sequence[FitVerdict | NotChecked]
    columns: Sequence[ColumnResult]
    if isinstance(codes, NotChecked):
        columns = [codes] * len(bags)
    else:
        own = level if isinstance(scores, NotChecked) else level / 2.0
        assert model.columns is not None, "the codes are of its columns"
        columns = check_columns(model.columns, codes, bags, estimates, own, clusters)
    if isinstance(scores, NotChecked):
        verdicts = [scores] * len(bags)
    else:
        verdicts = scores.checker.screen(
            scores.points,
            scores.bags,
            sizes=bags.sizes if sizes is None else sizes,
            hashes=scores.hashes,
            seed=seed,
            n_null=n_null,
            level=level if isinstance(codes, NotChecked) else level / 2.0,
        )
    checks = [Checks(*both) for both in zip(verdicts, columns, strict=True)]
    for number, check in enumerate(checks):
        if not check.rejected:
            continue
        histograms = [] if isinstance(scores, NotChecked) else scores.histograms(number)
        if isinstance(check.columns, ColumnVerdict) and not isinstance(codes, NotChecked):
            histograms += column_histograms(model, bags[number : number + 1], codes, clusters)
        if histograms:
            checks[number] = replace(check, unknown_share=unknown_share_bound(histograms))
    return checks


def column_histograms(
    model: AnyModel, bag: Bags, codes: Codes, clusters: NDArray[Any] | None
) -> list[tuple[Array, Array]]:
    """Return counts of training by class and bin, and of one bag, for each column."""
    templates = model.columns
    assert templates is not None
    weights = np.ones(len(bag.indices)) if bag.weights is None else bag.weights
    size = weights.sum() ** 2 / (weights**2).sum()
    if clusters is not None:
        size = min(size, len(np.unique(clusters[bag.indices])))
    shares = bin_counts(templates, codes, bag)[0]
    return [
        (counts[:, : column.n_bins], size * share[: column.n_bins])
        for column, counts, share in zip(templates.columns, templates.counts, shares, strict=True)
    ]
