"""The base class of all quantifiers: scikit-learn estimators around a model.

``fit`` sets ``model_`` (:mod:`kdey.model`), and everything else asks it. :class:`BaseQuantifier`
has the public methods for instances; :class:`PosteriorsMixin` adds those for posteriors.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Self,
    TypeAlias,
    TypeVar,
    cast,
    dataclass_transform,
)

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from kdey._display import (
    Overview,
    bar_column,
    percentages,
    row_names,
    share_decimals,
    text_column,
    warn,
    write_out,
)
from kdey.bags import Array, Bags, BagsLike, as_bags
from kdey.matching import AnyMatching, Solution
from kdey.model import AnyModel, InstanceScorer, Model, Place, place_of
from kdey.options import LABEL_SHIFT, Options
from kdey.posteriors import ClassifierStage, FittedStage
from kdey.rows import RowSpec
from kdey.simplex import on_simplex
from kdey.status import MOST_UNSEEN, UNSEEN_VALUES
from kdey.validation import (
    FewLabelsWarning,
    LabelColumnWarning,
    check_same_rows,
    few_labels_note,
    label_columns_note,
    on_host,
    refuse_levels,
    refuse_masked,
    training_labels,
)

if TYPE_CHECKING:
    from kdey.groups import Accumulator
    from kdey.intervals import Estimate, Estimates
    from kdey.labelled import Labelled, LabelledEstimate
    from kdey.tables.schema import TableSchema

#: Written out by :func:`kdey._display.write_out` in every class that has them and does
#: not describe them by itself.
SHARED_PARAMETERS = """
tune_for : str or Metric
    The error that an automatic choice minimises: "ae", "rae" or another of :mod:`kdey.metrics`.
tune_bag_size : int
    Expected size of bags, for an automatic choice.
random_state : int, RandomState or None
    Seed of all random draws of the method.
n_jobs : int, optional
    Number of threads of the native core.
device : {"cpu", "auto", "cuda", "cuda:N", "torch-cpu"} or torch.device
    Where rows are computed and bags solved: the native core, a GPU (extra ``gpu``), or, with
    "auto", a GPU if there is one and the work is large enough. Posteriors that are tensors on
    a GPU are processed there. So are automatic choices and analytic intervals; Gram matrices, the
    quadratic programs of intervals, and bootstraps are left to the host.
