"""Modules that have moved since 0.1.0: old names can be imported, with a DeprecationWarning.

The old names work in 0.2 and 0.3, and 0.4 removes them.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

#: From the names of modules under ``kdey`` in 0.1.0 to the modules that have their contents now.
MOVED = {
    "appending": "_support.files",
    "automatic": "tuning",
    "automatic.bins": "tuning.bins",
    "automatic.display": "plots.parameters",
    "automatic.hold_outs": "tuning.hold_outs",
    "automatic.kernel": "tuning.kernel",
    "automatic.parts": "tuning.hold_outs",
    "automatic.plan": "tuning.search",
    "automatic.score": "tuning.search",
    "automatic.search": "tuning.search",
    "automatic.tuning": "tuning.result",
    "bayes.convergence": "bayes.draws",
    "cli.config": "cli.options",
    "cli.grouped": "cli.options",
    "cli.labelled": "cli.options",
    "cli.methods": "cli.options",
    "cli.protocols": "cli.options",
    "datasets.bagged": "paper.datasets.data",
    "datasets.bundled": "paper.datasets.loading",
    "datasets.checking": "paper.datasets.checking",
    "datasets.conversion": "paper.datasets.uci",
    "datasets.data": "paper.datasets.data",
    "datasets.download": "paper.datasets.download",
    "datasets.fetching": "paper.datasets.download",
    "datasets.homes": "paper.datasets.registry",
    "datasets.lequa": "paper.datasets.lequa",
    "datasets.lequa_text": "paper.datasets.lequa_files",
    "datasets.loading": "paper.datasets.loading",
    "datasets.locate": "paper.datasets.files",
    "datasets.preparation": "paper.datasets.loading",
    "datasets.recipes": "paper.datasets.uci",
    "datasets.registry": "paper.datasets.registry",
    "datasets.scaling": "paper.datasets.data",
    "datasets.sparse": "paper.datasets.tables",
    "datasets.synthetic": "paper.datasets.synthetic",
    "datasets.tables": "paper.datasets.tables",
    "datasets.text": "paper.datasets.tables",
    "datasets.tree": "paper.datasets.files",
    "demo": "cli.demo",
    "device": "_support.device",
    "diagnostics.adapt": "diagnostics.adaptation",
    "diagnostics.attach": "diagnostics.fit_check",
    "diagnostics.check": "diagnostics.fit_check",
    "diagnostics.embedding": "diagnostics.fit_statistics",
    "diagnostics.folds": "diagnostics.fold_models",
    "diagnostics.influence": "diagnostics.identify",
    "diagnostics.null": "diagnostics.fit_statistics",
    "diagnostics.outlying": "diagnostics.fit_statistics",
    "diagnostics.result": "diagnostics.fit_check",
    "distributed": "groups",
    "distributed.dask_source": "groups.cluster",
    "distributed.fits": "groups.cluster",
    "distributed.frames": "groups.predict",
    "distributed.partition": "groups.partitions",
    "distributed.spark": "groups.cluster",
    "evaluation.sharing": "evaluation.run",
    "experiments": "paper",
    "experiments.arrays": "paper.results",
    "experiments.cells": "paper.results",
    "experiments.figures": "paper.figures",
    "experiments.figures.draw": "paper.figures",
    "experiments.figures.mixture": "paper.sketches",
    "experiments.figures.representation": "paper.sketches",
    "experiments.figures.sensitivity": "paper.figures",
    "experiments.figures.shift": "paper.figures",
    "experiments.lequa": "paper.tasks",
    "experiments.methods": "paper.methods",
    "experiments.pace": "paper.run",
    "experiments.published": "paper.published",
    "experiments.run": "paper.run",
    "experiments.selection": "paper.selection",
    "experiments.sensitivity": "paper.sensitivity",
    "experiments.settings": "paper.settings",
    "experiments.sources": "paper.tasks",
    "experiments.store": "paper.results",
    "experiments.tables": "paper.tables",
    "experiments.tables.csvtable": "tables.formats",
    "experiments.tables.differences": "paper.tables",
    "experiments.tables.html": "tables.formats",
    "experiments.tables.latex": "tables.formats",
    "experiments.tables.make": "paper.tables",
    "experiments.tables.markdown": "tables.formats",
    "experiments.tables.model": "tables.display",
    "experiments.tables.pairs": "paper.tables",
    "experiments.tables.results": "paper.tables",
    "experiments.tables.scores": "paper.scores",
    "experiments.tables.terminal": "tables.formats",
    "experiments.tables.write": "paper.tables",
    "experiments.task": "paper.tasks",
    "fingerprint": "_support.fingerprint",
    "frames": "_support.frames",
    "gpu.generators": "gpu.losses",
    "gpu.kernel_means": "gpu.bags",
    "gpu.plain": "gpu.sums",
    "gpu.tiles": "gpu.bags",
    "groups.batch": "groups.batches",
    "groups.files": "groups.predict",
    "groups.frame": "groups.predict",
    "groups.large": "groups.estimate",
    "groups.periods": "groups.keys",
    "groups.scores": "groups.scoring",
    "groups.settings": "groups.request",
    "groups.solve": "groups.estimate",
    "groups.stream": "groups.batches",
    "groups.summed": "groups.estimate",
    "inference": "intervals",
    "inference.analytic": "intervals.analytic",
    "inference.bag": "intervals.sampled_bags",
    "inference.bootstrap": "intervals.bootstrap",
    "inference.class_rows": "intervals.class_rows",
    "inference.differences": "intervals.differences",
    "inference.display": "intervals.estimate",
    "inference.estimate": "intervals.estimate",
    "inference.estimates": "intervals.estimate",
    "inference.limits": "intervals.score_interval",
    "inference.model": "intervals.model",
    "inference.moments": "intervals.moments",
    "inference.options": "intervals.options",
    "inference.parts": "intervals.class_rows",
    "inference.region": "intervals.region",
    "inference.resampling": "intervals.replicates",
    "inference.resolving": "intervals.replicates",
    "inference.run": "intervals.run",
    "inference.score_interval": "intervals.score_interval",
    "inference.uncertainty": "intervals.region",
    "interop.replay": "interop.quapy",
    "interop.wrapping": "interop.quapy",
    "kernels.native_sums": "kernels.sums",
    "kernels.reference": "kernels.numpy_sums",
    "matching.average": "matching.composite",
    "matching.divergences": "matching.densities",
    "matching.median": "matching.composite",
    "model_selection.cache": "model_selection.scoring",
    "model_selection.data": "model_selection.candidates",
    "model_selection.edges": "model_selection.grid",
    "model_selection.results": "model_selection.search",
    "model_selection.split": "model_selection.candidates",
    "newton": "_support.newton",
    "persistence.canonical": "persistence.model_file",
    "persistence.tree": "persistence.encoding",
    "persistence.trees": "persistence.untrusted",
    "persistence.trial": "persistence.untrusted",
    "plots.axes": "plots.style",
    "plots.bias": "plots.errors",
    "plots.calibration": "plots.posteriors",
    "plots.diagonal": "plots.errors",
    "plots.intervals": "plots.estimates",
    "plots.sensitivity": "plots.parameters",
    "plots.shift": "plots.errors",
    "plots.simplex": "plots.posteriors",
    "plots.time": "plots.estimates",
    "problems.cdf_distance": "problems.histograms",
    "problems.dissimilarity": "problems.histograms",
    "problems.generator": "problems.separable",
    "problems.histogram_cauchy_schwarz": "problems.histograms",
    "problems.mean_hellinger": "problems.histograms",
    "problems.protocol": "problems.interface",
    "problems.quadratic_match": "problems.least_squares",
    "progress": "_support.progress",
    "protocols.artificial": "protocols.drawn",
    "protocols.labels": "protocols.draw",
    "protocols.natural": "protocols.drawn",
    "protocols.parameters": "protocols.draw",
    "quantifiers.failing": "quantifiers.base",
    "quantifiers.median": "quantifiers.wrappers",
    "quantifiers.one_vs_all": "quantifiers.wrappers",
    "quantifiers.pool": "quantifiers.base",
    "quantifiers.rowwise": "quantifiers.aggregative",
    "report.axes": "report.svg",
    "report.downloads": "report.parts",
    "report.figures.heat": "report.figures.cells",
    "report.figures.prevalence": "report.figures.shares",
    "report.figures.reliability": "report.figures.fit",
    "report.reliability": "report.classifier",
    "report.rows": "report.groups",
    "rows.committee": "rows.composite",
    "rows.dirichlet_fit": "rows.dirichlet",
    "rows.kernel_means": "kernels.means",
    "rows.stack": "rows.composite",
    "rows.together": "rows.interface",
    "scalars": "_support.validation",
    "significance.correction": "significance.pairs",
    "significance.diagram": "plots.ranks",
    "significance.tables": "significance.pairs",
    "solvers.active_set": "solvers.quadratic",
    "solvers.multistart": "solvers.nonconvex",
    "solvers.scalar": "solvers.nonconvex",
    "solvers.start": "solvers.solution",
    "stages": "posteriors",
    "sums": "groups.sums",
    "sums.analytic": "groups.sums.limits",
    "sums.batch": "groups.sums.group_sums",
    "sums.bootstrap": "groups.sums.bootstrap",
    "sums.em": "groups.sums.solve",
    "sums.estimate": "groups.sums.estimate",
    "sums.finish": "groups.sums.solve",
    "sums.group_sums": "groups.sums.group_sums",
    "sums.keyed": "groups.sums.bootstrap",
    "sums.likelihood": "groups.sums.solve",
    "sums.newton": "groups.sums.solve",
    "sums.plan": "groups.sums.group_sums",
    "sums.replicates": "groups.sums.bootstrap",
    "sums.soft": "groups.sums.limits",
    "sums.source": "groups.sums.group_sums",
    "tables.layout": "tables.columns",
    "tables.reading": "tables.files",
    "tables.writing": "tables.files",
    "telling": "_support.warnings",
    "threads": "_support.threads",
    "weights": "_support.validation",
    "writing": "_support.files",
}


class _MovedLoader(Loader):
    """Loads a moved module under its old name."""

    def create_module(self, spec: ModuleSpec) -> None:
        """Let Python create an empty module, which ``exec_module`` replaces."""

    def exec_module(self, module: ModuleType) -> None:
        """Warn, and replace the empty module by the moved one."""
        name = module.__name__
        new = f"kdey.{MOVED[name.removeprefix('kdey.')]}"
        warnings.warn(
            f"{name} is now {new}; the old name goes with kdey 0.4",
            DeprecationWarning,
            stacklevel=2,
        )
        target = import_module(new)
        if not hasattr(target, "__path__") and _was_package(name):
            # Python looks for the modules of a package only where it has a path.
            target.__path__ = []
        sys.modules[name] = target


def _was_package(name: str) -> bool:
    prefix = name.removeprefix("kdey.") + "."
    return any(old.startswith(prefix) for old in MOVED)


class MovedFinder(MetaPathFinder):
    """Finds the modules of :data:`MOVED`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a module that has moved; None for all other modules."""
        if not fullname.startswith("kdey.") or fullname.removeprefix("kdey.") not in MOVED:
            return None
        return ModuleSpec(fullname, _MovedLoader())


def install() -> None:
    """Put :class:`MovedFinder` first among Python's finders, unless it is there already."""
    # First, because an old package is an alias of a new one: other finders would look for its
    # modules in the new folder and load them a second time.
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())
