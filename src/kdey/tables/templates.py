"""How the values of each column lie in each class of training: counts in a few bins.

:class:`ColumnTemplates` is what the column check keeps of the features
(:mod:`kdey.diagnostics.column_check`). It holds counts and the ends of bins, never a training row,
and takes kilobytes.

* A number has eight bins with about as many training values each, and bins for values below and
  above all of training and for missing ones. A value that an eighth of the rows share, such as the
  zeros of sparse columns, has a bin of its own.
* A category has a bin for each of its 20 most frequent levels, one for all others, and one for
  missing values.
* A text becomes several columns: its number of words, the share of its words that training does not
  know, and the presence of each of the 20 most widespread words.
* Of more than 100 columns of an array, the 50 that separate the classes best are kept, and 50
  evenly spaced among the others; of a sparse matrix the 100 with the most entries other than zero,
  since the counts of rare ones say nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from kdey.bags import Array, Indices, cluster_factors, joined_clusters
from kdey.validation import on_host

if TYPE_CHECKING:
    from kdey.tables.schema import TableSchema

#: Bins of a number between the extremes of training.
N_BINS = 8
#: Levels of a category, and words of a text, that are told apart.
MOST_LEVELS, MOST_WORDS = 20, 20
#: With fewer rows, the level of a category may be missing in as many rows by chance.
RARE_ROWS = 10
#: Columns that are kept, and how many of them by how well they separate the classes.
MOST_COLUMNS, MOST_SEPARATING = 100, 50
#: Rows of training that must have a word before it counts as known.
KNOWN_ROWS = 3
#: Known words that are kept, as hashes.
MOST_KNOWN = 20_000
#: Mean number of words from which a column of texts is a text, and no category.
TEXT_WORDS = 4
#: The number of the bin of values below training.
BELOW = 0

ColumnKind: TypeAlias = Literal["number", "category", "words", "unknown words", "word"]
Codes: TypeAlias = NDArray[np.uint8]
#: A column before it is learnt: its name, what it is, where it lies in X, names of its levels.
_Source: TypeAlias = "tuple[str, str, int, tuple[str, ...]]"

_WORD = re.compile(r"\w\w+")


@dataclass(frozen=True)
class CheckedColumn:
    """A column whose distribution in each class is known.

    Attributes
    ----------
    name : str
        As in the table; "column 3" if it has no name there.
    kind : {"number", "category", "words", "unknown words", "word"}
        The last three are what is looked at of a text.
    position : int
        Position in X of the column that it is made from.
    edges : tuple of float
        For numbers: ends of the bins, each of which holds its upper end. The first lies just below
        the least value of training, and the last is the largest.
    levels : tuple
        For categories: the levels that have a bin. For a text: the word.
    labels : tuple of str
        What readers call the levels.
    middles : tuple of float
        For numbers: a value that stands for each bin.
    """

    name: str
    kind: ColumnKind
    position: int
    edges: tuple[float, ...] = ()
    levels: tuple[Any, ...] = ()
    labels: tuple[str, ...] = ()
    middles: tuple[float, ...] = ()

    @property
    def is_ordered(self) -> bool:
        """Whether the bins have an order."""
        return self.kind != "category"

    @property
    def n_bins(self) -> int:
        """Number of bins, those for missing and other values included."""
        if self.kind == "category":
            return len(self.levels) + 2
        return len(self.edges) + 2

    def codes(self, values: NDArray[Any]) -> Codes:
        """Return the number of the bin of each value.

        Bins of a number: below training, from the least to the largest, above training, missing.
        Bins of a category: levels, others, missing.
        """
        if self.kind == "category":
            return _level_codes(values, self.levels)
        numbers = np.asarray(values, dtype=np.float64)
        edges = np.array(self.edges)
        codes = np.searchsorted(edges, numbers, side="left")
        codes[np.isnan(numbers)] = len(edges) + 1
        return codes.astype(np.uint8)


@dataclass(frozen=True, eq=False)
class ColumnTemplates:
    """Counts of training values in the bins of every column, by class.

    Attributes
    ----------
    columns : tuple of d CheckedColumn
    counts : array of shape (d, k, B)
        B is the largest number of bins; further bins of a column are empty. Counts of weighted rows
        are scaled so that a class has its effective number of rows, and counts of rows in clusters
        so that it has the number of independent rows that would say as much of the column.
    n_columns : int
        Number of columns of X, of which some may have been left out.
    known_words : uint64 array of shape (w,)
        Sorted hashes of the words that training knows.
    n_candidates : int
        Number of columns among which the labels of training chose these; the correction for many
        columns counts all of them. Zero where labels chose none.
    """

    columns: tuple[CheckedColumn, ...]
    counts: Array
    n_columns: int
    known_words: NDArray[np.uint64]
    n_candidates: int = 0

    def __len__(self) -> int:
        """Return the number of columns d."""
        return len(self.columns)

    @property
    def n_classes(self) -> int:
        """Number of classes k."""
        return int(self.counts.shape[1])

    @property
    def class_sizes(self) -> Array:
        """The effective number of training rows of each column and class, shape (d, k)."""
        sizes: Array = self.counts.sum(axis=2)
        return sizes

    def with_rows(
        self, X: Any, labels: Indices, weights: Array | None, clusters: Indices | None
    ) -> ColumnTemplates:
        """Return the templates with labelled rows counted that training did not have.

        Parameters are those of :func:`learn_columns`; the bins stay.
        """
        by_class = ClassCounts(labels, self.n_classes, weights, clusters)
        n_bins = self.counts.shape[2]
        added = [
            by_class.of(codes, n_bins, column.is_ordered)
            for codes, column in zip(self.codes(X).T, self.columns, strict=True)
        ]
        return replace(self, counts=self.counts + np.array(added))

    def codes(self, X: Any) -> Codes:
        """Return the bin of every row and column, shape (m, d).

        Parameters
        ----------
        X : instances, as the classifier takes them

        Raises
        ------
        ValueError
            If X has another number of columns than training.
        """
        reader = _Reader(X)
        if reader.n_columns != self.n_columns:
            raise ValueError(
                f"X has {reader.n_columns} columns, but the training data had {self.n_columns}"
            )
        codes = np.empty((reader.n_rows, len(self)), dtype=np.uint8, order="F")
        texts: dict[int, _Texts] = {}
        for i, column in enumerate(self.columns):
            if column.kind in ("number", "category"):
                values = reader.column(column.position)
                codes[:, i] = column.codes(_numbers(values) if column.kind == "number" else values)
                continue
            if column.position not in texts:
                texts[column.position] = _Texts(reader.column(column.position))
            text = texts[column.position]
            if column.kind == "unknown words":
                values = text.unknown_share(self.known_words)
            else:
                values = text.sizes if column.kind == "words" else text.has(column.levels[0])
            codes[:, i] = column.codes(values)
        return codes


def learn_columns(
    X: Any,
    labels: Indices,
    n_classes: int,
    *,
    schema: TableSchema | None = None,
    names: Sequence[str] | None = None,
    weights: Array | None = None,
    clusters: Indices | None = None,
) -> ColumnTemplates | None:
    """Return how the values of each column lie in each class; None if X has no such columns.

    Parameters
    ----------
    X : array of shape (n, d), sparse matrix, data frame, or sequence of n texts
    labels : int array of shape (n,)
        Class numbers.
    n_classes : int
    schema : TableSchema, optional
        What the columns of X are, where a table was read by it.
    names : names of the columns of X, optional
    weights : array of shape (n,), optional
    clusters : int array of shape (n,), optional
        Numbers of the clusters in which rows were drawn.

    Returns
    -------
    ColumnTemplates or None
    """
    reader = _Reader(X)
    if reader.n_columns == 0 or reader.n_rows != len(labels):
        return None
    by_class = ClassCounts(labels, n_classes, weights, clusters)
    made: list[CheckedColumn] = []
    codes: list[Codes] = []
    counted: dict[int, Indices | None] = {}  # the rows that are counted, where it is not all
    known = np.empty(0, dtype=np.uint64)
    for name, kind, position, levels in _chosen(reader, by_class, schema, names):
        values = reader.column(position)
        if kind == "text":
            text = _Texts(values)
            known = np.union1d(known, text.known())
            for column, own in _text_columns(name, position, text):
                made.append(column)
                codes.append(own)
            continue
        rows: Indices | None = None
        if kind == "number":
            values = _numbers(values)
            learnt = _number_column(name, position, values)
        else:
            rows = by_class.counted_rows if _has_rare_levels(values) else None
            learnt = _category_column(name, position, values, levels, rows)
        if learnt is not None:
            made.append(learnt)
            codes.append(learnt.codes(values))
            counted[len(made) - 1] = rows
    if not made:
        return None
    n_bins = max(column.n_bins for column in made)
    counts = np.array(
        [
            by_class.of(own, n_bins, column.is_ordered, counted.get(number))
            for number, (column, own) in enumerate(zip(made, codes, strict=True))
        ]
    )
    by_labels = schema is None and reader.is_numeric and reader.is_selected_by_labels
    n_candidates = reader.n_columns if by_labels else 0
    return ColumnTemplates(tuple(made), counts, reader.n_columns, known, n_candidates)


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """Counts the bins of training rows by class."""

    labels: Indices
    n_classes: int
    weights: Array | None
    clusters: Indices | None = None

    def of(
        self,
        codes: NDArray[np.integer],
        n_bins: int,
        ordered: bool = True,
        rows: Indices | None = None,
    ) -> Array:
        """Return the (effective) number of rows in every bin, shape (k, n_bins).

        ``ordered`` says whether bins have an order, ``rows`` which rows count; None: all of them.
        """
        if rows is not None:
            weights = None if self.weights is None else self.weights[rows]
            clusters = None if self.clusters is None else self.clusters[rows]
            part = ClassCounts(self.labels[rows], self.n_classes, weights, clusters)
            return part.of(codes[rows], n_bins, ordered)
        cells = self.labels * n_bins + codes
        flat = np.bincount(cells, self.weights, self.n_classes * n_bins)
        counts: Array = flat.reshape(self.n_classes, n_bins).astype(np.float64)
        if self.weights is not None:
            squares = np.bincount(self.labels, self.weights**2, self.n_classes)
            # Kish: a class of weighted rows is worth this share of its weight in rows.
            scale = counts.sum(axis=1) / np.where(squares > 0, squares, 1.0)
            counts = np.asarray(counts * scale[:, None])
        if self.clusters is None:
            return counts
        return np.asarray(counts / self._design_effects(counts, cells, n_bins, ordered)[:, None])

    @cached_property
    def counted_rows(self) -> Indices | None:
        """Half of the rows of each class, or of the clusters, drawn at random; the others choose.

        None if a class would not be counted at all.
        """
        rng = np.random.default_rng(0)
        if self.clusters is None:
            order = np.lexsort((rng.random(len(self.labels)), self.labels))
            starts = np.searchsorted(self.labels[order], self.labels[order])
            chosen = np.sort(order[(np.arange(len(order)) - starts) % 2 == 0])
        else:
            chosen = np.flatnonzero(
                rng.permutation(int(self.clusters.max()) + 1)[self.clusters] % 2
            )
        missing = np.isin(np.unique(self.labels), self.labels[chosen], invert=True)
        return None if missing.any() or len(chosen) == len(self.labels) else chosen

    def _design_effects(self, counts: Array, cells: Indices, n_bins: int, ordered: bool) -> Array:
        """Return by what the variance of each class's template exceeds that of ``counts``, (k,).

        It is the largest of those of the bins together and of their ranks, each for the class alone
        and, because the rows of a cluster err alike whatever their classes, for all classes mixed.
        """
        assert self.clusters is not None
        clusters, k = joined_clusters(self.clusters), self.n_classes
        n_clusters = int(clusters.max()) + 1
        shape = (n_clusters, k, n_bins)
        sums = np.bincount(clusters * k * n_bins + cells, self.weights, int(np.prod(shape)))
        shares = (
            sums.reshape(shape) / np.maximum(sums.reshape(shape).sum(axis=(0, 2)), 1e-300)[:, None]
        )
        held, templates, sizes = shares.sum(axis=2), shares.sum(axis=0), counts.sum(axis=1)
        errors = (shares - held[:, :, None] * templates) * np.sqrt(cluster_factors(held))[:, None]
        bins = np.eye(n_bins)
        scales = [bins]
        if ordered:
            mean = templates.mean(axis=0)
            scales.append((np.cumsum(mean) - mean / 2.0)[:, None])
        effects = np.ones(k)
        for scale in scales:
            drawn = errors @ scale  # (n_clusters, k, c)
            mean_square = templates @ (scale**2).sum(axis=1)
            alone = (mean_square - ((templates @ scale) ** 2).sum(axis=1)) / np.maximum(sizes, 1.0)
            alone = np.maximum(alone, 1e-300)
            effects = np.maximum(effects, (drawn**2).sum(axis=(0, 2)) / alone)
            effects = np.maximum(effects, (drawn.sum(axis=1) ** 2).sum() / alone.sum())
        # A class in a single cluster is worth one row.
        return np.where((held > 0).sum(axis=0) > 1, effects, np.maximum(sizes, 1.0))

    def separation(self, values: Array) -> float:
        """Return the share of the variance of values (n,) that lies between classes."""
        sizes = np.bincount(self.labels, minlength=self.n_classes)
        means = np.bincount(self.labels, values, self.n_classes) / np.maximum(sizes, 1)
        total = float(values.var())
        between = float(sizes @ (means - values.mean()) ** 2) / len(values)
        return between / total if total > 0 else 0.0


def _chosen(
    reader: _Reader,
    by_class: ClassCounts,
    schema: TableSchema | None,
    names: Sequence[str] | None,
) -> list[_Source]:
    """Return the columns that are kept, and what each of them is."""
    d = reader.n_columns
    known = reader.names or (names if names is not None and len(names) == d else None)
    shown = [f"column {i}" for i in range(d)] if known is None else [str(name) for name in known]
    if schema is not None and len(schema.feature_columns) == d:
        return [
            (column.name, _kind_of_table(column.kind), i, tuple(column.categories))
            for i, column in enumerate(schema.feature_columns)
        ][:MOST_COLUMNS]
    if reader.is_numeric:
        return [(shown[i], "number", i, ()) for i in reader.selected(by_class)]
    found: list[_Source] = []
    for i in range(d):
        values = reader.column(i)
        kind = "number" if reader.is_number(i) else _kind_of_values(values)
        found.append((shown[i], kind, i, ()))
    return found[:MOST_COLUMNS]


def _kind_of_table(kind: str) -> str:
    return kind if kind in ("category", "text") else "number"


def _kind_of_values(values: NDArray[Any]) -> str:
    """Return whether values that are no numbers are categories or texts."""
    sample = [value for value in values[:1000].tolist() if isinstance(value, str)]
    words = sum(len(_WORD.findall(value)) for value in sample)
    return "text" if sample and words >= TEXT_WORDS * len(sample) else "category"


def _has_rare_levels(values: NDArray[Any]) -> bool:
    """Return whether some levels have no bin of their own, or may be missing by chance."""
    counted = Counter(_level(value) for value in values.tolist())
    counted.pop(None, None)
    return len(counted) > MOST_LEVELS or min(counted.values(), default=0) < RARE_ROWS


def _category_column(
    name: str,
    position: int,
    values: NDArray[Any],
    levels: tuple[str, ...],
    counted_rows: Indices | None,
) -> CheckedColumn:
    """Return a column of categories, whose bins are chosen by rows that are not counted.

    The levels that are most frequent among some rows are less frequent among others, and new rows
    have levels that none of them has. Counts by which bins were chosen would not show either.
    """
    choosing = np.ones(len(values), dtype=np.bool_)
    if counted_rows is not None:
        choosing[counted_rows] = False
    counted = Counter(_level(value) for value in values[choosing].tolist())
    counted.pop(None, None)
    frequent = sorted(counted.items(), key=lambda item: (-item[1], str(item[0])))[:MOST_LEVELS]
    kept = tuple(level for level, _ in frequent)
    labels = tuple(
        levels[int(level)] if levels and isinstance(level, float) else str(level) for level in kept
    )
    return CheckedColumn(name, "category", position, levels=kept, labels=labels)


def _number_column(
    name: str, position: int, values: Array, kind: ColumnKind = "number", word: str | None = None
) -> CheckedColumn | None:
    known = np.sort(values[np.isfinite(values)])
    if len(known) == 0:
        return None
    edges = _edges(known)
    ends = np.searchsorted(known, edges, side="right")
    starts = np.concatenate([[0], ends[:-1]])
    middles = [
        float(np.median(known[a:b])) if b > a else float(edge)
        for a, b, edge in zip(starts, ends, edges, strict=True)
    ]
    return CheckedColumn(
        name,
        kind,
        position,
        edges=tuple(edges.tolist()),
        levels=() if word is None else (word,),
        # The first edge only says where training begins.
        middles=(float(edges[0]), *middles[1:], float(edges[-1])),
    )


def _edges(known: Array) -> Array:
    """Return the ends of the bins of sorted values: just below the least one, then upper ends."""
    values, starts = np.unique(known, return_index=True)
    counts = np.diff([*starts, len(known)])
    if len(values) <= N_BINS:  # every value has a bin of its own
        return np.concatenate([[np.nextafter(values[0], -np.inf)], values])
    heavy = values[counts * N_BINS >= len(known)]
    rest = known[~np.isin(known, heavy)]
    n_rest = max(N_BINS - len(heavy), 2)
    quantiles = np.quantile(rest, np.arange(1, n_rest) / n_rest, method="inverted_cdf")
    below_heavy = np.nextafter(heavy, -np.inf)
    inner = np.unique(np.concatenate([quantiles, heavy, below_heavy]))
    first = np.nextafter(values[0], -np.inf)
    inner = inner[(inner > first) & (inner < values[-1])]
    return np.concatenate([[first], inner, [values[-1]]])


def _level(value: Any) -> Any:
    """Return what a level of a category is known by; None: a missing value."""
    if value is None or value != value:
        return None
    return float(value) if isinstance(value, int | float | np.number) else str(value)


def _level_codes(values: NDArray[Any], levels: tuple[Any, ...]) -> Codes:
    number = {level: code for code, level in enumerate(levels)}
    other, missing = len(levels), len(levels) + 1
    if values.dtype.kind == "f":
        distinct, inverse = np.unique(values, return_inverse=True)
        found = [missing if v != v else number.get(v, other) for v in distinct.tolist()]
        return np.array(found, dtype=np.uint8)[inverse]
    kept = [_level(value) for value in values.tolist()]
    return np.array(
        [missing if level is None else number.get(level, other) for level in kept], dtype=np.uint8
    )


def _numbers(values: NDArray[Any]) -> Array:
    """Return the values of a column of numbers; what is none is missing."""
    if values.dtype.kind in "fiub":
        return values.astype(np.float64, copy=False)
    if values.dtype.kind in "mM":
        numbers = values.astype(np.int64).astype(np.float64)
        numbers[np.isnat(values)] = np.nan
        return numbers
    return np.array([_number(value) for value in values.tolist()], dtype=np.float64)


def _number(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return float("nan")


def _text_columns(name: str, position: int, text: _Texts) -> Iterator[tuple[CheckedColumn, Codes]]:
    """Yield what is looked at of a column of texts, with the bins of training rows."""
    parts: list[tuple[ColumnKind, Array, str | None]] = [
        ("words", text.sizes, None),
        ("unknown words", text.unknown_share_in_training(), None),
    ]
    parts += [("word", text.has(word), word) for word in text.widespread()]
    for kind, values, word in parts:
        column = _number_column(name, position, values, kind, word)
        if column is not None:
            yield column, column.codes(values)


class _Texts:
    """The distinct words of each of m texts; what is no text has none.

    Attributes
    ----------
    vocabulary : dict from words to numbers
    words : int64 array
        Numbers of the distinct words of each text, one text after another.
    owners : int64 array of the same shape
        Number of the text of each.
    sizes : array of shape (m,)
        Number of words of each text, repeated ones included.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self.vocabulary: dict[str, int] = {}
        number = self.vocabulary.setdefault
        lowered = (value.lower() if isinstance(value, str) else "" for value in values.tolist())
        found = [_WORD.findall(text) for text in lowered]
        distinct = [{number(word, len(self.vocabulary)) for word in words} for words in found]
        self.words: Indices = np.array([w for words in distinct for w in words], dtype=np.int64)
        self.owners: Indices = np.repeat(np.arange(len(distinct)), [len(d) for d in distinct])
        self.sizes: Array = np.array([len(words) for words in found], dtype=np.float64)

    @property
    def row_counts(self) -> Indices:
        """The number of texts that have each word."""
        return np.bincount(self.words, minlength=len(self.vocabulary))

    @property
    def _hashes(self) -> NDArray[np.uint64]:
        """A hash of each word, which does not depend on the process."""
        from kdey._fingerprints import text_hashes

        return text_hashes(np.array([*self.vocabulary], dtype=object))

    def known(self) -> NDArray[np.uint64]:
        """Return the sorted hashes of the words that count as known."""
        counts = self.row_counts
        frequent = np.argsort(-counts, kind="stable")[:MOST_KNOWN]
        return np.sort(self._hashes[frequent[counts[frequent] >= KNOWN_ROWS]])

    def unknown_share(self, known: NDArray[np.uint64]) -> Array:
        """Return the share of the distinct words of each text that are unknown."""
        hashes = self._hashes
        places = np.minimum(np.searchsorted(known, hashes), max(len(known) - 1, 0))
        is_known = known[places] == hashes if len(known) else np.zeros(len(hashes), np.bool_)
        return self._share(~is_known[self.words])

    def unknown_share_in_training(self) -> Array:
        """As :meth:`unknown_share`, where a text does not make its own words known.

        A word of a new text is known if enough training texts have it; one of a training text if
        enough *other* ones do.
        """
        counts = self.row_counts
        frequent = np.zeros(len(counts), dtype=np.bool_)
        frequent[np.argsort(-counts, kind="stable")[:MOST_KNOWN]] = True
        is_known = frequent & (counts > KNOWN_ROWS)
        return self._share(~is_known[self.words])

    def _share(self, unknown: NDArray[np.bool_]) -> Array:
        m = len(self.sizes)
        distinct = np.bincount(self.owners, minlength=m)
        return np.asarray(np.bincount(self.owners, unknown, m) / np.maximum(distinct, 1))

    def has(self, word: str) -> Array:
        """Return whether each text has a word, as 0 and 1."""
        present = np.zeros(len(self.sizes))
        number = self.vocabulary.get(word)
        if number is not None:
            present[self.owners[self.words == number]] = 1.0
        return present

    def widespread(self) -> list[str]:
        """Return the words that the most texts have, but not all."""
        counts, names = self.row_counts, list(self.vocabulary)
        order = np.argsort(-counts, kind="stable")
        order = order[(counts[order] < len(self.sizes)) & (counts[order] >= KNOWN_ROWS)]
        return [names[i] for i in order[:MOST_WORDS]]


