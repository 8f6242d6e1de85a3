"""Errors of an experiment by data set and method, as the tables and figures need them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kdey.bags import Array
from kdey.paper.methods import METHODS
from kdey.paper.published import published_order, published_values
from kdey.paper.results import Results
from kdey.paper.settings import SETTINGS


@dataclass(frozen=True, eq=False)
class Scores:
    """Errors of the methods of one experiment, by one metric.

    Within a data set every method counts with the seeds that all methods have, so that means are
    over the same bags.

    Attributes
    ----------
    experiment, metric : str
    datasets, methods : tuple of str
        Rows and columns.
    errors : dict from (data set, method, seed) to an array of shape (n_bags,)
    """

    experiment: str
    metric: str
    datasets: tuple[str, ...]
    methods: tuple[str, ...]
    errors: dict[tuple[str, str, int], Array]

    def seeds(self, dataset: str) -> list[int]:
        """Return the seeds that all methods with any result on a data set have there."""
        by_method: dict[str, set[int]] = {}
        for name, method, seed in self.errors:
            if name == dataset:
                by_method.setdefault(method, set()).add(seed)
        return sorted(set.intersection(*by_method.values())) if by_method else []

    def of_methods(self, methods: Collection[str]) -> Scores:
        """Return the scores of some methods, which then count with all seeds that these have."""
        errors = {key: values for key, values in self.errors.items() if key[1] in methods}
        rows = {dataset for dataset, _, _ in errors}
        return replace(
            self,
            datasets=tuple(name for name in self.datasets if name in rows),
            methods=tuple(name for name in self.methods if name in methods),
            errors=errors,
        )

    def most_complete(self) -> Scores:
        """Return the scores of the methods that have results on the most splits."""
        splits = {name: sum(m == name for _, m, _ in self.errors) for name in self.methods}
        return self.of_methods([name for name, n in splits.items() if n == max(splits.values())])

    def all_seeds(self) -> list[int]:
        """Return the seeds that any data set counts with."""
        return sorted({seed for name in self.datasets for seed in self.seeds(name)})

    def joined(self, dataset: str, method: str) -> Array | None:
        """Return the errors of all bags of all seeds; None where there are none."""
        parts = self._parts(dataset, method)
        return np.concatenate(parts) if parts else None

    def by_seed(self, dataset: str, method: str) -> Array:
        """Return the mean error of each seed, shape (n_seeds,); empty where there are none."""
        return np.array([errors.mean() for errors in self._parts(dataset, method)])

    def means(self) -> Array:
        """Return mean errors, shape (n_datasets, n_methods), NaN where there are none."""
        table = np.full((len(self.datasets), len(self.methods)), np.nan)
        for i, dataset in enumerate(self.datasets):
            for j, method in enumerate(self.methods):
                seed_means = self.by_seed(dataset, method)
                table[i, j] = seed_means.mean() if len(seed_means) else np.nan
        return table

    @property
    def group(self) -> str:
        """The paper's name of these data sets, or that they are stand-ins for them."""
        setting = SETTINGS[self.experiment].published
        published = {name for name, _ in published_values(*setting, self.metric)}
        return setting[1] if published & set(self.datasets) else f"stand-ins for {setting[1]}"

    def _parts(self, dataset: str, method: str) -> list[Array]:
        keys = [(dataset, method, seed) for seed in self.seeds(dataset)]
        return [self.errors[key] for key in keys if key in self.errors]


def gather(
    results: Results, experiment: str, metric: str, methods: Sequence[str] | None = None
) -> Scores:
    """Return the scores of an experiment; methods and data sets in the order of the paper.

    Parameters
    ----------
    methods : sequence of str, optional
        Which of them to take; by default all that have results.
    """
    errors = {
        (key.dataset, key.method, key.seed): cell.errors
        for key, cell in results.cells.items()
        if key.experiment == experiment
        and key.metric == metric
        and (methods is None or key.method in methods)
    }
    with_results = {method for _, method, _ in errors}
    columns = [name for name in METHODS if name in with_results]
    rows = published_order(experiment, {dataset for dataset, _, _ in errors})
    return Scores(experiment, metric, tuple(rows), tuple(columns), errors)