"""


#: Classifier stage, rows and matching of a method.
Stages: TypeAlias = tuple[ClassifierStage, RowSpec, AnyMatching]
Fit = TypeVar("Fit", bound=Callable[..., Any])


def unfitted_on_failure(fit: Fit) -> Fit:
    """Decorate a method ``fit`` so that a quantifier whose ``fit`` raises is unfitted.

    The model of an earlier fit would otherwise stay, and answer for other data. Labels and weights
    whose rows are in another order than those of X are refused.
    """

    @functools.wraps(fit)
    def run(self: Any, *args: Any, **options: Any) -> Any:
        try:
            given = {**dict(zip(("X", "y", "sample_weight"), args, strict=False)), **options}
            for name in ("y", "sample_weight"):
                check_same_rows(given.get("X"), given.get(name), name)
            return fit(self, *args, **options)
        except BaseException:
            self.__dict__.pop("model_", None)
            raise

    return cast(Fit, run)


#: Parameters that many methods have, in the order in which they end a signature.
_LAST_PARAMETERS = ("tune_for", "tune_bag_size", "cv", "random_state", "n_jobs", "device")


def _rank_of_parameter(parameter: inspect.Parameter) -> int:
    """Return by what parameters of a signature are sorted: those that methods share come last."""
    name = parameter.name
    return 1 + _LAST_PARAMETERS.index(name) if name in _LAST_PARAMETERS else 0


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class BaseQuantifier(BaseEstimator):
    """Base of all quantifiers: ``fit(X, y)``, then prevalences of bags.

    A subclass declares its parameters as annotated class attributes, as a dataclass does. They are
    keywords of its constructor, beside those that it inherits.

    Attributes
    ----------
    classes_ : array of shape (k,)
        Sorted labels; prevalences follow this order.
    prevalence_ : array of shape (k,)
        Class prevalences of the training data.
    model_ : Model, CombinedModel or ForeignModel
        All that ``fit`` learnt (:mod:`kdey.model`).
    """

    model_: AnyModel
    #: Largest number of classes that the method handles; 2 for binary methods.
    max_classes: int | None = None
    #: Whether the order of the classes matters to the method.
    orders_classes: bool = False
    #: Whether it works on posteriors, and so has ``aggregate`` and ``estimate_posteriors``.
    _takes_posteriors: bool = False
    # Defaults of parameters that some methods do not have.
    n_jobs: int | None = None
    random_state: Any = None
    device: Any = "cpu"

    def __init_subclass__(cls, **options: Any) -> None:
        """Make ``__init__`` of the declared parameters, and write out those that a family shares.

        A class that writes an ``__init__`` keeps it, and so do those below it.
        """
        super().__init_subclass__(**options)
        inherited: Any = cls.__init__
        if inherited is object.__init__ or hasattr(inherited, "__signature__"):  # made here
            dataclass(eq=False, repr=False, match_args=False, kw_only=True)(cls)
            made: Any = cls.__init__
            signature = inspect.signature(made)
            ordered = sorted(signature.parameters.values(), key=_rank_of_parameter)
            made.__signature__ = signature.replace(parameters=ordered)
        write_out(cls, SHARED_PARAMETERS)

    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
    ) -> Self:
        """Fit on instances ``X`` with labels ``y``; see the class for details."""
        raise NotImplementedError

    @property
    def classes_(self) -> NDArray[Any]:
        """The sorted labels, shape (k,); prevalences follow this order."""
        return self.model_.classes

    @property
    def prevalence_(self) -> Array:
        """The class prevalences of the training data, shape (k,)."""
        return self.model_.prevalence

    @property
    def _draws_at_fit(self) -> bool:
        """Whether fitting draws random numbers for more than the folds (points, training bags)."""
        return False

    @property
    def _chooses_matching(self) -> bool:
        """Whether ``fit`` chooses a parameter of the matching (the strength of a penalty)."""
        return False

    def _stages(self) -> Stages | None:
        """Return the stages of the method; None if it is fitted as a whole.

        A search computes each stage once for all candidates that share it. Raises ValueError if
        parameters are invalid.
        """
        return None

    def _fit_stage(
        self, stage: FittedStage, X: Any, y: ArrayLike, clusters: NDArray[np.int64] | None = None
    ) -> Self:
        """As :meth:`fit`, with a classifier stage that is already fitted on all of this."""
        raise NotImplementedError(f"{type(self).__name__} is fitted as a whole")

    def _read_training(self, X: Any) -> tuple[Self, Any, TableSchema | None]:
        """Return the quantifier, its training instances, and the schema of their table.

        A quantifier that reads tables by a schema learns it from the whole table, so that folds,
        members of wrappers and candidates of searches share it. Without a schema, instances are
        passed on as they are.
        """
        return self, X, None

    def summary(self) -> str | None:
        """Return a sentence or two about what ``fit`` chose; None if nothing was left to choose."""
        tuning = self._fitted_model().tuning
        return None if tuning is None else tuning.summary()

    @property
    def _description(self) -> str | None:
        """What gives the answers, in a sentence for readers of a report; None: nothing to say."""
        return None

    def overview(self) -> Overview:
        """Return what was fitted: a sentence, and a table of the classes and their training shares.

        Returns
        -------
        Overview
            Shown as text by a terminal, and as HTML by a notebook.
        """
        model = self._fitted_model()
        classes, shares = model.classes, model.prevalence
        decimals = share_decimals(shares)
        largest = int(np.argmax(shares))
        remarks = [] if (chosen := self.summary()) is None else [chosen]
        if model.table_schema is not None:
            from kdey.tables.schema import column_lines  # slow to import

            table = "\n".join(column_lines(model.table_schema.columns))
            remarks.append(f"columns, and what they are taken for:\n{table}")
        return Overview(
            f"{type(self).__name__}, fitted on {len(classes)} classes; the most frequent in "
            f"training is {classes[largest]} ({100 * shares[largest]:.{decimals}f} %).",
            row_names("class", classes),
            (text_column("training", percentages(shares, decimals)), bar_column(shares)),
            tuple(remarks),
        )

    def plot(
        self, X: Any, *, truth: ArrayLike | None = None, ax: Any = None, **options: Any
    ) -> Any:
        """Draw the estimate of a bag; needs matplotlib (``pip install 'kdey[plot]'``).

        Parameters
        ----------
        X : instances of the bag
        truth : array-like of shape (k,), optional
            Known shares of the classes, for comparison.
        ax : matplotlib axes, optional
            By default a new figure.
        **options
            As for :meth:`estimate`.

        Returns
        -------
        kdey.plots.IntervalsDisplay
            With ``ax_`` and ``figure_``.
        """
        import kdey  # Displays are a layer above quantifiers: we reach them by the public name.

        return kdey.plots.IntervalsDisplay.from_estimator(self, X, truth=truth, ax=ax, **options)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return what a notebook shows: scikit-learn's diagram, below the overview once fitted."""
        shown: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in shown and "model_" in vars(self):
            shown["text/html"] = self.overview().html() + shown["text/html"]
        return shown

    def solve(
        self, X: Any, bags: BagsLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Solution:
        """Return the prevalences of many bags over one pool, with their certificates.

        The work per instance (classifier, rows) is done once for the pool.

        Parameters
        ----------
        X : instances of the pool
        bags : Bags, sequence of index arrays, int array (n_bags, size) or sparse weight matrix
            By default all of X is one bag.
        sample_weight : array of shape (m,), optional
            Weight of each instance in that one bag; not allowed together with ``bags``.

        Returns
        -------
        solution : Solution
            Prevalences of shape (n_bags, k), with objectives, gaps and iterations.
        """
        check_same_rows(X, sample_weight, "sample_weight")
        model, X = self._fitted_model(), self._read(X)[0]
        checked = checked_bags(bags, _num_samples(X), sample_weight)
        return model.solver(model.points(X), self._place())(checked)

    def predict(self, X: Any, sample_weight: ArrayLike | None = None) -> Array:
        """Return the prevalences of the bag of all instances of ``X``, shape (k,).

        ``sample_weight``, shape (m,), weights the instances of the bag.
        """
        prevalence: Array = self.solve(X, sample_weight=sample_weight).prevalence[0]
        return prevalence

    def predict_bags(self, X: Any, bags: BagsLike) -> Array:
        """Return the prevalences of many bags over the pool ``X``, shape (n_bags, k).

        See :meth:`solve` for what bags can be.
        """
        return self.solve(X, bags).prevalence

    def estimate(
        self,
        X: Any,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        confidence: float | None = None,
        target: str | None = None,
        labelled: Labelled | None = None,
        merge: Mapping[Any, Any] | None = None,
        check_fit: bool | None = None,
        options: Options | None = None,
    ) -> Estimate:
        """Return the prevalences of the bag of all instances of ``X`` with their intervals.

        Parameters
        ----------
        X : instances of the bag
        sample_weight : array-like of shape (m,), optional
            Sampling weights of the instances; they are not counts of repeated instances.
        clusters : array-like of shape (m,), optional
            Ids of the clusters in which instances were drawn; whole clusters are then the
            sampling units.
        confidence : float, optional
            Nominal coverage of the intervals, 0.95 by default.
        target : {"population", "bag"}, optional
            The prevalence of the population that the bag was drawn from (the default), or the
            realised class shares of the instances in this bag.
        labelled : pair of array-likes of shape (n,), optional
            Positions (row numbers of X) of instances whose labels are known, and these labels. The
            instances must be a random draw from the bag, or ``options.selection`` must say with
            which probabilities they were chosen. The result is then a
            :class:`~kdey.labelled.LabelledEstimate` with three estimates side by side.
        merge : mapping from new label to classes, optional
            Groups of classes whose shares are wanted; see :meth:`kdey.Estimate.merge`.
        check_fit : bool, optional
            Whether to check that scores and columns of the bag look like a mixture of the training
            classes, at level 0.01 (the default); ``checks`` has the verdicts, which enter
            ``status``. What cannot be checked is said there. See :func:`kdey.check_fit` for more
            detail on the scores.
        options : Options, optional
            What is asked for rarely; keywords above override it.

        Returns
        -------
        estimate : Estimate
        """
        asked = Options.given(options, confidence=confidence, target=target, check_fit=check_fit)
        check_same_rows(X, sample_weight, "sample_weight")
        check_same_rows(X, clusters, "clusters")
        X, unseen = self._read(X)
        points, by_fold = self._points(X, asked)
        found = self._estimates(
            *(points, None, sample_weight, clusters, labelled, merge, asked, X, unseen, by_fold)
        )
        return found[0]

    def estimate_bags(
        self,
        X: Any,
        bags: BagsLike,
        *,
        clusters: ArrayLike | None = None,
        confidence: float | None = None,
        target: str | None = None,
        merge: Mapping[Any, Any] | None = None,
        check_fit: bool | None = None,
        options: Options | None = None,
    ) -> Estimates:
        """As :meth:`estimate` for many bags over the pool ``X``, without labels.

        See :meth:`solve` for what bags can be; ``clusters`` has one id per instance of the pool.
        """
        asked = Options.given(options, confidence=confidence, target=target, check_fit=check_fit)
        check_same_rows(X, clusters, "clusters")
        X, unseen = self._read(X)
        points, by_fold = self._points(X, asked)
        found = self._estimates(
            points, bags, None, clusters, None, merge, asked, X, unseen, by_fold
        )
        return cast("Estimates", found)

    def _points(self, X: Any, options: Options) -> tuple[Any, NDArray[np.floating] | None]:
        """Return the points of instances, and their posteriors by fold if one call gives both."""
        model, by_fold = self._fitted_model(), None
        if options.check_fit and isinstance(model, Model):
            by_fold = model.scorer.predict_by_fold(X)
        if by_fold is None:
            return model.points(X), None
        return model.points_from_posteriors(by_fold[0], self._place()), by_fold[1:]

    def _estimates(
        self,
        points: Any,
        bags: BagsLike | None,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None,
        labelled: Labelled | None,
        merge: Mapping[Any, Any] | None,
        options: Options,
        X: Any = None,
        unseen: NDArray[np.bool_] | None = None,
        by_fold: NDArray[np.floating] | None = None,
    ) -> Sequence[Estimate]:
        """Return the estimates of bags over points, whether of instances ``X`` or given ones.

        ``unseen`` says which instances hold a value that training lacks, and ``by_fold`` are their
        posteriors by the fold models, where these are known.
        """
        model, place = self._fitted_model(), self._place()
        if labelled is not None:
            if bags is not None:
                raise ValueError("labelled is for a single bag, not for bags over a pool")
            return [self._labelled(points, sample_weight, clusters, labelled, merge, options, X)]
        if options.selection is not None:
            raise ValueError(
                "selection says how labelled instances were chosen: give "
                "labelled=(positions, labels)"
            )
        from kdey.intervals import estimate_points  # slow to import

        checked = checked_bags(bags, _num_samples(points), sample_weight)
        estimates = estimate_points(model, points, checked, options, clusters, place)
        if unseen is not None:
            shares = checked.mean(unseen[:, None].astype(np.float64))[:, 0]
            estimates = estimates.marked(UNSEEN_VALUES, shares > MOST_UNSEEN)
        if options.check_fit:
            from kdey.diagnostics import with_fit_checks  # slow to import

            estimates = with_fit_checks(
                *(model, estimates, points, checked, X),
                clusters=clusters,
                by_fold=by_fold,
                n_threads=place.n_threads,
            )
        if merge is None and not options.has_label_noise:
            return estimates
        from kdey.intervals.merging import Merging  # slow to import

        return Merging.asked(merge, model.classes, options).apply_all(estimates)

    def _labelled(
        self,
        points: Any,
        sample_weight: ArrayLike | None,
        clusters: ArrayLike | None,
        labelled: Labelled,
        merge: Mapping[Any, Any] | None,
        options: Options,
        X: Any,
    ) -> LabelledEstimate:
        """Return the estimates of one bag in which some labels are known."""
        model = self._fitted_model()
        if not isinstance(model, Model):
            raise TypeError(
                f"labelled= needs a method with rows and a matching (KDEyML, EMQ, PACC, ...), and "
                f"{type(self).__name__} combines several quantifiers"
            )
        from kdey.labelled import estimate_labelled  # slow to import

        points = on_host(points)
        result = estimate_labelled(
            *(model, points, labelled, options),
            sample_weight=sample_weight,
            clusters=clusters,
            merge=merge,
            X=X,
            n_threads=self._place().n_threads,
        )
        if not options.check_fit:
            return result
        from kdey.diagnostics import fit_checks  # slow to import
        from kdey.intervals.estimate import collect_estimates

        bags, threads = Bags.whole(len(points), sample_weight), self._place().n_threads
        shifted = collect_estimates([result.alternatives[LABEL_SHIFT]], options)
        checks = fit_checks(model, points, bags, shifted, X, clusters=clusters, n_threads=threads)
        return result.with_checks(checks[0])

    def predict_groups(
        self, source: Any, by: str | Sequence[str] = (), **keywords: Any
    ) -> Estimates:
        """Return the prevalences of every group of a table, with intervals and a status.

        See :func:`kdey.predict_groups`, whose keywords it takes.
        """
        from kdey.groups import predict_groups  # slow to import

        return predict_groups(self, source, by, **keywords)

    def accumulator(self, **keywords: Any) -> Accumulator:
        """Return running totals of a stream of items.

        See :class:`kdey.groups.Accumulator`, whose keywords it takes.
        """
        from kdey.groups import Accumulator  # slow to import

        return Accumulator(self, **keywords)

    def _fitted_model(self) -> AnyModel:
        """Return ``model_``; raises NotFittedError before ``fit``."""
        # scikit-learn's check asks for the tags, which takes longer than many a solution.
        if "model_" not in vars(self):
            check_is_fitted(self, "model_")
        return self.model_

    def _place(self) -> Place:
        """Return where the work is done, by ``n_jobs`` and ``device``."""
        return place_of(self)

    def _scorer(self, **parts: Any) -> InstanceScorer:
        """Return a scorer for the features that ``fit`` has seen."""
        names = vars(self).get("feature_names_in_")
        named = None if names is None else tuple(str(name) for name in names)
        width = vars(self).get("n_features_in_")
        return InstanceScorer(feature_names=named, n_features=width, **parts)

    def _remember_features(self, X: Any) -> None:
        """Store the number and the names of the features, or raise if ``X`` is masked."""
        validate_data(self, refuse_levels(refuse_masked(X, "X"), "X"), skip_check_array=True)

    def _read(self, X: Any) -> tuple[Any, NDArray[np.bool_] | None]:
        """Return instances as the classifier takes them: the features of a table, if it is one.

        The second value says which rows of a table hold a value that training lacks; None: none.
        """
        self._check_points(X)
        schema = self._fitted_model().table_schema
        if schema is None or not schema.feature_names:
            return X, None
        from kdey.tables.features import table_instances  # slow to import

        return table_instances(schema, X)

    def _check_points(self, X: Any) -> None:
        if self._is_plain_matrix(X):
            return
        if _num_samples(refuse_levels(refuse_masked(X, "X"), "X")) == 0:
            raise ValueError("X is empty: a bag needs at least one instance")
        width = vars(self).get("n_features_in_")
        if getattr(X, "ndim", 2) == 1 and width is not None:
            raise ValueError(
                "Expected 2D array, got 1D array instead. Reshape your data: X must have shape "
                f"(n_instances, {width})"
            )
        if self._fitted_model().table_schema is None:  # a schema checks column by column
            validate_data(self, X, reset=False, skip_check_array=True)

    def _is_plain_matrix(self, X: Any) -> bool:
        """Return whether X is an array of the training width, and training had no column names.

        There is nothing to say about it then, and scikit-learn takes longer to find that out than
        many a method takes for its answer.
        """
        return (
            type(X) is np.ndarray  # a masked array is another type
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == vars(self).get("n_features_in_")
            and "feature_names_in_" not in vars(self)
        )

    def _labels(
        self, y: ArrayLike, classes: ArrayLike | None = None
    ) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return labels as codes, and the classes; warns of few labels and of similar ones."""
        codes, known = training_labels(y, classes)
        self._check_n_classes(len(known))
        note = few_labels_note(known, np.bincount(codes, minlength=len(known)))
        if note is not None:
            warn(note, FewLabelsWarning)
        if known.dtype.kind == "U":
            from kdey.tables.schema import similar_labels  # slow to import

            for sentence in similar_labels(known):
                warn(f"labels: {sentence}", UserWarning)
        return codes, known

    def _warn_of_label_columns(
        self, X: Any, schema: TableSchema | None, codes: NDArray[np.int64]
    ) -> None:
        """Warn if the label itself seems to be among the features of a table."""
        names = vars(self).get("feature_names_in_") if schema is None else schema.feature_names
        if names is None or len(names) == 0 or sp.issparse(X):
            return
        note = label_columns_note(names, X, codes)
        if note is not None:
            warn(note, LabelColumnWarning)

    def _check_n_classes(self, k: int) -> None:
        """Raise ValueError if the method does not handle ``k`` classes."""
        if self.max_classes is not None and k > self.max_classes:
            raise ValueError(
                f"{type(self).__name__} is a binary quantifier, but y has {k} classes; "
                f"use OneVsAll({type(self).__name__}(...))"
            )

    def __sklearn_tags__(self) -> Tags:
        """Return scikit-learn's tags: a quantifier needs labels and predicts per bag."""
        tags = super().__sklearn_tags__()
        tags.estimator_type = "quantifier"
        tags.target_tags.required = True
        inner = self._inner_estimator()
        # A class is refused at fit, and a quantifier of another library need not have tags.
        if not isinstance(inner, type) and hasattr(inner, "__sklearn_tags__"):
            tags.input_tags = get_tags(inner).input_tags
        return tags

    def _inner_estimator(self) -> Any:
        """Return the estimator that X is passed to, whose tags say what X may be; or None."""
        return None


class PosteriorsMixin(BaseQuantifier):
    """Methods for people with scores of their own: from posteriors instead of instances."""

    _takes_posteriors = True

    def solve_posteriors(
        self,
        posteriors: ArrayLike,
        bags: BagsLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Solution:
        """As :meth:`BaseQuantifier.solve`, from the posteriors of the pool, shape (m, k)."""
        model, place = self._fitted_model(), self._place()
        points = model.points_from_posteriors(posteriors, place)
        return model.solver(points, place)(checked_bags(bags, len(points), sample_weight))

    def aggregate(self, posteriors: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
        """As :meth:`BaseQuantifier.predict`, from the posteriors of the bag, shape (m, k)."""
        model = self._fitted_model()
        one_bag = model.one_bag(self._place()) if sample_weight is None else None
        answer = None if one_bag is None else one_bag(posteriors)
        if answer is not None:
            return answer
        prevalence: Array = self.solve_posteriors(posteriors, None, sample_weight).prevalence[0]
        return prevalence

    def aggregator(self) -> Aggregator:
        """Return a callable for many single bags: ``aggregator(posteriors)`` as ``aggregate``.

        What can be prepared is prepared, and float arrays are checked in one pass, so that a bag of
        a few instances takes tens of microseconds; numbers and refusals are the same.
        """
        return Aggregator(self._fitted_model(), self._place())

    def aggregate_bags(self, posteriors: ArrayLike, bags: BagsLike) -> Array:
        """As :meth:`BaseQuantifier.predict_bags`, from the posteriors of the pool, shape (m, k)."""
        return self.solve_posteriors(posteriors, bags).prevalence

    def estimate_posteriors(
        self,
        posteriors: ArrayLike,
        bags: BagsLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        clusters: ArrayLike | None = None,
        confidence: float | None = None,
        target: str | None = None,
        labelled: Labelled | None = None,
        merge: Mapping[Any, Any] | None = None,
        check_fit: bool | None = None,
        options: Options | None = None,
    ) -> Estimate | Estimates:
        """As :meth:`BaseQuantifier.estimate`, from posteriors of shape (m, k).

        Without ``bags`` all of them are one bag, and one estimate is returned; with ``bags`` as
        :meth:`BaseQuantifier.estimate_bags`, where ``labelled`` is refused.
        """
        asked = Options.given(options, confidence=confidence, target=target, check_fit=check_fit)
        points = self._fitted_model().points_from_posteriors(posteriors, self._place())
        found = self._estimates(points, bags, sample_weight, clusters, labelled, merge, asked)
        return found[0] if bags is None else cast("Estimates", found)


def shares_of(codes: NDArray[np.int64], weights: Array | None, n_classes: int) -> Array:
    """Return the (weighted) share of each class, shape (k,)."""
    mass = np.bincount(codes, weights=weights, minlength=n_classes)
    return np.asarray(mass / mass.sum())


def checked_bags(
    bags: BagsLike | None, pool_size: int, sample_weight: ArrayLike | None = None
) -> Bags:
    """Return ``bags`` over a pool; None means the whole pool, weighted by ``sample_weight``."""
    if bags is None:
        return Bags.whole(pool_size, sample_weight)
    if sample_weight is not None:
        raise ValueError("sample_weight is for a single bag; give weighted Bags instead")
    return as_bags(bags, pool_size)


_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Aggregator:
    """The prevalence of one bag of posteriors after the other, from a fitted quantifier.

    Made by the method ``aggregator`` of a quantifier. It keeps answering for the
    fit that it was made from when the quantifier is fitted again, can be shared by threads, and
    can be pickled.

    Parameters
    ----------
    model : model on posteriors
    place : Place

    Attributes
    ----------
    classes : array of shape (k,)
        The labels, in the order of the prevalences.
    """

    def __init__(self, model: AnyModel, place: Place) -> None:
        self._model, self._place = model, place
        model.prepare(place)
        self.classes = model.classes
        # Scores of several models side by side do not sum to one, tensors go to a device, and
        # members have posteriors of their own.
        single = isinstance(model, Model) and model.n_score_columns == len(self.classes)
        self._takes_arrays = place.is_host and single
        self._one_bag = model.one_bag(place)
        self._bag = Bags.whole(1)  # the last bag, because sizes often repeat

    def __call__(self, posteriors: Any) -> Array:
        """Return the prevalences of a bag, as ``aggregate`` does.

        Parameters
        ----------
        posteriors : array of shape (m, k)
            C-contiguous arrays of float32 or float64 are the fast case; ``aggregate`` says what
            else is allowed.

        Returns
        -------
        prevalence : array of shape (k,)

        Raises
        ------
        ValueError
            If there is no row, another number of columns, or a row that is not on the simplex.
        """
        if self._one_bag is not None:
            answer = self._one_bag(posteriors)
            if answer is not None:
                return answer
        prevalence: Array = self.solve(posteriors).prevalence[0]
        return prevalence

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the model alone: what was prepared may not be pickled."""
        return Aggregator, (self._model, self._place)

    def solve(self, posteriors: Any) -> Solution:
        """Return the prevalence with its objective and gap, as ``solve_posteriors`` does."""
        p = posteriors
        if not (self._takes_arrays and self._is_checked(p)):
            p = self._model.points_from_posteriors(p, self._place)
        bag = self._bag
        if bag.pool_size != len(p):
            self._bag = bag = Bags.whole(len(p))
        return self._model.solver(p, self._place)(bag)

    def _is_checked(self, posteriors: Any) -> bool:
        """Return whether posteriors are an array that needs no further look."""
        return (
            type(posteriors) is np.ndarray  # a masked array is another type
            and posteriors.ndim == 2
            and posteriors.dtype in _FLOATS
            and posteriors.shape[1] == len(self.classes)
            and on_simplex(posteriors)
        )
