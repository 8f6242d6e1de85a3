r"""HistNetQ: a quantifier that is trained on bags (extra ``gpu``, which brings torch).

The methods of :mod:`kdey.quantifiers` learn from labelled instances and rest on label shift. A
network that is trained on bags with known prevalences learns whatever these bags have in common:
which prevalences are likely, how the classes have drifted, which error counts. torch is needed to
train, and imported only then. A trained network answers without it.

The network is the last stage of a quantifier: rows are histograms, and the matching asks it. It is
kept as plain arrays and goes from the mean row of a bag to its prevalence:

.. math:: \hat\alpha = \mathrm{softmax}(W_3 \, r(W_2 \, r(W_1 z + b_1) + b_2) + b_3), \qquad
          z = (q - m) / s

where q is the mean row of the bag, m and s are the mean and the spread of such rows over the
training bags, and r sets negative numbers to zero.

It is trained by torch on bags with known prevalences. The parameters that do best on bags of
instances that training does not see are kept: bags of a small class repeat its few instances, and a
network soon knows them by heart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kdey._display import written_out
from kdey.bags import Array, Bags, BagsLike, Indices, as_bags
from kdey.evaluation.protocols import APP, BagProtocol, LabelledBags
from kdey.matching import IntervalSource, Matching, Solution, exact_solution
from kdey.matching.squares import LeastSquares
from kdey.model import InstanceScorer, Model
from kdey.posteriors import TrainingPosteriors, predict_posteriors
from kdey.quantifiers import AggregativeQuantifier
from kdey.quantifiers.base import SHARED_PARAMETERS, unfitted_on_failure
from kdey.rows import ArrayRows, RowMap, Rows, fitted, no_templates
from kdey.simplex import check_posteriors, in_class_order, softmax_rows
from kdey.tuning.trials import TuningPlan
from kdey.validation import check_choice, check_classes, check_count, check_positive, import_torch

__all__ = ["HistNetQ"]

#: From estimated and true prevalences (B, k), as tensors, to errors (B,).
Loss: TypeAlias = Callable[[Any, Any], Any]
#: Bags per step.
_BATCH = 64
#: Share of the numbers of a layer that a training step sets to zero.
_DROPOUT = 0.2
#: Weight by which parameters shrink, relative to the step size.
_DECAY = 0.01
#: Smallest spread of a row over the training bags, so that a constant one is not divided by zero.
_SMALLEST_SPREAD = 1e-3


def train(
    training: tuple[Array, Array],
    validation: tuple[Array, Array],
    bag_size: float,
    spec: NetworkMap,
) -> NetworkMap:
    """Return the map with the network of the pass that does best on the validation bags.

    Parameters
    ----------
    training, validation : tuples of arrays of shape (n_bags, d) and (n_bags, k)
        Mean rows and prevalences of bags.
    bag_size : float
        Mean size of the training bags.
    spec : NetworkMap
        With its knots.

    Returns
    -------
    NetworkMap
    """
    torch = import_torch("training a network")
    rows, prevalences = training
    centre = rows.mean(axis=0)
    spread = np.maximum(rows.std(axis=0), _SMALLEST_SPREAD)

    def tensors(means: Array, truth: Array) -> tuple[Any, Any]:
        z = torch.from_numpy((means - centre) / spread).float()
        return z, torch.from_numpy(truth).float()

    # The generator of torch is global: the caller's stream of random numbers is kept.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(spec.seed)
        layers = _layers(rows.shape[1], spec.n_hidden, prevalences.shape[1])
        loss = losses(bag_size)[spec.loss]
        best = _fit(layers, tensors(*training), tensors(*validation), loss, spec)
    weights, biases = tuple(best[0::2]), tuple(best[1::2])
    return replace(spec, centre=centre, spread=spread, weights=weights, biases=biases)


def losses(bag_size: float) -> dict[str, Loss]:
    """Return the errors of :mod:`kdey.metrics` that a network can minimise, on tensors, by name."""
    torch = import_torch("training a network")
    epsilon = 0.5 / bag_size

    def match_distance(p: Any, q: Any) -> Any:
        differences = torch.cumsum(p - q, dim=1)[:, :-1]
        return differences.abs().sum(dim=1) / max(1, p.shape[1] - 1)

    return {
        "ae": lambda p, q: (p - q).abs().mean(dim=1),
        "rae": lambda p, q: ((p - q).abs() / (q + epsilon)).mean(dim=1),
        "se": lambda p, q: ((p - q) ** 2).mean(dim=1),
        "nmd": match_distance,
    }


def _layers(n_in: int, n_hidden: int, n_out: int) -> Any:
    nn = import_torch("training a network").nn
    return nn.Sequential(
        *(nn.Linear(n_in, n_hidden), nn.ReLU(), nn.Dropout(_DROPOUT)),
        *(nn.Linear(n_hidden, n_hidden), nn.ReLU(), nn.Dropout(_DROPOUT)),
        nn.Linear(n_hidden, n_out),
    )


def _fit(
    layers: Any,
    training: tuple[Any, Any],
    validation: tuple[Any, Any],
    loss: Loss,
    spec: NetworkMap,
) -> list[Array]:
    """Return the best weights and biases, layer by layer."""
    torch = import_torch("training a network")
    z, truth = training
    batch = min(_BATCH, len(z))
    n_steps = spec.n_epochs * (len(z) // batch)
    optimiser = torch.optim.AdamW(layers.parameters(), spec.learning_rate, weight_decay=_DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, spec.learning_rate, total_steps=n_steps + 1
    )
    smallest, best = np.inf, _arrays(layers)
    for _ in range(spec.n_epochs):
        layers.train()
        order = torch.randperm(len(z))
        for start in range(0, len(z) - batch + 1, batch):
            rows = order[start : start + batch]
            optimiser.zero_grad()
            loss(torch.softmax(layers(z[rows]), dim=1), truth[rows]).mean().backward()
            optimiser.step()
            schedule.step()
        layers.eval()
        with torch.no_grad():
            error = float(loss(torch.softmax(layers(validation[0]), dim=1), validation[1]).mean())
        if error < smallest:
            smallest, best = error, _arrays(layers)
    return best


def _arrays(layers: Any) -> list[Array]:
    return [p.detach().double().numpy().copy() for p in layers.parameters()]


#: Share of the instances of each class, or of the bags, that validation gets.
_VALIDATION = 0.2
#: A class with fewer instances than this lends all of them to validation, too.
_FEW = 5
#: Instances are repeated up to this many times on average, to bound the memory.
_MOST_REPEATED = 20
#: Errors that a network can minimise.
LOSSES = ("ae", "rae", "se", "nmd")


@dataclass(frozen=True)
class NetworkMap(RowMap):
    """Row of an instance: its place between the knots of each channel; and the network for bags.

    Attributes
    ----------
    n_bins : int
        Knots of the histogram of each posterior.
    loss : {"ae", "rae", "se", "nmd"}
        The error to minimise, of :mod:`kdey.metrics`.
    n_hidden : int
        Size of the two hidden layers.
    n_epochs : int
        Passes over the training bags.
    learning_rate : float
        Largest step size.
    seed : int
    protocol : BagProtocol
        Draws the training bags from the training instances.
    knots : array of shape (k, n_bins)
        Ascending in each row.
    centre, spread : arrays of shape (k * n_bins,)
        Mean and spread of the mean rows of the training bags.
    weights : tuple of arrays of shape (n_out, n_in)
        One per layer.
    biases : tuple of arrays of shape (n_out,)
    """

    n_bins: int = 8
    loss: str = "ae"
    n_hidden: int = 128
    n_epochs: int = 30
    learning_rate: float = 2e-3
    seed: int = 0
    protocol: BagProtocol = field(default_factory=APP)
    knots: Array = fitted()
    centre: Array = fitted()
    spread: Array = fitted()
    weights: tuple[Array, ...] = fitted()
    biases: tuple[Array, ...] = fitted()

    def fit(self, training: TrainingPosteriors, n_classes: int, n_threads: int = 1) -> NetworkMap:
        """Return the map whose network was trained on bags of the training posteriors."""
        rng = np.random.default_rng(self.seed)
        points = np.asarray(training.required(), dtype=np.float64)
        positions = _repeated(training, n_classes, rng)
        knots = quantile_knots(points[positions], self.n_bins)
        parts = _split(training.labels[positions], n_classes, rng)
        rows = soft_histograms(points, knots)

        def draw(part: Indices) -> LabelledBags:
            return self.protocol.bags(training.labels[positions[part]], np.arange(n_classes))

        first, second = draw(parts[0]), draw(parts[1])
        return train(
            (first.bags.mean(rows[positions[parts[0]]]), first.prevalences),
            (second.bags.mean(rows[positions[parts[1]]]), second.prevalences),
            float(first.bags.sizes.mean()),
            replace(self, knots=knots),
        )

    @property
    def templates(self) -> Array:
        """Empty, shape (k, 0): the method has no templates."""
        return no_templates(len(self.biases[-1]))

    def __call__(self, points: NDArray[Any], n_threads: int = 1) -> ArrayRows:
        """Return the rows of posteriors of shape (m, k)."""
        return ArrayRows(soft_histograms(np.asarray(points, dtype=np.float64), self.knots))

    def fit_bags(self, points: Array, bags: LabelledBags) -> NetworkMap:
        """Return the map whose network was trained on given bags over points (m, k)."""
        knots = quantile_knots(points, self.n_bins)
        means = bags.bags.mean(soft_histograms(points, knots))
        order = np.random.default_rng(self.seed).permutation(len(means))
        cut = max(1, int(_VALIDATION * len(order)))
        held, seen = order[:cut], order[cut:]
        return train(
            (means[seen], bags.prevalences[seen]),
            (means[held], bags.prevalences[held]),
            float(bags.bags.sizes[seen].mean()),
            replace(self, knots=knots),
        )

    def answer(self, means: Array) -> Array:
        """Return the prevalences (n_bags, k) of bags from their mean rows (n_bags, k * n_bins)."""
        z = (means - self.centre) / self.spread
        for weights, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            z = np.maximum(z @ weights.T + bias, 0.0)
        return softmax_rows(z @ self.weights[-1].T + self.biases[-1])


class AskNetwork(Matching[LeastSquares]):
    """The answer of the network to the mean row of a bag."""

    interval_source: ClassVar[IntervalSource] = "bootstrap"

    def problem(self, row_map: RowMap, rows: Rows, bags: Bags, n_threads: int = 1) -> LeastSquares:
        """Return the squared distance from the answer: a network minimises nothing."""
        answers = cast(NetworkMap, row_map).answer(rows.mean(bags))
        return LeastSquares(np.eye(answers.shape[1]), answers)

    def solve(self, problem: LeastSquares, n_threads: int = 1) -> Solution:
        """Return the prevalences that the network of the row map answers."""
        return exact_solution(problem.targets)


def soft_histograms(points: Array, knots: Array) -> Array:
    """Return the place of each number between the knots of its column.

    A number at a knot has one in the bin of this knot. A number between two knots shares it between
    their bins, in proportion to its distances, so that no edge of a bin separates close numbers.

    Parameters
    ----------
    points : array of shape (m, k)
    knots : array of shape (k, n_bins)

    Returns
    -------
    array of shape (m, k * n_bins)
        Each run of ``n_bins`` numbers sums to one.
    """
    k, n_bins = knots.shape
    out = np.zeros((len(points), k, n_bins))
    everyone = np.arange(len(points))
    for column in range(k):
        x = np.clip(points[:, column], knots[column, 0], knots[column, -1])
        upper = np.clip(np.searchsorted(knots[column], x), 1, n_bins - 1)
        low, high = knots[column, upper - 1], knots[column, upper]
        share = np.where(high > low, (x - low) / np.where(high > low, high - low, 1.0), 1.0)
        out[everyone, column, upper] = share
        out[everyone, column, upper - 1] = 1.0 - share
    return out.reshape(len(points), k * n_bins)


def quantile_knots(points: Array, n_bins: int) -> Array:
    """Return evenly spaced quantiles of each column of points (m, k), shape (k, n_bins)."""
    return np.ascontiguousarray(np.quantile(points, np.linspace(0.0, 1.0, n_bins), axis=0).T)


def _repeated(
    training: TrainingPosteriors, n_classes: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return positions of instances, repeated in proportion to their weights.

    Whole weights are numbers of repetitions. With others, each class keeps its size.
    """
    everyone, weights = np.arange(len(training.labels), dtype=np.int64), training.weights
    if weights is None:
        return everyone
    if (weights == np.floor(weights)).all() and weights.sum() <= _MOST_REPEATED * len(weights):
        return np.repeat(everyone, weights.astype(np.int64))
    chosen = []
    for label in range(n_classes):
        members = np.flatnonzero((training.labels == label) & (weights > 0))
        shares = np.cumsum(weights[members])
        marks = (np.arange(len(members)) + rng.random()) * shares[-1] / len(members)
        chosen.append(members[np.searchsorted(shares, marks)])
    return np.concatenate(chosen)