class _Reader:
    """Instances as columns, from arrays, sparse matrices, frames and sequences of texts.

    Attributes
    ----------
    matrix : array of shape (m, d), sparse matrix by columns, or list of m-vectors
    is_sparse : bool
    names : names of the columns, or None
    n_rows, n_columns : int
        Zero columns: the instances have none.
    """

    def __init__(self, X: Any) -> None:
        self.is_sparse: bool = sp.issparse(X)
        self.names: tuple[str, ...] | None = None
        if self.is_sparse:
            self.matrix: Any = X.tocsc()
            self.n_rows, self.n_columns = self.matrix.shape
        elif hasattr(X, "columns") and hasattr(X, "shape"):
            import narwhals as nw

            frame = nw.from_native(X, eager_only=True)
            self.matrix = [_frame_values(column) for column in frame.iter_columns()]
            self.names = tuple(map(str, frame.columns))
            self.n_rows, self.n_columns = len(frame), len(self.matrix)
        else:
            self._read_array(X)

    def _read_array(self, X: Any) -> None:
        self.matrix, self.n_rows, self.n_columns = None, _num_samples(X), 0
        try:
            values = np.asarray(on_host(X))
        except (TypeError, ValueError):  # of several lengths
            return
        if values.ndim == 1 and values.dtype.kind in "OU" and len(values):
            texts = values.astype(object)
            self.matrix, self.names = [texts], ("text",)
            self.n_columns = int(all(isinstance(value, str) for value in texts[:100].tolist()))
        elif values.ndim == 2 and values.dtype.kind in "fiubO":
            self.matrix, self.n_columns = values, values.shape[1]

    @property
    def is_numeric(self) -> bool:
        """Whether all columns are numbers."""
        if isinstance(self.matrix, list):
            return all(values.dtype.kind in "fiubmM" for values in self.matrix)
        return self.matrix.dtype.kind in "fiub"

    def is_number(self, position: int) -> bool:
        """Whether a column holds numbers."""
        return self.column(position).dtype.kind in "fiubmM"

    def column(self, position: int) -> NDArray[Any]:
        """Return the values of a column, shape (m,)."""
        if self.is_sparse:
            values = np.zeros(self.n_rows)
            start, stop = self.matrix.indptr[position : position + 2]
            values[self.matrix.indices[start:stop]] = self.matrix.data[start:stop]
            return values
        if isinstance(self.matrix, list):
            found: NDArray[Any] = self.matrix[position]
            return found
        column: NDArray[Any] = self.matrix[:, position]
        return column

    @property
    def is_selected_by_labels(self) -> bool:
        """Whether :meth:`selected` looks at the classes."""
        return self.n_columns > MOST_COLUMNS and not self.is_sparse

    def selected(self, by_class: ClassCounts) -> list[int]:
        """Return the positions of the columns that are kept, ascending."""
        d = self.n_columns
        if d <= MOST_COLUMNS:
            return list(range(d))
        if self.is_sparse:
            filled = np.diff(self.matrix.indptr)
            return sorted(np.argsort(-filled, kind="stable")[:MOST_COLUMNS].tolist())
        separation = [
            by_class.separation(np.nan_to_num(_numbers(self.column(i)))) for i in range(d)
        ]
        best = np.argsort(-np.array(separation), kind="stable")[:MOST_SEPARATING]
        others = np.setdiff1d(np.arange(d), best)
        spaced = np.linspace(0, len(others) - 1, MOST_COLUMNS - len(best)).round().astype(np.int64)
        return sorted([*best.tolist(), *others[np.unique(spaced)].tolist()])


def _frame_values(column: Any) -> NDArray[Any]:
    """Return the values of a column of a frame as numbers where they are some, else as objects."""
    if column.dtype.is_numeric() or str(column.dtype) == "Boolean":
        return np.array(
            [np.nan if value is None else float(value) for value in column.to_list()]
            if column.null_count() and not column.dtype.is_float()
            else column.to_numpy(),
            dtype=np.float64,
        )
    if str(column.dtype).startswith(("Date", "Datetime")):
        return np.array(column.to_list(), dtype="datetime64[us]")
    return np.array([*column.to_list(), None], dtype=object)[:-1]
