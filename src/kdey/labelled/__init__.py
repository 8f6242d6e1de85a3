"""Labels from the new data: estimates that use a few labels of the bag itself.

``shares`` has a bag of which some instances have labels, and the shares that each of three ways to
use them gives: labels alone, mean predictions corrected by them, and labels as rows of the
likelihood. ``labelled_estimate`` brings these together into one result, with a test of whether only
prevalences have changed. ``estimate_label_noise`` says how often labels are wrong, from two labels
of the same rows. Labels are planned in :mod:`kdey.diagnostics.planning`.
"""

from kdey.intervals.label_noise import LabelNoise, estimate_label_noise
from kdey.labelled.labelled_estimate import (
    LabelledEstimate,
    LabelShiftTest,
    estimate_labelled,
    estimate_labelled_bags,
)
from kdey.labelled.shares import Labelled, LabelledSample, labelled_sample

__all__ = [
    "LabelNoise",
    "LabelShiftTest",
    "Labelled",
    "LabelledEstimate",
    "LabelledSample",
    "estimate_label_noise",
    "estimate_labelled",
    "estimate_labelled_bags",
    "labelled_sample",
]