def _split(
    labels: NDArray[np.int64], n_classes: int, rng: np.random.Generator
) -> tuple[Indices, Indices]:
    """Return positions for training and for validation, both with every class."""
    training, validation = [], []
    for label in range(n_classes):
        members = rng.permutation(np.flatnonzero(labels == label))
        cut = int(np.ceil(_VALIDATION * len(members)))
        is_small = len(members) < _FEW
        training.append(members if is_small else members[cut:])
        validation.append(members if is_small else members[:cut])
    return np.concatenate(training), np.concatenate(validation)


@written_out(SHARED_PARAMETERS)
class HistNetQ(AggregativeQuantifier):
    """A network on histograms of posteriors, trained on bags (extra ``gpu``).

    After HistNetQ of Pérez-Mon, Moreo, del Coz and González (2024), with histograms of a
    classifier's posteriors where theirs has those of learnt features. A bag is represented by the
    histogram of every posterior, and two hidden layers make a prevalence of it. Training minimises
    the error that you name over bags like yours: of a protocol (:meth:`fit`), or bags whose
    prevalences are known although their instances have no labels (:meth:`fit_bags`).

    It learns which prevalences are usual, and answers accordingly: take it where bags are small and
    alike and the classifier is weak, or where bags with known prevalences show a drift that
    labelled instances do not. Elsewhere the other methods are better and far cheaper; they have
    intervals that include the uncertainty of training, and answer bags of any kind
    (:doc:`/which-method`).

    Parameters
    ----------
    classifier : scikit-learn classifier, optional
        As for the other methods.
    protocol : BagProtocol, optional
        Draws the training bags of ``fit`` from the training posteriors; it should resemble the bags
        to come, in size and in prevalences. Default: ``APP(n_bags=4000, bag_size=500)``.
    loss : {"ae", "rae", "se", "nmd"}
        The error to minimise; "nmd" is for ordered classes.
    n_bins : int
        Number of bins of each histogram, between quantiles of the posteriors.
    n_hidden : int
        Size of the two hidden layers.
    n_epochs : int
        Passes over the training bags; the best of them on held-out bags is kept.
    learning_rate : float
        Largest step size.

    Attributes
    ----------
    row_map_ : NetworkMap
        The knots of the histograms, and the network as arrays.

    See Also
    --------
    kdey.KDEyML : Kernel densities by maximum likelihood.
    kdey.Ordered : Penalise rough prevalences of ordered classes.

    References
    ----------
    Pérez-Mon, Moreo, del Coz and González, "Quantification using permutation-invariant networks
    based on histograms", Neural Computing and Applications, 2024.
    """

    protocol: BagProtocol | None = None
    loss: str = "ae"
    n_bins: int = 8
    n_hidden: int = 128
    n_epochs: int = 30
    learning_rate: float = 2e-3

    #: The classes start from different random numbers, and "nmd" depends on their order.
    orders_classes = True

    def row_spec(self) -> NetworkMap:
        """Return the row spec for the parameters; raises ValueError if they are invalid."""
        check_choice(self.loss, "loss", LOSSES)
        check_count(self.n_hidden, "n_hidden")
        check_count(self.n_epochs, "n_epochs")
        check_positive(self.learning_rate, "learning_rate")
        seed = TuningPlan(random_state=self.random_state).seed()
        protocol = APP(n_bags=4000, bag_size=500) if self.protocol is None else self.protocol
        return NetworkMap(
            check_count(self.n_bins, "n_bins", least=2),
            self.loss,
            self.n_hidden,
            self.n_epochs,
            self.learning_rate,
            seed,
            protocol,
        )

    def matching(self) -> AskNetwork:
        """Return the matching, which has no parameters."""
        return AskNetwork()

    @unfitted_on_failure
    def fit_bags(self, X: Any, bags: BagsLike, prevalences: ArrayLike) -> Self:
        """Train on bags with known prevalences, of instances without labels.

        Parameters
        ----------
        X : array-like, sparse matrix or data frame of m instances
            The instances of all bags.
        bags : Bags or sequence of index arrays
            Positions in X.
        prevalences : array-like of shape (n_bags, k)
            Columns in the order of the classes of the classifier, or matched by name.

        Raises
        ------
        ValueError
            If neither ``fit`` was called before, nor ``classifier`` is fitted.
        """
        classifier = self._fitted_classifier()
        classes = np.asarray(classifier.classes_)
        posteriors = predict_posteriors(classifier, X, classes)
        scorer = self._scorer(classifier=classifier)
        return self._fit_posterior_bags(posteriors, bags, prevalences, classes, scorer)

    @unfitted_on_failure
    def fit_posterior_bags(
        self,
        posteriors: ArrayLike,
        bags: BagsLike,
        prevalences: ArrayLike,
        *,
        classes: ArrayLike | None = None,
    ) -> Self:
        """Train on bags with known prevalences, of instances with given posteriors.

        Parameters
        ----------
        posteriors : array-like or data frame of shape (m, k)
        bags : Bags or sequence of index arrays
        prevalences : array-like of shape (n_bags, k)
        classes : array-like of shape (k,), optional
            Names of the classes; default 0..k-1.
        """
        k = np.shape(prevalences)[1]
        names = np.arange(k) if classes is None else np.asarray(classes)
        self._forget_features()
        return self._fit_posterior_bags(posteriors, bags, prevalences, names, InstanceScorer())

    def _fit_posterior_bags(
        self,
        posteriors: Any,
        bags: BagsLike,
        prevalences: ArrayLike,
        classes: Any,
        scorer: InstanceScorer,
    ) -> Self:
        self._stages()  # raises for invalid parameters before any work
        names = check_classes(classes)
        points = np.asarray(check_posteriors(posteriors, classes=names), dtype=np.float64)
        drawn = as_bags(bags, len(points))
        ordered = in_class_order(prevalences, names, "prevalences")
        shares = np.asarray(check_posteriors(ordered, len(names), name="prevalences"))
        if len(shares) != len(drawn):
            raise ValueError(
                f"prevalences has {len(shares)} rows, but there are {len(drawn)} bags: give one "
                "row per bag"
            )
        if len(drawn) < 2:
            raise ValueError("a network needs at least 2 bags to be trained and validated on")
        spec = self.row_spec()
        labelled = LabelledBags(drawn, shares.astype(np.float64), names)
        row_map = spec.fit_bags(points, labelled)
        prevalence = shares.mean(axis=0)
        self.model_ = Model(names, prevalence, spec, row_map, self.matching(), scorer=scorer)
        return self

    def _fitted_classifier(self) -> Any:
        """Return the classifier of an earlier fit, or the parameter if it is fitted."""
        if "model_" in vars(self) and self.model_.scorer.classifier is not None:
            return self.model_.scorer.classifier
        inner = self.classifier
        try:
            check_is_fitted(inner)
        except (NotFittedError, TypeError):
            raise ValueError(
                "fit_bags needs a classifier that is already fitted, because instances of bags "
                "have no labels: call fit with labelled instances first, or give a fitted "
                "classifier"
            ) from None
        return inner

    def _make_model(self, *args: Any, **options: Any) -> Self:
        """Make the model, and leave the training data out of it.

        Intervals are bootstraps of the bag: to train the network again for each replicate would
        take hours. The estimates say so in their notes.
        """
        super()._make_model(*args, **options)
        self.model_ = replace(self.model_, training=None)
        return self
