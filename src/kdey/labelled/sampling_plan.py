r"""How many labels of the new data give limits of a desired width, and of which instances.

If the adapted posteriors f are calibrated, the label of instance j has the residual variance
:math:`f_{ji} (1 - f_{ji})` for class i, so that the variance of the prediction-powered estimate can
be foreseen from the bag alone. Instances are chosen with probabilities

.. math:: \pi_j \propto \tfrac12 + \tfrac12 \, s_j / \bar s, \qquad
          s_j = \Bigl(\sum_i f_{ji} (1 - f_{ji})\Bigr)^{1/2}

half of them evenly, so that no weight exceeds twice the mean and a classifier that is wrong about
its certainty does little harm. They are drawn systematically in the order of the predicted class
and its score, which is a stratification with as many strata as labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kdey._display import Overview, OverviewColumn, bar_column, percentages, row_names, text_column
from kdey.arrays import make_frame
from kdey.bags import Array, Bags
from kdey.intervals import estimate_points
from kdey.labelled.label_shift import LabelPredictor
from kdey.labelled.sample import relative_variance, score_interval, upper_quantile
from kdey.model import Model
from kdey.options import Options

Indices = NDArray[np.int64]
#: Fewest labels of a plan: limits from fewer say nothing, whatever their formula.
_FEWEST = 5


class Plan:
    """What plans have in common: a sentence, a table by class, and a plot.

    Attributes
    ----------
    classes : array of shape (k,)
    quantity : str
        What :attr:`needs` are, in words.
    """

    classes: NDArray[Any]
    quantity: ClassVar[str]

    @property
    def target_line(self) -> float | None:
        """A number to compare :attr:`needs` with; None if there is none."""
        return None

    @property
    def verdict(self) -> str:
        """The meaning of the plan, in a sentence or two."""
        raise NotImplementedError

    @property
    def needs(self) -> Array:
        """The number that is planned for each class, shape (k,); inf where none is enough."""
        raise NotImplementedError

    def plan_columns(self) -> tuple[OverviewColumn, ...]:
        """Return the columns of :meth:`overview`, each of length k."""
        texts = [f"{number:,.0f}" if np.isfinite(number) else "-" for number in self.needs]
        largest = float(np.max(self.needs, initial=0.0, where=np.isfinite(self.needs)))
        shares = np.where(np.isfinite(self.needs), self.needs, np.nan) / max(largest, 1.0)
        return (text_column(self.quantity, texts, importance=9), bar_column(shares))

    def overview(self) -> Overview:
        """Return the verdict and a table by class."""
        return Overview(self.verdict, row_names("class", self.classes), self.plan_columns())

    def __str__(self) -> str:
        """Return the verdict."""
        return self.verdict

    def __repr__(self) -> str:
        """Return the :meth:`overview` as text."""
        return str(self.overview())

    def _repr_html_(self) -> str:
        return self.overview().html()


@dataclass(frozen=True, eq=False, repr=False)
class SamplingPlan(Plan):
    """The instances of a bag to label, for limits of a desired width.

    Attributes
    ----------
    classes : array of shape (k,)
    width : float
        The desired width of the limits of every class.
    positions : int64 array of shape (n,)
        Row numbers of the instances to label.
    selection : array of shape (n,)
        The probability with which each of them was chosen, for ``estimate(selection=...)``.
    expected_widths : array of shape (k,)
        Width of the prediction-powered limits of each class, if the posteriors, adapted to the
        bag, are calibrated.
    n_without_model : int
        Number of random labels that would be needed without the classifier, possibly more than
        the bag has.
    reachable : bool
        Whether labels of this bag are enough; otherwise the plan names all instances.
    """

    classes: NDArray[Any]
    width: float
    positions: Indices
    selection: Array
    expected_widths: Array
    n_without_model: int
    reachable: bool
    quantity: ClassVar[str] = "expected width of limits"

    @property
    def needs(self) -> Array:
        """The expected width of the limits of each class, shape (k,)."""
        return self.expected_widths

    @property
    def target_line(self) -> float:
        """The desired width."""
        return self.width

    def plan_columns(self) -> tuple[OverviewColumn, ...]:
        """Return the columns of :meth:`overview`, each of length k."""
        widths = self.expected_widths
        return (
            text_column(self.quantity, percentages(widths), importance=9),
            bar_column(widths),
        )

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.positions)

    @property
    def verdict(self) -> str:
        """The meaning of the plan, in a sentence or two."""
        if not self.reachable:
            return (
                f"No number of labels of this bag gives limits of {self.width:g}: with all of "
                f"them the widest is {self.expected_widths.max():.3g}. Use a larger bag."
            )
        return (
            f"{self.n_labels:,} labels, of the instances in positions, give limits of "
            f"{self.width:g} if the classifier is calibrated on this bag; labels alone need "
            f"about {self.n_without_model:,}. Pass the probabilities on: estimate(X, "
            "labelled=(plan.positions, labels), selection=plan.selection)."
        )

    def to_frame(self, backend: str | None = None) -> Any:
        """Return a data frame with one row per instance: ``position``, ``selection``.

        Parameters
        ----------
        backend : str, optional
            The data frame library, such as "pandas"; by default one that is installed.

        Returns
        -------
        data frame
        """
        table = {"position": self.positions, "selection": self.selection}
        return make_frame(table, backend)


def plan_sample(
    model: Model,
    points: NDArray[Any],
    width: float,
    options: Options,
    seed: int = 0,
) -> SamplingPlan:
    """Return which instances of a bag to label.

    Parameters
    ----------
    model : Model
    points : array of shape (m, d)
    width : float in (0, 1)
    options : Options
        Confidence, target and ``simultaneous`` of the limits.
    seed : int
        Seed of the draw.

    Returns
    -------
    SamplingPlan

    Raises
    ------
    TypeError
        If the method predicts no labels.
    """
    bag = Bags.whole(len(points))
    estimate = estimate_points(model, points, bag, options)[0].estimate
    rows = model.row_map(points)
    predictor = LabelPredictor.of(model, points, rows)
    if predictor is None:
        raise TypeError("a plan of labels needs a method on posteriors, which predicts labels")
    f, _ = predictor.predict(slice(None), estimate, float(len(points)))
    forecast = _Forecast(f, options)
    n, m = forecast.fewest(width), len(points)
    reachable = n is not None
    chosen = selection_probabilities(f, m if n is None else n)
    positions = draw_systematically(chosen, f, seed)
    return SamplingPlan(
        classes=model.classes,
        width=width,
        positions=positions,
        selection=chosen[positions],
        expected_widths=forecast.widths(m if n is None else n),
        n_without_model=forecast.fewest_alone(width),
        reachable=reachable,
    )


def selection_probabilities(f: Array, n: int) -> Array:
    """Return the probabilities of choosing each of m instances for n labels, shape (m,).

    Parameters
    ----------
    f : array of shape (m, k)
        Predictions.
    n : int
        Expected number of labels, at most m.

    Returns
    -------
    array of shape (m,)
        They sum to n.
    """
    even = np.ones(len(f))
    if n >= len(f):
        return even
    spread = np.sqrt((f * (1.0 - f)).sum(axis=1))
    mixed = even if spread.sum() == 0 else 0.5 * even + 0.5 * spread / spread.mean()
    p = n * mixed / mixed.sum()
    while (p > 1.0).any():  # those above one are certain, the others share the rest
        certain = p >= 1.0
        p[certain] = 1.0
        rest = p[~certain]
        grown = rest * (n - certain.sum()) / rest.sum()
        if np.allclose(grown, rest):
            break
        p[~certain] = grown
    return np.asarray(np.minimum(p, 1.0))


def draw_systematically(probabilities: Array, f: Array, seed: int) -> Indices:
    """Return positions drawn with these probabilities, spread evenly over classes and scores.

    Parameters
    ----------
    probabilities : array of shape (m,)
        They sum to a whole number.
    f : array of shape (m, k)
        Predictions, by which instances are ordered before the draw.
    seed : int

    Returns
    -------
    int64 array of shape (n,)
        Sorted.
    """
    best = f.argmax(axis=1)
    order = np.lexsort((f[np.arange(len(f)), best], best))
    ends = np.cumsum(probabilities[order])
    n = round(float(ends[-1]))
    marks = np.arange(n) + np.random.default_rng(seed).random()
    drawn = np.searchsorted(ends, np.minimum(marks, ends[-1] * (1 - 1e-12)), side="right")
    return np.sort(np.unique(order[np.minimum(drawn, len(f) - 1)])).astype(np.int64)


class _Forecast:
    """Widths of limits that can be foreseen from the predictions of a bag."""

    def __init__(self, f: Array, options: Options) -> None:
        self.f, self.population = f, options.target == "population"
        self.shares = f.mean(axis=0)
        self.quantile = upper_quantile(options.tail(f.shape[1]), np.inf)

    def widths(self, n: int) -> Array:
        """Return the expected widths with n labels, shape (k,)."""
        m, p = len(self.f), selection_probabilities(self.f, n)
        # Expectations over the draw of the sums in ``prediction_powered``: an instance is drawn
        # with probability p and has the weight 1 / p.
        residual = self.f * (1.0 - self.f)
        squares = (residual / p[:, None]).sum(axis=0)  # of w^2 r^2
        size = m**2 / (1.0 / p).sum()
        s_r = size * squares / (1.0 / p).sum()
        s_y = size * self.shares * (1.0 - self.shares)
        rho = relative_variance(s_r, s_y)
        constant = self.f.var(axis=0) / m if self.population else np.zeros(self.f.shape[1])
        rest = 1.0 if self.population else 1.0 - n / m
        low, high = score_interval(self.shares, constant, rest * rho / size, self.quantile)
        return high - low

    def fewest(self, width: float) -> int | None:
        """Return the smallest number of labels that reaches a width; None if none does."""
        if self.widths(len(self.f)).max() > width:
            return None
        low = min(_FEWEST, len(self.f))
        return _first(lambda n: self.widths(n).max() <= width, low, len(self.f))

    def fewest_alone(self, width: float) -> int:
        """Return the number of random labels whose Wilson limits have a width."""
        low, high = 1, 2
        while self._wilson(high) > width:
            low, high = high, 2 * high
        return _first(lambda n: self._wilson(n) <= width, low, high)

    def _wilson(self, n: int) -> float:
        low, high = score_interval(self.shares, 0.0, 1.0 / n, self.quantile)
        return float((high - low).max())


def _first(reaches: Callable[[int], bool], low: int, high: int) -> int:
    """Return the smallest number from ``low`` to ``high`` that reaches a goal, as ``high`` does."""
    while low < high:
        middle = (low + high) // 2
        if reaches(middle):
            high = middle
        else:
            low = middle + 1
    return high
