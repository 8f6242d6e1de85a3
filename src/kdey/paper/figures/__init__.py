"""The paper's figures (extra ``plot``): two sketches, and two drawn from results files."""

from kdey.paper.figures.results import draw_figures

__all__ = ["draw_figures"]
